"""From RGB pictures to a model's pixel arrays, by the image processor of its folder and always by the Pillow backend.

One backend for all: resampling differs between Pillow and torchvision, and features would depend on what happens to be
installed. DINOv3's processor exists for torchvision only and is rebuilt here on the function that torchvision calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from optotype.pipelines.encode.loading import load_errors, quiet_transformers
from optotype.schemas.errors import ModelError, UsageError

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["Preprocessor", "load_preprocessor", "resized"]

_CONFIG = "preprocessor_config.json"
_DINOV3 = "DINOv3ViTImageProcessor"
# What a processor's dictionary says about where it came from, not about what it does.
_IRRELEVANT = ("_processor_class", "processor_class", "auto_map", "device", "return_tensors")

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Preprocessor:
    """Pixels for one model.

    Attributes
    ----------
    settings : mapping
        All that the processor does, JSON-ready: a part of the cache key.
    apply : callable
        One RGB image -> named arrays without a batch axis; ``pixel_values`` is float32 ``(channels, rows, columns)``,
        or what a processor that cuts patches itself makes.
    """

    settings: Mapping[str, Any]
    apply: Callable[[Image], Arrays]


def load_preprocessor(
    folder: Path, *, name: str, image_size: int | None = None, trust_remote_code: bool = False
) -> Preprocessor:
    """The image processor of a model folder.

    Parameters
    ----------
    folder : Path
        Holds ``preprocessor_config.json``.
    name : str
        The model, for messages.
    image_size : int, optional
        Side of the square that the model is to see, in pixels, instead of the folder's own.
    trust_remote_code : bool
        Whether a processor that is code in the folder may run.

    Raises
    ------
    ModelError
        There is none, or it cannot be loaded.
    UsageError
        ``image_size`` does not apply to it.
    """
    stated = _stated(folder, name)
    kind = str(stated.get("image_processor_type") or stated.get("feature_extractor_type") or "")
    if kind.removesuffix("Fast") == _DINOV3:
        return _dinov3(stated, image_size, name)
    from transformers import AutoImageProcessor

    try:
        with quiet_transformers():
            processor = AutoImageProcessor.from_pretrained(
                folder, backend="pil", local_files_only=True, trust_remote_code=trust_remote_code
            )
    except load_errors() as error:
        raise ModelError(f"{name}: its image processor cannot be loaded: {error}") from error
    settings = {key: value for key, value in processor.to_dict().items() if key not in _IRRELEVANT}
    overrides = {} if image_size is None else resized(settings, image_size, name)
    settings = json.loads(json.dumps({**settings, **overrides}, default=str))

    def apply(image: Image) -> Arrays:
        features = processor(images=[image], return_tensors="np", **overrides)
        return {key: np.ascontiguousarray(value[0]) for key, value in features.items()}

    return Preprocessor(settings, apply)


def _stated(folder: Path, name: str) -> dict[str, Any]:
    path = folder / _CONFIG
    try:
        stated = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError(
            f"{name}: its folder has no {_CONFIG}, so how images become pixels is unknown",
            hint="Save the model's image processor into it: AutoImageProcessor...save_pretrained(folder).",
        ) from error
    except ValueError as error:
        raise ModelError(f"{name}: {_CONFIG} is not JSON ({error})") from error
    if not isinstance(stated, dict):
        raise ModelError(f"{name}: {_CONFIG} is not a JSON object")
    return stated


def resized(settings: Mapping[str, Any], image_size: int, name: str) -> dict[str, Any]:
    """Overrides that make a processor deliver squares of ``image_size`` pixels, keeping its way of cropping.

    A processor that scales the shortest edge and crops the centre keeps the ratio of the two: 256 -> crop 224 becomes
    ``round(256 / 224 * s)`` -> crop ``s``.

    Raises
    ------
    UsageError
        The processor neither resizes nor crops to a size of its own.
    """
    size, crop = settings.get("size"), settings.get("crop_size")
    edge = size.get("shortest_edge") if isinstance(size, Mapping) else None
    square = {"height": image_size, "width": image_size}
    overrides: dict[str, Any] = {}
    if settings.get("do_resize") and settings.get("do_center_crop") and edge and isinstance(crop, Mapping):
        overrides["size"] = {"shortest_edge": round(edge * image_size / crop["height"])}
    elif settings.get("do_resize") and edge:
        if settings.get("image_processor_type", "").startswith("ConvNext"):  # crops or warps to a square by itself
            overrides["size"] = {"shortest_edge": image_size}
        else:
            overrides["size"] = square
    elif settings.get("do_resize") and isinstance(size, Mapping) and size.get("height"):
        overrides["size"] = square
    if settings.get("do_center_crop"):
        overrides["crop_size"] = square
    if not overrides:
        raise UsageError(
            f"{name}: its image processor has no image size that could be changed", hint="Leave --image-size out."
        )
    return overrides


def _dinov3(stated: Mapping[str, Any], image_size: int | None, name: str) -> Preprocessor:
    """DINOv3: rescale, then bilinear resizing with antialiasing on floats, then crop and normalise (in this order)."""
    import torch

    settings: dict[str, Any] = {
        "image_processor_type": _DINOV3,
        "do_resize": stated.get("do_resize", True),
        "size": stated.get("size") or {"height": 224, "width": 224},
        "resample": stated.get("resample", 2),
        "do_center_crop": bool(stated.get("do_center_crop", False)),
        "crop_size": stated.get("crop_size"),
        "do_rescale": stated.get("do_rescale", True),
        "rescale_factor": stated.get("rescale_factor", 1 / 255),
        "do_normalize": stated.get("do_normalize", True),
        "image_mean": stated.get("image_mean") or [0.485, 0.456, 0.406],
        "image_std": stated.get("image_std") or [0.229, 0.224, 0.225],
    }
    if image_size is not None:
        settings |= resized(settings, image_size, name)
    size = settings["size"]
    modes = {2: "bilinear", 3: "bicubic"}
    if settings["resample"] not in modes or (
        settings["do_resize"] and not ({"height", "width"} <= set(size) or "shortest_edge" in size)
    ):
        raise ModelError(
            f"{name}: resample={settings['resample']} with size={size} is not a way of resizing known for {_DINOV3}"
        )
    mode = modes[settings["resample"]]
    mean = torch.tensor(settings["image_mean"], dtype=torch.float32).view(3, 1, 1)
    std = torch.tensor(settings["image_std"], dtype=torch.float32).view(3, 1, 1)

    def target(height: int, width: int) -> tuple[int, int]:
        if "shortest_edge" not in size:
            return size["height"], size["width"]
        edge = size["shortest_edge"]
        return (edge, int(edge * width / height)) if height <= width else (int(edge * height / width), edge)

    def apply(image: Image) -> Arrays:
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()
        pixels = pixels.float() * settings["rescale_factor"] if settings["do_rescale"] else pixels.float()
        if settings["do_resize"]:
            wanted = target(*pixels.shape[1:])
            pixels = torch.nn.functional.interpolate(
                pixels[None], size=wanted, mode=mode, align_corners=False, antialias=True
            )[0]
        if settings["do_center_crop"]:
            pixels = _centre(pixels, settings["crop_size"])
        if settings["do_normalize"]:
            pixels = (pixels - mean) / std
        return {"pixel_values": pixels.numpy()}

    return Preprocessor(settings, apply)


def _centre(pixels: Any, crop: Mapping[str, int]) -> Any:
    import torch

    short = [max(0, crop[side] - have) for side, have in zip(("height", "width"), pixels.shape[1:], strict=True)]
    if any(short):  # smaller than the crop: zeros around it, as the other processors do
        pixels = torch.nn.functional.pad(
            pixels, (short[1] // 2, short[1] - short[1] // 2, short[0] // 2, short[0] - short[0] // 2)
        )
    top, left = (pixels.shape[1] - crop["height"]) // 2, (pixels.shape[2] - crop["width"]) // 2
    return pixels[:, top : top + crop["height"], left : left + crop["width"]].contiguous()
