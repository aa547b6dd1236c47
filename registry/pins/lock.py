"""``optotype.lock``: which published versions a folder uses, by version, digest and git revision. Goes into git."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from optotype.schemas.documents import parse_document
from optotype.schemas.errors import FormatError, NotFoundError, Problem, UsageError, did_you_mean
from optotype.schemas.references import Digest, Exact, Range, Reference, check_kind, check_name, check_version
from optotype.store.checks import limited
from optotype.store.drafts import draft_file

__all__ = ["LOCK", "Lock", "Pin", "find_folder", "read_lock", "select", "write_lock"]

LOCK = "optotype.lock"
_FORMAT_VERSION = 1
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_REVISION = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_PATTERNS = {
    "digest": (_DIGEST, "sha256: and 64 lower-case hex digits"),
    "manifest": (_DIGEST, "sha256: and 64 lower-case hex digits"),
    "revision": (_REVISION, "a whole git commit in hex digits, or null"),
}
_CHECKS: dict[str, Callable[[str], str]] = {"kind": check_kind, "name": check_name, "version": check_version}
_TOP = ("format_version", "kind", "pins")


@dataclass(frozen=True)
class Pin:
    """One published version that a folder uses.

    Attributes
    ----------
    kind, name : str
    requested : str
        What was asked for after the ``@``: ``^1.2``, ``latest``, ``1.2.0`` ...
    version : str
        What it came to.
    digest : str
        Of the payload, ``sha256:`` and 64 hex digits.
    manifest : str
        SHA-256 of the bytes of ``manifest.json``, written alike.
    source : str
        Git URL or path as it was given; a relative path counts from the lock's folder.
    revision : str or None
        The git commit that holds the version; None where the source is a folder that has not committed it.
    tag : str or None
        The git tag that stood at `revision`: ``suite/prime@v1.2.0``.
    files : int
        Files of the payload.
    bytes : int
        Of all of them.
    """

    kind: str
    name: str
    requested: str
    version: str
    digest: str
    manifest: str
    source: str
    revision: str | None
    tag: str | None
    files: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.place}@{self.version}"

    @property
    def place(self) -> str:
        """``kind/name``."""
        return f"{self.kind}/{self.name}"

    @property
    def relative(self) -> str:
        """The version's folder from where ``artifacts/`` lies."""
        return f"artifacts/{self.kind}/{self.name}/{self.version}"


@dataclass(frozen=True)
class Lock:
    """The pins of a folder, one for each kind and name, sorted."""

    pins: tuple[Pin, ...] = ()

    def get(self, kind: str, name: str) -> Pin | None:
        """The pin of a name."""
        return next((pin for pin in self.pins if (pin.kind, pin.name) == (kind, name)), None)

    def with_pin(self, pin: Pin) -> Lock:
        """A lock in which `pin` stands in the place of any other of its name."""
        others = [other for other in self.pins if other.place != pin.place]
        return replace(self, pins=tuple(sorted([*others, pin], key=lambda each: (each.kind, each.name))))

    def to_bytes(self) -> bytes:
        """As JSON, the same bytes for the same pins."""
        document = {"format_version": _FORMAT_VERSION, "kind": "lock", "pins": [asdict(pin) for pin in self.pins]}
        return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()

    @classmethod
    def parse(cls, text: bytes, where: str) -> Lock:
        """Read a lock.

        Raises
        ------
        FormatError
            Not a lock, a newer one, or one with an entry that cannot be.
        """
        if re.search(rb"^(<{7}|>{7}|={7})", text, re.MULTILINE):
            raise FormatError(
                f"{where}: git's merge marks (<<<<<<<) stand in it: two changes were not merged",
                hint=f"Keep one side (git checkout --ours {LOCK}, or --theirs) and pin anew what the other had.",
            )
        document = parse_document(text, kind="lock", where=where, newest=_FORMAT_VERSION)
        problems = [
            Problem(where, "unknown-field", f"unknown field {name!r}; a lock has {', '.join(_TOP)}")
            for name in document
            if name not in _TOP
        ]
        if document.get("kind", "lock") != "lock":
            problems.append(Problem(where, "kind", f'kind is "lock", got {_shown(document["kind"])}'))
        entries = document.get("pins")
        if not isinstance(entries, list):
            problems.append(Problem(where, "pins", f"pins is a list of entries, got {_shown(entries)}"))
            entries = []
        for number, entry in enumerate(entries):
            problems += _problems(entry, f"pins[{number}]{_called(entry)}")
        if problems:
            raise FormatError(
                "\n".join([f"{where}: no lock that optotype wrote:", *(f"  - {each}" for each in limited(problems))]),
                hint="The lock is written by optotype pin and update; take it from git again.",
            )
        pins = tuple(Pin(**entry) for entry in entries)
        places = [pin.place for pin in pins]
        twice = sorted({place for place in places if places.count(place) > 1})
        if twice:
            raise FormatError(
                f"{where}: pinned twice: {', '.join(twice)}", hint="A name has one pin; keep one of the entries."
            )
        return cls(tuple(sorted(pins, key=lambda pin: (pin.kind, pin.name))))


