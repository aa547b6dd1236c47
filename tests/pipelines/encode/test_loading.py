"""Sources, identities, hub caches, devices and the state of torch."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from optotype.pipelines.encode.loading import (
    check_device,
    check_no_missing_weights,
    folder_digest,
    locate,
    platform_inputs,
    torch_state,
    versions,
)
from optotype.pipelines.encode.vision import load_plugin, plan_vision, resolve_layers
from optotype.schemas.errors import ExternalError, MissingPackageError, ModelError, NotFoundError, UsageError
from optotype.schemas.sources import parse_source

Folders = Callable[[str], Path]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache; the hub itself is out of reach."""
    import huggingface_hub.constants as constants

    cache = tmp_path / "hub"
    cache.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return cache


def cached(hub: Path, folder: Path) -> None:
    """Put a model folder into the cache as ``lab/tiny``, the way a download does."""
    repository = hub / "models--lab--tiny"
    shutil.copytree(folder, repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)


@pytest.mark.parametrize("revision", ["main", COMMIT])
def test_a_hub_source_is_read_from_the_cache(
    revision: str, hub: Path, vision_folder: Folders, pictures: list[Image.Image]
) -> None:
    cached(hub, vision_folder("vit"))
    files = locate(parse_source(f"hf:lab/tiny@{revision}"))
    assert files.identity["commit"] == COMMIT
    from_hub = plan_vision(files).load()
    from_folder = plan_vision(locate(parse_source(str(vision_folder("vit"))))).load()
    with torch_state(1):
        for a, b in zip(
            from_hub.encode(from_hub.preprocess(pictures), [None, 1]),
            from_folder.encode(from_folder.preprocess(pictures), [None, 1]),
            strict=True,
        ):
            np.testing.assert_array_equal(a, b)


def test_a_hub_source_that_is_not_cached_says_so(hub: Path, vision_folder: Folders) -> None:
    with pytest.raises(ExternalError, match=r"hf:lab/tiny@main: not in the local cache"):
        locate(parse_source("hf:lab/tiny@main"))
    cached(hub, vision_folder("vit"))
    with pytest.raises(ExternalError, match="not in the local cache"):
        locate(parse_source("hf:lab/tiny@other"))


def test_the_identity_of_a_folder_is_its_content(tmp_path: Path) -> None:
    root = tmp_path / "project"
    inside, outside = root / "data" / "models" / "tiny", tmp_path / "elsewhere" / "tiny"
    for folder in (inside, outside):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
    a, b = (locate(parse_source(str(folder)), root=root) for folder in (inside, outside))
    assert a.identity["files"] == b.identity["files"]
    assert a.identity["source"] == "data/models/tiny"
    assert b.identity["source"] == "tiny"
    assert str(tmp_path) not in json.dumps([dict(a.identity), dict(b.identity)])


def test_a_folder_digest_sees_names_and_bytes_only(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.json").write_text("1")
    (tmp_path / "sub" / "b.bin").write_text("2")
    first = folder_digest(tmp_path)
    for ignored in (".hidden", "README.md"):
        (tmp_path / ignored).write_text("3")
    assert folder_digest(tmp_path) == first
    (tmp_path / "sub" / "b.bin").write_text("4")
    changed = folder_digest(tmp_path)
    (tmp_path / "sub" / "b.bin").rename(tmp_path / "sub" / "c.bin")
    assert len({first, changed, folder_digest(tmp_path)}) == 3


def test_sources_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such model folder") as caught:
        locate(parse_source("google/vit-base"))
    assert "hf:google/vit-base@<commit>" in str(caught.value.hint)
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"")
    with pytest.raises(NotFoundError, match="a model source is a folder, this is a file"):
        locate(parse_source(str(file)))
    with pytest.raises(NotFoundError, match="no such module"):
        locate(parse_source("python:nowhere_at_all:load"))
    with pytest.raises(NotFoundError, match="has no function 'absent'"):
        load_plugin(locate(parse_source("python:colorsys:absent")))


def test_devices() -> None:
    assert check_device("cpu", "model").type == "cpu"
    with pytest.raises(UsageError, match="'gpu' is not a device"):
        check_device("gpu", "model")
    if not torch.cuda.is_available():
        for name in ("cuda", "cuda:1"):
            with pytest.raises(ModelError, match=rf"model: there is no device '{name}' here, only cpu"):
                check_device(name, "model")
    with pytest.raises(ModelError, match="there is no device 'meta'"):
        check_device("meta", "model")


def test_the_state_of_torch_comes_back() -> None:
    threads = torch.get_num_threads()
    with torch_state(threads + 1):
        assert torch.get_num_threads() == threads + 1
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_inference_mode_enabled()
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()
    assert not torch.is_inference_mode_enabled()


def test_missing_weights_are_refused_unless_tokens_do_not_pass_through_them() -> None:
    check_no_missing_weights({"missing_keys": ["pooler.dense.weight", "vision_model.head.probe", "a.mask_token"]}, "m")
    with pytest.raises(ModelError, match=r"2 weights are not in its files \(a\.header\.weight, b\)"):
        check_no_missing_weights({"missing_keys": ["b", "a.header.weight"]}, "m")
    with pytest.raises(ModelError, match="1 weights have another shape"):
        check_no_missing_weights({"mismatched_keys": [("a", (1,), (2,))]}, "m")


