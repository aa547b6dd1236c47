"""References: what they parse to, what they match, and that none leaves the folder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optotype.schemas.errors import UsageError
from optotype.schemas.references import (
    KINDS,
    Alias,
    Digest,
    Exact,
    Range,
    Reference,
    check_alias,
    check_version,
    sort_key,
)

VERSIONS = [
    "0.0.3",
    "0.0.4",
    "0.9.0",
    "1.0.0-rc.1",
    "1.0.0",
    "1.2.0-rc.1",
    "1.2.0-rc.2",
    "1.2.0",
    "1.2.5",
    "1.3.0-a",
    "1.3.0",
    "2.0.0-rc.1",
    "2.0.0",
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prime", Reference(None, "prime")),
        ("suite/prime", Reference("suite", "prime")),
        ("suite/prime@1.2.0", Reference("suite", "prime", Exact("1.2.0"))),
        ("prime@1.2.0-rc.1", Reference(None, "prime", Exact("1.2.0-rc.1"))),
        ("prime@^1.2", Reference(None, "prime", Range("^1.2"))),
        ("prime@>= 1.0, < 2", Reference(None, "prime", Range(">=1.0,<2"))),
        ("prime@1.x", Reference(None, "prime", Range("1.x"))),
        ("prime@*", Reference(None, "prime", Range("*"))),
        ("prime@x", Reference(None, "prime", Range("x"))),
        ("prime@latest", Reference(None, "prime", Alias("latest"))),
        ("prime@sha256:0123abcd", Reference(None, "prime", Digest("sha256:0123abcd"))),
    ],
)
def test_parsed(text: str, expected: Reference) -> None:
    assert Reference.parse(text) == expected
    assert Reference.parse(str(expected)) == expected


def test_the_verb_implies_the_kind() -> None:
    assert Reference.parse("prime@1.0.0", kind="suite") == Reference("suite", "prime", Exact("1.0.0"))
    assert Reference.parse("suite/prime", kind="suite").kind == "suite"
    with pytest.raises(UsageError, match="of kind frontier; suite is wanted"):
        Reference.parse("frontier/prime", kind="suite")


@pytest.mark.parametrize(
    ("selector", "matched"),
    [
        ("^1.2", "1.2.0 1.2.5 1.3.0"),
        ("^1", "1.0.0 1.2.0 1.2.5 1.3.0"),
        ("^0.0.3", "0.0.3"),
        ("^0.0", "0.0.3 0.0.4"),
        ("^0", "0.0.3 0.0.4 0.9.0"),
        ("~1.2", "1.2.0 1.2.5"),
        ("~1", "1.0.0 1.2.0 1.2.5 1.3.0"),
        ("~1.2.1", "1.2.5"),
        (">=1.0,<2", "1.0.0 1.2.0 1.2.5 1.3.0"),
        (">1.2", "1.3.0 2.0.0"),
        ("<=1.2", "0.0.3 0.0.4 0.9.0 1.0.0 1.2.0 1.2.5"),
        ("<1.2.0", "0.0.3 0.0.4 0.9.0 1.0.0"),
        ("=1.2", "1.2.0 1.2.5"),
        ("=1.2.5", "1.2.5"),
        ("1.2", "1.2.0 1.2.5"),
        ("1.2.x", "1.2.0 1.2.5"),
        ("1.*", "1.0.0 1.2.0 1.2.5 1.3.0"),
        ("*", "0.0.3 0.0.4 0.9.0 1.0.0 1.2.0 1.2.5 1.3.0 2.0.0"),
        # Pre-releases only where one of the same version is named.
        ("^1.2.0-rc.2", "1.2.0-rc.2 1.2.0 1.2.5 1.3.0"),
        (">=1.0.0-rc.1,<1.2.0", "1.0.0-rc.1 1.0.0"),
        (">=1.2.0-rc.1,<1.2.0", "1.2.0-rc.1 1.2.0-rc.2"),
        ("<2.0.0-rc.1", "0.0.3 0.0.4 0.9.0 1.0.0 1.2.0 1.2.5 1.3.0"),
    ],
)
def test_range(selector: str, matched: str) -> None:
    found = Reference.parse(f"prime@{selector}").selector
    assert isinstance(found, Range)
    assert [version for version in VERSIONS if found.matches(version)] == matched.split()
    assert found.newest(reversed(VERSIONS)) == matched.split()[-1]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@1.0.0",
        "../prime",
        "suite/../prime",
        "suite/prime/1.0.0",
        "/etc/passwd",
        "suite//prime",
        "prime@../1.0.0",
        "prime@1.0.0/../..",
        "prime@",
        "Prime",
        "pri me",
        "prime-",
        "-prime",
        "pri.me",
        "pri_me",
        "prime\n",
        "prime@1.0.0\n",
        "prime@1.0.0+build",
        "prime@01.0.0",
        "prime@v1.0.0",
        "prime@^x",
        "prime@>=1.0<2",
        "prime@1.2-rc",
        "prime@sha256:xyz",
        "prime@sha256:abc",
        "prime@SHA256:0123abcd",
        "prime@１.0.0",
        "suit/prime",
        "a" * 101,
        "a" * 500,
        "a@" + "9" * 390,
        "a@" + ",".join(["1.0.0"] * 60),
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Reference.parse(text)


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("mini@1.0.0 ", "ends with a blank", "Try 'mini@1.0.0'."),
        ("sha256:30cb0123", "a digest alone", "NAME@sha256:30cb0123"),
        ("sha256:30cb", "a digest alone", "NAME@sha256:"),
        ("mini@>=0.1 <0.2", "a comma is wanted", "Try '>=0.1,<0.2'."),
        ("mini@1.0.0 1.1.0", "a comma is wanted", "Try '1.0.0,1.1.0'."),
    ],
)
def test_nearly_a_reference(text: str, words: str, hint: str) -> None:
    with pytest.raises(UsageError, match=words) as error:
        Reference.parse(text)
    assert hint in str(error.value.hint)


@pytest.mark.parametrize(("text", "hint"), [("v1.2", "1.2.0"), ("1.2", "1.2.0"), ("1", "1.0.0"), ("1.2.0+b", "1.2.0")])
def test_nearly_a_version(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        check_version(text)
    assert error.value.hint == f"Try {hint!r}."


@pytest.mark.parametrize("word", ["latest", "x", "*", "1", "1.0.0", "", "Stable", "a/b", "sha256:00"])
def test_not_an_alias(word: str) -> None:
    with pytest.raises(UsageError):
        check_alias(word)


def test_kinds_that_are_close_are_suggested() -> None:
    with pytest.raises(UsageError) as error:
        Reference.parse("rankings/emoji")
    assert "Did you mean 'ranking'?" in str(error.value.hint)


numbers = st.integers(0, 30).map(str)
releases = st.tuples(numbers, numbers, numbers).map(".".join)
versions = st.one_of(releases, st.builds("{}-{}.{}".format, releases, st.sampled_from(["rc", "a", "alpha-b"]), numbers))
partial = st.one_of(numbers, st.tuples(numbers, numbers).map(".".join), versions)
comparators = st.builds("{}{}".format, st.sampled_from(["^", "~", ">=", "<=", ">", "<", "="]), partial)
selectors = st.one_of(
    st.just(""),
    versions,
    st.lists(comparators, min_size=1, max_size=3).map(",".join),
    st.sampled_from(["*", "x", "1.x", "1.2.*", "latest", "stable", "sha256:0123456789abcdef"]),
)
names = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)


@given(st.sampled_from(["", *(f"{kind}/" for kind in KINDS)]), names, selectors)
def test_round_trip(kind: str, name: str, selector: str) -> None:
    text = f"{kind}{name}" + (f"@{selector}" if selector else "")
    parsed = Reference.parse(text)
    assert str(parsed) == text
    assert Reference.parse(str(parsed)) == parsed


@given(st.text())
def test_whatever_parses_stays_inside(text: str) -> None:
    try:
        parsed = Reference.parse(text)
    except UsageError:
        return
    assert "/" not in parsed.name
    assert ".." not in parsed.name
    assert "\\" not in text
    assert "/" not in str(parsed.selector)


@given(releases, releases)
def test_a_caret_is_its_two_bounds(low: str, version: str) -> None:
    major, minor, patch = map(int, low.split("."))
    above = (major + 1, 0, 0) if major else (0, minor + 1, 0) if minor else (0, 0, patch + 1)
    asked = tuple(map(int, version.split(".")))
    assert Range(f"^{low}").matches(version) == ((major, minor, patch) <= asked < above)


def test_versions_sort_by_precedence() -> None:
    shuffled = ["1.10.0", "1.2.0", "1.0.0", "1.0.0-rc.2", "1.0.0-rc.10", "1.0.0-alpha"]
    expected = ["1.0.0-alpha", "1.0.0-rc.2", "1.0.0-rc.10", "1.0.0", "1.2.0", "1.10.0"]
    assert sorted(shuffled, key=sort_key) == expected
