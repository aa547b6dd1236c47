"""Tiny models of every family, built from configurations with seeded weights and saved as Hugging Face folders."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before anything imports huggingface_hub: no test reaches for a network

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

SIDE = 32  # pixels that the tiny models see
_SQUARE = {"size": {"height": SIDE, "width": SIDE}}
_CROPPED = {"size": {"shortest_edge": 40}, "crop_size": {"height": SIDE, "width": SIDE}, "do_center_crop": True}
_VIT = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
_TOWER = {**_VIT, "image_size": SIDE, "patch_size": 8}
_TEXT = {
    **_VIT,
    "vocab_size": 40,
    "max_position_embeddings": 12,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
}
_STAGES = {"depths": [1, 1, 1], "hidden_sizes": [8, 12, 16]}

# name -> (configuration class, its arguments, model class to save, image processor, its arguments)
VISION: dict[str, tuple[str, dict[str, Any], str, str, dict[str, Any]]] = {
    "vit": ("ViTConfig", _TOWER, "ViTModel", "ViTImageProcessorPil", _SQUARE),
    "vit_classifier": ("ViTConfig", _TOWER, "ViTForImageClassification", "ViTImageProcessorPil", _SQUARE),
    "vit_msn": ("ViTMSNConfig", _TOWER, "ViTMSNModel", "ViTImageProcessorPil", _SQUARE),
    "ijepa": ("IJepaConfig", _TOWER, "IJepaModel", "ViTImageProcessorPil", _SQUARE),
    "deit": ("DeiTConfig", _TOWER, "DeiTModel", "DeiTImageProcessorPil", _CROPPED | _SQUARE),
    "beit": (
        "BeitConfig",
        {**_TOWER, "use_relative_position_bias": True},
        "BeitModel",
        "BeitImageProcessorPil",
        _SQUARE,
    ),
    "data2vec-vision": ("Data2VecVisionConfig", _TOWER, "Data2VecVisionModel", "BeitImageProcessorPil", _SQUARE),
    "dinov2": (
        "Dinov2Config",
        {**_TOWER, "image_size": 48, "mlp_ratio": 2},
        "Dinov2Model",
        "BitImageProcessorPil",
        _CROPPED,
    ),
    "dinov2_with_registers": (
        "Dinov2WithRegistersConfig",
        {**_TOWER, "num_register_tokens": 3, "mlp_ratio": 2},
        "Dinov2WithRegistersModel",
        "BitImageProcessorPil",
        _CROPPED,
    ),
    "dinov3_vit": ("DINOv3ViTConfig", {**_TOWER, "num_register_tokens": 4}, "DINOv3ViTModel", "DINOv3", _SQUARE),
    "dinov3_convnext": (
        "DINOv3ConvNextConfig",
        {"depths": [1, 1, 1, 1], "hidden_sizes": [4, 8, 12, 16]},
        "DINOv3ConvNextModel",
        "DINOv3",
        _SQUARE,
    ),
    "clip": (
        "CLIPConfig",
        {"vision_config": _TOWER, "text_config": _TEXT},
        "CLIPModel",
        "CLIPImageProcessorPil",
        _CROPPED,
    ),
    "clip_vision": ("CLIPVisionConfig", _TOWER, "CLIPVisionModel", "CLIPImageProcessorPil", _CROPPED),
    "metaclip_2": (
        "MetaClip2Config",
        {"vision_config": _TOWER, "text_config": _TEXT},
        "MetaClip2Model",
        "CLIPImageProcessorPil",
        _CROPPED,
    ),
    "siglip": (
        "SiglipConfig",
        {"vision_config": _TOWER, "text_config": _TEXT},
        "SiglipModel",
        "SiglipImageProcessorPil",
        _SQUARE,
    ),
    "aimv2": ("Aimv2VisionConfig", {**_TOWER}, "Aimv2VisionModel", "CLIPImageProcessorPil", _CROPPED),
    "siglip2": (
        "Siglip2Config",
        {"vision_config": {**_VIT, "patch_size": 8, "num_patches": 16}, "text_config": _TEXT},
        "Siglip2Model",
        "Siglip2ImageProcessorPil",
        {"patch_size": 8, "max_num_patches": 16},
    ),
    "convnext": (
        "ConvNextConfig",
        {**_STAGES, "num_stages": 3},
        "ConvNextModel",
        "ConvNextImageProcessorPil",
        {"size": {"shortest_edge": SIDE}},
    ),
    "convnextv2": (
        "ConvNextV2Config",
        {**_STAGES, "num_stages": 3},
        "ConvNextV2Model",
        "ConvNextImageProcessorPil",
        {"size": {"shortest_edge": SIDE}},
    ),
    "mobilenet_v1": (
        "MobileNetV1Config",
        {"depth_multiplier": 0.25},
        "MobileNetV1Model",
        "MobileNetV1ImageProcessorPil",
        _CROPPED,
    ),
    "mobilenet_v2": (
        "MobileNetV2Config",
        {"depth_multiplier": 0.25, "tf_padding": False},
        "MobileNetV2Model",
        "MobileNetV2ImageProcessorPil",
        _CROPPED,
    ),
    "efficientnet": (
        "EfficientNetConfig",
        {"width_coefficient": 0.25, "depth_coefficient": 0.5, "hidden_dim": 320, "image_size": SIDE},
        "EfficientNetModel",
        "EfficientNetImageProcessorPil",
        _SQUARE,
    ),
    "resnet": (
        "ResNetConfig",
        {**_STAGES, "embedding_size": 8, "layer_type": "basic"},
        "ResNetModel",
        "ConvNextImageProcessorPil",
        {"size": {"shortest_edge": SIDE}},
    ),
    "regnet": (
        "RegNetConfig",
        {**_STAGES, "embedding_size": 8, "groups_width": 4},
        "RegNetModel",
        "ConvNextImageProcessorPil",
        {"size": {"shortest_edge": SIDE}},
    ),
    "swin": (
        "SwinConfig",
        {"embed_dim": 8, "depths": [2, 1], "num_heads": [2, 2], "window_size": 3, "image_size": SIDE, "patch_size": 4},
        "SwinModel",
        "ViTImageProcessorPil",
        _SQUARE,
    ),
    "swinv2": (
        "Swinv2Config",
        {"embed_dim": 8, "depths": [2, 1], "num_heads": [2, 2], "window_size": 3, "image_size": SIDE, "patch_size": 4},
        "Swinv2Model",
        "ViTImageProcessorPil",
        _SQUARE,
    ),
}


def build_vision(name: str, folder: Path, **changes: Any) -> Path:
    """Save the tiny model called ``name`` with its image processor; ``changes`` go to the configuration."""
    config_class, arguments, model_class, processor, settings = VISION[name]
    config = getattr(transformers, config_class)(**{**arguments, **changes})
    torch.manual_seed(0)
    model = getattr(transformers, model_class)(config).eval()
    with torch.no_grad():  # spread out what starts as a constant, so that no test passes by symmetry
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        for buffer_name, buffer in model.named_buffers():
            if buffer_name.endswith("running_mean"):
                buffer.add_(0.1 * torch.randn_like(buffer))
    model.save_pretrained(folder)
    if processor == "DINOv3":
        import json

        stated = {"image_processor_type": "DINOv3ViTImageProcessorFast", **settings}
        (folder / "preprocessor_config.json").write_text(json.dumps(stated))
    else:
        getattr(transformers, processor)(**settings).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def vision_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of a tiny vision model by name, built once a session."""
    root = tmp_path_factory.mktemp("vision")

    def get(name: str) -> Path:
        folder = root / name
        return folder if folder.exists() else build_vision(name, folder)

    return get


