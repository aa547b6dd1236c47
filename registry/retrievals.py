"""Retrieval by embeddings of the project, and the files that keep what came out."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.references import expand, project_for, resolved
from optotype.registry.results import check_out, write_csv, write_json
from optotype.schemas.errors import FormatError, NotFoundError, UsageError, did_you_mean
from optotype.schemas.names import is_url_or_path

if TYPE_CHECKING:
    import xarray as xr

    from optotype.pipelines.progress import Progress
    from optotype.store.project import Project

__all__ = ["FORMAT", "KIND", "retrieve", "task_reference", "write_retrieval"]

FORMAT = 1  # format_version of the document
KIND = "retrieval"
_FILES = ("retrieval.json", "cells.csv", "languages.csv")
_POLICIES = ("expected", "optimistic", "pessimistic")
_FORMS = "Written NAME[:TASK[:LANGUAGE]], as in mmmeb, mmmeb:i2t or mmmeb:i2t:it."


def retrieve(
    queries: Sequence[str],
    candidates: Sequence[str],
    task: str,
    *,
    ties: str = "expected",
    at: Sequence[int] = (1, 5, 10),
    unable: Sequence[str] = (),
    bootstrap: int = 0,
    seed: int = 0,
    model: str | None = None,
    workers: int | None = None,
    project: Project | str | Path | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Evaluate embeddings on retrieval tasks: P@1 by task and language, under three policies for ties.

    Parameters
    ----------
    queries, candidates : sequence of str
        Names, paths or URLs of text states, or of features, of which the mean of an image's tokens is taken. A name is
        looked up among states first. Several on a side are one by the union of their ids; both sides may be one array.
    task : str
        Name, path or URL of a task set; ``NAME:TASK`` or ``NAME:TASK:LANGUAGE`` is a part of it.
    ties : {"expected", "optimistic", "pessimistic"}
        What averages and gaps go by; all three are told of every cell.
    at : sequence of int
        Values of k for hit@k and nDCG@k, each 1 to `optotype.pipelines.retrieval.evaluate.MOST_K`, and once.
    unable : sequence of str
        Tasks that the model cannot do, by declaration.
    bootstrap : int
        Resamples of the queries for the interval of P@1; 0 for none.
    seed : int
        Of the resamples.
    model : str, optional
        What the model is called in the document: neither blank nor with control characters.
    workers : int, optional
        Threads; one per CPU by default. The same result for any.
    project : Project or path, optional
    out : path, optional
        Folder for the files of `write_retrieval`.
    progress : Progress, optional

    Returns
    -------
    dict
        ``format_version, kind, model, parameters, task, queries, candidates`` (name, kind and digest of each),
        ``cells, languages, macro, invalid, notes`` as `optotype.pipelines.retrieval.evaluate.Retrieval` has them.

    Raises
    ------
    NotFoundError
        Names that there are not, all of them.
    OptotypeError
        As the pipeline and the store do; nothing is written then.
    """
    from optotype.pipelines.retrieval.evaluate import check_options, evaluate
    from optotype.pipelines.retrieval.parts import part_of
    from optotype.store.tasks import open_tasks

    check_options(at=at, ties=ties, bootstrap=bootstrap)
    _check_label(model)
    folder = None if out is None else check_out(out, _FILES)
    name, wanted, language = task_reference(task)
    found = project_for(project, (*queries, *candidates, name))
    notes: list[str] = []
    opened: dict[str, tuple[xr.Dataset, str]] = {}
    sides = []
    unknown: dict[str, NotFoundError] = {}
    for side, references in (("queries", queries), ("candidates", candidates)):
        named = expand(found, "states", references)
        if not named:
            raise UsageError(f"there are no {side}: give one array or more")
        for reference in named:
            if reference not in opened and reference not in unknown:
                try:
                    opened[reference] = _open(found, reference, notes)
                except NotFoundError as error:
                    unknown[reference] = error
        sides.append(named)
    try:
        source = resolved(found, "tasks", name)
    except NotFoundError as error:
        unknown[f"tasks {name}"] = error
    if unknown:
        raise _not_found(list(unknown.values()))
    whole = open_tasks(source)
    tasks = part_of(whole, wanted, language)
    result = evaluate(
        tasks,
        *([opened[reference][0] for reference in named] for named in sides),
        at=at,
        ties=ties,
        unable=unable,
        bootstrap=bootstrap,
        seed=seed,
        workers=workers,
        progress=progress,
    )
    document = {
        "format_version": FORMAT,
        "kind": KIND,
        "model": model,
        "parameters": {
            "ties": ties,
            "at": list(at),
            "unable": sorted(set(unable)),
            "bootstrap": bootstrap,
            "seed": seed,
        },
        "task": {
            "name": str(whole.attrs["name"]),
            "digest": str(whole.attrs["digest"]),
            "task": wanted,
            "language": language,
        },
        **{
            side: [_described(*opened[reference]) for reference in named]
            for side, named in zip(("queries", "candidates"), sides, strict=True)
        },
        "cells": result.cells,
        "languages": result.languages,
        "macro": result.macro,
        "invalid": result.invalid,
        "notes": [*notes, *result.notes],
    }
    if folder is not None:
        write_retrieval(document, folder)
    return document


