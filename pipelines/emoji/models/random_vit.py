"""A ViT-S/16 with random weights: the floor that pretrained encoders are to rise above.

Weights are drawn as `transformers` initialises a ViT (normal, deviation 0.02 for matrices, convolution, class token and
positions; biases 0, layer norms 1), but by NumPy's PCG64 in the sorted order of their names, so that the seed gives the
same bytes whatever torch is installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from optotype.pipelines.emoji.folder import write_json
from optotype.pipelines.emoji.models.weights import write_image_preprocessor, write_weights
from optotype.schemas.errors import UsageError

__all__ = ["CONFIG", "convert", "random_weights", "shapes"]

_WIDTH, _LAYERS, _HEADS, _MLP, _SIZE, _PATCH, _SPREAD = 384, 12, 6, 1536, 192, 16, 0.02
_HALF = (0.5, 0.5, 0.5)
_BILINEAR = 2
CONFIG = {
    "architectures": ["ViTModel"],
    "attention_probs_dropout_prob": 0.0,
    "dtype": "float32",
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "hidden_size": _WIDTH,
    "image_size": _SIZE,
    "initializer_range": _SPREAD,
    "intermediate_size": _MLP,
    "layer_norm_eps": 1e-12,
    "model_type": "vit",
    "num_attention_heads": _HEADS,
    "num_channels": 3,
    "num_hidden_layers": _LAYERS,
    "patch_size": _PATCH,
    "qkv_bias": True,
}


def convert(folder: Path, seed: int) -> str:
    """Write the folder; returns what was done, in words."""
    write_weights(folder, random_weights(shapes(), seed))
    write_json(folder / "config.json", CONFIG)
    write_image_preprocessor(folder, size=_SIZE, mean=_HALF, std=_HALF, resample=_BILINEAR)
    return "weights drawn at random: normal with deviation 0.02, biases 0, layer norms 1; NumPy PCG64, names in order"


def shapes() -> dict[str, tuple[int, ...]]:
    """Names and shapes of all weights of ViTModel with `CONFIG`."""
    tokens = (_SIZE // _PATCH) ** 2 + 1
    found: dict[str, tuple[int, ...]] = {
        "embeddings.cls_token": (1, 1, _WIDTH),
        "embeddings.patch_embeddings.projection.weight": (_WIDTH, 3, _PATCH, _PATCH),
        "embeddings.position_embeddings": (1, tokens, _WIDTH),
        "layernorm.weight": (_WIDTH,),
        "pooler.dense.weight": (_WIDTH, _WIDTH),
    }
    for i in range(_LAYERS):
        layer = f"encoder.layer.{i}"
        for part in ("query", "key", "value"):
            found[f"{layer}.attention.attention.{part}.weight"] = (_WIDTH, _WIDTH)
        found[f"{layer}.attention.output.dense.weight"] = (_WIDTH, _WIDTH)
        found[f"{layer}.intermediate.dense.weight"] = (_MLP, _WIDTH)
        found[f"{layer}.output.dense.weight"] = (_WIDTH, _MLP)
        found[f"{layer}.layernorm_before.weight"] = (_WIDTH,)
        found[f"{layer}.layernorm_after.weight"] = (_WIDTH,)
    biases = {
        name.removesuffix("weight") + "bias": shape[:1] for name, shape in found.items() if name.endswith("weight")
    }
    return found | biases


def random_weights(shapes: dict[str, tuple[int, ...]], seed: int) -> dict[str, npt.NDArray[Any]]:
    """Seeded float32 weights of the given shapes.

    Raises
    ------
    UsageError
        ``seed`` is negative.
    """
    if seed < 0:
        raise UsageError(f"seed = {seed}; a seed is an integer from 0 upward")
    draw = np.random.Generator(np.random.PCG64(seed))
    weights: dict[str, npt.NDArray[Any]] = {}
    for name in sorted(shapes):
        if name.endswith("bias"):
            weights[name] = np.zeros(shapes[name], np.float32)
        elif "layernorm" in name:
            weights[name] = np.ones(shapes[name], np.float32)
        else:
            weights[name] = (draw.standard_normal(shapes[name]) * _SPREAD).astype(np.float32)
    return weights
