"""Items to embeddings, by tiny random models: the text model, dual encoders, and a vision-language model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
import xarray as xr
from PIL import Image

from optotype.pipelines.encode import items as module
from optotype.pipelines.encode.items import encode_items
from optotype.pipelines.encode.items_table import items_of_table
from optotype.pipelines.encode.loading import locate
from optotype.pipelines.encode.preprocessing import load_preprocessor
from optotype.pipelines.encode.text import load_language_model
from optotype.schemas.errors import InvalidDataError, ModelError, NotFoundError, UsageError
from optotype.schemas.sources import parse_source
from optotype.store.embeddings import open_embeddings
from optotype.store.project import Project

SIDE = 32
SPECIAL = ["[CLS]", "[PAD]", "[SEP]", "[END]", "<image>"]
WORDS = ["the", "a", "red", "blue", "small", "dog", "cat", "house", "is", "what", "where", "[UNK]"]
TOWER = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
VISION = {**TOWER, "image_size": SIDE, "patch_size": 16}
TEXT = {
    **TOWER,
    "vocab_size": 24,
    "max_position_embeddings": 8,
    "bos_token_id": 0,
    "eos_token_id": 3,
    "pad_token_id": 1,
}


def _tokenizer(template: str, **more: Any) -> transformers.PreTrainedTokenizerFast:
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

    vocabulary = {word: i for i, word in enumerate([*SPECIAL, *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    used = [(token, vocabulary[token]) for token in SPECIAL if token in template]
    words.post_processor = processors.TemplateProcessing(single=template, special_tokens=used)
    words.add_special_tokens([AddedToken("<image>", special=True)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="[UNK]", eos_token="[END]", pad_token="[PAD]", **more
    )


def _save(model: Any, folder: Path) -> None:
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)


def _dual(folder: Path, name: str) -> Path:
    torch.manual_seed(1)
    if name == "clip":
        config = transformers.CLIPConfig(text_config=TEXT, vision_config=VISION, projection_dim=12)
        model = transformers.CLIPModel(config)
        size = {"size": {"shortest_edge": SIDE}, "crop_size": {"height": SIDE, "width": SIDE}}
        transformers.CLIPImageProcessorPil(**size).save_pretrained(folder)
    else:
        config = transformers.SiglipConfig(text_config=TEXT, vision_config=VISION)
        model = transformers.SiglipModel(config)
        transformers.SiglipImageProcessorPil(size={"height": SIDE, "width": SIDE}).save_pretrained(folder)
    _tokenizer("[CLS] $A [END]", model_max_length=8).save_pretrained(folder)
    _save(model.eval(), folder)
    return folder


def _vlm(folder: Path, *, template: str | None = None) -> Path:
    torch.manual_seed(1)
    text = transformers.LlamaConfig(**{**TOWER, "vocab_size": 24, "max_position_embeddings": 64})
    vision = transformers.CLIPVisionConfig(**VISION)
    config = transformers.LlavaConfig(vision_config=vision, text_config=text, image_token_index=4)
    model = transformers.LlavaForConditionalGeneration(config)
    size = {"size": {"shortest_edge": SIDE}, "crop_size": {"height": SIDE, "width": SIDE}}
    processor = transformers.LlavaProcessor(
        image_processor=transformers.CLIPImageProcessorPil(**size),
        tokenizer=_tokenizer("[CLS] $A"),
        patch_size=16,
        vision_feature_select_strategy="default",
        image_token="<image>",
        num_additional_image_tokens=1,
        chat_template=template,
    )
    processor.save_pretrained(folder)
    _save(model.eval(), folder)
    return folder


@pytest.fixture(scope="session")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of a tiny model by name: ``clip``, ``siglip``, ``vlm``."""
    root = tmp_path_factory.mktemp("embedders")

    def get(name: str) -> Path:
        folder = root / name
        if folder.exists():
            return folder
        return _vlm(folder) if name == "vlm" else _dual(folder, name)

    return get


