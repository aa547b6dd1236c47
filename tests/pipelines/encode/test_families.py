"""Every family against transformers called directly on one image, special tokens dropped by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from optotype.pipelines.encode.loading import locate, torch_state
from optotype.pipelines.encode.protocol import encoder_problems
from optotype.pipelines.encode.vision import TransformersEncoder, plan_vision
from optotype.schemas.errors import ModelError
from optotype.schemas.sources import parse_source

Folders = Callable[[str], Path]

# name -> (class of the whole model, special tokens in front of the patches; None: the output is a map)
BY_HAND: dict[str, tuple[str, int | None]] = {
    "aimv2": ("Aimv2VisionModel", 0),
    "beit": ("BeitModel", 1),
    "clip": ("CLIPModel", 1),
    "clip_vision": ("CLIPVisionModel", 1),
    "convnext": ("ConvNextModel", None),
    "convnextv2": ("ConvNextV2Model", None),
    "data2vec-vision": ("Data2VecVisionModel", 1),
    "deit": ("DeiTModel", 2),
    "dinov2": ("Dinov2Model", 1),
    "dinov2_with_registers": ("Dinov2WithRegistersModel", 4),
    "dinov3_convnext": ("DINOv3ConvNextModel", 1),
    "dinov3_vit": ("DINOv3ViTModel", 5),
    "efficientnet": ("EfficientNetModel", None),
    "ijepa": ("IJepaModel", 0),
    "metaclip_2": ("MetaClip2Model", 1),
    "mobilenet_v1": ("MobileNetV1Model", None),
    "mobilenet_v2": ("MobileNetV2Model", None),
    "regnet": ("RegNetModel", None),
    "resnet": ("ResNetModel", None),
    "siglip": ("SiglipModel", 0),
    "siglip2": ("Siglip2Model", 0),
    "swin": ("SwinModel", 0),
    "swinv2": ("Swinv2Model", 0),
    "vit": ("ViTModel", 1),
    "vit_classifier": ("ViTModel", 1),
    "vit_msn": ("ViTMSNModel", 1),
}
DUAL = ("clip", "metaclip_2", "siglip", "siglip2")


def loaded(folder: Path, **options: Any) -> TransformersEncoder:
    return plan_vision(locate(parse_source(str(folder))), **options).load()


def run(encoder: TransformersEncoder, images: list[Image.Image], layers: list[int | None]) -> list[list[np.ndarray]]:
    with torch_state(1):
        return encoder.encode(encoder.preprocess(images), layers)


def by_hand(folder: Path, name: str, inputs: dict[str, np.ndarray], layer: int | None) -> list[np.ndarray]:
    """One image at a time through the whole model; tokens as a list of vectors, row by row."""
    class_name, specials = BY_HAND[name]
    model = getattr(transformers, class_name).from_pretrained(folder).eval()
    tower = model.vision_model if name in DUAL else model
    with torch.no_grad():
        tensors = {key: torch.from_numpy(value[None]) for key, value in inputs.items()}
        output = tower(**tensors, output_hidden_states=True)
    tensor = output.last_hidden_state if layer is None else output.hidden_states[layer]
    if tensor.ndim == 4:
        _, _, rows, columns = tensor.shape
        return [tensor[0, :, r, c].numpy() for r in range(rows) for c in range(columns)]
    if layer is not None and class_name.startswith("Swin"):
        specials = 0
    tokens = [token.numpy() for token in tensor[0]][specials:]
    if "pixel_attention_mask" in inputs:
        tokens = [token for token, real in zip(tokens, inputs["pixel_attention_mask"], strict=True) if real]
    return tokens


def test_tokens_are_the_models_own(family: str, vision_folder: Folders, pictures: list[Image.Image]) -> None:
    folder = vision_folder(family)
    encoder = loaded(folder)
    last = encoder.layers - 1
    together = run(encoder, pictures[:2], [None, 1, last])
    for position, layer in enumerate((None, 1, last)):
        for i in range(2):
            expected = np.array(by_hand(folder, family, encoder.preprocess([pictures[i]])[0], layer))
            got = together[position][i]
            assert got.shape[0] * got.shape[1] == len(expected)
            flat = got.reshape(-1, got.shape[-1])
            np.testing.assert_allclose(flat, expected, rtol=0, atol=1e-5 * max(1.0, np.abs(expected).max()))


def test_every_family_passes_the_conformance_check(
    family: str, vision_folder: Folders, pictures: list[Image.Image]
) -> None:
    encoder = loaded(vision_folder(family))
    with torch_state(1):
        assert encoder_problems(encoder, pictures[2:4]) == []


def test_a_dual_model_is_loaded_without_its_text_tower(vision_folder: Folders) -> None:
    for name in DUAL:
        encoder = loaded(vision_folder(name))
        assert type(encoder._model).__name__.endswith("VisionModel")
        assert not any("text" in key for key, _ in encoder._model.named_parameters())


def test_final_output_has_the_final_norm_and_hidden_states_have_not(
    vision_folder: Folders, pictures: list[Image.Image]
) -> None:
    folder = vision_folder("dinov2")
    encoder = loaded(folder)
    final, last = run(encoder, pictures[:1], [None, encoder.layers - 1])
    model = transformers.Dinov2Model.from_pretrained(folder)
    with torch.no_grad():
        normed = model.layernorm(torch.from_numpy(last[0])).numpy()
    np.testing.assert_allclose(final[0], normed, atol=1e-5)
    assert not np.allclose(final[0], last[0], atol=1e-2)


def test_naflex_images_keep_their_own_token_counts(vision_folder: Folders, pictures: list[Image.Image]) -> None:
    [tokens] = run(loaded(vision_folder("siglip2")), pictures, [None])
    shapes = [array.shape[:2] for array in tokens]
    assert len(set(shapes)) > 1
    assert all(rows * columns <= 16 for rows, columns in shapes)
    wide = pictures[3]
    assert wide.width == 2 * wide.height
    assert shapes[3][1] > shapes[3][0]


@pytest.mark.parametrize("name", ["vit", "clip", "dinov2", "dinov3_vit", "beit", "swin", "convnext", "mobilenet_v2"])
def test_another_image_size_gives_another_grid(name: str, vision_folder: Folders, pictures: list[Image.Image]) -> None:
    folder = vision_folder(name)
    [own] = run(loaded(folder), pictures[:1], [None])
    [larger] = run(loaded(folder, image_size=64), pictures[:1], [None])
    assert larger[0].shape == (2 * own[0].shape[0], 2 * own[0].shape[1], own[0].shape[2])


def test_several_layers_come_out_of_one_pass(vision_folder: Folders, pictures: list[Image.Image]) -> None:
    encoder = loaded(vision_folder("vit"))
    passes = []
    encoder._model.register_forward_hook(lambda *_: passes.append(1))
    run(encoder, [pictures[0]] * 3, [None, 0, 1, 2])
    assert len(passes) == 1


def test_a_layout_that_does_not_fit_is_said(vision_folder: Folders, pictures: list[Image.Image]) -> None:
    encoder = loaded(vision_folder("dinov2_with_registers"))
    encoder._plan.config.num_register_tokens = 2  # the weights have 3
    with pytest.raises(ModelError, match=r"20 tokens at final layer, but a grid of 4 x 4 patches and 3 special"):
        run(encoder, pictures[:1], [None])


def test_a_family_without_a_layout_is_refused(tmp_path: Path) -> None:
    transformers.ViTMAEConfig(hidden_size=16).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="no token layout is known for vision models of type 'vit_mae'") as caught:
        plan_vision(locate(parse_source(str(tmp_path))))
    assert "python:" in str(caught.value.hint)
