"""Answers to pair suites, matches of their statements, and how the two go together; and the files that keep them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.pair_suites import needs, open_pair_suite
from optotype.registry.references import project_around, project_for
from optotype.registry.results import check_out, write_csv, write_json
from optotype.schemas.errors import UsageError
from optotype.schemas.pair_suites import Variant

if TYPE_CHECKING:
    from optotype.pipelines.progress import Progress
    from optotype.store.pair_answers import Answer
    from optotype.store.pair_suites import Question
    from optotype.store.project import Project

__all__ = ["FORMAT", "MATCH", "SCORE", "match_pairs", "score_pairs"]

FORMAT = 1  # format_version of the documents
SCORE, MATCH = "pair-score", "pair-match"  # kinds of the documents, and the names of their files
_ANSWER_COLUMNS = ("model", "variant", "pair", "question", "pattern", "option", "answer", "right", "missing")
_LETTERS = "abcdefgh"


def score_pairs(
    suite: str | Path,
    answers: Sequence[str | Path] = (),
    *,
    variants: Iterable[tuple[str, str | Path]] = (),
    overlay: str | Path | None = None,
    format: str = "auto",  # noqa: A002 - the word of the command line
    benchmark: str | None = None,
    id_offset: int = 0,
    project: Project | str | Path | None = None,
    out: str | Path | None = None,
) -> dict[str, Any]:
    """Score models by their answers to the questions of a pair suite.

    Parameters
    ----------
    suite : str or path
        Folder or reference of the pair suite.
    answers : sequence of path
        Files or folders, as `optotype.store.pair_answers.read_answers` reads them.
    variants : iterable of (str, path)
        Answers to the questions as a variant puts them: ``swap`` (options in reverse order), ``numbers`` (1, 2 for
        a, b), ``swap+numbers``.
    overlay : str or path, optional
        Corrected keys.
    format, benchmark, id_offset
        As for `optotype.store.pair_answers.read_answers`.
    project : Project or path, optional
    out : path, optional
        Folder for ``pair-score.json`` (what this function returns), ``pair-score.csv`` (one line for each run and
        pattern, pattern blank for all) and ``answers.csv`` (one for each run and question).

    Returns
    -------
    dict
        ``format_version, kind, suite, rows, repeats, notes``; rows as
        `optotype.pipelines.pairs.scoring.score_answers` gives them.

    Raises
    ------
    OptotypeError
        From the suite, the overlay and the answers; nothing is written then.
    """
    from optotype.pipelines.pairs.scoring import score_answers
    from optotype.store.pair_answers import read_answers

    folder = None if out is None else check_out(out)
    opened = open_pair_suite(suite, project=project, overlay=overlay)
    needs(opened, "questions")
    paths = [(Variant(), path) for path in answers]
    paths += [(Variant.parse(name), path) for name, path in variants]
    if not paths:
        raise UsageError("no answers: give files or folders that hold them")
    read = read_answers(paths, format=format, benchmark=benchmark, id_offset=id_offset)
    rows = score_answers(opened.suite.questions, read.answers)
    document = {
        "format_version": FORMAT,
        "kind": SCORE,
        "suite": opened.as_dict(),
        "rows": rows,
        "repeats": read.repeats,
        "notes": [*opened.notes, *read.notes, *_doubts(rows)],
    }
    if folder is not None:
        write_json(document, folder / f"{SCORE}.json")
        names = ("questions", "questions_right", "question_accuracy", "missing")
        _write_patterns(rows, ("model", "variant"), names, folder / f"{SCORE}.csv")
        write_csv(_answer_rows(opened.suite.questions, read.answers), _ANSWER_COLUMNS, folder / "answers.csv")
    return document


def match_pairs(
    suite: str | Path,
    features: Sequence[str],
    states: Sequence[str],
    *,
    direction: str = "text-to-image",
    tie: str = "wrong",
    scheduler: str = "threads",
    project: Project | str | Path | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Match the statements of a pair suite to its images in the joint space of a dual encoder.

    Parameters
    ----------
    suite : str or path
        Folder or reference of the pair suite.
    features, states : sequence of str
        Arrays of images and of statements, one or more of each, taken together in order: an encoder with its own text
        tower, pooled and projected, of as many channels. Ids are those of the suite's images and statements.
    direction : {"text-to-image", "image-to-text"}
        ``text-to-image`` is the public evaluator's.
    tie : {"wrong", "second"}
        What a tie is: no match, or the second of the two, as the public evaluator has it.
    scheduler : str
        ``threads``; features are pooled in this process.
    project : Project or path, optional
    out : path, optional
        Folder for ``pair-match.json`` (what this function returns), ``pair-match.csv`` (one line for each encoder and
        pattern, pattern blank for all) and ``matches.csv`` (one for each encoder and pair, with the four cosines).
    progress : Progress, optional

    Returns
    -------
    dict
        ``format_version, kind, suite, rows, notes``; rows as `optotype.pipelines.pairs.matching.match_pairs` gives
        them, best first.

    Raises
    ------
    OptotypeError
        From the suite and the arrays; nothing is written then.
    """
    from optotype.pipelines.graphs import open_array
    from optotype.pipelines.pairs.matching import match_pairs as run
    from optotype.pipelines.progress import SILENT
    from optotype.pipelines.scheduler import scheduler as open_scheduler
    from optotype.registry.references import expand

    folder = None if out is None else check_out(out)
    opened = open_pair_suite(suite, project=project)
    needs(opened, "statements")
    found = project_around(project)
    project_for(found, (*features, *states))  # says that there is none where a name needs one
    encoders, towers = expand(found, "features", features), expand(found, "states", states)
    if len(encoders) != len(towers):
        raise UsageError(
            f"{len(encoders)} features and {len(towers)} states: each encoder is matched with its own text tower"
        )
    rows, outcomes, notes = [], [], list(opened.notes)
    with open_scheduler(scheduler) as place:
        for encoder, tower in zip(encoders, towers, strict=True):
            images, texts = open_array(found, "features", encoder), open_array(found, "states", tower)
            row, pairs = run(
                opened.suite.statements,
                images,
                texts,
                direction=direction,
                tie=tie,
                place=place,
                progress=progress or SILENT,
            )
            rows.append(row)
            outcomes += [{"encoder": row["encoder"], **pair} for pair in pairs]
            if row["tokens"] > 1:
                notes.append(
                    f"{row['encoder']} stores up to {row['tokens']} tokens an image and their mean was taken; that is "
                    "in the texts' space only if each token was projected into it"
                )
    rows.sort(key=lambda row: (-(row["pair_accuracy"] or 0), row["encoder"], row["text_encoder"]))
    document = {"format_version": FORMAT, "kind": MATCH, "suite": opened.as_dict(), "rows": rows, "notes": notes}
    if folder is not None:
        write_json(document, folder / f"{MATCH}.json")
        keys = ("encoder", "text_encoder", "direction", "tie")
        _write_patterns(rows, keys, ("ties",), folder / f"{MATCH}.csv")
        write_csv(outcomes, list(outcomes[0]), folder / "matches.csv")
    return document


