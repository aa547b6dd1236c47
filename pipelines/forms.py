"""What is done to the rows of an array before their neighbours are looked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from optotype.pipelines.postprocessing.chain import Chain

__all__ = ["PLAIN", "Form"]


@dataclass(frozen=True)
class Form:
    """What is done to rows before they are compared, beside the prenorm.

    Attributes
    ----------
    pooled : bool
        Of features: one vector an image, the mean of its patches, instead of its patches.
    whitened : bool
        Whether rows are whitened; if not, ``eps`` and ``prenorm`` say nothing.
    gamma : float
        Of features: γ of the shrinkage of patches toward their image's mean, before all else.
    chain : Chain
        Post-processing, fitted on the rows that are compared.
    """

    pooled: bool = False
    whitened: bool = True
    gamma: float = 1.0
    chain: Chain = field(default_factory=Chain)

    def inputs(self) -> dict[str, Any]:
        """What a key takes up of this: what differs from a plain graph, so that plain keys stay what they were."""
        told: dict[str, Any] = {}
        if self.pooled:
            told["pooled"] = True
        if not self.whitened:
            told["whitened"] = False
        if self.gamma != 1 and not self.pooled:  # the mean of an image is the same under every γ
            told["gamma"] = float(self.gamma)
        if self.chain:
            told["chain"] = str(self.chain)
        return told


PLAIN = Form()
"""Patches or states, whitened."""
