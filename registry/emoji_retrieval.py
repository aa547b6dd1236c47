"""Retrieval over the emoji of the default project: arrays of the project in, tables of P@1 by language out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.references import expand, project_for, resolved, value_in_file
from optotype.registry.results import check_out, write_csv, write_json
from optotype.schemas.errors import UsageError

if TYPE_CHECKING:
    from optotype.pipelines.progress import Progress
    from optotype.store.project import Project

__all__ = ["EMOJI_RETRIEVAL_FORMAT", "emoji_names", "emoji_retrieval"]

EMOJI_RETRIEVAL_FORMAT = 1
MOST_REPEATS = 1_000_000
FILES = ("retrieval.json", "retrieval.csv", "by-language.csv", "metrics.json")
_FORM = "LANGUAGE_MODEL:STYLE=ARRAY"
_BY_LANGUAGE = ("line", "language_model", "task", "language", "style", "p_at_1", "low", "high")


def emoji_names(
    pairs: str | Path, *, out: str | Path, languages: Sequence[str] = ("en", "de", "es", "fr", "it"), seed: int = 0
) -> dict[str, Any]:
    """Write the names of emoji as texts to encode, and as tables to import a task set from.

    Parameters
    ----------
    pairs : path
        Table that ``optotype emoji pairs`` wrote.
    out : path
        Folder for names.csv, queries.csv, candidates.csv, relevance.csv; replaced as a whole.
    languages : sequence of str
    seed : int
        Of the half that is asked about: that of ``optotype emoji retrieval``.

    Returns
    -------
    dict
        See `optotype.pipelines.emoji.names.write_names`, which also says what is refused.
    """
    from optotype.pipelines.emoji.names import write_names

    return write_names(Path(out), pairs, languages=languages, seed=seed)


def emoji_retrieval(
    pairs: str | Path,
    features: Sequence[str],
    names: Sequence[str],
    tasks: str,
    *,
    out: str | Path | None = None,
    project: Project | str | Path | None = None,
    probe: str = "contrastive",
    at: Sequence[int] = (1, 5, 10),
    bootstrap: int = 0,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Retrieve emoji by name and names by emoji in the joint space of every encoder, language model and style.

    Parameters
    ----------
    pairs : path
        Table that ``optotype emoji pairs`` wrote.
    features : sequence of str
        Patch features of the pairs: names, paths or URLs; bundles and ``@FILE:KEY`` as for rankings.
    names : sequence of str
        States of the names as ``LANGUAGE_MODEL:STYLE=ARRAY``; or ``@FILE:KEY``, a mapping in a YAML file of arrays to
        what they are: ``{language_model: ..., style: ...}``.
    tasks : str
        The task set that was imported from the tables of `emoji_names`: name, path or URL.
    out : path, optional
        Folder for ``retrieval.json`` (the document returned), ``retrieval.csv`` (its rows, flat), ``by-language.csv``
        (means over encoders, for plots) and ``metrics.json`` (the same by language model, style, task and language).
    project : Project or path, optional
        Where names are looked up; by default the one that the working directory lies in, if any name needs one.
    probe, at, bootstrap, seed, progress
        See `optotype.pipelines.emoji.retrieval.study.emoji_retrieval`.

    Returns
    -------
    dict
        ``format_version``, ``kind`` ("emoji-retrieval"), ``parameters``, ``inputs``, ``sizes``, ``rows``,
        ``contrasts``, ``fits``, ``notes``.

    Raises
    ------
    OptotypeError
        As the function above does; nothing is written then.
    """
    from optotype.pipelines.emoji.probe.table import read_pairs
    from optotype.pipelines.emoji.retrieval.given import NamesArray
    from optotype.pipelines.emoji.retrieval.study import emoji_retrieval as study
    from optotype.pipelines.graphs import open_array
    from optotype.store.tasks import open_tasks

    folder = None if out is None else check_out(out, FILES)
    for option, value, most in (("seed", seed, None), ("bootstrap", bootstrap, MOST_REPEATS)):
        if value < 0 or (most is not None and value > most):
            allowed = "0 or more" if most is None else f"from 0 to {most}"
            raise UsageError(f"--{option} is {allowed}, got {value}")
    arrays = _named_arrays(names)
    project = project_for(project, (*features, tasks, *(array for _, _, array in arrays)))
    encoders = expand(project, "features", features)
    found = study(
        read_pairs(pairs),
        [open_array(project, "features", reference) for reference in encoders],
        [NamesArray(model, style, open_array(project, "states", array)) for model, style, array in arrays],
        open_tasks(resolved(project, "tasks", tasks)),
        probe=probe,
        at=at,
        bootstrap=bootstrap,
        seed=seed,
        progress=progress,
    )
    document = {
        "format_version": EMOJI_RETRIEVAL_FORMAT,
        "kind": "emoji-retrieval",
        "parameters": {"probe": probe, "at": list(at), "bootstrap": bootstrap, "seed": seed},
        "inputs": found.inputs,
        "sizes": found.sizes,
        "rows": found.rows,
        "contrasts": found.contrasts,
        "fits": found.fits,
        "notes": found.notes,
    }
    if folder is not None:
        _write(document, folder)
    return document


