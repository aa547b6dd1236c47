"""Names of emoji in several languages as texts to encode, and as tasks: which name belongs to an image, which image
to a name.

A task set asks about the half of the pairs that alignment probes are not fitted on (`halves`, same seed). Two tasks a
language: ``i2t`` (query: an image, candidates: the names in that language) and ``t2i`` (query: a name, candidates: the
images). Images of equal pixels are one candidate, and so are equal names: right is every name that an image of the same
pixels has, and every image that has the same name.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from optotype.pipelines.emoji.folder import SOURCE, new_folder, write_json, write_text
from optotype.pipelines.emoji.probe.halves import halves, repeats
from optotype.pipelines.emoji.probe.table import Pairs, read_pairs
from optotype.schemas.errors import InvalidDataError, Problem, UsageError, did_you_mean

__all__ = ["NAME_LANGUAGES", "TASKS", "Named", "name_id", "read_names", "task_tables", "write_names"]

NAME_LANGUAGES = ("en", "de", "es", "fr", "it")
TASKS = ("i2t", "t2i")

FORMAT = 1
_COLUMN = "name_"
_QUERIES = ("query", "task", "language", "item", "embedding", "text", "image")
_CANDIDATES = ("candidate", "task", "language", "item", "embedding", "target", "text", "image")
_RELEVANCE = ("query", "candidate")

Row = Mapping[str, str]

_README = """\
# Names of emoji as retrieval tasks

{n} emoji, {languages}.

- names.csv: every name, `id` = `<language>/<emoji>`; what text encoders encode.
- queries.csv, candidates.csv, relevance.csv: tasks over the {held_out} emoji of the half that alignment probes with
  seed {seed} are not fitted on. `i2t`: an image among the names in a language; `t2i`: a name among the images. The
  embedding of an image goes by the emoji's id, that of a name by its id in names.csv.
- Images of equal pixels are one candidate, and so are equal names in a language. Right is every name that an image of
  the same pixels has, and every image that has the same name.
