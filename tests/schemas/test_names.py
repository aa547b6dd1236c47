"""Names of arrays and ids of rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optotype.schemas.errors import UsageError
from optotype.schemas.names import check_array_name, id_problems, is_url_or_path


@pytest.mark.parametrize("name", ["a", "0", "vit-s14-focus-l8", "a.b_c-d", "x" * 128])
def test_sound_names_pass(name: str) -> None:
    assert check_array_name(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../a", "a/b", "A", "-a", "a-", ".a", "a.", "a b", "ä", "a\n", "a\x00", "x" * 129]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="not a name for an array"):
        check_array_name(name)


def test_refusal_suggests_a_sound_name() -> None:
    with pytest.raises(UsageError) as caught:
        check_array_name("My Encoder/v2")
    assert caught.value.hint == "Try 'my-encoder-v2'."


@given(st.text(max_size=40))
def test_any_suggestion_is_itself_sound(text: str) -> None:
    try:
        check_array_name(text)
    except UsageError as error:
        if error.hint is not None:
            check_array_name(error.hint.removeprefix("Try '").removesuffix("'."))


@given(st.text(max_size=20))
def test_a_name_is_never_a_path(text: str) -> None:
    try:
        assert not is_url_or_path(check_array_name(text))
    except UsageError:
        return


def test_sound_ids_have_no_problems() -> None:
    assert id_problems(["1f600", "b", "ä", "a b"]) == []


def test_every_problem_with_ids_is_told_at_once() -> None:
    problems = id_problems(["a", "a", "", " b", 3, "c\n", "d\x00e", "é", "e\u0301"])
    kinds = [problem.kind for problem in problems]
    assert sorted(set(kinds)) == ["ambiguous-id", "duplicate-id", "id-blank", "id-control", "id-not-string"]
    assert "ids[4]" in [problem.where for problem in problems]
    assert any("'a' occurs 2 times" in problem.message for problem in problems)


def test_many_duplicates_are_counted_not_all_listed() -> None:
    problems = id_problems([str(i) for i in range(100)] * 2)
    assert len(problems) == 6
    assert "95 more" in problems[-1].message