def picture(seed: int, width: int = 50, height: int = 40) -> Image.Image:
    """Smooth random colours: resampling of noise would be all rounding."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8))
    return coarse.resize((width, height), Image.Resampling.BICUBIC)


@pytest.fixture(scope="session")
def pictures() -> list[Image.Image]:
    """Five RGB images of different sizes and shapes."""
    return [picture(i, *size) for i, size in enumerate([(50, 40), (40, 50), (33, 33), (64, 32), (90, 70)])]


@pytest.fixture(params=sorted(VISION))
def family(request: pytest.FixtureRequest) -> str:
    """Each tiny vision model by name."""
    return str(request.param)


WORDS = [
    "the",
    "a",
    "red",
    "blue",
    "small",
    "big",
    "dog",
    "cat",
    "house",
    "tree",
    "runs",
    "sees",
    "under",
    "over",
    "and",
    "with",
    "of",
    "seven",
    "hills",
    "[UNK]",
]
_LLAMA = {**_VIT, "num_key_value_heads": 1, "vocab_size": 24, "max_position_embeddings": 64}
_BERT = {**_VIT, "vocab_size": 24, "max_position_embeddings": 16}

# name -> (configuration class, its arguments, model class to save, special tokens around a text, padding token)
TEXT: dict[str, tuple[str, dict[str, Any], str, str, bool]] = {
    "bert": ("BertConfig", _BERT, "BertModel", "[CLS] $A [SEP]", True),
    "bert_head": ("BertConfig", _BERT, "BertForMaskedLM", "[CLS] $A [SEP]", True),
    "roberta": ("RobertaConfig", {**_BERT, "pad_token_id": 1}, "RobertaModel", "[CLS] $A [SEP]", True),
    "mpnet": ("MPNetConfig", {**_BERT, "pad_token_id": 1}, "MPNetModel", "[CLS] $A [SEP]", True),
    "distilbert": (
        "DistilBertConfig",
        {"dim": 16, "n_layers": 3, "n_heads": 2, "hidden_dim": 32, "vocab_size": 24, "max_position_embeddings": 16},
        "DistilBertModel",
        "[CLS] $A [SEP]",
        True,
    ),
    "gpt2": (
        "GPT2Config",
        {
            "n_embd": 16,
            "n_layer": 3,
            "n_head": 2,
            "n_positions": 16,
            "vocab_size": 24,
            "bos_token_id": 3,
            "eos_token_id": 3,
        },
        "GPT2LMHeadModel",
        "$A",
        False,
    ),
    "llama": ("LlamaConfig", _LLAMA, "LlamaForCausalLM", "[CLS] $A", False),
    "qwen3": ("Qwen3Config", {**_LLAMA, "head_dim": 8}, "Qwen3ForCausalLM", "$A", True),
    "t5": (
        "T5Config",
        {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 3, "num_heads": 2, "vocab_size": 24},
        "T5ForConditionalGeneration",
        "$A [SEP]",
        True,
    ),
}


def build_text(name: str, folder: Path, *, padding_side: str = "right", **changes: Any) -> Path:
    """Save the tiny language model called ``name`` with a word-level tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    config_class, arguments, model_class, template, has_padding = TEXT[name]
    special = ["[CLS]", "[PAD]", "[SEP]", "[END]"]
    vocabulary = {word: i for i, word in enumerate([*special, *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    used = [(token, vocabulary[token]) for token in special if token in template]
    words.post_processor = processors.TemplateProcessing(single=template, special_tokens=used)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        unk_token="[UNK]",
        eos_token="[END]",
        pad_token="[PAD]" if has_padding else None,
        padding_side=padding_side,
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    model = getattr(transformers, model_class)(getattr(transformers, config_class)(**{**arguments, **changes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return folder


@pytest.fixture(params=sorted(TEXT))
def language(request: pytest.FixtureRequest) -> str:
    """Each tiny language model by name."""
    return str(request.param)


@pytest.fixture(scope="session")
def text_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Folder of a tiny language model by name and padding side, built once a session."""
    root = tmp_path_factory.mktemp("text")

    def get(name: str, padding_side: str = "right") -> Path:
        folder = root / f"{name}-{padding_side}"
        return folder if folder.exists() else build_text(name, folder, padding_side=padding_side)

    return get


@pytest.fixture
def project(tmp_path: Path) -> Any:
    """An empty project; made by hand, since encoding needs neither git nor DVC."""
    from optotype.store.project import Project

    root = tmp_path / "project"
    (root / ".optotype").mkdir(parents=True)
    (root / ".optotype" / "project.json").write_text('{"format_version": 1}')
    return Project.find(root)


@pytest.fixture
def image_table(tmp_path: Path) -> Path:
    """Seven PNG images of different sizes with a table whose rows are not sorted."""
    folder = tmp_path / "images"
    folder.mkdir()
    lines = ["id,image"]
    for i in (3, 0, 6, 1, 5, 2, 4):
        picture(i, 30 + 7 * i, 60 - 5 * i).save(folder / f"file{i}.png")
        lines.append(f"id{i},file{i}.png")
    table = folder / "table.csv"
    table.write_text("\n".join(lines) + "\n")
    return table
