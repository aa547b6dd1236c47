"""The exception tree and its exit codes."""

from __future__ import annotations

import inspect
import pickle

from optotype.schemas import errors
from optotype.schemas.errors import InvalidDataError, OptotypeError, Problem, did_you_mean


def tree() -> list[type[OptotypeError]]:
    return [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, OptotypeError)]


def test_every_kind_has_its_own_exit_code_and_stands_in_the_drawing() -> None:
    drawing = errors.__doc__ or ""
    codes = [error.exit_code for error in tree()]
    assert len(codes) == len(set(codes)) == 10
    for error in tree():
        line = next(line for line in drawing.splitlines() if f"{error.__name__} " in line)
        assert f" {error.exit_code} " in line


def test_invalid_data_lists_all_problems_and_the_next_step() -> None:
    problems = [Problem("ids[1]", "id-blank", "empty"), Problem("patches", "not-finite", "3 NaN")]
    error = InvalidDataError("a.npz was not imported", problems, hint="Mend it.")
    assert str(error) == "a.npz was not imported\n  - ids[1]: empty\n  - patches: 3 NaN\nMend it."
    assert error.as_dict()["problems"] == [
        {"where": "ids[1]", "kind": "id-blank", "message": "empty"},
        {"where": "patches", "kind": "not-finite", "message": "3 NaN"},
    ]


def test_suggestion_names_the_closest_or_lists_what_there_is() -> None:
    assert did_you_mean("siglp", ["siglip", "clip"]) == "Did you mean 'siglip'?"
    assert did_you_mean("zzz", ["b", "a"]) == "There are: a, b."
    assert did_you_mean("zzz", [f"n{i:02}" for i in range(12)]).endswith("n09 and 2 more.")
    assert did_you_mean("a", []) == ""


def test_errors_come_back_whole_from_another_process() -> None:
    invalid = InvalidDataError("refused", [Problem("ids", "id-blank", "empty")], hint="Mend it.")
    for error in (invalid, errors.NotFoundError("no such array", hint="optotype features list")):
        back = pickle.loads(pickle.dumps(error))
        assert (type(back), str(back), back.as_dict()) == (type(error), str(error), error.as_dict())
