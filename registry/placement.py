"""Models that were evaluated on a suite alone: read their results, and place them among the suite's panel."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.scaled import unit_scale
from optotype.registry.exporters.results import Results, read_results
from optotype.registry.exporters.suite import OpenSuite, find_panel_of, open_suite
from optotype.registry.references import project_around
from optotype.schemas.errors import InvalidDataError, Problem, UsageError
from optotype.store.checks import limited
from optotype.store.project import Project

if TYPE_CHECKING:
    import xarray as xr

    from optotype.pipelines.placement.place import Placement
    from optotype.pipelines.placement.yardstick import Yardstick
    from optotype.pipelines.progress import Progress

__all__ = ["PLACEMENT_FORMAT", "place"]

PLACEMENT_FORMAT = 1
_SHOWN = 5

Floats = NDArray[np.float64]


def place(
    suite: str,
    results: Sequence[str | Path],
    *,
    panel: str | None = None,
    project: Project | str | Path | None = None,
    format: str = "auto",  # noqa: A002 - the word of the command line
    benchmarks: Mapping[str, str] | None = None,
    invalid_response: str | None = None,
    level: float = 0.9,
    refit: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Place models by their results on a suite.

    Parameters
    ----------
    suite : str
        A published suite, or the folder of one.
    results : sequence of path
        Files or folders, as `optotype scores import` reads them. Tasks that `optotype export` named are understood;
        blind runs are left out.
    panel : str, optional
        Name, path or URL of the panel, or ``scores/NAME[@VERSION]`` as published or pinned; by default the one that
        the suite was chosen on, if it is here or among the pins that were pulled. Without it the
        scores that the suite itself keeps of its panel's models serve, for models that answered every item.
    project : Project or path, optional
        Where names are looked up.
    format : str
        See `optotype.store.importers.scores.read_records`.
    benchmarks : mapping, optional
        Name of a benchmark in the results -> its name in the suite.
    invalid_response : str, optional
        Regular expression; scores whose response it matches are missing.
    level : float
        Of the intervals.
    refit : bool
        Make the suite anew without each model of the panel, and take the interval of the full score from what the
        estimates of these models then miss. Without it intervals are too narrow where a suite was much chosen.
    progress : Progress, optional
        Who is told how that goes; nobody by default.

    Returns
    -------
    dict
        JSON-ready. ``format_version``, ``kind``; ``suite`` (``name, version, digest, items, categories``); ``panel``
        (``name, digest``, or None); ``level``; ``models``: for each ``model, items, answered, missing, invalid``
        (reason -> count), ``score``, ``categories`` (``category, items, answered, score, estimate``), ``estimate``
        (``value, low, high, bounded, models, error``, or None), ``rank``, ``full_rank``, ``full_ranks`` (best, worst),
        ``among``, ``left_out``, ``reason``; see `optotype.pipelines.placement.place`; ``notes``.

    Raises
    ------
    InvalidDataError
        Everything that is wrong with the results: unknown items, scores off the scale, contradictions.
    OptotypeError
        As `open_suite` and the readers do.
    """
    from optotype.pipelines.placement.jackknife import check_level

    check_level(level)
    found = project_around(project)
    opened = open_suite(suite, None if found is None else found.root)
    scores, notes = find_panel_of(opened, found, panel)
    read = read_results(
        [Path(path) for path in results],
        opened,
        format=format,
        benchmarks=benchmarks or {},
        invalid_response=invalid_response,
    )
    notes = [*opened.notes, *notes, *read.notes]
    index = None if scores is None else _positions(opened, scores, given=panel is not None)
    if scores is not None and index is None:
        notes.append(f"the panel {scores.attrs.get('name')} lacks items of the suite; it is not used")
        scores = None
    low, high = _scales(opened, scores, index, notes)
    matrix = _scaled(read, low, high, None if scores is not None else _needed(notes))
    if scores is None or index is None:
        if refit:
            raise UsageError("--refit needs the panel that the suite was chosen on", hint="Name it with --panel.")
        placed = _by_kept_scores(opened, read, matrix, level, notes)
    else:
        errors = _errors(opened, found, scores, progress) if refit else None
        if errors is None:
            notes.append(
                "intervals are of models that the suite was chosen on, and may be too narrow: --refit mends that"
            )
        placed = _by_panel(opened, read, matrix, scores, index, level, errors, notes)
    return {
        "format_version": PLACEMENT_FORMAT,
        "kind": "placement",
        "suite": {
            "name": opened.name,
            "version": opened.version,
            "digest": opened.digest,
            "items": len(opened.items),
            "categories": int(opened.items["category"].nunique()),
        },
        "panel": None if scores is None else {name: str(scores.attrs.get(name, "")) for name in ("name", "digest")},
        "level": level,
        "models": [
            _row(model, read, row, each) for row, (model, each) in enumerate(zip(read.models, placed, strict=True))
        ],
        "notes": list(dict.fromkeys(notes)),
    }


