"""Options of a metric: what is taken, what is refused, in words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from optotype.pipelines.metrics.metric import NEEDS, Option, checked_options, missing_needs, reads_patches
from optotype.schemas.errors import UsageError

METRIC: Any = SimpleNamespace(
    name="any",
    kind="cross-modal",
    options={
        "k": Option(10, int, "neighbours", minimum=1, maximum=50),
        "ridge": Option(None, float, "penalty", minimum=0),
        "how": Option("mean", str, "way", choices=("mean", "last")),
        "table": Option("", str, "a file"),
        "fast": Option(False, bool, "less exact"),
    },
)


def test_defaults_and_texts() -> None:
    assert checked_options(METRIC) == {"k": 10, "ridge": None, "how": "mean", "table": "", "fast": False}
    given = {"k": "7", "ridge": "0.5", "how": "last", "table": "a.csv", "fast": "true"}
    assert checked_options(METRIC, given) == {"k": 7, "ridge": 0.5, "how": "last", "table": "a.csv", "fast": True}
    assert checked_options(METRIC, {"ridge": "none", "fast": "no", "k": 3.0})["ridge"] is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"k": "0"}, "k is a whole number from 1 to 50; got '0'"),
        ({"k": 51}, "got 51"),
        ({"k": 2.5}, "got 2.5"),
        ({"k": "2.5"}, "got '2.5'"),
        ({"k": True}, "got True"),
        ({"k": None}, "got None"),
        ({"ridge": "-1"}, "a number of 0 or more or none"),
        ({"ridge": "nan"}, "got 'nan'"),
        ({"ridge": "inf"}, "got 'inf'"),
        ({"how": "first"}, "how is one of mean, last"),
        ({"fast": "maybe"}, "fast is true or false"),
        ({"kk": 1}, "there is no option 'kk'"),
    ],
)
def test_refusals_say_what_is_allowed(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        checked_options(METRIC, given)
    assert words in str(caught.value)
    assert caught.value.hint


def test_missing_needs_come_in_one_order() -> None:
    assert missing_needs({"training", "labels", "states"}, {"labels"}) == ["states", "training"]
    assert missing_needs(NEEDS, NEEDS) == []


def test_who_reads_patches() -> None:
    kinds = {kind: reads_patches(SimpleNamespace(kind=kind)) for kind in ("vision-only", "cross-modal", "trains")}
    assert kinds == {"vision-only": False, "cross-modal": False, "trains": True}
    assert reads_patches(SimpleNamespace(kind="cross-modal", patches=True))
