"""What a score costs: floating-point operations by formula, of the metric itself and of encoding its items.

An addition and a multiplication count one each, so a product of (a, b) and (b, c) is 2abc. Terms of leading order
alone; sorting, comparing and reading count nothing. An eigendecomposition of (d, d) counts 9d³ (Golub & Van Loan,
Matrix Computations, ch. 8); what leading directions alone cost is told in the formula. Iterative fits count the most
steps that they may take ("at most"), unless their details tell how many they took. Chains of post-processing in front
of a metric are not counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "ENCODING",
    "FORMULAS",
    "SYMBOLS",
    "Cost",
    "Shape",
    "encoding_flops",
    "formula",
    "metric_flops",
    "options_of",
]

SYMBOLS: Mapping[str, str] = {
    "n": "items",
    "M": "patch tokens of an image, on average",
    "d": "channels of the patches",
    "t": "channels of the text states",
}

ENCODING = "2·parameters·tokens an item, once for each encoder and each language model that is read"


@dataclass(frozen=True)
class Shape:
    """What a cost depends on; None: not known.

    Attributes
    ----------
    n, k : int or None
        Items and neighbours.
    M : float or None
        Mean number of patch tokens of an image.
    d, t : int or None
        Channels of the patches and of the text states.
    details, options : mapping
        What the metric told of its own run, and the options that it ran with.
    """

    n: int | None = None
    k: int | None = None
    M: float | None = None
    d: int | None = None
    t: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def told(self, name: str, default: Any) -> Any:
        """A number out of the details, else the options, else ``default``."""
        for place in (self.details, self.options):
            value = place.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return value
        return default


@dataclass(frozen=True)
class Cost:
    """A formula in words, what it needs, and what computes it.

    Attributes
    ----------
    text : str
        In the letters of `SYMBOLS`.
    needs : str
        Letters that have to be known.
    compute : callable
        Shape -> FLOPs.
    told : tuple of str
        Details of the score that have to be there.
    """

    text: str
    needs: str
    compute: Callable[[Any], float]
    told: tuple[str, ...] = ()


def _mean(s: Any) -> float:
    """Mean patches."""
    return float(s.n * s.M * s.d)


def _whitening(rows: float, width: int) -> float:
    """Moments, eigenvectors and the projection of all rows."""
    return float(4 * rows * width**2 + 9 * width**3)


def _texts(s: Any) -> float:
    """Whitened text states and their cosines."""
    return _whitening(s.n, s.t) + float(s.n * (s.n - 1) * s.t)


def _ravel(s: Any) -> float:
    return _whitening(s.n * s.M, s.d) + float(s.n * (s.n - 1) * s.M**2 * s.d) + _texts(s)


def _pooled_whitened(s: Any) -> float:
    return _mean(s) + _whitening(s.n, s.d) + float(s.n * (s.n - 1) * s.d) + _texts(s)


def _both_graphs(s: Any) -> float:
    """Mean patches and the cosines of all pairs, of both sides."""
    return _mean(s) + float(2 * s.n**2 * (s.d + s.t))


def _half_graphs(s: Any) -> float:
    """The same of pairs i < j alone."""
    return _mean(s) + float(s.n * (s.n - 1) * (s.d + s.t))


def _linear_probing(s: Any) -> float:
    train, classes = s.told("train", 0.7 * s.n), s.told("classes", None)
    inner, fits = min(train, s.d), 6 * s.told("folds", 3) + 1
    return _mean(s) + float(4 * train * s.d * inner + fits * 1000 * 4 * train * inner * classes)


def _alignment(s: Any) -> float:
    pairs = min(s.n, s.told("pairs", 2000))
    train, test = s.told("train", round(0.7 * pairs)), s.told("held_out", round(0.3 * pairs))
    p, q, fits = min(128, s.d), min(128, s.t), 7 * s.told("folds", 3) + 1
    step = 4 * train * p * q + 4 * train**2 * (p + q)
    return _mean(s) + float(fits * 200 * step + 2 * (train + test) ** 2 * q)


def _ac_policy(s: Any) -> float:
    return _alignment(s) + float(2 * s.M * s.d * s.told("points", 0))


def _leading(rows: float, width: int) -> float:
    """Leading directions, from the smaller of the two products of the rows with themselves."""
    return float(2 * rows * width * min(rows, width) + 4 / 3 * min(rows, width) ** 3)


def _cca(s: Any) -> float:
    kept = s.told("dimensions", 64)
    return _mean(s) + float(sum(_leading(0.6 * s.n, width) + 2 * s.n * kept * width for width in (s.d, s.t)))


def _svcca(s: Any) -> float:
    kept = s.told("dimensions", 10)
    return _mean(s) + float(sum(_leading(s.n, width) for width in (s.d, s.t)) + 2 * s.n * kept**2)


def _gw(s: Any) -> float:
    used = s.told("items", s.n)
    return _mean(s) + float(used**2 * (s.d + s.t) + s.told("iterations", None) * 8 * used**3)


def _linear_cka(s: Any) -> float:
    return _mean(s) + float(2 * s.n * (s.d * s.t + s.d**2 + s.t**2))


_BOTH = "nMd + 2n²(d + t)"
_HALF = "nMd + n(n − 1)(d + t)"
_CKA = "nMd + 2n(dt + d² + t²)"
_TEXTS = "4nt² + 9t³ + n(n − 1)t"
_LEADING = "2mw·min(m, w) + ⁴⁄₃·min(m, w)³ for both sides, w channels"
_PROBED = (
    "nMd + (7·folds + 1)·200 steps·(4mpq + 4m²(p + q)) + 2(m + h)²q, m training and h held-out pairs, p = min(128, d), "
    "q = min(128, t)"
)

FORMULAS: Mapping[str, Cost] = {
    "ravel": Cost(f"4nMd² + 9d³ + n(n − 1)M²d + {_TEXTS}", "nMdt", _ravel),
    "ravel-pooled-raw": Cost(_HALF, "nMdt", _half_graphs),
    "ravel-pooled-whitened": Cost(f"nMd + 4nd² + 9d³ + n(n − 1)d + {_TEXTS}", "nMdt", _pooled_whitened),
    "ravel-patch-raw": Cost("n(n − 1)(M²d + t)", "nMdt", lambda s: float(s.n * (s.n - 1) * (s.M**2 * s.d + s.t))),
    "linear-probing": Cost(
        "nMd + 4md·min(m, d) + (6·folds + 1)·1000 steps·4m·min(m, d)·classes, m training items; at most",
        "nMd",
        _linear_probing,
        ("classes",),
    ),
    "knn-classification": Cost("nMd + 2n²d", "nMd", lambda s: _mean(s) + float(2 * s.told("labelled", s.n) ** 2 * s.d)),
    "rsa": Cost(_HALF, "nMdt", _half_graphs),
    "cca": Cost(f"nMd + {_LEADING}, m = 0.6n, + 2n·64·(d + t)", "nMdt", _cca),
    "mutual-nn": Cost(_BOTH, "nMdt", _both_graphs),
    "mutual-nn-ties": Cost(_BOTH, "nMdt", _both_graphs),
    "gw": Cost(
        "nMd + m²(d + t) + iterations·8m³, m items used, without the inner transport", "nMdt", _gw, ("iterations",)
    ),
    "cka": Cost(_CKA, "nMdt", _linear_cka),
    "cka-unbiased": Cost(_CKA, "nMdt", _linear_cka),
    "cknna": Cost(_BOTH, "nMdt", _both_graphs),
    "svcca": Cost(f"nMd + {_LEADING}, m = n, + 2n·10²", "nMdt", _svcca),
    "cycle-knn": Cost(_BOTH, "nMdt", _both_graphs),
    "alignment-probing": Cost(f"{_PROBED}; at most", "nMdt", _alignment),
    "ac-policy": Cost(
        f"{_PROBED}, and 2Md a keypoint; at most, without the downstream scores it is fitted on",
        "nMdt",
        _ac_policy,
        ("points",),
    ),
}
"""Formula of each metric of the catalogue; see `formula` for those that tell their own."""

_OWN = {"mid-training-loss": "as the metric tells it: passes forward and back over projector and language model"}


def formula(metric: str) -> str | None:
    """The formula of a metric in words; None for one that is not in the catalogue."""
    return FORMULAS[metric].text if metric in FORMULAS else _OWN.get(metric)


def metric_flops(metric: str, shape: Shape) -> float | None:
    """FLOPs of one score, without encoding; None where the formula, or something that it needs, is not known.

    A metric that tells ``flops`` in its details is believed.
    """
    told = shape.details.get("flops")
    if isinstance(told, (int, float)) and not isinstance(told, bool):
        return float(told)
    cost = FORMULAS.get(metric)
    if cost is None or any(getattr(shape, letter) is None for letter in cost.needs):
        return None
    if any(shape.told(name, None) is None for name in cost.told):
        return None
    return float(cost.compute(shape))


def encoding_flops(parameters: float | None, tokens: float | None, n: int | None) -> float | None:
    """FLOPs of the forward passes over ``n`` items: 2·parameters·tokens each, without attention (Kaplan et al. 2020).

    Too many for embedding tables, which are looked up; too few for convolutions, whose weights serve many places.
    """
    if parameters is None or tokens is None or n is None:
        return None
    return float(2 * parameters * tokens * n)


def options_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The options among settings, which hold them as JSON."""
    found = json.loads(settings.get("options") or "{}")
    return dict(found) if isinstance(found, dict) else {}