def test_a_vision_folder_without_its_weights_is_refused(vision_folder: Folders, tmp_path: Path) -> None:
    folder = tmp_path / "clip"
    shutil.copytree(vision_folder("clip"), folder)
    shutil.copy(vision_folder("siglip") / "model.safetensors", folder)
    with pytest.raises(ModelError, match="they would be random numbers"):
        plan_vision(locate(parse_source(str(folder)))).load()
    (folder / "model.safetensors").write_bytes(b"\x00" * 20)
    with pytest.raises(ModelError, match="the model cannot be loaded"):
        plan_vision(locate(parse_source(str(folder)))).load()


CODE = """
import torch
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput


class Config(PreTrainedConfig):
    model_type = "homemade"


class Model(PreTrainedModel):
    config_class = Config

    def __init__(self, config):
        super().__init__(config)
        self.cut = torch.nn.Conv2d(3, 5, config.patch_size, config.patch_size)
        self.post_init()

    def forward(self, pixel_values, output_hidden_states=None):
        tokens = self.cut(pixel_values).flatten(2).transpose(1, 2)
        tokens = torch.cat([torch.full_like(tokens[:, :2], 9.0), tokens], dim=1)
        states = tuple([tokens] * (self.config.num_hidden_layers + 1)) if output_hidden_states else None
        return BaseModelOutput(last_hidden_state=tokens, hidden_states=states)
"""


def test_code_in_a_folder_runs_only_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pictures: list[Image.Image]
) -> None:
    from safetensors.torch import save_file

    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = tmp_path / "homemade"
    folder.mkdir()
    config = {
        "model_type": "homemade",
        "auto_map": {"AutoConfig": "homemade.Config", "AutoModel": "homemade.Model"},
        "patch_size": 8,
        "num_hidden_layers": 1,
        "num_prefix_tokens": 2,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "homemade.py").write_text(CODE)
    processor = {"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    weights = {"cut.weight": torch.randn(5, 3, 8, 8), "cut.bias": torch.zeros(5)}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    files = locate(parse_source(str(folder)))
    with pytest.raises(ModelError, match="which is not run unless asked for") as caught:
        plan_vision(files)
    assert "--trust-remote-code" in str(caught.value.hint)
    encoder = plan_vision(files, trust_remote_code=True).load()
    with torch_state(1):
        [tokens] = encoder.encode(encoder.preprocess(pictures[:1]), [None])
    assert tokens[0].shape == (4, 4, 5)
    assert not (tokens[0] == 9.0).any()  # the two tokens in front are gone


def test_layers() -> None:
    assert resolve_layers(None, 4, "m") == [None]
    assert resolve_layers([0, -1, None], 4, "m") == [0, 3, None]
    with pytest.raises(UsageError, match="there is no layer 4: -4 to 3, or none for the final output"):
        resolve_layers([0, 4], 4, "m")
    with pytest.raises(UsageError, match="it has the final output only"):
        resolve_layers([0], 0, "m")
    with pytest.raises(UsageError, match="layer 3 was asked for twice"):
        resolve_layers([3, -1], 4, "m")
    with pytest.raises(UsageError, match="no layer was asked for"):
        resolve_layers([], 4, "m")


def test_inputs_of_keys() -> None:
    assert set(versions("torch", "numpy")) == {"torch", "numpy"}
    with pytest.raises(MissingPackageError, match="needs the package no-such-package"):
        versions("no-such-package")
    inputs = platform_inputs(torch.device("cpu"))
    assert inputs["device"] == "cpu"
    assert all(isinstance(value, str) and value for value in inputs.values())


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1\ndef load(:\n", r"broken_plugin_0\.py, line 2: SyntaxError: "),
        ("\n\nraise ZeroDivisionError('so')", r"broken_plugin_1\.py, line 3: ZeroDivisionError: so"),
        ("import sys\nsys.exit(3)", r"broken_plugin_2\.py, line 2: SystemExit: 3"),
    ],
)
def test_a_plugin_that_cannot_be_imported_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, message: str
) -> None:
    name = message.partition("\\")[0]
    (tmp_path / f"{name}.py").write_text(code)
    (tmp_path / f"{name}_package").mkdir()
    (tmp_path / f"{name}_package" / "__init__.py").write_text(f"import {name}")
    (tmp_path / f"{name}_package" / "inner.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModelError, match=message):
        load_plugin(locate(parse_source(f"python:{name}:load")))
    with pytest.raises(ModelError, match=message):  # the package's own code runs to find the module
        locate(parse_source(f"python:{name}_package.inner:load"))


def test_modules_without_a_file_are_no_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bare_folder").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    for source, message in (
        ("python:os:getcwd", "python:os: .* it is part of Python itself"),
        ("python:sys:exit", "python:sys: .* it is part of Python itself"),
        ("python:bare_folder:load", r"it is a folder without __init__\.py"),
    ):
        with pytest.raises(ModelError, match=message):
            locate(parse_source(source))