def _write(document: Mapping[str, Any], folder: Path) -> None:
    rows = [dict(_flat(row)) for row in document["rows"]]
    means = [row for row in document["contrasts"] if row["kind"] == "mean" and row["fitted_on"] == row["style"]]
    spoken: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}  # the styles of a language side by side
    for row in means:
        if row["language"] is not None:
            spoken.setdefault((row["language_model"], row["task"], row["language"]), []).append(row)
    lines = [
        {
            **{name: row[name] for name in ("language", "language_model", "style", "task", "low", "high")},
            "line": " ".join(row[name] for name in ("language_model", "task", "language", "style")),
            "p_at_1": row["value"],
        }
        for own in spoken.values()
        for row in own
    ]
    metrics: dict[str, Any] = {}
    for row in means:
        place = metrics.setdefault(row["language_model"], {}).setdefault(row["style"], {}).setdefault(row["task"], {})
        place["all" if row["language"] is None else row["language"]] = row["value"]
    write_csv(rows, list(rows[0]), folder / "retrieval.csv")
    write_csv(lines, _BY_LANGUAGE, folder / "by-language.csv")
    write_json(metrics, folder / "metrics.json")
    write_json(document, folder / "retrieval.json")


def _flat(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Entries of a row with nested mappings unfolded as ``a.b``; an interval becomes ``low`` and ``high``."""
    for name, value in row.items():
        if name == "interval":
            low, high = value or (None, None)
            yield from ((f"{prefix}low", low), (f"{prefix}high", high))
        elif isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _named_arrays(references: Sequence[str]) -> list[tuple[str, str, str]]:
    """(language model, style, array) of each reference."""
    found: list[tuple[str, str, str]] = []
    for text in references:
        if text.startswith("@"):
            found += _from_file(text)
            continue
        label, _, array = text.partition("=")
        model, _, style = label.rpartition(":")
        if not (model and style and array):
            raise UsageError(
                f"--names {text!r}: names of emoji are given as {_FORM}",
                hint="For example --names minilm-l6:plain=names-minilm-l6-plain",
            )
        found.append((model, style, array))
    return found


def _from_file(text: str) -> list[tuple[str, str, str]]:
    """Arrays under a key of a YAML file, each with its ``language_model`` and ``style``."""
    entries, where = value_in_file(text, example="@params.yaml:names")
    whole = isinstance(entries, dict) and all(
        isinstance(entry, dict) and {"language_model", "style"} <= set(entry) for entry in entries.values()
    )
    if not whole or not entries:
        raise UsageError(f"{where} has to be a mapping of arrays to {{language_model: ..., style: ...}}")
    return [(str(entry["language_model"]), str(entry["style"]), str(name)) for name, entry in entries.items()]
