"""Figures printed in the RAVEL paper (arXiv 2610.05413): 70 encoders, three language models, eleven benchmarks."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ABLATION", "COMPARISON", "MODELS", "printed_mean"]

MODELS = ("Qwen3-1.7B", "Qwen2.5-1.5B", "SmolLM2-1.7B")

COMPARISON: Mapping[str, tuple[tuple[float, float], ...]] = {
    "linear-probing": ((0.484, 0.490), (0.568, 0.510), (0.593, 0.597)),
    "knn-classification": ((0.551, 0.513), (0.534, 0.598), (0.603, 0.567)),
    "mid-training-loss": ((0.342, 0.349), (0.434, 0.403), (0.272, 0.300)),
    "ac-policy": ((0.506, 0.445), (0.573, 0.391), (0.632, 0.603)),
    "alignment-probing": ((0.569, 0.618), (0.634, 0.640), (0.670, 0.711)),
    "rsa": ((0.125, 0.206), (0.015, 0.068), (-0.070, 0.060)),
    "cca": ((0.163, 0.251), (0.275, 0.338), (0.213, 0.341)),
    "mutual-nn": ((0.439, 0.543), (0.468, 0.570), (0.361, 0.541)),
    "gw": ((0.226, 0.236), (0.515, 0.312), (0.577, 0.472)),
    "ravel": ((0.820, 0.816), (0.897, 0.896), (0.833, 0.845)),
}
"""(ρ, r) for each of `MODELS`, table 1."""

ABLATION: Mapping[str, tuple[float, float]] = {
    "ravel-pooled-raw": (0.194, 0.240),
    "ravel-pooled-whitened": (0.782, 0.798),
    "ravel-patch-raw": (0.548, 0.510),
    "ravel": (0.850, 0.852),
}
"""(ρ, r), means over `MODELS`, table 2."""


def printed_mean(metric: str) -> tuple[float, float] | None:
    """Mean (ρ, r) over the three language models; None for what the paper does not have."""
    found = COMPARISON.get(metric)
    if found is None:
        return None
    rhos, rs = zip(*found, strict=True)
    return sum(rhos) / len(rhos), sum(rs) / len(rs)
