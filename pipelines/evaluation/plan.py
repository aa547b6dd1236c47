"""What an evaluation is asked to do, checked before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from optotype.pipelines.compression.cleaning import TAU
from optotype.pipelines.compression.leaderboard import check_normalise
from optotype.pipelines.compression.representatives import RHO_TARGET
from optotype.pipelines.evaluation.bootstrap import RESAMPLES
from optotype.pipelines.selectors.pool import ALPHA
from optotype.pipelines.selectors.selector import SELECTORS, get_selector
from optotype.schemas.errors import UsageError, did_you_mean

__all__ = ["BASELINE", "PROTOCOLS", "RETENTIONS", "Options", "chosen_selectors"]

PROTOCOLS = (
    "held-out",
    "chronological",
    "end-to-end",
    "shelf-life",
    "left-out",
    "cross-family",
    "variants",
    "intervals",
    "spectrum",
)
RETENTIONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
BASELINE = "random"


@dataclass(frozen=True)
class Options:
    """Parameters of an evaluation; `check` refuses what is out of range.

    Attributes
    ----------
    selectors : tuple of str
    retentions : tuple of float
        Rising, each in (0, 1].
    protocols : tuple of str
    splits : int
    seed : int
    category_by : str
    floor : int
    min_held_out : int
        Fewest held-out models that a ρ is taken over.
    tau, alpha, k, normalise, rho_target
        Of stages 0 to 3.
    resamples : int
        Of the bootstrap.
    """

    selectors: tuple[str, ...] = tuple(SELECTORS)
    retentions: tuple[float, ...] = RETENTIONS
    protocols: tuple[str, ...] = PROTOCOLS
    splits: int = 20
    seed: int = 0
    category_by: str = "category"
    floor: int = 100
    min_held_out: int = 10
    tau: float = TAU
    alpha: float = ALPHA
    k: int = 5
    normalise: str = "none"
    rho_target: float = RHO_TARGET
    resamples: int = RESAMPLES

    def check(self) -> Options:
        """Itself, with retentions rising and each once.

        Raises
        ------
        UsageError, NotFoundError
        """
        for name in self.selectors:
            get_selector(name)
        unknown = [name for name in self.protocols if name not in PROTOCOLS]
        if unknown:
            raise UsageError(
                f"{unknown[0]!r} is not a protocol: {', '.join(PROTOCOLS)}",
                hint=did_you_mean(unknown[0], PROTOCOLS) or None,
            )
        if not self.selectors or not self.retentions or not self.protocols:
            raise UsageError("an evaluation takes a selector, a retention and a protocol, or more of each")
        for retention in self.retentions:
            if not 0 < retention <= 1:
                raise UsageError(f"a retention is above 0 and at most 1, got {retention!r}", hint="5 % is 0.05.")
        for name, least in (
            ("splits", 1),
            ("seed", 0),
            ("floor", 0),
            ("min_held_out", 2),
            ("k", 1),
            ("resamples", 1),
        ):
            if getattr(self, name) < least:
                raise UsageError(f"{name.replace('_', '-')} is {least} or more, got {getattr(self, name)}")
        if not (math.isfinite(self.alpha) and self.alpha >= 0):
            raise UsageError(f"alpha is a finite number >= 0, got {self.alpha!r}", hint=f"The usual value is {ALPHA}.")
        check_normalise(self.normalise)
        values = asdict(self) | {
            "selectors": tuple(dict.fromkeys(self.selectors)),
            "protocols": tuple(name for name in PROTOCOLS if name in self.protocols),
            "retentions": tuple(sorted(set(self.retentions))),
        }
        return Options(**values)

    def shared(self) -> dict[str, Any]:
        """Parameters that every unit of work depends on; the rest only says which units there are."""
        names = ("seed", "category_by", "floor", "min_held_out", "tau", "alpha", "k", "normalise", "rho_target")
        return {name: getattr(self, name) for name in names}


def chosen_selectors(names: Sequence[str] | str) -> tuple[str, ...]:
    """Names of selectors, separated by commas or in a sequence; ``all`` is every one."""
    parts = names.split(",") if isinstance(names, str) else [part for name in names for part in name.split(",")]
    wanted = [part.strip() for part in parts if part.strip()]  # none at all is refused by `Options.check`
    return tuple(SELECTORS) if "all" in wanted else tuple(dict.fromkeys(wanted))
