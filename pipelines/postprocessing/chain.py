"""Chains of post-processing steps, and the text they are written in: ``centre+abtt:3+l2``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from optotype.schemas.errors import UsageError, did_you_mean

__all__ = ["EPS", "MOST", "STEPS", "Chain", "Step", "parse_chain"]

EPS = 1e-4
"""ε of ``spca-whiten`` where none is given; absolute, as in the score itself."""

MOST = 1e6
"""Largest argument of a step. Beyond it nothing changes, and a number is written without a "+"."""

Kind = Literal["affine", "row", "image"]


@dataclass(frozen=True)
class _Form:
    """What a step takes: how its argument is called, whether it is whole, its default, and what it works on."""

    kind: Kind
    argument: str | None = None
    whole: bool = False
    default: float | None = None


STEPS: dict[str, _Form] = {
    "none": _Form("row"),
    "centre": _Form("affine"),
    "zscore": _Form("affine"),
    "abtt": _Form("affine", "D", whole=True),
    "pca-whiten": _Form("affine"),
    "spca-whiten": _Form("affine", "EPS", default=EPS),
    "drop-leading": _Form("affine", "N", whole=True),
    "drop-trailing": _Form("affine", "N", whole=True),
    "l2": _Form("row"),
    "gamma": _Form("image", "G"),
}
"""Every step by name. ``affine`` ones are fitted on mean and covariance, ``row`` ones see one row, ``image`` ones need
all tokens of an image at once."""


@dataclass(frozen=True)
class Step:
    """One step of a chain.

    Attributes
    ----------
    name : str
        One of :data:`STEPS`, without ``none``.
    value : int or float, optional
        D, N, ε or γ; None for steps without an argument.
    """

    name: str
    value: float | None = None

    @property
    def kind(self) -> Kind:
        """``affine``, ``row`` or ``image``."""
        return STEPS[self.name].kind

    def __str__(self) -> str:
        form = STEPS[self.name]
        if form.argument is None or self.value == form.default:
            return self.name
        return f"{self.name}:{self.value:d}" if isinstance(self.value, int) else f"{self.name}:{_plain(self.value)}"


def _plain(value: float | None) -> str:
    number = float(value or 0.0)
    return str(int(number)) if number == int(number) else repr(number)


@dataclass(frozen=True)
class Chain:
    """Steps in the order in which they are applied; no step at all leaves rows as they are.

    ``str(chain)`` is canonical: equal chains have equal texts, and :func:`parse_chain` reads them back.
    """

    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        return "+".join(map(str, self.steps)) or "none"

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __bool__(self) -> bool:
        return bool(self.steps)

    @property
    def per_image(self) -> bool:
        """Whether a step needs all tokens of an image (γ): such a chain is for patches alone."""
        return any(step.kind == "image" for step in self.steps)

    @property
    def passes(self) -> int:
        """How often all rows are read to fit the chain: once for each run of affine steps."""
        return sum(kind == "affine" for kind, _ in groupby(self.steps, key=lambda step: step.kind))


def parse_chain(text: str) -> Chain:
    """Read a chain.

    Steps are joined by ``+`` and applied from left to right:

    ==================  ==============================================================================
    ``none``            nothing
    ``centre``          z - μ
    ``zscore``          (z - μ) / σ, a channel at a time
    ``abtt:D``          centre, then remove the D first principal components (Mu & Viswanath 2018)
    ``pca-whiten``      Λ^(-1/2) Uᵀ (z - μ) over the positive eigenvalues
    ``spca-whiten:EPS`` (Λ + εI)^(-1/2) Uᵀ (z - μ); ε = 1e-4 where it is left out
    ``drop-leading:N``  principal coordinates without the N first
    ``drop-trailing:N`` principal coordinates without the N last of positive eigenvalue
    ``l2``              each row to length 1
    ``gamma:G``         p <- m + γ (p - m), m the mean of the image's tokens; patches alone
    ==================  ==============================================================================

    Raises
    ------
    UsageError
        Names every step that is unknown, or whose argument is missing, too many or out of range.
    """
    steps, problems = [], []
    for part in text.split("+"):
        try:
            step = _step(part.strip())
        except ValueError as error:
            problems.append(str(error))
        else:
            steps += [step] if step is not None else []
    if problems:
        raise UsageError(
            f"{text!r} is no chain of post-processing: {'; '.join(problems)}",
            hint="Steps are joined by +, as in centre+abtt:3+l2: "
            + ", ".join(f"{name}:{form.argument}" if form.argument else name for name, form in STEPS.items()),
        )
    return Chain(tuple(steps))


def _step(part: str) -> Step | None:
    """The step that ``part`` says, None for ``none``; ValueError says what is wrong."""
    name, colon, given = part.partition(":")
    if not part:
        raise ValueError("a step is empty")
    if name not in STEPS:
        raise ValueError(f"there is no step {name!r} ({did_you_mean(name, list(STEPS))})")
    form = STEPS[name]
    if form.argument is None:
        if colon:
            raise ValueError(f"{name} takes no argument, got {given!r}")
        return None if name == "none" else Step(name)
    if not colon and form.default is not None:
        return Step(name, form.default)
    allowed = f"a whole number from 0 to {MOST:.0f}" if form.whole else f"a number from 0 to {MOST:.0f}"
    try:
        value: float = int(given) if form.whole else float(given)
    except ValueError:
        raise ValueError(f"{name} needs {form.argument}, {allowed}, got {given!r}") from None
    if not (math.isfinite(value) and 0 <= value <= MOST):
        raise ValueError(f"{name} needs {form.argument}, {allowed}, got {given!r}")
    if name == "spca-whiten" and value == 0:
        return Step("pca-whiten")
    return Step(name, abs(value))  # no -0.0
