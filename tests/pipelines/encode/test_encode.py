"""From tables to stored arrays: order, layers, keys, no-ops, and what is refused."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from optotype.pipelines.encode import encode_images, encode_texts
from optotype.pipelines.encode.images import open_image
from optotype.pipelines.encode.loading import locate, torch_state
from optotype.pipelines.encode.vision import plan_vision
from optotype.schemas.errors import ConflictError, InvalidDataError, ModelError, NotFoundError, UsageError
from optotype.schemas.sources import parse_source
from optotype.store.drafts import writing
from optotype.store.features import open_features
from optotype.store.states import open_states

Folders = Callable[..., Path]


class Listener:
    """A progress report that remembers."""

    def __init__(self) -> None:
        self.jobs: list[tuple[str, int | None, int]] = []
        self.notes: list[str] = []

    @contextmanager
    def __call__(self, title: str, *, total: int | None, unit: str = "items", done: int = 0) -> Iterator[Any]:
        listener, steps = self, [done]

        class Task:
            def advance(self, count: int = 1) -> None:
                steps[0] += count

        yield Task()
        listener.jobs.append((title, total, steps[0]))

    def note(self, text: str) -> None:
        self.notes.append(text)


def images_of(array: Any) -> tuple[list[str], list[np.ndarray]]:
    ds = open_features(array.path)
    sizes = ds["row_size"].values
    return list(ds["image"].values), np.split(ds["patches"].values, np.cumsum(sizes)[:-1])


def test_features_are_the_encoders_tokens_in_sorted_order(
    project: Any, image_table: Path, vision_folder: Folders
) -> None:
    listener = Listener()
    folder = vision_folder("dinov2_with_registers")
    [array] = encode_images(
        project, "dino", image_table, str(folder), batch_size=3, dtype="float32", threads=1, progress=listener
    )
    assert array.path == project.features / "dino"
    assert not array.skipped
    assert not array.resumed
    ids, tokens = images_of(array)
    assert ids == [f"id{i}" for i in range(7)]
    encoder = plan_vision(locate(parse_source(str(folder)))).load()
    for i, got in enumerate(tokens):
        with torch_state(1):
            image = open_image(image_table.parent / f"file{i}.png")
            [[alone]] = encoder.encode(encoder.preprocess([image]), [None])
        np.testing.assert_allclose(got, alone.reshape(-1, 16), rtol=0, atol=1e-5)
    assert open_features(array.path).attrs["grid"] == [4, 4]
    assert listener.jobs == [("checking images", 7, 7), ("encoding dino", 7, 7)]
    assert not list(project.staging.iterdir())


def test_several_layers_become_a_bundle_with_the_bytes_of_single_runs(
    project: Any, image_table: Path, vision_folder: Folders
) -> None:
    source = str(vision_folder("vit"))
    options: dict[str, Any] = {"batch_size": 4, "threads": 1}
    bundle = encode_images(project, "vit", image_table, source, layers=[1, -1, None], **options)
    assert [array.name for array in bundle] == ["vit-l1", "vit-l3", "vit-final"]
    assert [array.path for array in bundle] == [project.features / "vit" / array.name for array in bundle]
    assert project.names("features") == ["vit-final", "vit-l1", "vit-l3"]
    for layer, array in zip([1, 3, None], bundle, strict=True):
        [single] = encode_images(project, f"single-{layer or 'x'}", image_table, source, layers=[layer], **options)
        assert single.manifest.digest == array.manifest.digest
        assert single.manifest.key == array.manifest.key
    assert len({array.manifest.digest for array in bundle}) == 3


def test_ragged_token_counts_are_kept(project: Any, image_table: Path, vision_folder: Folders) -> None:
    [array] = encode_images(project, "naflex", image_table, str(vision_folder("siglip2")), threads=1)
    sizes = open_features(array.path)["row_size"].values
    assert len(set(sizes.tolist())) > 1
    assert "grid" not in open_features(array.path).attrs


def test_the_same_run_again_does_nothing(
    project: Any, image_table: Path, vision_folder: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = str(vision_folder("vit"))

    def run() -> Any:
        return encode_images(project, "vit", image_table, source, layers=[1, 2], threads=1)

    first = run()
    monkeypatch.setattr("optotype.pipelines.encode.vision.VisionPlan.load", None)  # loading would fail
    again = run()
    assert [array.skipped for array in again] == [True, True]
    assert [array.manifest for array in again] == [array.manifest for array in first]
    monkeypatch.undo()
    shutil.rmtree(first[1].path)
    one, two = run()
    assert (one.skipped, two.skipped) == (True, False)
    assert two.manifest == first[1].manifest


def test_a_damaged_array_is_encoded_again(project: Any, image_table: Path, vision_folder: Folders) -> None:
    listener = Listener()
    source = str(vision_folder("vit"))
    [first] = encode_images(project, "vit", image_table, source, threads=1)
    shard = max((path for path in first.path.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    data = bytearray(shard.read_bytes())
    data[-10] ^= 1
    shard.chmod(0o644)
    shard.write_bytes(data)
    [again] = encode_images(project, "vit", image_table, source, threads=1, progress=listener)
    assert not again.skipped
    assert again.manifest.digest == first.manifest.digest
    assert any("damaged" in note for note in listener.notes)


def test_every_input_changes_the_key(
    project: Any, image_table: Path, vision_folder: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(vision_folder("clip"), folder)
    counter = iter(range(100))

    def key(**options: Any) -> str:
        made = encode_images(
            project, f"a{next(counter)}", image_table, str(folder), **{"threads": 1, "batch_size": 4, **options}
        )
        return made[0].manifest.key

    keys = [
        key(),
        key(layers=[1]),
        key(batch_size=3),
        key(dtype="float32"),
        key(image_size=64),
        key(threads=2),
        key(trust_remote_code=True),
    ]
    assert key() == keys[0]
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    (folder / "preprocessor_config.json").write_text(json.dumps({**settings, "image_mean": [0.1, 0.2, 0.3]}))
    keys.append(key())
    (folder / "added.txt").write_text("another file")
    keys.append(key())
    Image.new("RGB", (9, 9)).save(image_table.parent / "file3.png")
    keys.append(key())
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "another")
    keys.append(key())
    monkeypatch.setattr("optotype.pipelines.encode.image_features.FORMAT_VERSION", 2)
    keys.append(key())
    assert len(set(keys)) == len(keys)


def test_keys_hold_no_path_of_this_machine(
    project: Any, image_table: Path, vision_folder: Folders, tmp_path: Path
) -> None:
    [array] = encode_images(project, "vit", image_table, str(vision_folder("vit")), threads=1)
    assert "/" not in array.manifest.inputs["model"]["source"]
    assert str(tmp_path) not in json.dumps(dict(array.manifest.inputs))


def test_broken_images_stop_the_run_before_the_model_is_loaded(
    project: Any, image_table: Path, vision_folder: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in (2, 5):
        (image_table.parent / f"file{i}.png").write_bytes(b"\x89PNG broken")
    monkeypatch.setattr("optotype.pipelines.encode.vision.VisionPlan.load", None)
    with pytest.raises(InvalidDataError, match="2 of 7 images cannot be read") as caught:
        encode_images(project, "vit", image_table, str(vision_folder("vit")), threads=1)
    assert [problem.where.split(" ")[0] for problem in caught.value.problems] == ["id2", "id5"]
    assert project.names("features") == []


def test_an_array_and_a_bundle_do_not_overwrite_each_other(
    project: Any, image_table: Path, vision_folder: Folders
) -> None:
    source = str(vision_folder("vit"))
    encode_images(project, "one", image_table, source, threads=1)
    with pytest.raises(ConflictError, match="several layers need a folder of that name"):
        encode_images(project, "one", image_table, source, layers=[1, 2], threads=1)
    encode_images(project, "two", image_table, source, layers=[1, 2], threads=1)
    with pytest.raises(ConflictError, match="holds the arrays of several layers"):
        encode_images(project, "two", image_table, source, threads=1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 0, "threads": -1}, "batch-size is at least 1, got 0; threads is at least 1, got -1"),
        ({"image_size": 0}, "image-size is at least 1"),
        ({"dtype": "int8"}, "'int8' is not a type to store"),
        ({"device": "gpu"}, "'gpu' is not a device"),
        ({"layers": [4]}, "there is no layer 4: -4 to 3"),
    ],
)
def test_arguments_that_cannot_be(
    options: dict[str, Any], words: str, project: Any, image_table: Path, vision_folder: Folders
) -> None:
    with pytest.raises(UsageError, match=words):
        encode_images(project, "vit", image_table, str(vision_folder("vit")), **options)
    with pytest.raises(UsageError, match="is not a name for an array"):
        encode_images(project, "Vit/..", image_table, str(vision_folder("vit")))


PLUGIN = """
import numpy as np

