"""The default project's own weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from optotype.pipelines.encode import encode_images, encode_texts, encoder_problems
from optotype.pipelines.encode.loading import locate, torch_state
from optotype.pipelines.encode.vision import load_plugin, plan_vision
from optotype.schemas.sources import parse_source
from optotype.store.features import open_features
from optotype.store.states import open_states

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.mark.parametrize(
    ("name", "layers", "grid", "channels"),
    [("vit-s14-focus", 13, (16, 16), 384), ("mobilenet-v2", 16, (7, 7), 1280)],
)
def test_vision_folders(
    name: str,
    layers: int,
    grid: tuple[int, int],
    channels: int,
    pictures: list[Image.Image],
    real_model: Callable[[str], Path],
) -> None:
    encoder = plan_vision(locate(parse_source(str(real_model(name))))).load()
    assert encoder.layers == layers
    with torch_state(1):
        final, hidden = encoder.encode(encoder.preprocess(pictures[:2]), [None, 8])
    assert [tokens.shape for tokens in final] == [(*grid, channels)] * 2
    assert all(np.isfinite(tokens).all() for tokens in (*final, *hidden))
    assert not np.allclose(final[0], final[1], atol=1e-2)


def test_efficientnet_lite_is_a_conforming_plugin(
    pictures: list[Image.Image], real_model: Callable[[str], Path]
) -> None:
    folder = real_model("efficientnet-lite0")
    source = f"python:optotype.pipelines.emoji.efficientnet_lite_encoder:load@{folder}"
    encoder = load_plugin(locate(parse_source(source)))
    with torch_state(1):
        assert encoder_problems(encoder, pictures[:2]) == []
        [tokens] = encoder.encode(encoder.preprocess(pictures[:2]), [None])
    assert tokens[0].shape == (7, 7, 1280)


@pytest.mark.parametrize(("name", "layers", "width"), [("minilm-l6", 7, 384), ("smollm2-135m", 31, 576)])
def test_language_models(
    name: str, layers: int, width: int, project: Any, tmp_path: Path, real_model: Callable[[str], Path]
) -> None:
    folder = real_model(name)
    texts = {"a": "grinning face", "b": "flag of a country that has a long name, a very long name", "c": "cat"}
    table = tmp_path / "texts.csv"
    table.write_text("id,text\n" + "".join(f'{key},"{text}"\n' for key, text in texts.items()))
    array = encode_texts(project, "states", table, str(folder), threads=1)
    states = open_states(array.path)["states"].values
    assert states.shape == (3, width)
    gguf = {"gguf_file": next(folder.glob("*.gguf")).name} if any(folder.glob("*.gguf")) else {}
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **gguf)
    loader = transformers.AutoModel if not gguf else transformers.AutoModelForCausalLM
    model = loader.from_pretrained(folder, dtype=torch.float32, **gguf).eval()
    for state, text in zip(states, texts.values(), strict=True):
        with torch.no_grad():
            output = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
        assert len(output.hidden_states) == layers
        expected = output.hidden_states[-2][0].numpy().mean(axis=0)
        np.testing.assert_allclose(state, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


def test_features_do_not_depend_on_the_batch_size(
    project: Any, image_table: Path, real_model: Callable[[str], Path]
) -> None:
    source = str(real_model("mobilenet-v2"))
    arrays = [
        encode_images(project, f"m{size}", image_table, source, batch_size=size, dtype="float32", threads=1)[0]
        for size in (1, 7)
    ]
    one, seven = (open_features(array.path)["patches"].values for array in arrays)
    np.testing.assert_allclose(one, seven, rtol=0, atol=1e-4 * np.abs(one).max())
