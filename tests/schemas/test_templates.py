"""Prompt templates: what is shipped stays as it is, what is not there is an error, and documents are checked."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, UsageError
from optotype.schemas.prompt_styles import STYLES, Style
from optotype.schemas.templates import get_template, parse_template, render, shipped_templates

# A shipped version never changes: what was encoded with it is known by name, version and digest. A new wording is a
# new version beside these.
SHIPPED = {
    "bare@1.0.0": "sha256:3a5ac83701e5e9f93e2ade6026902b736c9ee2ed1cbfccd8602678c46043cb29",
    "mmmeb@1.0.0": "sha256:90af6211a00612d51a008e418916788756bf39b8b72895c4f3b64fc8ba3a1926",
}
LANGUAGES = ("en", "it", "es", "fr", "de")
MINE: dict[str, Any] = {
    "format_version": 1,
    "kind": "template",
    "name": "mine",
    "version": "0.1.0",
    "tasks": {
        "t2i": {"query": {"end_mark": ".", "prompts": {"en": "Find: {text}", "*": "{text}"}}},
        "*": {"*": {"end_mark": "!", "prompts": {"*": "<image> is {text}, {text}"}}},
    },
}


def changed(path: str, value: object) -> str:
    """`MINE` as text with one entry set, by a path with dots; ``...`` takes it out."""
    document = copy.deepcopy(MINE)
    *above, last = path.split(".")
    place = document
    for key in above:
        place = place[key]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(document)


def problems(text: str) -> list[tuple[str, str]]:
    with pytest.raises(InvalidDataError) as caught:
        parse_template(text, where="mine.json")
    return [(problem.where, problem.kind) for problem in caught.value.problems]


def test_a_shipped_version_never_changes() -> None:
    assert {str(template): template.digest for template in shipped_templates()} == SHIPPED


def test_the_digest_is_of_the_content() -> None:
    one = parse_template(json.dumps(MINE), where="a")
    other = parse_template(json.dumps(dict(reversed(MINE.items())), indent=3).encode(), where="b")
    assert one.digest == other.digest
    assert parse_template(changed("tasks.t2i.query.end_mark", "?"), where="a").digest != one.digest


def test_mmmeb_has_the_cells_of_the_evaluation() -> None:
    prompts = get_template("mmmeb@1.0.0").prompts
    spoken = {"i2t": LANGUAGES, "t2i": LANGUAGES, "c": LANGUAGES, "vqa": LANGUAGES, "vg": ("en", "fr")}
    cells = {
        (task, side, language)
        for task, languages in spoken.items()
        for side in ("query", "candidate")
        for language in languages
    }
    assert set(prompts) == cells
    with_image = {key[:2] for key, prompt in prompts.items() if prompt.needs_image}
    assert with_image == {
        ("i2t", "query"),
        ("c", "query"),
        ("vqa", "query"),
        ("vg", "query"),
        ("t2i", "candidate"),
        ("vg", "candidate"),
    }
    with_text = {key[:2] for key, prompt in prompts.items() if prompt.needs_text}
    expected = {(task, "query") for task in ("t2i", "vqa", "vg")}
    assert with_text == expected | {(task, "candidate") for task in ("i2t", "c", "vqa")}
    assert {key[:2] for key, prompt in prompts.items() if prompt.end_mark == "?"} == {("vqa", "query")}


def as_the_authors_do(instruction: str, text: str, task: str, style: str) -> str:
    """A query of MMMEB as the published evaluation makes it: one mark, the full stop or the question mark."""
    prompt = instruction.replace("{text}", text)
    mark = "?" if task == "vqa" else "."
    if style == "plain":
        prompt = prompt.strip()
        return prompt[:-1] if prompt[-1] in ".?" else prompt
    if prompt[-1] not in ".?":
        prompt = prompt.strip() + mark
    return prompt + "\n" if style == "newline" else prompt


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("text", ["a dog", "a dog.", "Is it a dog?", 'a "dog"', "{text} <image>"])
def test_queries_read_as_the_authors_do(style: Style, text: str) -> None:
    template = get_template("mmmeb")
    for (task, side, language), prompt in template.prompts.items():
        if side == "query":
            instruction = prompt.text.replace("<image>", "<|image_1|>")
            expected = as_the_authors_do(instruction, text, task, style)
            assert render(template, text, task=task, side=side, language=language, style=style) == expected


def test_rendering_by_hand() -> None:
    mmmeb = get_template("mmmeb@1")
    assert (
        render(mmmeb, "un cane", task="t2i", side="query", language="it", style="punct")
        == "Trovami un'immagine di tutti i giorni che corrisponda alla didascalia data: un cane."
    )
    assert (
        render(mmmeb, "Was ist das", task="vqa", side="query", language="de", style="newline", image_token="<img>")
        == "<img>\nStellen Sie das gegebene Bild mit der folgenden Frage dar: Was ist das?\n"
    )
    assert render(mmmeb, "ein Hund.", task="i2t", side="candidate", language="de", style="plain") == "ein Hund"
    assert render(get_template("bare"), " a dog? ") == " a dog? "
    mine = parse_template(json.dumps(MINE), where="mine")
    assert render(mine, "{text}<image>", task="c") == "<image> is {text}<image>, {text}<image>"
    assert render(mine, "x", image_token="", style="punct") == "is x, x!"


def test_what_is_named_comes_before_any() -> None:
    mine = parse_template(json.dumps(MINE), where="mine")
    assert mine.prompt("t2i", "query", "en").text == "Find: {text}"
    assert mine.prompt("t2i", "query", "pt").text == mine.prompt("t2i", "query", None).text == "{text}"
    assert mine.prompt(None, None, None).text == mine.prompt("vqa", "candidate", "pt").text
    assert mine.distinguishes("task")
    assert mine.distinguishes("language")
    bare = get_template("bare")
    assert bare.distinguishes("task")
    assert not bare.distinguishes("language")
    assert [bare.prompt("vqa", side, "en").end_mark for side in ("query", "candidate", None)] == ["?", ".", "."]


@pytest.mark.parametrize(
    ("asked", "message", "hint"),
    [
        (("vg", "query", "it"), "has no language 'it' for vg query; it has en, fr", "--template FILE.json"),
        (("i2i", "query", "en"), "has no task 'i2i'; it has i2t, t2i, c, vqa, vg", "Did you mean 't2i'"),
        (("i2t", "queries", "en"), "has no side 'queries' for i2t; it has query, candidate", "query"),
        ((None, "query", "en"), "mmmeb@1.0.0 wants a task: i2t, t2i, c, vqa, vg", "--template-task i2t"),
        (("c", None, "en"), "mmmeb@1.0.0 wants a side for c: query, candidate", "--template-side query"),
        (("c", "query", None), "mmmeb@1.0.0 wants a language for c query: en, it, es, fr, de", "--language en"),
    ],
)
def test_a_prompt_that_is_not_there(asked: tuple[str | None, ...], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        get_template("mmmeb").prompt(*asked)
    assert message in caught.value.message
    assert hint in str(caught.value.hint)


def test_references() -> None:
    digest = SHIPPED["mmmeb@1.0.0"]
    for reference in ("mmmeb", "mmmeb@latest", "mmmeb@1", "mmmeb@^1.0", "mmmeb@1.0.0", f"mmmeb@{digest[:20]}"):
        assert get_template(reference).digest == digest
    with pytest.raises(NotFoundError, match="there is no template 'mmeb'") as caught:
        get_template("mmeb")
    assert "Did you mean 'mmmeb'" in str(caught.value.hint)
    for reference in ("mmmeb@2", "mmmeb@1.0.1", "mmmeb@stable", "mmmeb@sha256:00000000"):
        with pytest.raises(NotFoundError, match=r"versions are 1\.0\.0"):
            get_template(reference)
    with pytest.raises(UsageError, match="not a name"):
        get_template("..")


def test_a_template_of_ones_own_is_a_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(MINE))
    template = get_template(str(path))
    assert (str(template), template.image_token, template.title) == ("mine@0.1.0", None, "")
    for missing in (str(tmp_path / "other.json"), "mine.json", "../template_data/bare-1.0.0"):
        with pytest.raises(NotFoundError, match="no template at"):
            get_template(missing)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a JSON template"),
        ("[]", "a template is a JSON object"),
        (changed("format_version", 2), "this optotype reads up to 1"),
        (changed("format_version", ...), "has no format_version"),
        (changed("kind", "suite"), "kind is 'suite'; 'template' is wanted"),
    ],
)
def test_other_documents_are_refused(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        parse_template(text, where="mine.json")


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("name", "My name", ("name", "bad-name")),
        ("name", ..., ("name", "bad-name")),
        ("version", "1.0", ("version", "bad-version")),
        ("version", 1, ("version", "bad-version")),
        ("titel", "x", ("titel", "unknown-key")),
        ("title", 3, ("title", "not-text")),
        ("image_token", "", ("image_token", "not-text")),
        ("source", "\ud800", ("source", "not-text")),
        ("tasks", {}, ("tasks", "not-object")),
        ("tasks", ..., ("tasks", "not-object")),
        ("tasks.T2I", MINE["tasks"]["*"], ("tasks", "bad-task")),
        ("tasks.t2i", ["query"], ("tasks.t2i", "not-object")),
        ("tasks.t2i.both", MINE["tasks"]["*"]["*"], ("tasks.t2i.both", "bad-side")),
        ("tasks.t2i.query", {"prompts": {"en": "{text}"}}, ("tasks.t2i.query", "bad-side")),
        ("tasks.t2i.query.end_mark", "..", ("tasks.t2i.query.end_mark", "bad-end-mark")),
        ("tasks.t2i.query.end_mark", ["."], ("tasks.t2i.query.end_mark", "bad-end-mark")),
        ("tasks.t2i.query.prompts", {}, ("tasks.t2i.query.prompts", "not-object")),
        ("tasks.t2i.query.prompts.english!", "{text}", ("tasks.t2i.query.prompts.english!", "bad-language")),
        ("tasks.t2i.query.prompts.en", " ", ("tasks.t2i.query.prompts.en", "not-text")),
        ("tasks.t2i.query.prompts.en", "Find it", ("tasks.t2i.query.prompts.en", "no-place")),
        ("tasks.t2i.query.prompts.en", "{text} {qry_field}", ("tasks.t2i.query.prompts.en", "unknown-place")),
        ("tasks.t2i.query.prompts.en", "<|image_1|> {text}", ("tasks.t2i.query.prompts.en", "unknown-place")),
        ("tasks.t2i.query.prompts.en", "\ud800{text}", ("tasks.t2i.query.prompts.en", "not-text")),
    ],
)
def test_a_problem_of_a_document(path: str, value: object, expected: tuple[str, str]) -> None:
    assert problems(changed(path, value)) == [expected]


def test_all_problems_are_listed() -> None:
    broken = {**MINE, "name": "", "version": "x", "tasks": {"t2i": {"query": {"end_mark": "x", "prompts": {"en": ""}}}}}
    assert [kind for _, kind in problems(json.dumps(broken))] == ["bad-name", "bad-version", "bad-end-mark", "not-text"]


def test_an_unknown_language_is_answered_with_one_list() -> None:
    with pytest.raises(UsageError) as caught:
        get_template("mmmeb").prompt("i2t", "query", "zz")
    assert "it has en, it, es, fr, de" in caught.value.message
    assert caught.value.hint == "A template of your own can have it: --template FILE.json"


def test_x_alone_is_no_version_of_a_template() -> None:
    with pytest.raises(UsageError, match="'mmmeb@x': x alone is not a version") as caught:
        get_template("mmmeb@x")
    assert "mmmeb@1" in str(caught.value.hint)
    assert get_template("mmmeb@1.x").version == "1.0.0"
