"""Rankings under one or several prenorms, and the files that keep them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.references import expand, project_for
from optotype.schemas.errors import UsageError
from optotype.store.drafts import draft_file

if TYPE_CHECKING:
    from optotype.pipelines.progress import Progress
    from optotype.store.project import Project

__all__ = ["COMBINATIONS", "RANKING_FORMAT", "rank", "write_ranking"]

RANKING_FORMAT = 1
_PLOTTED = ("encoder", "model", "score", "chance", "adjusted")

# (features, states): the default comes first
COMBINATIONS = (("none", "l2"), ("none", "none"), ("l2", "l2"), ("l2", "none"))


def rank(
    features: Sequence[str],
    states: Sequence[str],
    *,
    project: Project | str | Path | None = None,
    metric: str = "ravel",
    k: int = 100,
    eps: float = 1e-4,
    prenorm_features: str = "none",
    prenorm_states: str = "l2",
    all_prenorms: bool = False,
    null: int = 0,
    seed: int = 0,
    bootstrap: int = 0,
    common: bool = False,
    scheduler: str = "threads",
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Rank vision encoders for language models: every FEATURES against every STATES, best score first.

    Parameters
    ----------
    features, states : sequence of str
        Arrays, one or more of each: names, paths or URLs; the name of a bundle stands for all its arrays, and
        ``@FILE:KEY`` for the names in a YAML file.
    project : Project or path, optional
        Where names are looked up and graphs are kept. By default the one that the working directory lies in; none is
        needed where all references are paths or URLs.
    metric : {"ravel"}
    k : int
        Neighbours per item, less than the items.
    eps : float
        Added to every eigenvalue when whitening.
    prenorm_features, prenorm_states : {"none", "l2"}
        Rows before whitening: as they are, or L2-normalised.
    all_prenorms : bool
        All four combinations of the two instead, each in rows of its own.
    null, bootstrap : int
        Shuffles for the permutation null and resamplings for the interval; 0 for none.
    seed : int
        Of both.
    common : bool
        Use the ids that all arrays have instead of asking for equal sets.
    scheduler : str
        ``threads``, ``processes`` or the address of a dask.distributed scheduler. Same bytes.
    out : path, optional
        Folder for the files of `write_ranking`.
    progress : Progress, optional
        Who is told; nobody by default.

    Returns
    -------
    list of dict
        See `optotype.pipelines.rank.rank`. Ties by encoder, model and prenorms.

    Raises
    ------
    OptotypeError
        As `optotype.pipelines.rank.rank` does; nothing is written then.
    """
    from optotype.pipelines.rank import rank as rank_once

    if out is not None and Path(out).exists() and not Path(out).is_dir():
        raise UsageError(f"{out} is a file; --out takes a folder")
    project = project_for(project, (*features, *states))
    encoders, models = expand(project, "features", features), expand(project, "states", states)
    chosen = COMBINATIONS if all_prenorms else ((prenorm_features, prenorm_states),)
    rows: list[dict[str, Any]] = []
    for visual, textual in chosen:
        rows += rank_once(
            project,
            encoders,
            models,
            metric=metric,
            k=k,
            eps=eps,
            prenorm_features=visual,
            prenorm_states=textual,
            null=null,
            seed=seed,
            bootstrap=bootstrap,
            common=common,
            scheduler=scheduler,
            progress=progress,
        )
    rows.sort(key=_order)
    if out is not None:
        write_ranking(rows, Path(out))
    return rows


def write_ranking(rows: Sequence[Mapping[str, Any]], out: Path) -> list[Path]:
    """Write a ranking into the folder ``out``; equal rows give equal bytes, and each file takes its place in one step.

    - ``ranking.json``: ``{"format_version": 1, "kind": "ranking", "rows": [...]}``, the rows as they are.
    - ``ranking.csv``: one line a row, nested values in columns ``a.b``.
    - ``metrics.json``: ``{model: {encoder: {"score": ..., "adjusted": ...}}}`` for ``dvc metrics``, of one combination
      of prenorms: none for features and l2 for states if it is there, else that of the best row.
    - ``scores.csv``: ``pair,encoder,model,score,chance,adjusted`` of the same rows, best first, for ``dvc plots``.

    Returns
    -------
    list of Path
        The files written.
    """
    texts = {
        "ranking.json": _json({"format_version": RANKING_FORMAT, "kind": "ranking", "rows": list(rows)}),
        "metrics.json": _json(_metrics(_main(rows))),
        "ranking.csv": _csv(rows),
        "scores.csv": _csv([_plotted(row) for row in _main(rows)]),
    }
    for name, text in texts.items():
        with draft_file(out / name) as file:
            file.write(text.encode())
    return [out / name for name in texts]


def _main(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of the main combination of prenorms, in their order."""
    there = [(row["prenorm_features"], row["prenorm_states"]) for row in rows]
    main = COMBINATIONS[0] if COMBINATIONS[0] in there else next(iter(there), None)
    return [row for row, prenorms in zip(rows, there, strict=True) if prenorms == main]


def _metrics(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Score and adjusted score by model and encoder."""
    metrics: dict[str, Any] = {}
    for row in sorted(rows, key=lambda row: (row["model"], row["encoder"])):
        values = {"score": row["score"], "adjusted": row["adjusted"]}
        metrics.setdefault(row["model"], {})[row["encoder"]] = values
    return metrics


def _plotted(row: Mapping[str, Any]) -> dict[str, Any]:
    pair = f"{row['encoder']} x {row['model']}"
    return {"pair": pair, **{name: row[name] for name in _PLOTTED if name in row}}


def _json(document: Any) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    flat = [dict(_flat(row)) for row in rows]
    nested = {name for row in rows for name, value in row.items() if isinstance(value, Mapping)}
    columns = [name for name in dict.fromkeys(name for row in flat for name in row) if name not in nested]
    table = io.StringIO()
    writer = csv.DictWriter(table, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return table.getvalue()


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (-row["score"], row["encoder"], row["model"], row["prenorm_features"], row["prenorm_states"])


def _flat(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Entries of a row with nested mappings unfolded; lists become one text."""
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, (list, tuple)):
            yield prefix + name, " | ".join(str(entry) for entry in value)
        else:
            yield prefix + name, "" if value is None else value
