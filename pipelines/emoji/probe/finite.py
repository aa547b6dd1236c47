"""States that a probe cannot be fitted on."""

from __future__ import annotations

import numpy as np
import xarray as xr

from optotype.schemas.errors import Problem
from optotype.store.checks import limited

__all__ = ["state_problems"]


def state_problems(states: xr.Dataset) -> list[Problem]:
    """Texts whose state holds NaN or infinity (imported with ``--keep-invalid``), to twenty; reads all values."""
    bad = ~np.isfinite(states["states"].values).all(axis=1)
    name = f"states {states.attrs.get('name')}"
    return limited(
        Problem(name, "not-finite", f"{str(text)!r} holds NaN or Inf") for text in states["text"].values[bad]
    )
