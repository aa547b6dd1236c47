"""``optotype states``: text states of language models."""

from __future__ import annotations

from optotype.registry.cli.arrays import array_group

__all__ = ["states"]

states = array_group(
    "states",
    help_text="Text states of language models: import, list, show, export.",
    name="qwen3",
    file="qwen3.npz",
)