def _doubts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Runs of which not one answer could be read."""
    notes = []
    for row in rows:
        missing = sum(row["missing"].values())
        if row["questions"] and missing == row["questions"]:
            reasons = ", ".join(f"{name} ({count})" for name, count in row["missing"].items())
            notes.append(
                f"{row['model']} ({row['variant']}): not one answer names an option: {reasons}; were the options "
                "called otherwise (--variant numbers=FILE)?"
            )
    return notes


def _write_patterns(rows: Sequence[Mapping[str, Any]], keys: Sequence[str], more: Sequence[str], target: Path) -> None:
    """One line for each row as a whole and for each of its patterns."""
    columns = (*keys, "pattern", "pairs", "pairs_right", "pair_accuracy", *more)
    lines = []
    for row in rows:
        whole = {**row, "pattern": ""}
        if isinstance(row.get("missing"), Mapping):
            whole["missing"] = sum(row["missing"].values())
        lines += [whole, *({**{key: row[key] for key in keys}, **pattern} for pattern in row["patterns"])]
    write_csv(lines, columns, target)


def _answer_rows(questions: Sequence[Question], answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """Every question of every run: what was chosen, by letters of the suite."""
    from optotype.pipelines.pairs.scoring import outcomes

    runs: dict[tuple[str, str], dict[str, Answer]] = {}
    for answer in answers:
        runs.setdefault((answer.model, str(answer.variant)), {})[answer.question] = answer
    return [
        {
            "model": model,
            "variant": variant,
            "pair": outcome.question.pair,
            "question": outcome.question.id,
            "pattern": outcome.question.pattern,
            "option": _letter(outcome.option),
            "answer": _letter(outcome.question.answer),
            "right": int(outcome.right),
            "missing": outcome.missing,
        }
        for (model, variant), given in sorted(runs.items())
        for outcome in outcomes(questions, given)
    ]


def _letter(option: int | None) -> str | None:
    return None if option is None else _LETTERS[option]