def _row(model: str, read: Results, row: int, placed: Placement) -> dict[str, Any]:
    answered = int(np.isfinite(read.scores[row]).sum())
    return {
        "model": model,
        "items": read.scores.shape[1],
        "answered": answered,
        "missing": read.scores.shape[1] - answered,
        "invalid": read.invalid.get(model, {}),
        **asdict(placed),
    }


def _positions(suite: OpenSuite, panel: xr.Dataset, *, given: bool) -> NDArray[np.int64] | None:
    """Where the suite's items stand in the panel; None if some are not there, which is an error for a ``given`` one."""
    there = {
        key: place
        for place, key in enumerate(zip(panel["benchmark"].values.tolist(), panel["item"].values.tolist(), strict=True))
    }
    missing = [key for key in suite.keys if key not in there]
    if missing and not given:
        return None
    if missing:
        problems = [Problem(f"{benchmark}: {item}", "unknown-item", "not in the panel") for benchmark, item in missing]
        raise InvalidDataError(
            f"{len(missing)} of {len(suite.items)} items of the suite are not in the panel {panel.attrs.get('name')}:",
            limited(problems),
            hint="Give the panel that the suite was chosen on with --panel.",
        )
    return np.array([there[key] for key in suite.keys], dtype=np.int64)


def _scales(
    suite: OpenSuite, panel: xr.Dataset | None, index: NDArray[np.int64] | None, notes: list[str]
) -> tuple[Floats, Floats]:
    """Lowest and highest score of every item."""
    if panel is not None and index is not None:
        low, high = (panel[name].values.astype(np.float64)[index] for name in ("scale_min", "scale_max"))
        return low, high
    notes.append("without the panel the scales of the benchmarks are unknown: scores are taken to lie between 0 and 1")
    return np.zeros(len(suite.items)), np.ones(len(suite.items))


def _needed(notes: Sequence[str]) -> str:
    """What to do about scores that are off the scale where there is no panel."""
    pulls = [note for note in notes if "optotype pull" in note]
    return "; ".join(["The panel knows the scales of its benchmarks: give it with --panel, or pin and pull it", *pulls])


def _scaled(read: Results, low: Floats, high: Floats, hint: str | None = None) -> Floats:
    with np.errstate(invalid="ignore"):
        off = (read.scores < low) | (read.scores > high)
    if off.any():
        problems = [
            Problem(
                f"{read.models[row]}, {read.keys[at][0]}: {read.keys[at][1]}",
                "off-scale",
                f"a score lies between {low[at]:g} and {high[at]:g}, got {read.scores[row, at]:g}",
            )
            for row, at in zip(*(part.tolist() for part in np.nonzero(off)), strict=True)
        ]
        raise InvalidDataError("results refused:", limited(problems), hint=hint)
    scaled: Floats = unit_scale(read.scores, low, high)
    return scaled


def _by_panel(
    suite: OpenSuite,
    read: Results,
    matrix: Floats,
    panel: xr.Dataset,
    index: NDArray[np.int64],
    level: float,
    errors: Mapping[str, float] | None,
    notes: list[str],
) -> list[Placement]:
    from optotype.pipelines.compression.slices import slices
    from optotype.pipelines.placement.place import place as place_one
    from optotype.pipelines.placement.yardstick import yardstick

    measure = yardstick(panel, slices(panel, _category_by(suite)), index)
    placed = []
    for row, model in enumerate(read.models):
        others: Yardstick = measure
        if model in measure.models:
            others = measure.without(model)
            notes.append(f"{model} is in the panel; it is compared with the others")
        placed.append(place_one(matrix[row], _texts(suite, "category"), _weights(suite), others, level, errors))
    for each in placed:
        if each.left_out:
            notes.append(
                "the full score leaves out, since most comparable models of the panel lack them: "
                + ", ".join(each.left_out[:_SHOWN])
                + (f" and {len(each.left_out) - _SHOWN} more" if len(each.left_out) > _SHOWN else "")
            )
        if each.estimate is not None and not each.estimate.bounded:
            notes.append(
                f"{each.estimate.models} models are too few for an interval of level {level:g}: it is all of [0, 1]"
            )
    return placed


