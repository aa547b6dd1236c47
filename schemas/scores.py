"""What the tables around a panel of scores may hold: columns, scales, dates, axes."""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Iterable, Mapping

from optotype.schemas.errors import UsageError

__all__ = [
    "DEFAULT_SCALE",
    "ITEM_COLUMNS",
    "MODALITIES",
    "MODEL_COLUMNS",
    "PANEL_FORMAT",
    "Scale",
    "axis_fault",
    "date_fault",
    "parse_scales",
    "scale_fault",
]

PANEL_FORMAT = 1  # format_version of panel.json
Scale = tuple[float, float]
DEFAULT_SCALE: Scale = (0.0, 1.0)

# Columns of the items and models tables that are known by name; others are kept as item_<name> and model_<name>.
ITEM_COLUMNS = ("category", "sub_task", "question", "answer", "n_choices", "image", "scoring")
MODEL_COLUMNS = ("family", "vendor", "release_date", "axis")

# modality as it is written -> as it is kept; others are left out and counted
MODALITIES = {"": "image", "image": "image", "blind": "blind", "no_image": "blind"}

_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")
_AXIS = re.compile(r"[^:]+:\s*([^:]+)")


def date_fault(text: str) -> str | None:
    """What is wrong with a date (``YYYY``, ``YYYY-MM`` or ``YYYY-MM-DD``); None if nothing is."""
    match = _DATE.fullmatch(text)
    if match is None:
        return f"a date is YYYY, YYYY-MM or YYYY-MM-DD, got {text!r}"
    year, month, day = (int(part) if part else None for part in match.groups())
    if year == 0 or (month is not None and not 1 <= month <= 12):
        return f"there is no such month: {text!r}"
    if day is not None and not 1 <= day <= calendar.monthrange(year or 1, month or 1)[1]:
        return f"there is no such day: {text!r}"
    return None


def axis_fault(text: str) -> str | None:
    """What is wrong with a place on a model axis (``name:position``, position a number); None if nothing is."""
    match = _AXIS.fullmatch(text)
    if match is None or _number(match[1]) is None:
        return f"an axis is NAME:POSITION with a finite number as position (vit-depth:8), got {text!r}"
    return None


def scale_fault(scale: Scale) -> str | None:
    """What is wrong with a scale (lowest and highest score); None if nothing is."""
    low, high = scale
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        return f"a scale is MIN:MAX, two finite numbers with MIN below MAX, got {low:g}:{high:g}"
    return None


def parse_scales(texts: Iterable[str]) -> dict[str, Scale]:
    """Scales written as ``BENCHMARK=MIN:MAX``.

    Raises
    ------
    UsageError
        Not of that form, or a benchmark is given two scales.
    """
    scales: dict[str, Scale] = {}
    for text in texts:
        benchmark, equals, numbers = text.rpartition("=")
        low, colon, high = numbers.partition(":")
        ends = (_number(low), _number(high))
        if not equals or not colon or not benchmark or ends[0] is None or ends[1] is None:
            raise UsageError(f"{text!r}: a scale is written BENCHMARK=MIN:MAX, for example mmbench=0:100")
        scale = (ends[0], ends[1])
        if scale_fault(scale):
            raise UsageError(f"{text!r}: {scale_fault(scale)}")
        if scales.setdefault(benchmark, scale) != scale:
            raise UsageError(f"{benchmark!r} is given two scales: {_text(scales, benchmark)} and {numbers}")
    return scales


def _text(scales: Mapping[str, Scale], benchmark: str) -> str:
    low, high = scales[benchmark]
    return f"{low:g}:{high:g}"


def _number(text: str) -> float | None:
    """``text`` as a finite number, None if it is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None
