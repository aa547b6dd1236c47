"""``optotype features``: patch features of vision encoders."""

from __future__ import annotations

from optotype.registry.cli.arrays import array_group

__all__ = ["features"]

features = array_group(
    "features",
    help_text="Patch features of vision encoders: import, list, show, export.",
    name="siglip",
    file="siglip.npz",
)
