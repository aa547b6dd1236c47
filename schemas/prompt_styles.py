"""How a finished prompt ends: plain, with its end mark, or with its end mark and a new line.

The three styles of MMMEB (Musacchio et al. 2025, arXiv 2503.09313), whose results they move by tens of points.
"""

from __future__ import annotations

from typing import Literal

from optotype.schemas.errors import UsageError, did_you_mean

__all__ = ["END_MARKS", "STYLES", "Style", "check_style", "styled"]

Style = Literal["plain", "punct", "newline"]
STYLES: tuple[Style, ...] = ("plain", "punct", "newline")

END_MARKS = (".", "?", "!", "…", "。", "？", "！", "؟", "۔", "।")
"""What ends a sentence. A closing quote or bracket does not, nor do ``:``, ``;`` and ``,``."""


def check_style(style: str | None) -> Style | None:
    """``style`` itself if there is such a one; None stands for a text as it is.

    Raises
    ------
    UsageError
        There is no such style.
    """
    for known in STYLES:
        if style == known:
            return known
    if style is not None:
        raise UsageError(f"{style!r} is not a style: {', '.join(STYLES)}", hint=did_you_mean(style, STYLES) or None)
    return None


def styled(text: str, style: Style | None, end_mark: str) -> str:
    """``text`` with the ending that ``style`` asks for.

    Parameters
    ----------
    text : str
        Finished: placeholders are filled.
    style : {"plain", "punct", "newline"} or None
        ``plain`` takes every `END_MARKS` (and white space between them) off the end; ``punct`` adds ``end_mark`` if the
        text does not end in one of `END_MARKS`; ``newline`` is ``punct`` and a line feed. All three strip white space
        at both ends first. None leaves the text as it is, byte for byte.
    end_mark : str
        One of `END_MARKS`.

    Returns
    -------
    str
        A text without anything but white space comes out of all three as ``""``. Each style is idempotent, and plain
        text is the same whichever style it had before.

    Notes
    -----
    The authors' code takes one mark off rather than all of them, knows ``.`` and ``?`` alone, and for candidates styles
    the pattern before the text is put in: their captions that end in a full stop keep it under ``plain`` and get a
    second one under ``punct``, and a caption gets no line feed under ``newline``. Here all sides are treated alike.
    """
    if style is None:
        return text
    text = text.strip()
    if style == "plain":
        while text.endswith(END_MARKS):
            text = text[:-1].rstrip()
        return text
    if not text:
        return text
    if not text.endswith(END_MARKS):
        text += end_mark
    return f"{text}\n" if style == "newline" else text