def _errors(
    suite: OpenSuite, project: Project | None, panel: xr.Dataset, progress: Progress | None
) -> dict[str, float]:
    from optotype.pipelines.compression.slices import slices
    from optotype.pipelines.placement.refit import refitted_errors
    from optotype.registry.references import open_reference

    embeddings = None
    used = suite.document.get("embeddings")
    if used is not None:
        hint = "Import them again, or leave --refit out."
        if project is None or used["name"] not in project.names("embeddings"):
            raise UsageError(f"--refit needs the embeddings {used['name']!r} that the suite was made with", hint=hint)
        embeddings = open_reference(project, "embeddings", used["name"])
        if embeddings.attrs.get("digest") != used["digest"]:
            raise UsageError(f"--refit: the embeddings {used['name']!r} are other ones by now", hint=hint)
    cut = slices(panel, _category_by(suite))
    return refitted_errors(panel, cut, suite.document["parameters"], embeddings=embeddings, progress=progress)


def _category_by(suite: OpenSuite) -> str:
    return str(suite.document.get("parameters", {}).get("category_by", "category"))


def _by_kept_scores(suite: OpenSuite, read: Results, matrix: Floats, level: float, notes: list[str]) -> list[Placement]:
    """Without the panel: by the scores of its models in ``models.csv``, which are of plain means only."""
    from dataclasses import replace

    from optotype.pipelines.placement.place import place as place_one
    from optotype.pipelines.placement.place import place_by_scores

    kept, unkept = _kept_scores(suite)
    placed = []
    for row, model in enumerate(read.models):
        alone = place_one(matrix[row], _texts(suite, "category"), _weights(suite), None, level)
        others = {name: pair for name, pair in kept.items() if name != model}
        why, missing = unkept, int((~np.isfinite(matrix[row])).sum())
        if why is None and missing:
            # What is kept is of all items: a score of fewer cannot be compared with it, nor can its interval be known.
            why = (
                f"{missing} of {len(suite.items)} items have no score: the scores that the suite keeps are of all of "
                "them (give the panel with --panel, or pin and pull it)"
            )
        if alone.score is None or why is not None:
            reason = alone.reason if alone.score is None else f"the panel is not here, and {why}"
            placed.append(replace(alone, reason=reason))
            continue
        table = np.array(list(others.values()), dtype=np.float64).reshape(-1, 2)
        found = place_by_scores(alone.score, table[:, 0], table[:, 1], level)
        placed.append(replace(found, categories=alone.categories))
        notes.append(
            "the panel is not here: models are compared with the scores that the suite keeps of it, on all items of "
            "the suite"
        )
    return placed


def _kept_scores(suite: OpenSuite) -> tuple[dict[str, tuple[float, float]], str | None]:
    """Model -> score on the suite, score on all items; or why they do not serve."""
    parameters = suite.document.get("parameters", {})
    if parameters.get("normalise", "none") != "none":
        return {}, "the scores that the suite keeps of it are z-scores"
    if str(parameters.get("selector", "")).endswith("-irt"):
        return {}, f"the scores that the suite keeps of it are estimates of {parameters['selector']}"
    path = suite.folder / "models.csv"
    if not path.is_file():
        return {}, "the suite keeps no scores of it"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    pairs = {row.get("model", ""): (row.get("score_compressed"), row.get("score_all")) for row in rows}
    return {name: (float(one), float(other)) for name, (one, other) in pairs.items() if one and other}, None


def _texts(suite: OpenSuite, column: str) -> list[str]:
    values: Iterable[Any] = suite.items[column]
    return [str(value) for value in values]


def _weights(suite: OpenSuite) -> Floats:
    return suite.items["weight"].to_numpy(dtype=np.float64)