class Encoder:
    layers = 1
    preprocessing = {"scale": str(SCALE)}

    def preprocess(self, images):
        return [np.asarray(image.resize((4, 4)), dtype=np.float32) * SCALE for image in images]

    def encode(self, batch, layers):
        return [[pixels.reshape(16, 3) if layer is None else pixels for pixels in batch] for layer in layers]

def load():
    return Encoder()

def load_sized(folder, *, image_size=None):
    encoder = Encoder()
    encoder.preprocessing = {"size": image_size, "text": (folder / "text").read_text()}
    return encoder

def load_nothing():
    return object()

def load_badly():
    raise ValueError("no such thing")
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Writes a plug-in module whose pixels are scaled; returns the name of its module."""
    monkeypatch.syspath_prepend(tmp_path)
    made: list[str] = []

    def write(scale: str) -> str:
        name = f"plugin_{len(made)}_{tmp_path.name}".replace("-", "_")
        (tmp_path / f"{name}.py").write_text(PLUGIN.replace("SCALE", scale))
        made.append(name)
        return name

    yield write
    for name in made:
        sys.modules.pop(name, None)


def test_a_plugin_is_an_encoder_like_any_other(project: Any, image_table: Path, plugin: Callable[[str], str]) -> None:
    source = f"python:{plugin('1.0')}:load"
    final, hidden = encode_images(project, "plug", image_table, source, layers=[None, 0], batch_size=2, threads=1)
    np.testing.assert_array_equal(np.concatenate(images_of(final)[1]), np.concatenate(images_of(hidden)[1]))
    assert open_features(hidden.path).attrs["grid"] == [4, 4]
    assert "grid" not in open_features(final.path).attrs
    expected = np.asarray(open_image(image_table.parent / "file0.png").resize((4, 4))).reshape(16, 3)
    np.testing.assert_array_equal(images_of(final)[1][0], expected)
    inputs = final.manifest.inputs["model"]
    assert set(inputs) == {"source", "code"}


def test_a_plugin_with_a_folder_and_a_size(
    project: Any, image_table: Path, plugin: Callable[[str], str], tmp_path: Path
) -> None:
    module = plugin("1.0")
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "text").write_text("seven")
    source = f"python:{module}:load_sized@{folder}"
    [array] = encode_images(project, "sized", image_table, source, image_size=9, threads=1)
    assert array.manifest.inputs["preprocessing"] == {"size": 9, "text": "seven"}
    with pytest.raises(UsageError, match="this plug-in takes no image_size"):
        encode_images(project, "other", image_table, f"python:{module}:load", image_size=9, threads=1)


def test_what_was_there_is_replaced_aloud_by_one_process_at_a_time(
    project: Any, image_table: Path, plugin: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = Listener()
    [first] = encode_images(project, "plug", image_table, f"python:{plugin('1.0')}:load", threads=1, progress=listener)
    assert listener.notes == []
    other = f"python:{plugin('2.0')}:load"
    monkeypatch.setattr("optotype.store.drafts._PATIENCE", 0.01)
    with writing(first.path), ThreadPoolExecutor(1) as pool, pytest.raises(ConflictError, match="is writing"):
        pool.submit(encode_images, project, "plug", image_table, other, threads=1).result()
    encode_images(project, "plug", image_table, other, threads=1, progress=listener)
    assert listener.notes == [f"plug: replaced what was there ({first.manifest.digest})"]
    assert [path.name for path in project.features.iterdir()] == ["plug"]
    assert list(project.staging.iterdir()) == []


def test_plugins_that_are_none(project: Any, image_table: Path, plugin: Callable[[str], str]) -> None:
    module = plugin("1.0")
    with pytest.raises(ModelError, match=r"not a vision encoder(.|\n)*layers is(.|\n)*preprocess(.|\n)*encode"):
        encode_images(project, "plug", image_table, f"python:{module}:load_nothing", threads=1)
    with pytest.raises(ModelError, match="its factory failed: ValueError: no such thing"):
        encode_images(project, "plug", image_table, f"python:{module}:load_badly", threads=1)


def test_values_that_float16_cannot_hold(project: Any, image_table: Path, plugin: Callable[[str], str]) -> None:
    source = f"python:{plugin('1e5')}:load"
    with pytest.raises(ModelError, match=rf"{source}: \d+ values at the final layer for 'id0' do not fit") as caught:
        encode_images(project, "plug", image_table, source, threads=1)
    assert "--dtype float32" in str(caught.value.hint)
    assert project.names("features") == []
    [array] = encode_images(project, "plug", image_table, source, dtype="float32", threads=1)
    assert images_of(array)[1][0].max() > 1e6


def test_values_flushed_to_zero_are_reported(project: Any, image_table: Path, plugin: Callable[[str], str]) -> None:
    listener = Listener()
    source = f"python:{plugin('1e-10')}:load"
    [array] = encode_images(project, "plug", image_table, source, threads=1, progress=listener, batch_size=2)
    pixels = np.concatenate(
        [np.asarray(open_image(path).resize((4, 4))).ravel() for path in sorted(image_table.parent.glob("*.png"))]
    )
    assert open_features(array.path).attrs["flushed_to_zero"] == np.count_nonzero(pixels) / pixels.size
    assert "too small for float16 and were stored as zero" in array.notes[0]
    assert listener.notes == [f"plug: {array.notes[0]}"]


def test_nan_names_the_model_and_the_image(project: Any, image_table: Path, plugin: Callable[[str], str]) -> None:
    source = f"python:{plugin('np.nan')}:load"
    with pytest.raises(ModelError, match=r":load: 48 of 48 values at the final layer are NaN for 'id0'"):
        encode_images(project, "plug", image_table, source, threads=1)


@pytest.fixture
def text_table(tmp_path: Path) -> Path:
    table = tmp_path / "texts.csv"
    rows = {"d": "seven blue hills", "a": "a dog", "c": "the cat sees a tree " * 5, "b": "under"}
    table.write_text("id,text,other\n" + "".join(f"{key},{text.strip()},dog\n" for key, text in rows.items()))
    return table


def test_states_are_stored_in_sorted_order(project: Any, text_table: Path, text_folder: Folders) -> None:
    from optotype.pipelines.encode.text import load_language_model

    listener = Listener()
    folder = text_folder("bert")
    array = encode_texts(
        project, "bert", text_table, str(folder), batch_size=3, threads=1, progress=listener, pooling="cls"
    )
    assert array.path == project.states / "bert"
    ds = open_states(array.path)
    assert list(ds["text"].values) == ["a", "b", "c", "d"]
    assert ds["states"].dtype == np.float32
    model = load_language_model(locate(parse_source(str(folder))))
    texts = ["a dog", "under", ("the cat sees a tree " * 5).strip(), "seven blue hills"]
    with torch_state(1):
        expected = np.concatenate([model.states([text], 2, "cls") for text in texts])
    np.testing.assert_allclose(ds["states"].values, expected, rtol=0, atol=1e-5)
    assert array.notes == ("1 of 4 texts are longer than the model reads and were cut",)
    assert ds.attrs["truncated"] == 1
    assert listener.jobs == [("encoding bert", 4, 4)]
    again = encode_texts(project, "bert", text_table, str(folder), batch_size=3, threads=1, pooling="cls")
    assert again.skipped


def test_every_input_of_texts_changes_the_key(project: Any, text_table: Path, text_folder: Folders) -> None:
    source = str(text_folder("llama"))
    changes: list[dict[str, Any]] = [
        {},
        {"layer": -1},
        {"pooling": "last"},
        {"column": "other"},
        {"batch_size": 2},
        {"dtype": "float16"},
        {"max_length": 4},
        {"threads": 2},
    ]
    keys = [
        encode_texts(project, f"a{i}", text_table, source, **{"threads": 1, **change}).manifest.key
        for i, change in enumerate(changes)
    ]
    assert len(set(keys)) == len(keys)


def test_texts_that_are_refused(project: Any, tmp_path: Path, text_table: Path, text_folder: Folders) -> None:
    source = str(text_folder("bert"))
    table = tmp_path / "blank.csv"
    table.write_text("id,text\na,dog\nb,\nc, \n")
    with pytest.raises(InvalidDataError) as caught:
        encode_texts(project, "bert", table, source)
    assert len(caught.value.problems) == 2
    with pytest.raises(UsageError, match="'max' is not a pooling: mean, last, cls"):
        encode_texts(project, "bert", text_table, source, pooling="max")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="there is no layer 9: -4 to 3"):
        encode_texts(project, "bert", text_table, source, layer=9)
    with pytest.raises(UsageError, match="not a plug-in"):
        encode_texts(project, "bert", text_table, "python:json:loads")
    with pytest.raises(NotFoundError, match="no such model folder"):
        encode_texts(project, "bert", text_table, "nowhere")
    assert project.names("states") == []
