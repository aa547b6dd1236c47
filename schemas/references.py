"""References to published versions: ``[kind/]name[@selector]``.

A selector is an exact version (``1.2.0``), a range (``^1.2``, ``~1.2``, ``>=1.0,<2``, ``1.x``, ``*``), an alias
(``latest``, ``stable``, any other word) or a digest (``sha256:`` and 8 hex digits or more). No part of a reference can
hold a ``/``, ``..`` or a drive, so that nothing made of one leaves the folder of published versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from semver import Version as SemanticVersion

from optotype.schemas.errors import UsageError, did_you_mean

__all__ = [
    "KINDS",
    "LATEST",
    "Alias",
    "Digest",
    "Exact",
    "Range",
    "Reference",
    "Selector",
    "check_alias",
    "check_kind",
    "check_name",
    "check_version",
    "sort_key",
]

KINDS = ("suite", "frontier", "pairs", "ranking", "report", "features", "states", "scores")
LATEST = "latest"

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")  # gto takes no dots
_MAX_NAME = 100
_MAX_VERSION = 64
_MAX_TEXT = 400
_ALIAS = re.compile(r"[a-z][a-z0-9-]*")
_DIGEST = re.compile(r"sha256:[0-9a-f]{8,64}")
_PARTIAL = re.compile(r"(?P<numbers>(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*)){0,2})(?P<rest>-[0-9A-Za-z.-]+)?")
_X_RANGE = re.compile(r"(?:(?:0|[1-9][0-9]*)\.){0,2}[x*](?:\.[x*]){0,2}")
_COMPARATOR = re.compile(r"(?P<operator>\^|~|>=|<=|>|<|=)?\s*(?P<version>\S+)")
_NO_COMMA = re.compile(r"(?<=[0-9A-Za-z*])\s+(?=[\^~<>=0-9])")
_WILD = ("x", "*")
_FORMS = "1.2.0, ^1.2, ~1.2, >=1.0,<2, 1.x, *, latest, another alias, or sha256:<8 hex digits or more>"


@dataclass(frozen=True)
class Exact:
    """One version.

    Attributes
    ----------
    version : str
        Semantic, without build metadata.
    """

    version: str

    def __str__(self) -> str:
        return self.version


@dataclass(frozen=True)
class Alias:
    """A word that stands for a version: ``latest`` is computed, the others are set by the publisher."""

    word: str

    def __str__(self) -> str:
        return self.word


@dataclass(frozen=True)
class Digest:
    """The version whose digest begins so.

    Attributes
    ----------
    prefix : str
        ``sha256:`` and 8 to 64 hex digits.
    """

    prefix: str

    def __str__(self) -> str:
        return self.prefix


@dataclass(frozen=True)
class Range:
    """All versions that fit every comparator; a pre-release only where a comparator names one of the same version.

    Attributes
    ----------
    text : str
        As written, without spaces.
    """

    text: str

    def __str__(self) -> str:
        return self.text

    def matches(self, version: str) -> bool:
        """Whether a version lies in the range."""
        asked = SemanticVersion.parse(version)
        bounds = _bounds(self.text)
        if not all(_holds(asked, operator, bound) for operator, bound in bounds):
            return False
        release = asked.to_tuple()[:3]
        return not asked.prerelease or any(bound.prerelease and bound.to_tuple()[:3] == release for _, bound in bounds)

    def newest(self, versions: Iterable[str]) -> str | None:
        """The highest of ``versions`` in the range; None if there is none."""
        return max((version for version in versions if self.matches(version)), key=sort_key, default=None)


Selector: TypeAlias = Exact | Range | Alias | Digest


@dataclass(frozen=True)
class Reference:
    """What a user wrote to name a published version.

    Attributes
    ----------
    kind : str or None
        One of `KINDS`; None if neither the text nor the verb says.
    name : str
    selector : Exact, Range, Alias, Digest or None
        None: the lock's pin.
    """

    kind: str | None
    name: str
    selector: Selector | None = None

    def __str__(self) -> str:
        kind = "" if self.kind is None else f"{self.kind}/"
        return f"{kind}{self.name}" + ("" if self.selector is None else f"@{self.selector}")

    @classmethod
    def parse(cls, text: str, kind: str | None = None) -> Reference:
        """Parse a reference.

        Parameters
        ----------
        text : str
            ``[kind/]name[@selector]``.
        kind : str, optional
            The kind that the verb implies.

        Raises
        ------
        UsageError
            The text is no reference, or names another kind than the verb works on.
        """
        if len(text) > _MAX_TEXT:
            raise UsageError(f"a reference has at most {_MAX_TEXT} characters, got {len(text)}")
        if not text.isprintable():
            raise UsageError(f"{text!r} holds a line end or another character that cannot be printed")
        if text != text.strip():
            raise UsageError(f"{text!r} begins or ends with a blank", hint=f"Try {text.strip()!r}.")
        if text.startswith("sha256:"):
            raise UsageError(
                f"{text!r} is a digest alone: the name belongs before it", hint=f"Say NAME@{text}, or KIND/NAME@{text}."
            )
        place, at, selector = text.partition("@")
        written, slash, name = place.rpartition("/")
        if slash:
            check_kind(written)
            if kind is not None and written != kind:
                raise UsageError(f"{text!r} is of kind {written}; {kind} is wanted here")
        check_name(name)
        if at and not selector:
            raise UsageError(f"{text!r} ends in @ without a version: {_FORMS}")
        return cls(written if slash else kind, name, _selector(selector) if at else None)

    @property
    def place(self) -> str:
        """``kind/name``, or the name alone."""
        return self.name if self.kind is None else f"{self.kind}/{self.name}"


def check_kind(kind: str) -> str:
    """``kind`` itself if versions of it are published.

    Raises
    ------
    UsageError
        No such kind; suggests the closest.
    """
    if kind not in KINDS:
        hint = f"{did_you_mean(kind, KINDS)} Kinds are {', '.join(KINDS)}."
        raise UsageError(f"{kind!r} is not a kind of published thing", hint=hint)
    return kind


def check_name(name: str) -> str:
    """``name`` itself if a published thing may be called so.

    Raises
    ------
    UsageError
        Not ``[a-z0-9]([a-z0-9-]*[a-z0-9])?``, or longer than 100 characters.
    """
    if _NAME.fullmatch(name) is None or len(name) > _MAX_NAME:
        wanted = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:_MAX_NAME].rstrip("-")
        raise UsageError(
            f"{name!r} is not a name for a published thing: lower-case letters, digits and - inside, a letter or digit "
            f"at both ends, at most {_MAX_NAME} characters",
            hint=f"Try {wanted!r}." if wanted else None,
        )
    return name


def check_version(text: str) -> str:
    """``text`` itself if it is a version that can be published: ``1.2.0`` or ``1.2.0-rc.1``, semantic.

    Raises
    ------
    UsageError
        It is not, or it has build metadata (``+...``), which does not count when versions are compared.
    """
    if len(text) <= _MAX_VERSION and _is_semantic(text) and "+" not in text:
        return text
    match = _PARTIAL.fullmatch(text.removeprefix("v").partition("+")[0])
    hint = None
    if match is not None and len(text) <= _MAX_VERSION:
        full = ".".join([*match["numbers"].split("."), "0", "0"][:3]) + (match["rest"] or "")
        hint = f"Try {full!r}." if SemanticVersion.is_valid(full) else None
    raise UsageError(
        f"{text!r} is not a version to publish: semantic versions such as 1.2.0 or 1.2.0-rc.1, no build metadata, at "
        f"most {_MAX_VERSION} characters",
        hint=hint,
    )


def check_alias(word: str) -> str:
    """``word`` itself if a version may be given it as an alias.

    Raises
    ------
    UsageError
        Not ``[a-z][a-z0-9-]*``, or a word with a meaning of its own (``latest``, ``x``).
    """
    if _ALIAS.fullmatch(word) is None or len(word) > _MAX_VERSION:
        raise UsageError(f"{word!r} is not an alias: a lower-case letter, then lower-case letters, digits and -")
    if word == LATEST or word in _WILD:
        raise UsageError(f"{word!r} cannot be given: its meaning is fixed", hint="Choose another word, such as stable.")
    return word


def sort_key(version: str) -> SemanticVersion:
    """Sorts versions by semantic precedence: 1.0.0-rc.1 < 1.0.0 < 1.10.0."""
    return SemanticVersion.parse(version)


def _selector(text: str) -> Selector:
    if text.startswith("sha256:"):
        if _DIGEST.fullmatch(text) is None:
            raise UsageError(f"{text!r} is not a digest: sha256: and 8 to 64 lower-case hex digits")
        return Digest(text)
    if text in _WILD or not _ALIAS.fullmatch(text):
        if _is_semantic(text):
            return Exact(check_version(text))
        return _range(text)
    if len(text) > _MAX_VERSION:
        raise UsageError(f"an alias has at most {_MAX_VERSION} characters, got {len(text)}")
    return Alias(text)


def _is_semantic(text: str) -> bool:
    # The library's own pattern takes a line end and digits of other scripts, too.
    return text.isascii() and text.isprintable() and SemanticVersion.is_valid(text)


def _range(text: str) -> Range:
    apart = _NO_COMMA.sub(",", text)
    if apart != text:
        raise UsageError(f"{text!r}: a comma is wanted between the parts of a range", hint=f"Try {apart!r}.")
    plain = ",".join("".join(part.split()) for part in text.split(","))
    if len(plain) > _MAX_TEXT // 2:
        raise UsageError(f"a range has at most {_MAX_TEXT // 2} characters, got {len(plain)}")
    _bounds(plain)
    return Range(plain)


def _bounds(text: str) -> list[tuple[str, SemanticVersion]]:
    """The range as comparators ``(operator, version)`` of ``>=``, ``>``, ``<``, ``<=``; empty for ``*``."""
    return [bound for part in text.split(",") for bound in _comparator(part, text)]


def _comparator(part: str, text: str) -> list[tuple[str, SemanticVersion]]:
    match = _COMPARATOR.fullmatch(part)
    if match is None:
        raise _not_a_range(text)
    operator, version = match["operator"], match["version"]
    if _X_RANGE.fullmatch(version) and not operator:
        version = version.rstrip(".x*")
        return _within(version, text, keep=version.count(".") + 1) if version else []
    low, parts = _padded(version, text)
    if operator is None:  # 1.2 is 1.2.x
        return [("=", low)] if parts == 3 else _within(version, text, keep=parts)
    if operator == "^":
        numbers = low.to_tuple()[:3]
        keep = next((i + 1 for i, number in enumerate(numbers[:parts]) if number), parts)
        return [(">=", low), ("<", _bumped(low, keep))]
    if operator == "~":
        return [(">=", low), ("<", _bumped(low, min(parts, 2)))]
    if operator in (">", "<=") and parts < 3:  # > 1.2 leaves all of 1.2 out, <= 1.2 takes it in
        return [(">=" if operator == ">" else "<", _bumped(low, parts))]
    if operator == "=" and parts < 3:
        return _within(version, text, keep=parts)
    return [(operator, low)]


def _within(version: str, text: str, *, keep: int) -> list[tuple[str, SemanticVersion]]:
    low, _ = _padded(version, text)
    return [(">=", low), ("<", _bumped(low, keep))]


def _padded(version: str, text: str) -> tuple[SemanticVersion, int]:
    """A partial version with zeros for what is left out, and how many numbers were written."""
    match = _PARTIAL.fullmatch(version)
    numbers = match["numbers"].split(".") if match else []
    rest = (match["rest"] or "") if match else ""
    full = ".".join([*numbers, "0", "0"][:3]) + rest
    if not numbers or len(version) > _MAX_VERSION or (rest and len(numbers) < 3) or not SemanticVersion.is_valid(full):
        raise _not_a_range(text)
    return SemanticVersion.parse(full), len(numbers)


def _bumped(version: SemanticVersion, keep: int) -> SemanticVersion:
    """The first version whose first ``keep`` numbers are higher."""
    release = SemanticVersion(*version.to_tuple()[:3])
    return (release.bump_major, release.bump_minor, release.bump_patch)[keep - 1]()


def _holds(version: SemanticVersion, operator: str, bound: SemanticVersion) -> bool:
    if operator == "=":
        return version == bound
    if operator == ">=":
        return version >= bound
    if operator == ">":
        return version > bound
    return version < bound if operator == "<" else version <= bound


def _not_a_range(text: str) -> UsageError:
    lowered = text.lower().removeprefix("v")
    hint = f"Try {lowered!r}." if lowered != text and _PARTIAL.fullmatch(lowered) else None
    return UsageError(f"{text!r} is not a version, range, alias or digest: {_FORMS}", hint=hint)
