"""EfficientNet-Lite as a plug-in encoder: ``python:optotype.pipelines.emoji.efficientnet_lite_encoder:load@<folder>``.

The folder is one that `optotype.pipelines.emoji.models` wrote. This is also the shortest complete example of an encoder
that is not a Hugging Face model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from optotype.pipelines.emoji.models.efficientnet_lite import MODEL_TYPE, empty_model
from optotype.pipelines.emoji.models.weights import check_names
from optotype.schemas.errors import ModelError, NotFoundError, UsageError

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["EfficientNetLite", "load"]


class EfficientNetLite:
    """A `VisionEncoder` (see `optotype.pipelines.encode.protocol`).

    Hidden state 0 is the output of the stem, ``i`` that of block ``i``; the final output is the network's last
    feature map (1280 channels, ``extract_features``), after its batch norm and ReLU6, before pooling.

    Attributes
    ----------
    layers : int
        1 + number of blocks.
    name : str
        The variant.
    preprocessing : dict
        What happens to an image before the network; part of the cache key.
    """

    def __init__(self, model: Any, *, name: str, device: str, preprocessing: dict[str, Any]) -> None:
        import torch

        # Depthwise convolutions on a CPU are some 1.6 times faster with the channels innermost.
        self._model = model.to(device, memory_format=torch.channels_last).eval()
        self._device = device
        self.name = name
        self.layers = 1 + len(model._blocks)
        self.preprocessing = preprocessing

    def preprocess(self, images: Sequence[Image]) -> Any:
        """RGB images as one float32 tensor (images, 3, size, size): resized, scaled to 0 … 1, normalised."""
        import torch
        from PIL import Image

        size = self.preprocessing["size"]["height"], self.preprocessing["size"]["width"]
        filter_ = Image.Resampling(self.preprocessing["resample"])
        resized = [np.asarray(image.convert("RGB").resize(size[::-1], filter_), np.float32) for image in images]
        mean = np.asarray(self.preprocessing["image_mean"], np.float32)
        std = np.asarray(self.preprocessing["image_std"], np.float32)
        scale = np.float32(self.preprocessing["rescale_factor"])
        pixels = (np.stack(resized) * scale - mean) / std
        return torch.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))

    def encode(self, batch: Any, layers: Sequence[int | None]) -> list[list[npt.NDArray[np.float32]]]:
        """For each layer, each image's map (rows, columns, channels), float32, out of one pass."""
        import torch

        model, wanted = self._model, set(layers)
        kept: dict[int | None, Any] = {}
        with torch.inference_mode():
            # extract_features() of the package, step by step; its drop-connect does nothing in eval mode
            hidden = model._swish(model._bn0(model._conv_stem(batch.to(self._device))))
            if 0 in wanted:
                kept[0] = hidden
            for i, block in enumerate(model._blocks, start=1):
                hidden = block(hidden)
                if i in wanted:
                    kept[i] = hidden
            if None in wanted:
                kept[None] = model._swish(model._bn1(model._conv_head(hidden)))
        maps = {layer: np.ascontiguousarray(kept[layer].permute(0, 2, 3, 1).cpu().numpy()) for layer in wanted}
        return [list(maps[layer]) for layer in layers]


def load(folder: Path, *, device: str = "cpu", image_size: int | None = None) -> EfficientNetLite:
    """The encoder in ``folder``.

    Parameters
    ----------
    folder : Path
        As `optotype.pipelines.emoji.models.write_model` writes it.
    device : str
        A torch device.
    image_size : int, optional
        Must be the variant's own: the padding of its strided convolutions is fixed by the image size.

    Raises
    ------
    NotFoundError
        A file is missing.
    ModelError
        Not an EfficientNet-Lite folder, or its weights are not those of the variant.
    UsageError
        Another image size.
    MissingPackageError
        efficientnet-lite-pytorch is not installed.
    """
    from safetensors.torch import load_file

    config = _document(folder / "config.json")
    variant = config.get("variant")
    if config.get("model_type") != MODEL_TYPE or not isinstance(variant, str):
        raise ModelError(f"{folder}: model_type {config.get('model_type')!r}, this encoder reads {MODEL_TYPE!r}")
    preprocessing = _document(folder / "preprocessor_config.json")
    size = preprocessing["size"]["height"]
    if image_size is not None and image_size != size:
        raise UsageError(f"{variant} takes images of {size} pixels only, got --image-size {image_size}")
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise _not_there(weights)
    state = load_file(weights)
    model = empty_model(variant)
    check_names(state, model.state_dict(), str(weights))
    model.load_state_dict(state, strict=True)
    return EfficientNetLite(model, name=variant, device=device, preprocessing=preprocessing)


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise _not_there(path) from None
    except ValueError as error:
        raise ModelError(f"{path}: not JSON ({error})") from error
    if not isinstance(document, dict):
        raise ModelError(f"{path}: a JSON object was expected, got {type(document).__name__}")
    return document


def _not_there(path: Path) -> NotFoundError:
    hint = "Write the folder with: optotype emoji model efficientnet-lite0 --out FOLDER"
    return NotFoundError(f"{path} is not there", hint=hint)
