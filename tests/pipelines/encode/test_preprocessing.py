"""Image processors: what a folder says, another size, and DINOv3's without torchvision."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import transformers
from PIL import Image

from optotype.pipelines.encode.preprocessing import load_preprocessor, resized
from optotype.schemas.errors import ModelError, UsageError

Folders = Callable[[str], Path]


def test_pixels_are_the_processors_own(vision_folder: Folders, pictures: list[Image.Image]) -> None:
    for name, kind in (
        ("vit", "ViTImageProcessorPil"),
        ("clip", "CLIPImageProcessorPil"),
        ("siglip2", "Siglip2ImageProcessorPil"),
    ):
        folder = vision_folder(name)
        ours = load_preprocessor(folder, name=name).apply(pictures[0])
        theirs = getattr(transformers, kind).from_pretrained(folder)(pictures[0], return_tensors="np")
        assert set(ours) == set(theirs)
        for key, value in ours.items():
            np.testing.assert_array_equal(value, theirs[key][0])


def test_the_size_is_a_part_of_the_settings(vision_folder: Folders, pictures: list[Image.Image]) -> None:
    own = load_preprocessor(vision_folder("clip"), name="clip")
    larger = load_preprocessor(vision_folder("clip"), name="clip", image_size=64)
    assert own.apply(pictures[0])["pixel_values"].shape == (3, 32, 32)
    assert larger.apply(pictures[0])["pixel_values"].shape == (3, 64, 64)
    assert own.settings != larger.settings
    assert larger.settings["size"] == {"shortest_edge": 80}  # 40 to 32 is 80 to 64
    json.dumps(dict(larger.settings), allow_nan=False)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"do_resize": True, "size": {"height": 224, "width": 224}}, {"size": {"height": 50, "width": 50}}),
        ({"do_resize": True, "size": {"shortest_edge": 224}}, {"size": {"height": 50, "width": 50}}),
        (
            {
                "do_resize": True,
                "size": {"shortest_edge": 256},
                "do_center_crop": True,
                "crop_size": {"height": 224, "width": 224},
            },
            {"size": {"shortest_edge": 57}, "crop_size": {"height": 50, "width": 50}},
        ),
        (
            {"do_resize": True, "size": {"shortest_edge": 384}, "image_processor_type": "ConvNextImageProcessor"},
            {"size": {"shortest_edge": 50}},
        ),
    ],
)
def test_how_a_size_is_overridden(settings: dict[str, object], expected: dict[str, object]) -> None:
    assert resized(settings, 50, "model") == expected


def test_a_processor_without_a_size_takes_none(vision_folder: Folders) -> None:
    with pytest.raises(UsageError, match="no image size that could be changed"):
        load_preprocessor(vision_folder("siglip2"), name="siglip2", image_size=64)


def triangle(pixels: np.ndarray, size: int) -> np.ndarray:
    """Bilinear resampling of the first axis with antialiasing, by the definition: a triangle over one output pixel."""
    length = len(pixels)
    scale = max(1.0, length / size)
    rows = []
    for i in range(size):
        centre = (i + 0.5) * length / size
        low, high = max(0, math.floor(centre - scale + 0.5)), min(length, math.floor(centre + scale + 0.5))
        weights = np.array([max(0.0, 1 - abs((j + 0.5 - centre) / scale)) for j in range(low, high)])
        rows.append(np.tensordot(weights / weights.sum(), pixels[low:high].astype(np.float64), axes=1))
    return np.array(rows)


def test_dinov3_is_resized_by_the_definition(vision_folder: Folders, pictures: list[Image.Image]) -> None:
    apply = load_preprocessor(vision_folder("dinov3_vit"), name="dinov3").apply
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    for image in pictures:
        values = np.asarray(image) / 255
        square = triangle(triangle(values, 32).swapaxes(0, 1), 32).swapaxes(0, 1)
        expected = ((square - mean) / std).transpose(2, 0, 1)
        np.testing.assert_allclose(apply(image)["pixel_values"], expected, atol=2e-5)


def test_dinov3_crops_and_pads_the_centre(tmp_path: Path) -> None:
    stated = {
        "image_processor_type": "DINOv3ViTImageProcessorFast",
        "do_resize": False,
        "do_normalize": False,
        "do_center_crop": True,
        "crop_size": {"height": 4, "width": 2},
    }
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(stated))
    image = Image.fromarray(np.arange(2 * 6 * 3, dtype=np.uint8).reshape(2, 6, 3))
    got = load_preprocessor(tmp_path, name="dinov3").apply(image)["pixel_values"]
    assert got.shape == (3, 4, 2)
    np.testing.assert_allclose(got[:, 1:3] * 255, np.asarray(image).transpose(2, 0, 1)[:, :, 2:4], atol=1e-4)
    assert (got[:, [0, 3]] == 0).all()


def test_a_folder_without_a_processor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no preprocessor_config\.json"):
        load_preprocessor(tmp_path, name="model")
    (tmp_path / "preprocessor_config.json").write_text("[")
    with pytest.raises(ModelError, match="not JSON"):
        load_preprocessor(tmp_path, name="model")