- Emoji without a name in a language are not asked about in it{left_out}.
- `image` is relative to the table of pairs. Sources and licences: NOTICE.txt beside that table.
"""


@dataclass(frozen=True)
class Named:
    """Pairs, and the names of their emoji.

    Attributes
    ----------
    pairs : Pairs
    names : mapping of str to tuple of str
        Language -> names in the order of the pairs; empty where there is none.
    """

    pairs: Pairs
    names: Mapping[str, tuple[str, ...]]


def name_id(language: str, emoji: str) -> str:
    """Under which the state of a name is kept: ``en/1f40b``."""
    return f"{language}/{emoji}"


def read_names(path: str | Path, languages: Sequence[str] = NAME_LANGUAGES) -> Named:
    """Read the table that ``optotype emoji pairs`` writes, with its columns ``name_<language>``.

    Raises
    ------
    NotFoundError, FormatError, InvalidDataError
        As `read_pairs` does; a language without a column is a problem, too.
    UsageError
        No language, or one twice.
    """
    if not languages:
        raise UsageError("names in no language at all were asked for", hint="--languages en,de,es,fr,it")
    twice = sorted({language for language in languages if languages.count(language) > 1})
    if twice:
        raise UsageError(f"languages given twice: {', '.join(twice)}")
    pairs = read_pairs(path)
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        rows = {row["id"]: row for row in reader}
        there = [name.removeprefix(_COLUMN) for name in reader.fieldnames or [] if name.startswith(_COLUMN)]
    problems = [
        Problem(
            _COLUMN + language,
            "missing-column",
            f"the table has no names in {language!r}. "
            + (did_you_mean(language, there) or f"It has: {', '.join(there) or 'none'}."),
        )
        for language in languages
        if language not in there
    ]
    if problems:
        raise InvalidDataError(f"{path} refused:", problems, hint="optotype emoji pairs --out DIR writes names.")
    names = {
        language: tuple((rows[emoji][_COLUMN + language] or "").strip() for emoji in pairs.ids)
        for language in languages
    }
    return Named(pairs, names)


def task_tables(named: Named, seed: int) -> dict[str, list[dict[str, str]]]:
    """Queries, candidates and relevance over the held-out half, as rows of the tables that tasks are imported from.

    Parameters
    ----------
    named : Named
    seed : int
        Of the halves.

    Returns
    -------
    dict of str to list of dict
        ``queries``, ``candidates``, ``relevance``; sorted by language (in the order given), task and emoji. Of equal
        candidates that are right, the first alone is in ``relevance``.
    """
    pairs = named.pairs
    train = halves(pairs.groups, repeats(pairs.texts, pairs.pixels), seed)
    held_out = [i for i, fitted in enumerate(train.tolist()) if not fitted]
    tables: dict[str, list[dict[str, str]]] = {"queries": [], "candidates": [], "relevance": []}
    for language, names in named.names.items():
        with_name = [i for i in held_out if names[i]]
        for task in TASKS:
            # What a query shows and what its candidates are compared by, per emoji.
            shown, target = (pairs.pixels, names) if task == "i2t" else (names, pairs.pixels)
            offered = with_name if task == "i2t" else held_out
            first: dict[str, int] = {}
            for i in offered:
                first.setdefault(target[i], i)
                tables["candidates"].append(_candidate(named, task, language, i, target[i]))
            right: dict[str, set[int]] = {}
            for i in with_name:
                right.setdefault(shown[i], set()).add(first[target[i]])
            for i in with_name:
                tables["queries"].append(_query(named, task, language, i))
                tables["relevance"] += [
                    {"query": f"{task}/{language}/{pairs.ids[i]}", "candidate": f"{task}/{language}/{pairs.ids[j]}"}
                    for j in sorted(right[shown[i]])
                ]
    return tables


def write_names(
    target: Path, path: str | Path, *, languages: Sequence[str] = NAME_LANGUAGES, seed: int = 0
) -> dict[str, object]:
    """Write ``names.csv`` and the tables of the task set into the folder ``target``, which is replaced as a whole.

    Parameters
    ----------
    target : Path
    path : str or Path
        Table that ``optotype emoji pairs`` wrote.
    languages : sequence of str
        Of which the table has names.
    seed : int
        Of the halves; ``names.csv`` does not hang on it.

    Returns
    -------
    dict
        The content of ``SOURCE.json``: counts, and by language the emoji without a name.

    Raises
    ------
    NotFoundError, FormatError, InvalidDataError, UsageError
        As `read_names` does; nothing is written then.
    ConflictError
        Something else stands at the target.
    """
    if seed < 0:
        raise UsageError(f"seed = {seed}; a seed is an integer from 0 upward")
    named = read_names(path, languages)
    pairs, tables = named.pairs, task_tables(named, seed)
    rows = [
        {"id": name_id(language, emoji), "text": name, "language": language, "emoji": emoji}
        for language, names in named.names.items()
        for emoji, name in zip(pairs.ids, names, strict=True)
        if name
    ]
    left_out = {
        language: [emoji for emoji, name in zip(pairs.ids, names, strict=True) if not name]
        for language, names in named.names.items()
    }
    problems = [
        Problem(_COLUMN + language, "no-names", f"no emoji of the {_held_out(tables)} that are asked about has a name")
        for language in languages
        if not any(row["language"] == language for row in tables["queries"])
    ]
    if problems:
        raise InvalidDataError("There is nothing to ask about", problems)
    document: dict[str, object] = {
        "candidates": len(tables["candidates"]),
        "emoji": len(pairs),
        "format_version": FORMAT,
        "held_out": _held_out(tables),
        "kind": "emoji-names",
        "languages": list(languages),
        "left_out": left_out,
        "names": len(rows),
        "pairs": pairs.digest,
        "queries": len(tables["queries"]),
        "seed": seed,
        "several_right": len(tables["relevance"]) - len(tables["queries"]),
    }
    with new_folder(target) as folder:
        write_text(folder / "names.csv", _csv(rows, ("id", "text", "language", "emoji")))
        for name, columns in (("queries", _QUERIES), ("candidates", _CANDIDATES), ("relevance", _RELEVANCE)):
            write_text(folder / f"{name}.csv", _csv(tables[name], columns))
        none = {language: len(ids) for language, ids in left_out.items() if ids}
        told = f" ({', '.join(f'{language}: {count}' for language, count in none.items())})" if none else ""
        readme = _README.format(
            n=len(pairs), languages=", ".join(languages), held_out=_held_out(tables), seed=seed, left_out=told
        )
        write_text(folder / "README.md", readme)
        write_json(folder / SOURCE, document)
    return document


def _query(named: Named, task: str, language: str, i: int) -> dict[str, str]:
    return {"query": f"{task}/{language}/{named.pairs.ids[i]}", **_side(named, task == "i2t", task, language, i)}


def _candidate(named: Named, task: str, language: str, i: int, target: str) -> dict[str, str]:
    return {
        "candidate": f"{task}/{language}/{named.pairs.ids[i]}",
        "target": target,
        **_side(named, task == "t2i", task, language, i),
    }


def _side(named: Named, image: bool, task: str, language: str, i: int) -> dict[str, str]:
    """What queries and candidates have in common: an emoji, as its image or as its name."""
    emoji = named.pairs.ids[i]
    return {
        "task": task,
        "language": language,
        "item": emoji,
        "embedding": emoji if image else name_id(language, emoji),
        "text": "" if image else named.names[language][i],
        "image": named.pairs.images[i] if image else "",
    }


def _held_out(tables: Mapping[str, Sequence[Row]]) -> int:
    return len({row["item"] for row in tables["candidates"]})


def _csv(rows: Iterable[Row], columns: Sequence[str]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
