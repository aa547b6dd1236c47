"""The conformance check of plug-ins: a good one passes, each way of being wrong is named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image

from optotype.pipelines.encode.protocol import VisionEncoder, encoder_problems, output_problems


class Means:
    """Mean colours of an image's quarters (final), and of its halves (layer 0)."""

    layers = 1

    def preprocess(self, images: Sequence[Image.Image]) -> list[np.ndarray]:
        return [np.asarray(image, dtype=np.float32) / 255 for image in images]

    def encode(self, batch: list[np.ndarray], layers: Sequence[int | None]) -> list[list[np.ndarray]]:
        return [[self.tokens(pixels, layer) for pixels in batch] for layer in layers]

    def tokens(self, pixels: np.ndarray, layer: int | None) -> np.ndarray:
        halves = np.array_split(pixels, 2)
        if layer == 0:
            return np.array([half.mean(axis=(0, 1)) for half in halves])
        return np.array([[part.mean(axis=(0, 1)) for part in np.array_split(half, 2, axis=1)] for half in halves])


class NoLayers(Means):
    layers = True  # type: ignore[assignment]


class NoEncode(Means):
    encode = None  # type: ignore[assignment]


class OddPreprocessing(Means):
    preprocessing = "resize"


class NotJson(Means):
    preprocessing: ClassVar = {"mean": np.ones(3)}


class TooFewLayers(Means):
    def encode(self, batch: list[np.ndarray], layers: Sequence[int | None]) -> list[list[np.ndarray]]:
        return super().encode(batch, layers)[:1]


class LosesImages(Means):
    def encode(self, batch: list[np.ndarray], layers: Sequence[int | None]) -> list[list[np.ndarray]]:
        return [arrays[1:] for arrays in super().encode(batch, layers)]


class Integers(Means):
    def tokens(self, pixels: np.ndarray, layer: int | None) -> np.ndarray:
        return super().tokens(pixels, layer).astype(int)


class Pooled(Means):
    def tokens(self, pixels: np.ndarray, layer: int | None) -> np.ndarray:
        return pixels.mean(axis=(0, 1))


class NoTokens(Means):
    def tokens(self, pixels: np.ndarray, layer: int | None) -> np.ndarray:
        return np.zeros((0, 3), dtype=np.float32)


class OddWidths(Means):
    def tokens(self, pixels: np.ndarray, layer: int | None) -> np.ndarray:
        return np.ones((2, pixels.shape[0]), dtype=np.float32)


class NotANumber(Means):
    def tokens(self, pixels: np.ndarray, layer: int | None) -> np.ndarray:
        return super().tokens(pixels, layer) * np.nan


class Moody(Means):
    calls = 0

    def tokens(self, pixels: np.ndarray, layer: int | None) -> np.ndarray:
        self.calls += 1
        return super().tokens(pixels, layer) + self.calls


class Mixes(Means):
    def encode(self, batch: list[np.ndarray], layers: Sequence[int | None]) -> list[list[np.ndarray]]:
        return super().encode([pixels + batch[0].mean() for pixels in batch], layers)


class Shuffles(Means):
    def encode(self, batch: list[np.ndarray], layers: Sequence[int | None]) -> list[list[np.ndarray]]:
        return super().encode(batch[::-1], layers)


class LayersChangeTheFinal(Means):
    def encode(self, batch: list[np.ndarray], layers: Sequence[int | None]) -> list[list[np.ndarray]]:
        shift = 1e-4 * (len(layers) - 1)
        return [[array + np.float32(shift) for array in arrays] for arrays in super().encode(batch, layers)]


def test_a_good_encoder_has_no_problems(pictures: list[Image.Image]) -> None:
    assert isinstance(Means(), VisionEncoder)
    assert encoder_problems(Means(), pictures) == []


@pytest.mark.parametrize(
    ("encoder", "kind", "words"),
    [
        (object(), "encoder-method", "object has no method preprocess"),
        (NoLayers(), "encoder-layers", "an int >= 0, got True"),
        (NoEncode(), "encoder-method", "NoEncode has no method encode"),
        (OddPreprocessing(), "encoder-preprocessing", "a mapping or absent, got str"),
        (NotJson(), "encoder-preprocessing", "holds what JSON cannot"),
        (TooFewLayers(), "encoder-output", "one entry per layer (2), got list of length 1"),
        (LosesImages(), "encoder-output", "one array per image (5), got list of length 4"),
        (Integers(), "encoder-output", "a NumPy array of floats, got ndarray of int64"),
        (Pooled(), "encoder-output", "(tokens, channels) or (rows, columns, channels)"),
        (NoTokens(), "encoder-output", "none of them 0, got (0, 3)"),
        (OddWidths(), "encoder-output", "one number of channels for all images"),
        (NotANumber(), "encoder-finite", "NaN or infinite"),
        (Moody(), "encoder-repeat", "two runs gave different numbers"),
        (Mixes(), "encoder-batch", "depend on the other images"),
        (Shuffles(), "encoder-batch", "or on their order"),
        (LayersChangeTheFinal(), "encoder-layers", "when hidden states are asked for beside it"),
    ],
)
def test_each_fault_is_named(encoder: Any, kind: str, words: str, pictures: list[Image.Image]) -> None:
    problems = encoder_problems(encoder, pictures)
    assert any(problem.kind == kind and words in problem.message for problem in problems)


def test_the_output_may_not_be_one_array() -> None:
    [problem] = output_problems(np.zeros((1, 2, 3)), images=2, layers=[None], where="m")
    assert "got ndarray" in problem.message