QUESTIONS = ["what is the dog", "where is a red house", "the cat", "a small blue dog is the cat", "what", "", "a house"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Seven items of two benchmarks, out of order; one without a text, two without an image."""
    folder = tmp_path / "items"
    (folder / "pictures").mkdir(parents=True)
    lines = ["benchmark,item_id,question,image"]
    for i in (4, 1, 6, 0, 5, 3, 2):
        image = "" if i in (2, 6) else f"pictures/{i}.png"
        if image:
            rng = np.random.default_rng(i)
            coarse = Image.fromarray(rng.integers(0, 256, (5, 5, 3), dtype=np.uint8))
            coarse.resize((30 + 9 * i, 60 - 4 * i), Image.Resampling.BICUBIC).save(folder / image)
        lines.append(f"{'ab'[i % 2]},{i:03d},{QUESTIONS[i]},{image}")
    path = folder / "items.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


ORDER = [0, 2, 4, 6, 1, 3]  # of the items with a text, by (benchmark, item)


def _encoded(project: Project, name: str, folder: Path, table: Path, **more: Any) -> xr.Dataset:
    encode_items(project, name, str(folder), items=table, **more)
    return open_embeddings(project.folder("embeddings") / name).load()


def test_text_model(project: Project, table: Path, text_folder: Callable[..., Path]) -> None:
    """As `encode texts` with the last layer; images are no input of it."""
    folder = text_folder("bert")
    ds = _encoded(project, "e", folder, table)
    assert set(ds.data_vars) == {"text"}
    assert ds["item"].values.tolist() == [f"{i:03d}" for i in ORDER]
    assert ds["benchmark"].values.tolist() == ["ab"[i % 2] for i in ORDER]
    model = load_language_model(locate(parse_source(str(folder))))
    with torch.inference_mode():
        expected = model.states([QUESTIONS[i] for i in ORDER], model.layers - 1, "mean")
    np.testing.assert_allclose(ds["text"].values, expected, atol=1e-6)
    assert (ds.attrs["embedder"], ds.attrs["pooling"]) == ("text", "mean")
    last = _encoded(project, "e-last", folder, table, pooling="last")
    assert not np.allclose(last["text"].values, ds["text"].values)
    for picture in (table.parent / "pictures").iterdir():
        picture.write_bytes(b"another file")
    assert encode_items(project, "e", str(folder), items=table).skipped


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_dual_encoders(project: Project, table: Path, embedder: Callable[[str], Path], name: str) -> None:
    folder = embedder(name)
    ds = _encoded(project, "e", folder, table, batch_size=3)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    pixels = load_preprocessor(folder, name=name)
    for row, i in enumerate(ORDER):  # one by one, without padding where the model was not trained on it
        padding = {"padding": "max_length", "max_length": 8} if name == "siglip" else {}
        encoded = tokenizer([QUESTIONS[i]], return_tensors="pt", truncation=True, **padding)
        names = ["input_ids"] if name == "siglip" else ["input_ids", "attention_mask"]
        mask = {k: encoded[k] for k in names if k in encoded}
        if name == "siglip" and "attention_mask" in tokenizer.model_input_names:
            mask["attention_mask"] = encoded["attention_mask"]
        with torch.inference_mode():
            text = model.get_text_features(**mask).pooler_output.numpy()[0]
        np.testing.assert_allclose(ds["text"].values[row], text, atol=1e-5)
        if i in (2, 6):
            assert np.isnan(ds["vision_text"].values[row]).all()
            continue
        arrays = pixels.apply(Image.open(table.parent / f"pictures/{i}.png").convert("RGB"))
        with torch.inference_mode():
            seen = model.get_image_features(torch.from_numpy(arrays["pixel_values"])[None]).pooler_output.numpy()[0]
        expected = (text / np.linalg.norm(text) + seen / np.linalg.norm(seen)) / 2
        np.testing.assert_allclose(ds["vision_text"].values[row], expected, atol=1e-5)
    assert ds.attrs["vision_text"].startswith("mean of the unit vectors")
    assert ds.attrs["truncated"] == 1  # the seventh word and two special tokens
    with pytest.raises(UsageError, match="pools by itself"):
        encode_items(project, "x", str(folder), items=table, pooling="mean")
    with pytest.raises(UsageError, match="reads 1 to 8"):
        encode_items(project, "x", str(folder), items=table, max_length=9)


def _vlm_state(folder: Path, prompt: str, image: Path | None) -> np.ndarray:
    model = transformers.LlavaForConditionalGeneration.from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    images = {} if image is None else {"images": [Image.open(image).convert("RGB")]}
    inputs = processor(text=[prompt], return_tensors="pt", **images)
    with torch.inference_mode():
        return model(**inputs, output_hidden_states=True).hidden_states[-1][0, -1].numpy()


def test_vision_language_model(project: Project, table: Path, embedder: Callable[[str], Path]) -> None:
    folder = embedder("vlm")
    ds = _encoded(project, "e", folder, table, batch_size=2)
    for row, i in enumerate(ORDER):
        text = _vlm_state(folder, QUESTIONS[i], None)
        np.testing.assert_allclose(ds["text"].values[row], text, atol=1e-5)
        if i in (2, 6):
            assert np.isnan(ds["vision_text"].values[row]).all()
            continue
        both = _vlm_state(folder, f"<image>\n{QUESTIONS[i]}", table.parent / f"pictures/{i}.png")
        np.testing.assert_allclose(ds["vision_text"].values[row], both, atol=1e-5)
        assert not np.allclose(both, text)
    assert (ds.attrs["embedder"], ds.attrs["pooling"]) == ("vlm", "last")
    with pytest.raises(UsageError, match="may not be cut"):
        encode_items(project, "x", str(folder), items=table, max_length=4)


def test_chat_templates_are_used(project: Project, table: Path, tmp_path: Path) -> None:
    template = (
        "{% for part in messages[0]['content'] %}{% if part['type'] == 'image' %}<image>"
        "{% else %} the {{ part['text'] }} is{% endif %}{% endfor %}"
    )
    folder = _vlm(tmp_path / "chat", template=template)
    ds = _encoded(project, "e", folder, table)
    np.testing.assert_allclose(ds["text"].values[0], _vlm_state(folder, f" the {QUESTIONS[0]} is", None), atol=1e-5)
    both = _vlm_state(folder, f"<image> the {QUESTIONS[0]} is", table.parent / "pictures/0.png")
    np.testing.assert_allclose(ds["vision_text"].values[0], both, atol=1e-5)


def test_notes_and_skipping(project: Project, table: Path, embedder: Callable[[str], Path]) -> None:
    first = encode_items(project, "e", str(embedder("clip")), items=table)
    assert [note.split(" ")[0] for note in first.notes] == ["1", "1", "2"]
    assert not first.skipped
    again = encode_items(project, "e", str(embedder("clip")), items=table)
    assert again.skipped
    assert again.manifest == first.manifest
    Image.new("RGB", (9, 9), "red").save(table.parent / "pictures/0.png")
    changed = encode_items(project, "e", str(embedder("clip")), items=table)
    assert not changed.skipped
    assert changed.manifest.key != first.manifest.key
    lines = [line.rpartition(",")[0] + "," for line in table.read_text().splitlines()[1:]]
    table.write_text("\n".join(["benchmark,item_id,question,image", *lines]) + "\n")
    blind = encode_items(project, "f", str(embedder("clip")), items=table)
    assert "no item has an image: there is no vision_text" in blind.notes
    assert set(open_embeddings(blind.path).data_vars) == {"text"}


def test_a_killed_run_ends_in_the_same_bytes(
    project: Project, table: Path, embedder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(embedder("vlm"))
    whole = encode_items(project, "whole", folder, items=table, batch_size=2)
    from optotype.pipelines.encode import runs

    monkeypatch.setattr(runs, "PART_BYTES", 1)
    real, calls = module._ItemRun.batch, []

    def failing(self: Any, positions: range) -> Any:
        calls.append(positions)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, positions)

    monkeypatch.setattr(module._ItemRun, "batch", failing)
    with pytest.raises(KeyboardInterrupt):
        encode_items(project, "e", folder, items=table, batch_size=2)
    monkeypatch.setattr(module._ItemRun, "batch", real)
    resumed = encode_items(project, "e", folder, items=table, batch_size=2)
    assert resumed.resumed
    assert resumed.manifest == whole.manifest


def test_items_of_a_panel(
    project: Project, table: Path, embedder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = items_of_table(table)
    panel = xr.Dataset(
        coords={
            "item": ("item", np.array(rows.item[::-1], dtype=object)),
            "benchmark": ("item", np.array(rows.benchmark[::-1], dtype=object)),
            "question": ("item", np.array(rows.texts[::-1], dtype=object)),
            "item_caption": ("item", np.array(["a dog"] * 6, dtype=object)),
            "image": ("item", np.array([f"pictures/{i}.png" if i not in (2, 6) else "" for i in ORDER[::-1]], object)),
            "scale_min": ("item", np.zeros(6)),
        }
    )
    monkeypatch.setattr("optotype.store.panels.open_panel", lambda source: panel)
    folder = str(embedder("clip"))
    from_table = encode_items(project, "t", folder, items=table)
    from_panel = encode_items(project, "p", folder, panel="./somewhere", images_root=table.parent)
    assert from_panel.manifest.files == from_table.manifest.files
    captions = encode_items(project, "c", folder, panel="./somewhere", images_root=table.parent, text_column="caption")
    assert len(np.unique(open_embeddings(captions.path)["text"].values, axis=0)) == 1
    with pytest.raises(InvalidDataError) as error:
        encode_items(project, "x", folder, panel="./somewhere", text_column="captoin")
    assert "Did you mean 'caption'?" in str(error.value.hint)


def test_everything_wrong_with_the_items_is_listed(
    project: Project, table: Path, text_folder: Callable[..., Path]
) -> None:
    table.write_text(
        "benchmark,item_id,question,image\na,1,what,no.png\na,1,where,../out.png\n,2,what,\nb,3,,nothing-is-read.png\n"
    )
    with pytest.raises(InvalidDataError) as error:
        encode_items(project, "e", str(text_folder("bert")), items=table)
    assert {problem.kind for problem in error.value.problems} == {"duplicate-id", "id-blank", "missing-file", "outside"}
    assert "--images-root" in str(error.value.hint)
    table.write_text("benchmark,item_id,qestion\na,1,what\n")
    with pytest.raises(InvalidDataError) as error:
        encode_items(project, "e", str(text_folder("bert")), items=table)
    assert error.value.hint == "Did you mean 'qestion'?"
    table.write_text("benchmark,item_id,question\na,1,\n")
    with pytest.raises(InvalidDataError, match="no item has a text"):
        encode_items(project, "e", str(text_folder("bert")), items=table)


def test_damaged_images_are_listed_before_anything_runs(
    project: Project, table: Path, embedder: Callable[[str], Path]
) -> None:
    for i in (0, 3):
        (table.parent / f"pictures/{i}.png").write_bytes(b"no image")
    with pytest.raises(InvalidDataError) as error:
        encode_items(project, "e", str(embedder("clip")), items=table)
    assert [problem.where.split(" ")[0] for problem in error.value.problems] == ["a/000", "b/003"]


def test_arguments(project: Project, table: Path, text_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder = str(text_folder("bert"))
    for given in ({}, {"items": table, "panel": "p"}):
        with pytest.raises(UsageError, match="table or from a panel"):
            encode_items(project, "e", folder, **given)
    with pytest.raises(NotFoundError, match="no items table"):
        encode_items(project, "e", folder, items=tmp_path / "none.csv")
    with pytest.raises(NotFoundError, match="no scores called"):
        encode_items(project, "e", folder, panel="none")
    with pytest.raises(UsageError, match="not a pooling"):
        encode_items(project, "e", folder, items=table, pooling="max")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="not a plug-in"):
        encode_items(project, "e", "python:a:b", items=table)
    with pytest.raises(UsageError, match="is not a folder"):
        encode_items(project, "e", folder, items=table, images_root=table)


def test_folders_that_lack_something(project: Project, table: Path, tmp_path: Path) -> None:
    folder = _dual(tmp_path / "clip", "clip")
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(ModelError, match="preprocessor_config"):
        encode_items(project, "e", str(folder), items=table)
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["hidden_size"] = 32
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="another shape"):
        encode_items(project, "e", str(folder), items=table)
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match="configuration"):
        encode_items(project, "e", str(folder), items=table)