def task_reference(text: str) -> tuple[str, str | None, str | None]:
    """``NAME``, ``NAME:TASK`` or ``NAME:TASK:LANGUAGE`` in its parts; a path that is there is a name as it stands.

    Raises
    ------
    UsageError
        A part is empty, or there are more than three.
    """
    if is_url_or_path(text) and "://" not in text:
        for fields in (0, 1, 2):  # a folder may have a colon in its name
            name, *part = text.rsplit(":", fields) if fields else [text]
            if len(part) == fields and all(part) and Path(name).exists():
                return name, *part, *[None] * (2 - fields)  # type: ignore[return-value]
    folder, slash, last = text.rpartition("/")  # colons before it are of a URL, or of folders
    name, *parts = last.split(":")
    if len(parts) > 2 or not all((name or folder, *parts)):
        raise UsageError(f"{text!r} is no task set, nor a part of one", hint=_FORMS)
    return folder + slash + name, *parts, *[None] * (2 - len(parts))  # type: ignore[return-value]


def write_retrieval(document: Mapping[str, Any], out: Path) -> list[Path]:
    """Write a retrieval into the folder ``out``; equal documents give equal bytes.

    ``retrieval.json`` is the document; ``cells.csv`` has a line for each task and language; ``languages.csv`` one for
    each language, with its averages, gaps to English and agreement with it, and a last one, ``macro``.
    """
    paths = [out / name for name in _FILES]
    write_json(document, paths[0])
    at = [str(k) for k in document["parameters"]["at"]]
    cells = [_cell(row, at) for row in document["cells"]]
    write_csv(cells, list(cells[0]), paths[1])
    languages = [_language(row) for row in (*document["languages"], {"language": "macro", **document["macro"]})]
    write_csv(languages, list(dict.fromkeys(name for row in languages for name in row)), paths[2])
    return paths


_COUNTS = ("queries", "candidates", "candidates_per_query", "invalid_queries", "invalid_candidates", "invalid_truths")


def _cell(row: Mapping[str, Any], at: Iterable[str]) -> dict[str, Any]:
    measures = {"p1": row["p1"], "mrr": row["mrr"]}
    for name in ("hit", "ndcg"):
        measures |= {f"{name}_{k}": (row[name] or {}).get(k) for k in at}
    low, high = row["interval"] or (None, None)
    return {
        **{name: row[name] for name in ("task", "language", *_COUNTS, "unable", "p_at_1", "chance")},
        "low": low,
        "high": high,
        **{f"{name}_{policy}": (value or {}).get(policy) for name, value in measures.items() for policy in _POLICIES},
    }


def _language(row: Mapping[str, Any]) -> dict[str, Any]:
    tasks = list(row["p1"])
    return {
        "language": row["language"],
        **{f"p1_{task}": row["p1"][task] for task in tasks},
        "avg3": row["avg3"],
        "avg": row["avg"],
        **{f"gap_{name}": (row["gap_to_english"] or {}).get(name) for name in (*tasks, "avg3", "avg")},
        **{f"agreement_{task}": (row["agreement"] or {}).get(task) for task in tasks},
    }


def _check_label(model: str | None) -> None:
    if model is None:
        return
    if not model.strip():
        raise UsageError("--model is empty", hint="Say what the model is called, or leave --model away.")
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in model):
        raise UsageError(f"--model {model!r} holds a control character; one line of text is wanted")


def _not_found(errors: Sequence[NotFoundError]) -> NotFoundError:
    """One error of what is not there."""
    if len(errors) == 1:
        return errors[0]
    lines = [f"  - {error.message}" + (f" {error.hint}" if error.hint else "") for error in errors]
    return NotFoundError("\n".join([f"{len(errors)} references stand for nothing:", *lines]))


def _described(array: xr.Dataset, kind: str) -> dict[str, Any]:
    return {"name": str(array.attrs.get("name")), "kind": kind, "digest": str(array.attrs.get("digest"))}


def _open(project: Project | None, reference: str, notes: list[str]) -> tuple[xr.Dataset, str]:
    """States by name, path or URL, or else features, pooled; and which of the two."""
    from optotype.pipelines.graphs import open_array
    from optotype.pipelines.retrieval.pooled import as_states

    if is_url_or_path(reference):
        try:
            return open_array(project, "states", reference), "states"
        except (FormatError, NotFoundError) as error:
            try:  # it may be the path of features, or of a mixture, which has no manifest
                opened = open_array(project, "features", reference)
            except (FormatError, NotFoundError):
                raise error from None
    elif project is None or reference in project.names("states"):
        return open_array(project, "states", reference), "states"
    elif reference in project.names("features"):
        opened = open_array(project, "features", reference)
    else:
        there = [*project.names("states"), *project.names("features")]
        hint = did_you_mean(reference, there) or "optotype encode texts and optotype states import add some."
        raise NotFoundError(f"no states and no features called {reference!r} in {project.root}", hint=hint)
    if int(opened["row_size"].max()) > 1:
        notes.append(f"{opened.attrs.get('name')} holds features: the mean of an image's tokens is its vector")
    return as_states(opened), "features"
