"""Judgements of metrics by what encoders reach downstream, and the files that keep them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.references import project_around
from optotype.registry.results import check_out, write_csv, write_json
from optotype.schemas.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from optotype.pipelines.judging.predictions import Outcome, Prediction
    from optotype.pipelines.progress import Progress
    from optotype.store.project import Project

__all__ = ["FILES", "judge", "write_judgement"]

FILES = ("judgement.csv", "curves.csv", "metrics.json", "judgement.json")


def judge(
    rankings: Sequence[str | Path],
    downstream: str | Path,
    *,
    project: Project | str | Path | None = None,
    metrics: Sequence[str] | None = None,
    curves: Sequence[str] | None = None,
    bootstrap: int = 1000,
    pool_repeats: int = 100,
    seed: int = 0,
    rename: Mapping[str, str] | None = None,
    common: bool = False,
    partial: bool = False,
    costs: str | Path | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Judge metrics by how their scores correlate with what the encoders reach downstream.

    Parameters
    ----------
    rankings : sequence of path
        ``ranking.json`` of ``optotype rank`` (or the folder that holds it), of one metric or several, with sweeps or
        without; or tables ``encoder, model, score``, see `optotype.pipelines.judging.sources.read_predictions`. One or
        more.
    downstream : path
        Table ``encoder, model, score``, perhaps with ``benchmark``, or a ``ranking.json`` of one metric.
    project : Project or path, optional
        Where the shapes of arrays are looked up for the FLOPs; by default the one around the working directory, if
        there is one.
    metrics, curves : sequence of str, optional
        What is judged and drawn; default everything.
    bootstrap, pool_repeats, seed, common, partial
        As for `optotype.pipelines.judging.judge.judge`.
    rename : mapping of str to str, optional
        Names of encoders and language models in any of the files -> names under which they are joined.
    costs : path, optional
        Table ``name, parameters, tokens, channels``, see `optotype.pipelines.judging.shapes.read_costs`; told
        before what arrays tell.
    out : path, optional
        Folder for the files of `write_judgement`.
    progress : Progress, optional

    Returns
    -------
    dict
        See `optotype.pipelines.judging.judge.judge`, with ``sources``: name and digest of every file.

    Raises
    ------
    OptotypeError
        As reading and judging do, and for a file that is given twice; nothing is written then.
    """
    from optotype.pipelines.judging.judge import judge as run
    from optotype.pipelines.judging.predictions import names_apart
    from optotype.pipelines.judging.shapes import read_costs, stored_shapes
    from optotype.pipelines.judging.sources import read_outcomes, read_predictions

    folder = None if out is None else check_out(out, FILES)
    if not rankings:
        raise UsageError("a judgement takes one RANKING or more, and DOWNSTREAM")
    predictions: list[Prediction] = []
    notes: list[str] = []
    files = _distinct([*rankings, downstream])
    names = names_apart(files)
    for path, called in zip(files[:-1], names[:-1], strict=True):
        found, left_out = read_predictions(path, called)
        predictions += found
        notes += left_out
    outcomes = read_outcomes(files[-1], names[-1])
    known = stored_shapes(project_around(project), predictions)
    known |= {} if costs is None else read_costs(Path(costs))
    predictions, outcomes = _renamed(predictions, outcomes, rename or {})
    document = run(
        predictions,
        outcomes,
        metrics=metrics,
        curves=curves,
        bootstrap=bootstrap,
        pool_repeats=pool_repeats,
        seed=seed,
        common=common,
        partial=partial,
        known=known,
        progress=progress,
    )
    document["warnings"] += notes
    document["parameters"]["rename"] = dict(rename or {})
    document["sources"] = {
        "rankings": [_source(path, called) for path, called in zip(files[:-1], names[:-1], strict=True)],
        "downstream": _source(files[-1], names[-1]),
        "costs": None if costs is None else _source(Path(costs), Path(costs).name),
    }
    if folder is not None:
        write_judgement(document, folder)
    return document


def write_judgement(document: Mapping[str, Any], out: Path) -> list[Path]:
    """Write a judgement into the folder ``out``; equal documents give equal bytes.

    - ``judgement.csv``: a row for each result and language model, and for the mean over these.
    - ``curves.csv``: the points of all curves.
    - ``metrics.json``: ``{metric: {model: {"rho": ..., "r": ...}}}`` under main settings, for ``dvc metrics``.
    - ``judgement.json``: the whole document.

    Returns
    -------
    list of Path
        The files written, ``judgement.json`` last: with it the folder is whole.
    """
    from optotype.pipelines.judging.curves import COLUMNS
    from optotype.pipelines.judging.judge import ROW_COLUMNS

    check_out(out, FILES)
    metrics: dict[str, Any] = {}
    for row in document["rows"]:
        if row["main"]:
            metrics.setdefault(row["metric"], {})[row["model"]] = {"rho": row["rho"], "r": row["r"]}
    write_csv(document["rows"], ROW_COLUMNS, out / "judgement.csv")
    write_csv(document["curves"], COLUMNS, out / "curves.csv")
    write_json(metrics, out / "metrics.json")
    write_json(dict(document), out / "judgement.json")
    return [out / name for name in FILES]


def _renamed(
    predictions: Sequence[Prediction], outcomes: Sequence[Outcome], rename: Mapping[str, str]
) -> tuple[list[Prediction], list[Outcome]]:
    """Both with other names of encoders and language models."""
    rows: list[Prediction | Outcome] = [*predictions, *outcomes]
    there = sorted({name for row in rows for name in (row.encoder, row.model) if name is not None})
    for name in rename:
        if name not in there:
            raise UsageError(
                f"--rename {name}=...: no encoder or language model is called so", hint=did_you_mean(name, there)
            )

    def named(name: str) -> str:
        return rename.get(name, name)

    return (
        [replace(row, encoder=named(row.encoder), model=row.model and named(row.model)) for row in predictions],
        [replace(row, encoder=named(row.encoder), model=row.model and named(row.model)) for row in outcomes],
    )


def _distinct(paths: Sequence[str | Path]) -> list[Path]:
    """The files, a folder being the ranking in it; each may be given once."""
    files = [Path(path) / "ranking.json" if Path(path).is_dir() else Path(path) for path in paths]
    seen: set[Path] = set()
    for path in files:
        if path.resolve() in seen:
            raise UsageError(
                f"{path} is given twice", hint="Give every RANKING once, and another table as DOWNSTREAM, the last one"
            )
        seen.add(path.resolve())
    return files


def _source(path: Path, name: str) -> dict[str, str]:
    """Name and digest of a file, for the record."""
    return {"name": name, "digest": f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"}