def find_folder(start: Path | None = None) -> Path:
    """The folder with the nearest lock, from ``start`` (default: the working directory) upward.

    Raises
    ------
    NotFoundError
        There is none.
    """
    here = (Path.cwd() if start is None else Path(start)).resolve()
    for folder in (here, *here.parents):
        if (folder / LOCK).is_file():
            return folder
    raise NotFoundError(
        f"{here}: no {LOCK} here or in a folder above, so nothing is pinned",
        hint="optotype pin KIND/NAME@^1.2 --from GIT_URL_OR_PATH",
    )


def read_lock(folder: Path) -> Lock:
    """The lock of a folder; without pins where there is no file."""
    path = folder / LOCK
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return Lock()
    return Lock.parse(text, str(path))


def write_lock(folder: Path, lock: Lock) -> None:
    """Replace the lock of a folder in one step."""
    with draft_file(folder / LOCK) as file:
        file.write(lock.to_bytes())


def select(lock: Lock, references: Iterable[str], where: Path) -> list[Pin]:
    """The pins that references name; all of them where there are no references.

    Raises
    ------
    NotFoundError
        One is not pinned.
    UsageError
        The name is pinned as several kinds, or in another version than the reference says.
    """
    chosen: dict[str, Pin] = {}
    for text in references:
        pin = _named(lock, Reference.parse(text), text, where)
        chosen[pin.place] = pin
    return list(chosen.values()) if references else list(lock.pins)


def _named(lock: Lock, ref: Reference, text: str, where: Path) -> Pin:
    pins = [pin for pin in lock.pins if pin.name == ref.name and ref.kind in (None, pin.kind)]
    if not pins:
        hint = did_you_mean(ref.place, [pin.place for pin in lock.pins] or [])
        raise NotFoundError(
            f"{ref.place} is not pinned in {where / LOCK}",
            hint=hint or f"optotype pin {text} --from GIT_URL_OR_PATH",
        )
    if len(pins) > 1:
        raise UsageError(f"{ref.name!r} is pinned as {', '.join(pin.place for pin in pins)}: say which")
    (pin,) = pins
    if not _fits(ref, pin):
        raise UsageError(
            f"{text}: the lock pins {pin} ({pin.digest[:19]}), which is another version",
            hint=f"optotype update {text} moves the pin.",
        )
    return pin


def _fits(ref: Reference, pin: Pin) -> bool:
    """Whether a reference means the pinned version; an alias does where the pin was made by it."""
    selector = ref.selector
    if selector is None:
        return True
    if isinstance(selector, Exact):
        return selector.version == pin.version
    if isinstance(selector, Range):
        return selector.matches(pin.version)
    if isinstance(selector, Digest):
        return pin.digest.startswith(selector.prefix)
    return str(selector) == pin.requested


def _problems(entry: Any, where: str) -> list[Problem]:
    """Everything in an entry that cannot be."""
    if not isinstance(entry, dict):
        return [Problem(where, "entry", f"an entry is a JSON object, got {_shown(entry)}")]
    names = [each.name for each in fields(Pin)]
    found = [Problem(where, "missing-field", f"{name} is missing") for name in names if name not in entry]
    found += [Problem(where, "unknown-field", f"unknown field {name!r}") for name in entry if name not in names]
    said = {name: _wrong(name, entry[name]) for name in names if name in entry}
    found += [Problem(where, "field", f"{name}: {text}") for name, text in said.items() if text is not None]
    if found:
        return found
    pin = Pin(**entry)
    try:
        if Reference.parse(f"{pin.place}@{pin.requested}").selector is None:
            found.append(Problem(where, "field", f"requested: what was asked for, got {pin.requested!r}"))
    except UsageError as error:
        found.append(Problem(where, "field", f"requested: {error.message}"))
    if pin.tag not in (None, f"{pin.place}@v{pin.version}") or (pin.tag and not pin.revision):
        tag = f"null, or {pin.place}@v{pin.version} beside a revision"
        found.append(Problem(where, "field", f"tag: {tag}, got {_shown(pin.tag)}"))
    return found


def _wrong(name: str, value: Any) -> str | None:
    """Why a field of an entry cannot be ``value``, seen alone."""
    if name in ("files", "bytes"):
        good = type(value) is int and value >= 0
        return None if good else f"a whole number from 0 up, got {_shown(value)}"
    if name in ("revision", "tag") and value is None:
        return None
    if not isinstance(value, str) or not value:
        return f"text{' or null' if name in ('revision', 'tag') else ''}, got {_shown(value)}"
    pattern = _PATTERNS.get(name)
    if pattern is not None:
        return None if pattern[0].fullmatch(value) else f"{pattern[1]}, got {_shown(value)}"
    check = _CHECKS.get(name)
    try:
        if check is not None:
            check(value)
        if name == "source" and not value.isprintable():
            return f"a git URL or path, got {_shown(value)}"
    except UsageError as error:
        return error.message
    return None


def _called(entry: Any) -> str:
    if isinstance(entry, dict) and isinstance(entry.get("kind"), str) and isinstance(entry.get("name"), str):
        return f" ({entry['kind']}/{entry['name']})"
    return ""


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 80 else f"{text[:77]}..."
