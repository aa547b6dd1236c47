"""Names of arrays and panels, and ids of their rows."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from optotype.schemas.errors import Problem, UsageError

__all__ = ["ARRAY_NAME", "check_array_name", "id_problems", "is_url_or_path"]

ARRAY_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?")
_MAX_NAME = 128
_SHOWN = 5


def check_array_name(name: str) -> str:
    """``name`` itself if an array or panel may be called so.

    Raises
    ------
    UsageError
        The name is not ``[a-z0-9]([a-z0-9._-]*[a-z0-9])?`` or is longer than 128 characters. A name can
        therefore never leave its folder.
    """
    if ARRAY_NAME.fullmatch(name) is None or len(name) > _MAX_NAME:
        wanted = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("._-")[:_MAX_NAME].rstrip("._-")
        raise UsageError(
            f"{name!r} is not a name for an array: lower-case letters, digits and . _ - inside, "
            f"a letter or digit at both ends, at most {_MAX_NAME} characters",
            hint=f"Try {wanted!r}." if wanted else None,
        )
    return name


def is_url_or_path(reference: str) -> bool:
    """Whether ``reference`` is a path or fsspec URL rather than the name of an array in the project."""
    return "/" in reference or "\\" in reference or "::" in reference


def id_problems(ids: Sequence[object], where: str = "ids") -> list[Problem]:
    """Everything that is wrong with a sequence of row ids; empty when they are sound.

    Ids are non-empty strings without control characters, each once. Their Unicode form is left as
    given; ids that differ only by normalisation (NFC) are refused, since no reader can tell them apart.
    Of each kind the first five are named and the rest counted.
    """
    found: dict[str, list[Problem]] = {}
    for position, value in enumerate(ids):
        fault = _fault(value)
        if fault is not None:
            kind, message = fault
            found.setdefault(kind, []).append(Problem(f"{where}[{position}]", kind, message))
    counts = Counter(value for value in ids if isinstance(value, str))
    found["duplicate-id"] = [
        Problem(where, "duplicate-id", f"{value!r} occurs {times} times")
        for value, times in counts.items()
        if times > 1
    ]
    forms = Counter(unicodedata.normalize("NFC", value) for value in counts)
    found["ambiguous-id"] = [
        Problem(where, "ambiguous-id", f"{times} ids read {form!r} after Unicode normalisation (NFC)")
        for form, times in forms.items()
        if times > 1
    ]
    problems: list[Problem] = []
    for kind, some in found.items():
        problems += some[:_SHOWN]
        if len(some) > _SHOWN:
            problems.append(Problem(where, kind, f"and {len(some) - _SHOWN} more of this kind ({kind})"))
    return problems


def _fault(value: object) -> tuple[str, str] | None:
    if not isinstance(value, str):
        return "id-not-string", f"ids are strings, got {type(value).__name__} {value!r}"
    if not value or value != value.strip():
        return "id-blank", f"empty or padded with white space: {value!r}"
    if not value.isprintable() and any(unicodedata.category(c) in ("Cc", "Cs") for c in value):
        return "id-control", f"control character or surrogate in {value!r}"
    return None
