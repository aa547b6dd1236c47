"""Language models against transformers called on one text alone, pooled by hand."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from optotype.pipelines.encode.loading import locate, torch_state
from optotype.pipelines.encode.text import POOLINGS, LanguageModel, load_language_model, pool
from optotype.schemas.errors import InvalidDataError, ModelError, NotFoundError, UsageError
from optotype.schemas.sources import parse_source

Folders = Callable[..., Path]
TEXTS = ["a dog", "the red cat sees a small house under seven blue hills", "tree", "unheard words with a big tree"]


def loaded(folder: Path, **options: Any) -> LanguageModel:
    return load_language_model(locate(parse_source(str(folder))), **options)


@functools.cache
def plainly(folder: Path, name: str) -> tuple[Any, Any]:
    """Tokenizer and model as anyone would load them; Llama with its head, as a second route."""
    classes = {"t5": "T5EncoderModel", "llama": "LlamaForCausalLM"}
    model = getattr(transformers, classes.get(name, "AutoModel")).from_pretrained(folder).eval()
    return transformers.AutoTokenizer.from_pretrained(folder), model


def by_hand(folder: Path, name: str, text: str, layer: int, pooling: str) -> np.ndarray:
    """One text, no padding, no batch."""
    tokenizer, model = plainly(folder, name)
    ids = tokenizer(text)["input_ids"]
    with torch.no_grad():
        output = model(input_ids=torch.tensor([ids]), output_hidden_states=True)
    tokens = output.hidden_states[layer][0].numpy()
    if pooling == "mean":
        total = np.zeros(tokens.shape[1])
        for token in tokens:
            total += token
        return total / len(tokens)
    return tokens[0] if pooling == "cls" else tokens[-1]


@pytest.mark.parametrize("padding_side", ["right", "left"])
def test_states_are_the_models_own(language: str, padding_side: str, text_folder: Folders) -> None:
    folder = text_folder(language, padding_side)
    model = loaded(folder)
    assert model.layers == 4
    with torch_state(1):
        for pooling in POOLINGS:
            for layer in (1, 2, 3):
                states = model.states(TEXTS, layer, pooling)
                for state, text in zip(states, TEXTS, strict=True):
                    expected = by_hand(folder, language, text, layer, pooling)
                    np.testing.assert_allclose(state, expected, rtol=0, atol=2e-5 * max(1, np.abs(expected).max()))


def test_a_batch_of_one_gives_the_same_states(language: str, text_folder: Folders) -> None:
    model = loaded(text_folder(language))
    with torch_state(1):
        together = model.states(TEXTS, 2, "mean")
        alone = np.concatenate([model.states([text], 2, "mean") for text in TEXTS])
    np.testing.assert_allclose(together, alone, rtol=0, atol=2e-5)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_pooling_sees_real_tokens_only(pooling: Any, side: str) -> None:
    rng = np.random.default_rng(5)
    lengths = [1, 4, 7, 7, 2]
    states = np.full((5, 7, 3), np.nan, dtype=np.float32)  # padding holds NaN: nothing of it may leak
    mask = np.zeros((5, 7), dtype=np.int64)
    expected = []
    for i, length in enumerate(lengths):
        real = rng.normal(size=(length, 3)).astype(np.float32)
        place = slice(0, length) if side == "right" else slice(7 - length, 7)
        states[i, place], mask[i, place] = real, 1
        expected.append({"mean": real.astype(np.float64).mean(axis=0), "last": real[-1], "cls": real[0]}[pooling])
    pooled = pool(states, mask, pooling)
    assert pooled.dtype == np.float32
    np.testing.assert_allclose(pooled, np.array(expected), rtol=0, atol=1e-7)


def test_types_of_tokens_do_not_reach_models_without_them(text_folder: Folders, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "gpt2"
    shutil.copytree(text_folder("gpt2"), folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["model_input_names"] = ["input_ids", "token_type_ids"]  # and no attention mask
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    with torch_state(1):
        got = loaded(folder).states(TEXTS, 2, "last")
        np.testing.assert_array_equal(got, loaded(text_folder("gpt2")).states(TEXTS, 2, "last"))


def test_layers_count_from_both_ends(text_folder: Folders) -> None:
    model = loaded(text_folder("bert"))
    assert [model.layer(layer) for layer in (-4, -2, -1, 0, 3)] == [0, 2, 3, 0, 3]
    for layer in (-5, 4):
        with pytest.raises(UsageError, match=rf"there is no layer {layer}: -4 to 3"):
            model.layer(layer)


def test_long_texts_are_cut_and_counted(text_folder: Folders) -> None:
    folder = text_folder("bert")  # 16 positions
    model = loaded(folder)
    long = " ".join(["dog cat"] * 20)
    assert model.max_length == 16
    assert model.check(["a", "b"], ["a dog", long]) == [False, True]
    with torch_state(1):
        cut = model.states([long], 2, "last")
    # [CLS], fourteen words, [SEP]
    same = by_hand(folder, "bert", " ".join(["dog cat"] * 7), 2, "last")
    np.testing.assert_allclose(cut[0], same, atol=1e-5)


def test_positions_that_start_behind_padding_shorten_the_limit(text_folder: Folders) -> None:
    model = loaded(text_folder("roberta"))
    assert model.max_length == 14  # 16 positions, of which 0 and 1 belong to padding
    with torch_state(1):
        assert np.isfinite(model.states(["dog " * 30], 2, "mean")).all()


def test_a_limit_can_be_asked_for(text_folder: Folders) -> None:
    assert loaded(text_folder("bert"), max_length=5).max_length == 5
    with pytest.raises(UsageError, match="this model reads 1 to 16 tokens"):
        loaded(text_folder("bert"), max_length=17)


def test_texts_without_tokens_are_all_listed(text_folder: Folders) -> None:
    model = loaded(text_folder("gpt2"))
    with pytest.raises(InvalidDataError) as caught:
        model.check(["a", "b", "c", "d"], ["dog", "  ", "", "cat"])
    assert [problem.where for problem in caught.value.problems] == ["b", "c"]


def test_missing_weights_are_not_made_up(text_folder: Folders, tmp_path: Path) -> None:
    import shutil

    from safetensors.torch import load_file, save_file

    folder = tmp_path / "model"
    shutil.copytree(text_folder("bert"), folder)
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(
        ModelError, match=r"1 weights are not in its files \(encoder\.layer\.1\.output\.dense\.weight\)"
    ):
        loaded(folder)


def test_a_vision_model_is_not_a_language_model(vision_folder: Folders, text_folder: Folders, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "vit"
    shutil.copytree(vision_folder("vit"), folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(text_folder("bert") / name, folder)
    with pytest.raises(ModelError, match="does not turn text alone into hidden states"):
        loaded(folder)


def write_gguf(path: Path, *, tied: bool = False, heads: int = 2, width: int = 16) -> dict[str, np.ndarray]:
    """A two-block Llama with a byte-level vocabulary, as llama.cpp lays it out."""
    import gguf

    rng = np.random.default_rng(3)
    tokens = ["<unk>", "<s>", "</s>", *(chr(c) for c in range(97, 123)), "Ġ", "do", "dog"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(32)
    writer.add_embedding_length(width)
    writer.add_block_count(2)
    writer.add_feed_forward_length(24)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_rope_dimension_count(width // heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3, *[1] * (len(tokens) - 3)])
    writer.add_token_merges(["d o", "do g"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    shapes = {
        "token_embd.weight": (len(tokens), width),
        "output_norm.weight": (width,),
        "output.weight": (len(tokens), width),
    }
    if tied:
        del shapes["output.weight"]
    for block in range(2):
        for part in ("q", "k", "v", "output"):
            shapes[f"blk.{block}.attn_{part}.weight"] = (width, width)
        shapes[f"blk.{block}.attn_norm.weight"] = shapes[f"blk.{block}.ffn_norm.weight"] = (width,)
        shapes[f"blk.{block}.ffn_gate.weight"] = shapes[f"blk.{block}.ffn_up.weight"] = (24, width)
        shapes[f"blk.{block}.ffn_down.weight"] = (width, 24)
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    for name, value in weights.items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


@pytest.mark.parametrize("tied", [False, True])
def test_a_gguf_file_is_read(tied: bool, tmp_path: Path) -> None:
    weights = write_gguf(tmp_path / "tiny.gguf", tied=tied)
    model = loaded(tmp_path)
    assert model.layers == 3
    assert type(model._model).__name__ == "LlamaModel"  # no head
    with torch_state(1):
        states = model.states(["dog dog", "a"], 0, "last")
    dog = weights["token_embd.weight"][-1]
    np.testing.assert_allclose(states[0], dog, atol=1e-6)
    with torch_state(1):
        assert np.isfinite(model.states(["dog dog", "a"], 2, "mean")).all()


def test_several_gguf_files_need_a_choice(tmp_path: Path) -> None:
    write_gguf(tmp_path / "one.gguf")
    write_gguf(tmp_path / "two.gguf")
    with pytest.raises(UsageError, match=r"2 GGUF files: one\.gguf, two\.gguf"):
        loaded(tmp_path)
    assert loaded(tmp_path, gguf_file="two.gguf").layers == 3
    with pytest.raises(NotFoundError, match=r"no file 'three\.gguf'"):
        loaded(tmp_path, gguf_file="three.gguf")


def test_pickled_weights_are_read_with_weights_only(text_folder: Folders, tmp_path: Path) -> None:
    import shutil

    from safetensors.torch import load_file

    folder = tmp_path / "model"
    shutil.copytree(text_folder("bert"), folder)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    with torch_state(1):
        from_bin = loaded(folder).states(TEXTS, 2, "mean")
        np.testing.assert_array_equal(from_bin, loaded(text_folder("bert")).states(TEXTS, 2, "mean"))

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.write_text, (tmp_path / "ran", "code ran"))

    torch.save({**weights, "evil": Evil()}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="cannot be loaded"):
        loaded(folder)
    assert not (tmp_path / "ran").exists()


def test_code_in_a_folder_is_not_run_unasked(text_folder: Folders, tmp_path: Path) -> None:
    config = {"model_type": "homemade", "auto_map": {"AutoConfig": "code.Config", "AutoModel": "code.Model"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(ModelError, match="not run unless asked for") as caught:
        loaded(tmp_path)
    assert "--trust-remote-code" in str(caught.value.hint)
    assert not (tmp_path / "ran").exists()
