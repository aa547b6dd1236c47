"""Results on a suite, read back: every score at its item, what is missing counted, what is unknown refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optotype.registry.exporters.names import is_blind, suite_benchmark
from optotype.registry.exporters.suite import OpenSuite
from optotype.schemas.errors import InvalidDataError, Problem, UsageError, did_you_mean
from optotype.store.checks import limited

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Results", "read_results"]


@dataclass(frozen=True)
class Results:
    """Scores of models on the items of a suite.

    Attributes
    ----------
    models : list of str, length M
        Sorted.
    keys : list of (benchmark, item_id), length K
        Those of the suite, in its order.
    scores : ndarray (M, K) float64
        On the benchmarks' own scales; NaN where one is missing.
    invalid : dict
        Model -> reason -> number of records without a score.
    notes : list of str
    """

    models: list[str]
    keys: list[tuple[str, str]]
    scores: NDArray[np.float64]
    invalid: dict[str, dict[str, int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_results(
    paths: Sequence[Path],
    suite: OpenSuite,
    *,
    format: str = "auto",  # noqa: A002
    benchmarks: Mapping[str, str] | None = None,
    invalid_response: str | None = None,
) -> Results:
    """Read results and put them at the suite's items.

    Parameters
    ----------
    paths, format, invalid_response
        As `optotype.store.importers.scores.read_records` takes them.
    suite : OpenSuite
    benchmarks : mapping, optional
        Name in the results -> benchmark of the suite; others are understood as `suite_benchmark` says.

    Raises
    ------
    UsageError
        ``benchmarks`` names one that the suite does not have.
    InvalidDataError
        Every problem: benchmarks and items that the suite does not have, scores of one model and item that differ, no
        scores with images at all.
    """
    from optotype.store.importers.scores import read_records

    given = dict(benchmarks or {})
    for name in given.values():
        if name not in suite.benchmarks:
            raise UsageError(f"the suite has no benchmark {name!r}", hint=did_you_mean(name, suite.benchmarks))
    records = read_records(paths, format=format, invalid_response=invalid_response)
    notes = list(records.notes)
    names = [str(name) for name in dict.fromkeys(records.table["benchmark"].tolist())]
    runs = {name: given.get(name) or suite_benchmark(name, suite.name, suite.benchmarks) for name in names}
    blind = {name for name in names if name not in given and runs[name] != name and is_blind(name)}
    place = {key: at for at, key in enumerate(suite.keys)}
    short = _as_numbers(suite)
    problems = [
        Problem(name, "unknown-benchmark", f"no benchmark of the suite; it has {', '.join(suite.benchmarks)}")
        for name, run in runs.items()
        if run is None
    ]
    cells: dict[tuple[str, int], tuple[float, str]] = {}
    invalid: dict[str, Counter[str]] = {}
    left_out: Counter[str] = Counter()
    for row in _rows(records.table):
        name = str(row["benchmark"])
        if row["modality"] == "blind" or name in blind:
            left_out[str(row["model"])] += 1
            continue
        benchmark = runs[name]
        if benchmark is None:
            continue
        item, model, where = str(row["item_id"]), str(row["model"]), _where(row)
        at = place.get((benchmark, item), short.get((benchmark, item)))
        if at is None:
            problems.append(Problem(where, "unknown-item", f"{item!r} of {benchmark} is not in the suite"))
            continue
        score = float(row["score"])
        first, known = cells.setdefault((model, at), (score, where))
        if first != score and not (np.isnan(first) and np.isnan(score)):
            said = f"{model} has {score:g} for {item!r} of {benchmark}, and {first:g} at {known}"
            problems.append(Problem(where, "differing-scores", said))
        elif np.isnan(score) and known == where and row["invalid"]:
            invalid.setdefault(model, Counter())[str(row["invalid"])] += 1
    if not cells and not problems:
        problems.append(Problem("results", "empty", "no score of a run with images"))
    if problems:
        raise InvalidDataError(
            f"results on {suite.label} refused:",
            limited(problems),
            hint="Results on full benchmarks are imported with `optotype scores import`; a benchmark that is called "
            "otherwise there is named with --benchmark NAME=BENCHMARK.",
        )
    notes += [f"{model}: {count} scores without images are left out" for model, count in sorted(left_out.items())]
    models = sorted({model for model, _ in cells})
    scores = np.full((len(models), len(place)), np.nan)
    for (model, at), (score, _) in cells.items():
        scores[models.index(model), at] = score
    return Results(models, suite.keys, scores, {name: dict(sorted(c.items())) for name, c in invalid.items()}, notes)


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    columns = ["benchmark", "item_id", "model", "score", "modality", "invalid", "source", "row"]
    wanted = table[[name for name in columns if name in table]].astype(object)
    empty = dict.fromkeys(columns, None)
    return [
        {**empty, **{str(key): None if value != value and key != "score" else value for key, value in row.items()}}
        for row in wanted.to_dict("records")
    ]


def _where(row: Mapping[str, Any]) -> str:
    source = "results" if row["source"] is None else str(row["source"])
    return source if row["row"] is None else f"{source}:{row['row']}"


def _as_numbers(suite: OpenSuite) -> dict[tuple[str, str], int]:
    """Where ids stand that VLMEvalKit has read as whole numbers: ``7`` for ``007``, if no two items become one."""
    found: dict[tuple[str, str], int] = {}
    for benchmark in suite.benchmarks:
        ids = {item: at for at, (name, item) in enumerate(suite.keys) if name == benchmark}
        if all(item.isascii() and item.isdecimal() for item in ids) and len({int(item) for item in ids}) == len(ids):
            found |= {(benchmark, str(int(item))): at for item, at in ids.items()}
    return found
