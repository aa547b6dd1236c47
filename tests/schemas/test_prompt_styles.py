"""How finished prompts end, by hand and by property."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optotype.schemas.errors import UsageError
from optotype.schemas.prompt_styles import END_MARKS, STYLES, Style, check_style, styled

TEXTS = st.text(alphabet=st.sampled_from([*'ab \n\t\u00a0"):,;¿', *END_MARKS]), max_size=8)
MARKS = st.sampled_from(END_MARKS)
ANY_STYLE = st.sampled_from(STYLES)


@pytest.mark.parametrize(
    ("text", "plain", "punct"),
    [
        ("a dog", "a dog", "a dog."),
        ("a dog.", "a dog", "a dog."),
        ("  a dog \n", "a dog", "a dog."),
        ("a dog?!", "a dog", "a dog?!"),
        ("a dog . . ", "a dog", "a dog . ."),
        ("wait…", "wait", "wait…"),
        ("U.S.", "U.S", "U.S."),
        ('labelled "dog"', 'labelled "dog"', 'labelled "dog".'),
        ('labelled "dog."', 'labelled "dog."', 'labelled "dog.".'),
        ("a dog,", "a dog,", "a dog,."),
        ("犬。", "犬", "犬。"),
        ("?!", "", "?!"),
        (" \n", "", ""),
        ("", "", ""),
    ],
)
def test_by_hand(text: str, plain: str, punct: str) -> None:
    assert styled(text, "plain", ".") == plain
    assert styled(text, "punct", ".") == punct
    assert styled(text, "newline", ".") == (f"{punct}\n" if punct else "")
    assert styled(text, None, ".") == text


def test_the_end_mark_is_the_one_asked_for() -> None:
    assert styled("what colour is it", "punct", "?") == "what colour is it?"
    assert styled("what colour is it.", "punct", "?") == "what colour is it."


@given(TEXTS, ANY_STYLE, MARKS)
@settings(deadline=None)
def test_a_style_twice_is_a_style_once(text: str, style: Style, mark: str) -> None:
    once = styled(text, style, mark)
    assert styled(once, style, mark) == once


@given(TEXTS, ANY_STYLE, MARKS)
@settings(deadline=None)
def test_plain_forgets_the_style_before_it(text: str, style: Style, mark: str) -> None:
    assert styled(styled(text, style, mark), "plain", mark) == styled(text, "plain", mark)


@given(TEXTS, MARKS)
@settings(deadline=None)
def test_what_each_style_promises(text: str, mark: str) -> None:
    plain, punct, newline = (styled(text, style, mark) for style in STYLES)
    assert not plain.endswith(END_MARKS)
    assert plain == plain.strip()
    # one character after the other, from the end
    kept = list(text)
    while kept and (kept[-1].isspace() or kept[-1] in END_MARKS):
        kept.pop()
    assert plain == "".join(kept).lstrip()
    assert punct.endswith(END_MARKS) == bool(text.strip())
    assert punct in (text.strip(), text.strip() + mark)
    assert newline == (punct + "\n" if punct else "")


def test_only_styles_pass() -> None:
    assert [check_style(style) for style in (*STYLES, None)] == [*STYLES, None]
    with pytest.raises(UsageError, match="'punkt' is not a style: plain, punct, newline") as caught:
        check_style("punkt")
    assert "punct" in str(caught.value.hint)
