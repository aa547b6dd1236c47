"""Texts in prompts: what is read from the table, what goes into the key, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optotype.pipelines.encode import encode_texts
from optotype.pipelines.encode.prompts import LABELS, Prompting
from optotype.schemas.errors import InvalidDataError, UsageError
from optotype.schemas.templates import get_template, render
from optotype.store.dataset import TextTable, read_texts
from optotype.store.states import open_states

Folders = Callable[..., Path]

# The key of an array is made of exactly these where no template and no padding is asked for. One more, and everything
# that was encoded before is encoded again.
INPUTS = {
    "format_version",
    "of",
    "dataset",
    "model",
    "gguf_file",
    "layer",
    "pooling",
    "max_length",
    "trust_remote_code",
    "dtype",
    "batch_size",
    "threads",
    "platform",
    "versions",
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "queries.csv"
    rows = ["q2,un cane.,it,t2i", "q1,a dog,en,t2i", "q4,,en,i2t", "q3,is it red,en,vqa", "q5,ein Hund,de,t2i"]
    path.write_text("\n".join(["id,text,language,task", *rows]) + "\n")
    return path


def prompting(template: str | None = "mmmeb@1", **options: str) -> Prompting:
    made = Prompting.parse(template, **{"task": None, "side": None, "language": None, "style": None, **options})
    assert made is not None
    return made


def test_without_a_template_the_key_is_what_it_was(project: Any, table: Path, text_folder: Folders) -> None:
    where = {"task": "t2i"}
    plain = encode_texts(project, "plain", table, str(text_folder("llama")), threads=1, where=where)
    assert set(plain.manifest.inputs) == INPUTS
    assert plain.manifest.inputs["dataset"] == read_texts(table, where=where).digest
    assert not {"template", "padding"} & set(open_states(plain.path).attrs)
    said = encode_texts(project, "plain", table, str(text_folder("llama")), threads=1, where=where, padding="right")
    assert said.skipped


def test_each_choice_has_a_key_of_its_own(project: Any, table: Path, text_folder: Folders, tmp_path: Path) -> None:
    mine = tmp_path / "mine.json"
    document = {"format_version": 1, "kind": "template", "name": "bare", "version": "1.0.0"}
    cell = {"*": {"*": {"end_mark": ".", "prompts": {"*": "{text}", "en": "{text}"}}}}
    mine.write_text(json.dumps({**document, "tasks": cell}))
    changes: list[dict[str, Any]] = [
        {},
        {"padding": "left"},
        {"pooling": "last-before-eos"},
        {"template": "bare"},
        {"template": "bare", "style": "plain"},
        {"template": "bare", "style": "newline"},
        {"template": str(mine)},
        {"template": "mmmeb", "template_task": "t2i", "template_side": "query"},
        {"template": "mmmeb", "template_task": "t2i", "template_side": "query", "language": "en"},
        {"template": "mmmeb", "template_task": "i2t", "template_side": "candidate"},
    ]
    source, where = str(text_folder("llama")), {"task": "t2i"}
    arrays = [
        encode_texts(project, f"a{i}", table, source, threads=1, where=where, **change)
        for i, change in enumerate(changes)
    ]
    assert len({array.manifest.key for array in arrays}) == len(changes)
    assert [set(array.manifest.inputs) - INPUTS for array in arrays[:4]] == [set(), {"padding"}, set(), {"template"}]
    recorded = arrays[7].manifest.inputs["template"]
    assert recorded.items() >= {"name": "mmmeb", "version": "1.0.0", "task": "t2i", "side": "query"}.items()
    assert recorded["digest"] == get_template("mmmeb").digest
    assert (recorded["style"], recorded["language"], recorded["columns"]) == (None, None, ["language"])
    assert open_states(arrays[7].path).attrs["template"] == "mmmeb@1.0.0"


def test_the_prompts_are_what_is_encoded(project: Any, table: Path, text_folder: Folders, tmp_path: Path) -> None:
    source = str(text_folder("llama"))
    options: dict[str, Any] = {"threads": 1, "pooling": "mean", "dtype": "float64"}
    array = encode_texts(
        project,
        "asked",
        table,
        source,
        where={"task": "t2i"},
        template="mmmeb",
        template_task="t2i",
        template_side="query",
        style="punct",
        **options,
    )
    by_hand = tmp_path / "by-hand.jsonl"
    said = {"q1": ("a dog", "en"), "q2": ("un cane.", "it"), "q5": ("ein Hund", "de")}
    rows = [
        {
            "id": key,
            "text": render(get_template("mmmeb"), text, task="t2i", side="query", language=language, style="punct"),
        }
        for key, (text, language) in said.items()
    ]
    by_hand.write_text("".join(json.dumps(row) + "\n" for row in rows))
    expected = encode_texts(project, "by-hand", by_hand, source, **options)
    asked, plainly = open_states(array.path), open_states(expected.path)
    assert list(asked["text"].values) == list(plainly["text"].values) == ["q1", "q2", "q5"]
    np.testing.assert_array_equal(asked["states"].values, plainly["states"].values)
    assert array.manifest.inputs["template"]["prompts"] == expected.manifest.inputs["dataset"]


def test_columns_speak_where_no_option_does() -> None:
    table = TextTable(("a", "b"), ("x", "y"), {"task": ("t2i", "i2t"), "language": ("fr", "de")})
    sides = {"t2i": "query", "i2t": "candidate"}
    for task, side in sides.items():
        prompts, inputs = prompting(task=task, side=side).apply(table)
        expected = [
            render(get_template("mmmeb"), text, task=task, side=side, language=language)
            for text, language in (("x", "fr"), ("y", "de"))
        ]
        assert list(prompts.texts) == expected
        assert inputs["columns"] == ["language"]
    prompts, inputs = prompting(side="candidate", task="i2t", language="en").apply(table)
    assert (prompts.texts, inputs["columns"], prompts.labels) == (("x", "y"), [], {})
    prompts, inputs = prompting("bare", style="punct", side="query").apply(
        TextTable(("a", "b"), ("x", "y"), {"task": ("t2i", "vqa"), "language": ("fr", "")})
    )
    assert (prompts.texts, inputs["columns"]) == (("x.", "y?"), ["task"])
    for task, languages, message in (
        ("t2i", ("pt", "pt"), "has no language 'pt' for t2i query"),
        ("c", ("en", "de"), "c query shows an image"),
    ):
        with pytest.raises(UsageError, match=message):  # all rows alike: none is to blame
            prompting(task=task, side="query").apply(TextTable(("a", "b"), ("x", "y"), {"language": languages}))
    with pytest.raises(UsageError, match="wants a language for t2i query"):
        prompting(task="t2i", side="query").apply(TextTable(("a",), ("x",)))


def test_rows_without_a_prompt_are_all_listed(table: Path) -> None:
    rows = TextTable(
        ("a", "b", "c", "d"),
        ("x", "y", "z", "?"),
        {"task": ("t2i", "vqa", "", "t2i"), "language": ("en", "en", "en", "pt")},
    )
    with pytest.raises(InvalidDataError, match=r"3 of 4 texts cannot be put into a prompt of mmmeb@1\.0\.0") as caught:
        prompting(side="query").apply(rows)
    found = caught.value.problems
    assert [(problem.where, problem.kind) for problem in found] == [(name, "no-prompt") for name in ("b", "c", "d")]
    assert "vqa query shows an image" in found[0].message
    assert "wants a task" in found[1].message
    assert "no language 'pt'" in found[2].message
    assert "Prompts of text alone: i2t candidate" in str(caught.value.hint)
    assert "--where" in str(caught.value.hint)
    with pytest.raises(InvalidDataError) as caught:
        prompting("bare", style="plain").apply(rows)
    assert [(problem.where, problem.kind) for problem in caught.value.problems] == [("d", "text-empty")]
    with pytest.raises(InvalidDataError) as caught:  # without a choice of rows, the blank text of an image query
        read_texts(table, labels=LABELS)
    assert [problem.kind for problem in caught.value.problems] == ["no-text"]


def test_an_image_is_refused_with_what_to_do(project: Any, table: Path, text_folder: Folders) -> None:
    source = str(text_folder("llama"))
    with pytest.raises(UsageError, match="which a text model does not see") as caught:
        encode_texts(
            project,
            "a",
            table,
            source,
            where={"task": "vqa"},
            template="mmmeb",
            template_task="vqa",
            template_side="query",
        )
    hint = str(caught.value.hint)
    assert "Prompts of text alone: i2t candidate, t2i query, c candidate, vqa candidate." in hint
    assert "optotype states import" in hint
    assert project.names("states") == []


def test_options_of_a_template_want_one(project: Any, table: Path, text_folder: Folders) -> None:
    source = str(text_folder("llama"))
    with pytest.raises(UsageError, match="--template-task, --style without --template"):
        encode_texts(project, "a", table, source, template_task="t2i", style="plain")
    with pytest.raises(UsageError, match="'left-hand' is not a side to pad on: right, left"):
        encode_texts(project, "a", table, source, padding="left-hand")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'both' is not a side: query, candidate"):
        prompting(side="both")
    with pytest.raises(UsageError, match="'loud' is not a style"):
        prompting(style="loud")
