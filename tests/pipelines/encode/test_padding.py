"""Batches filled up on the left or on the right give the states of one text at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from optotype.pipelines.encode import encode_texts
from optotype.pipelines.encode.loading import locate, torch_state
from optotype.pipelines.encode.pooling import TEXT_POOLINGS
from optotype.pipelines.encode.text import LanguageModel, load_language_model
from optotype.schemas.errors import InvalidDataError, ModelError, UsageError
from optotype.schemas.sources import parse_source
from optotype.store.states import open_states

Folders = Callable[..., Path]
TEXTS = ["a dog", "the red cat sees a small house under seven blue hills", "tree", "unheard words with a big tree"]


def loaded(folder: Path, **options: Any) -> LanguageModel:
    return load_language_model(locate(parse_source(str(folder))), **options)


def with_eos(folder: Path, target: Path, template: str = "$A [END]") -> Path:
    """A copy of a tiny model whose tokenizer puts its end-of-sequence token behind every text."""
    import shutil

    from tokenizers import processors

    shutil.copytree(folder, target)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[("[END]", tokenizer.convert_tokens_to_ids("[END]"))]
    )
    tokenizer.save_pretrained(target)
    return target


def test_a_batch_padded_on_the_left_gives_the_states_of_single_texts(language: str, text_folder: Folders) -> None:
    """Rotary, absolute and relative positions, causal and masked models; `test_text` has padding on the right."""
    folder = text_folder(language)
    alone, together = loaded(folder), loaded(folder, padding="left")
    with torch_state(1):
        for pooling in TEXT_POOLINGS:
            for layer in range(alone.layers):
                expected = np.concatenate([alone.states([text], layer, pooling) for text in TEXTS])
                got = together.states(TEXTS, layer, pooling)
                np.testing.assert_allclose(got, expected, rtol=0, atol=2e-5 * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_model_that_counts_from_the_padding_is_refused(
    family: str, text_folder: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a family without a way to give positions would do: absolute positions shift, and that is seen."""
    monkeypatch.setattr(LanguageModel, "_counts_positions", lambda self: False)
    with pytest.raises(ModelError, match="padding on the left changes its states") as caught:
        loaded(text_folder(family), padding="left")
    assert "leave --padding out" in str(caught.value.hint)
    loaded(text_folder(family))
    loaded(text_folder("t5"), padding="left")  # knows relative positions alone


@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen3"])
def test_the_last_token_before_the_end(family: str, padding: Any, text_folder: Folders, tmp_path: Path) -> None:
    folder = with_eos(text_folder(family), tmp_path / "eos")
    model = loaded(folder, padding=padding)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    plainly = transformers.AutoModel.from_pretrained(folder).eval()
    with torch_state(1):
        got = model.states(TEXTS, 2, "last-before-eos")
        last = model.states(TEXTS, 2, "last")
    for i, text in enumerate(TEXTS):
        ids = tokenizer(text)["input_ids"]
        assert ids[-1] == tokenizer.eos_token_id
        with torch.no_grad():
            tokens = plainly(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states[2][0].numpy()
        np.testing.assert_allclose(got[i], tokens[-2], rtol=0, atol=2e-5 * max(1, np.abs(tokens).max()))
        np.testing.assert_allclose(last[i], tokens[-1], rtol=0, atol=2e-5 * max(1, np.abs(tokens).max()))
    # causal: the token before the end has not seen the end, so that it is the last of a tokenizer that adds none
    with torch_state(1):
        bare = loaded(text_folder(family)).states(TEXTS, 2, "last")
    if family != "llama":  # whose own tokenizer begins with a special token
        np.testing.assert_allclose(got, bare, rtol=0, atol=2e-5 * max(1, np.abs(bare).max()))


def test_a_text_that_is_its_end_alone_is_refused(project: Any, text_folder: Folders, tmp_path: Path) -> None:
    folder = with_eos(text_folder("qwen3"), tmp_path / "eos")
    table = tmp_path / "texts.csv"
    table.write_text("id,text\na,a dog\nb,[END]\nc,[END] [END]\n")
    with pytest.raises(InvalidDataError) as caught:
        encode_texts(project, "ends", table, str(folder), threads=1, pooling="last-before-eos")
    assert [(problem.where, problem.kind) for problem in caught.value.problems] == [
        ("b", "only-eos"),
        ("c", "only-eos"),
    ]
    with pytest.raises(InvalidDataError) as caught:  # one token is all that is read, and that is the end
        loaded(folder, max_length=1).check(["a"], ["a dog"], "last-before-eos")
    assert [problem.kind for problem in caught.value.problems] == ["only-eos"]
    assert loaded(folder, max_length=1).check(["a"], ["a dog"], "last") == [True]


def test_a_tokenizer_without_an_end_has_none_to_leave_out(text_folder: Folders, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "bert"
    shutil.copytree(text_folder("bert"), folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    del settings["eos_token"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(UsageError, match="names no end-of-sequence token") as caught:
        loaded(folder).check(["a"], ["a dog"], "last-before-eos")
    assert "--pooling last" in str(caught.value.hint)


def test_both_sides_make_the_same_array(project: Any, text_folder: Folders, tmp_path: Path) -> None:
    table = tmp_path / "texts.csv"
    table.write_text("id,text\n" + "".join(f"t{i},{text}\n" for i, text in enumerate(TEXTS)))
    arrays = [
        encode_texts(
            project,
            f"{padding}-hand",
            table,
            str(text_folder("gpt2")),
            threads=1,
            batch_size=3,
            pooling="last",
            padding=padding,
        )
        for padding in ("right", "left")
    ]
    right, left = (open_states(array.path) for array in arrays)
    np.testing.assert_allclose(left["states"].values, right["states"].values, rtol=0, atol=2e-5)
    assert left.attrs["padding"] == "left"
    assert arrays[0].manifest.key != arrays[1].manifest.key
