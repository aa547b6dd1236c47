"""Pictures of every mode become upright RGB on white; broken files are all listed at once."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from optotype.pipelines.encode.images import open_image, scan_images, to_rgb
from optotype.schemas.errors import IntegrityError, InvalidDataError


def pixels(image: Image.Image) -> np.ndarray:
    return np.asarray(image)


def test_transparency_is_put_on_white() -> None:
    image = Image.new("RGBA", (3, 1))
    image.putdata([(255, 0, 0, 255), (0, 0, 0, 0), (0, 0, 255, 51)])
    assert pixels(to_rgb(image))[0].tolist() == [[255, 0, 0], [255, 255, 255], [204, 204, 255]]


def test_grey_with_alpha_and_premultiplied_alpha() -> None:
    grey = Image.new("LA", (1, 1), (0, 51))
    assert pixels(to_rgb(grey)).tolist() == [[[204, 204, 204]]]
    premultiplied = Image.new("RGBA", (1, 1), (255, 0, 0, 255)).convert("RGBa")
    assert pixels(to_rgb(premultiplied)).tolist() == [[[255, 0, 0]]]


def test_palettes_with_a_transparent_colour() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 0])
    image.putdata([0, 1])
    file = io.BytesIO()
    image.save(file, "PNG", transparency=0)
    assert pixels(to_rgb(Image.open(file))).tolist() == [[[255, 255, 255], [200, 100, 0]]]
    opaque = io.BytesIO()
    image.save(opaque, "PNG")
    assert pixels(to_rgb(Image.open(opaque))).tolist() == [[[10, 20, 30], [200, 100, 0]]]


def test_grey_black_and_white_and_cmyk() -> None:
    assert pixels(to_rgb(Image.new("L", (1, 1), 77))).tolist() == [[[77, 77, 77]]]
    assert pixels(to_rgb(Image.new("1", (1, 1), 1))).tolist() == [[[255, 255, 255]]]
    assert pixels(to_rgb(Image.new("CMYK", (1, 1), (0, 0, 0, 0)))).tolist() == [[[255, 255, 255]]]


def test_sixteen_bit_grey_keeps_its_range() -> None:
    deep = Image.fromarray(np.array([[0, 257 * 100, 65535]], dtype=np.uint16))
    assert pixels(to_rgb(deep))[0, :, 0].tolist() == [0, 100, 255]


def test_pixels_without_a_known_white_are_refused() -> None:
    with pytest.raises(ValueError, match="floating-point pixels"):
        to_rgb(Image.new("F", (1, 1), 0.5))
    with pytest.raises(ValueError, match="32-bit pixels from 70000 to 70000"):
        to_rgb(Image.new("I", (1, 1), 70000))


def test_exif_orientation_is_applied(tmp_path: Path) -> None:
    image = Image.new("RGB", (2, 1))
    image.putdata([(255, 0, 0), (0, 0, 255)])
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    image.save(tmp_path / "turned.png", exif=exif)
    turned = open_image(tmp_path / "turned.png")
    assert turned.size == (1, 2)
    assert pixels(turned)[:, 0].tolist() == [[255, 0, 0], [0, 0, 255]]


def test_a_file_that_changed_is_noticed(tmp_path: Path) -> None:
    Image.new("RGB", (2, 2)).save(tmp_path / "a.png")
    with pytest.raises(IntegrityError, match="changed while it was being encoded"):
        open_image(tmp_path / "a.png", "0" * 64)


def test_all_broken_files_come_in_one_error(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8))
    for name, kind in (("good", "PNG"), ("cut-png", "PNG"), ("cut-jpeg", "JPEG"), ("bits", "PNG")):
        noise.save(tmp_path / name, kind)
    for name in ("cut-png", "cut-jpeg"):
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(data[: len(data) // 2])
    flipped = bytearray((tmp_path / "bits").read_bytes())
    flipped[len(flipped) // 2] ^= 0xFF
    (tmp_path / "bits").write_bytes(flipped)
    (tmp_path / "text").write_text("not an image")
    (tmp_path / "empty").write_bytes(b"")
    names = ["good", "cut-png", "text", "good", "empty", "cut-jpeg", "absent", "bits"]
    with pytest.raises(InvalidDataError, match="6 of 8 images cannot be read; nothing was encoded") as caught:
        scan_images([f"id-{name}" for name in names], [tmp_path / name for name in names], threads=2)
    where = [problem.where.split(" ")[0] for problem in caught.value.problems]
    assert where == ["id-cut-png", "id-text", "id-empty", "id-cut-jpeg", "id-absent", "id-bits"]
    kinds = {problem.where.split(" ")[0]: problem.kind for problem in caught.value.problems}
    assert kinds["id-absent"] == "image-missing"
    assert kinds["id-cut-png"] == "image-unreadable"
    assert " at 0x" not in str(caught.value)
    messages = {problem.where.split(" ")[0]: problem.message for problem in caught.value.problems}
    assert messages["id-text"] == "not an image, or damaged beyond recognition"
    assert messages["id-empty"] == "the file is empty"
    assert "remove their rows" in str(caught.value.hint)


def test_a_decompression_bomb_is_a_problem_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("RGB", (40, 40)).save(tmp_path / "big.png")
    monkeypatch.setattr("PIL.Image.MAX_IMAGE_PIXELS", 100)
    with pytest.raises(InvalidDataError) as caught:
        scan_images(["big"], [tmp_path / "big.png"])
    assert caught.value.problems[0].kind == "image-too-large"
