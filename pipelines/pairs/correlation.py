"""Do a model and the encoder it may see through fail on the same patterns?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from optotype.schemas.errors import UsageError

__all__ = ["Correlation", "correlate", "correlate_all"]

_DECIMALS = 12  # accuracies that agree to so many digits are equal: 2 / 15 may come out of two computations
_FEWEST = 3


@dataclass(frozen=True)
class Correlation:
    """Pearson's r over patterns.

    Attributes
    ----------
    r : float or None
        None where it is undefined; ``reason`` says why.
    low, high : float or None
        Ends of the interval; None where there is none.
    n : int
        Patterns that both sides have.
    reason : str or None
        Why there is no r, or no interval.
    """

    r: float | None
    low: float | None
    high: float | None
    n: int
    reason: str | None = None


def correlate(encoder: Sequence[float], model: Sequence[float], level: float = 0.95) -> Correlation:
    """Pearson's r of two accuracies over patterns, with Fisher's interval.

    The interval is ``tanh(artanh r ± z / sqrt(n - 3))``, z the normal quantile of (1 + level) / 2. It takes patterns as
    independent draws of a bivariate normal distribution, which nine chosen patterns are not: read it as a reminder of
    how little nine points say.

    Parameters
    ----------
    encoder, model : sequence of float, length n
        Accuracies of the same patterns, in any one unit.
    level : float
        Between 0 and 1.

    Returns
    -------
    Correlation
        ``r`` is None for fewer than three patterns and where a side is constant (equal to 12 decimals); there is no
        interval for three patterns, nor where r is 1 or -1.

    Raises
    ------
    UsageError
        ``level`` is not between 0 and 1, or the two are not of one length.
    """
    if not 0 < level < 1:
        raise UsageError(f"level is between 0 and 1, got {level}")
    if len(encoder) != len(model):
        raise UsageError(f"accuracies of {len(encoder)} and of {len(model)} patterns")
    n = len(encoder)
    if n < _FEWEST:
        return Correlation(None, None, None, n, f"{n} patterns that both have; {_FEWEST} are needed")
    x, y = (np.round(np.asarray(side, dtype=np.float64), _DECIMALS) for side in (encoder, model))
    flat = [name for name, side in (("encoder", x), ("model", y)) if np.ptp(side) == 0]
    if flat:
        return Correlation(None, None, None, n, f"the {' and the '.join(flat)} scores the same on every pattern")
    x, y = x - x.mean(), y - y.mean()
    r = float(np.clip((x @ y) / math.sqrt((x @ x) * (y @ y)), -1, 1))
    if n == _FEWEST:
        return Correlation(r, None, None, n, "no interval: four patterns are needed")
    if round(abs(r), _DECIMALS) == 1:
        return Correlation(math.copysign(1, r), None, None, n, "no interval: the points lie on a line")
    from scipy.special import ndtri

    reach = float(ndtri((1 + level) / 2)) / math.sqrt(n - 3)
    z = math.atanh(r)
    return Correlation(r, math.tanh(z - reach), math.tanh(z + reach), n)


def correlate_all(
    encoders: Mapping[str, Mapping[str, float]], models: Mapping[str, Mapping[str, float]], level: float = 0.95
) -> list[dict[str, Any]]:
    """Every encoder against every model, over the patterns that both have.

    Parameters
    ----------
    encoders, models : mapping
        Name -> pattern -> accuracy.

    Returns
    -------
    list of dict
        In the order given: ``encoder, model, r, low, high, n, reason``, ``level``, ``patterns`` (those used) and
        ``left_out`` (patterns that one of the two lacks).
    """
    rows = []
    for encoder, seen in encoders.items():
        for model, answered in models.items():
            patterns = [name for name in seen if name in answered]
            found = correlate([seen[name] for name in patterns], [answered[name] for name in patterns], level)
            left_out = sorted((set(seen) | set(answered)) - set(patterns))
            row = {"encoder": encoder, "model": model, **asdict(found), "level": level}
            rows.append({**row, "patterns": patterns, "left_out": left_out})
    return rows
