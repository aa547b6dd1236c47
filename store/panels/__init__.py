"""Panels: scores of models on benchmark items, in parts that a later import never rewrites.

``panel.json`` lists the parts in the order of their import. Each part is a Zarr group with a manifest, written once;
`open_panel` reads their union.
"""

from __future__ import annotations

from optotype.store.panels.dataset import open_panel, panel_dataset

__all__ = ["open_panel", "panel_dataset"]
