"""Reads answers to the questions of a pair suite: tables, logs of lmms-eval, results of VLMEvalKit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, Problem, UsageError, did_you_mean
from optotype.schemas.pair_suites import Variant
from optotype.store.checks import limited
from optotype.store.importers.scores.records import Records

__all__ = ["ANSWER_FORMATS", "Answer", "Answers", "read_answers"]

ANSWER_FORMATS = ("auto", "lmms-eval", "vlmevalkit", "table")
_IDS = ("question_id", "item_id", "id", "index", "question")
_RESPONSES = ("response", "prediction", "answer")
_MODELS = ("model", "model_id")
_VERDICTS = {"1": 1.0, "1.0": 1.0, "true": 1.0, "0": 0.0, "0.0": 0.0, "false": 0.0}
_IMAGE_RUNS = ("", "image")
# What the harnesses' readers call rows that they could not score; here the answer itself may still say something.
_NOT_SCORED = ("no-score", "no-answer", "not-judged", "unparsed")


@dataclass(frozen=True)
class Answer:
    """What a model answered to one question.

    Attributes
    ----------
    model : str
    variant : Variant
        How the question was put.
    question : str
        Its id.
    response : str or None
        The model's words, or the option as a harness parsed it. None: the file holds verdicts alone.
    verdict : float or None
        Of a harness: 1 right, 0 wrong by its key.
    key : str or None
        The key that the harness went by, as its log writes it.
    invalid : str or None
        Why the harness says that there is no answer.
    source : str
        ``FILE:ROW``, for messages.
    """

    model: str
    variant: Variant
    question: str
    response: str | None
    verdict: float | None = None
    key: str | None = None
    invalid: str | None = None
    source: str = ""


@dataclass
class Answers:
    """Everything that was read.

    Attributes
    ----------
    answers : list of Answer
        One for each model, variant and question.
    repeats : int
        Equal repeats that were left out.
    notes : list of str
    """

    answers: list[Answer]
    repeats: int = 0
    notes: list[str] = field(default_factory=list)


def read_answers(
    paths: Sequence[tuple[Variant, str | Path]],
    *,
    format: str = "auto",  # noqa: A002 - the word of the command line
    benchmark: str | None = None,
    id_offset: int = 0,
) -> Answers:
    """Read answers.

    Tables (``.csv``, ``.tsv``, ``.parquet``, ``.jsonl``) name the question in a column ``question_id``, ``item_id``,
    ``id``, ``index`` or ``question`` and the answer in ``response``, ``prediction`` or ``answer`` (the first that is
    there; several of one file would be its keys); ``model`` or ``model_id`` (else the file's name), ``variant``,
    ``score`` (1 or 0, a judge's verdict), ``benchmark`` and ``modality`` may stand beside them. Harness files are read
    as `optotype scores import` reads them.

    Parameters
    ----------
    paths : sequence of (Variant, path)
        Files or folders, and how the questions were put in them; a column ``variant`` says it row by row.
    format : {"auto", "lmms-eval", "vlmevalkit", "table"}
    benchmark : str, optional
        Which one, where the files hold several.
    id_offset : int
        Added to ids that are whole numbers: lmms-eval counts MMVP's questions from 0, the public table from 1.

    Raises
    ------
    UsageError
        No such format or benchmark, or there are several and none was named.
    NotFoundError, FormatError
        No such file, or none that holds answers.
    InvalidDataError
        Every problem of the files, and questions that a model answered twice, differently.
    """
    if format not in ANSWER_FORMATS:
        raise UsageError(f"no format {format!r}", hint=did_you_mean(format, ANSWER_FORMATS))
    notes: list[str] = []
    found: list[tuple[str | None, Answer]] = []
    problems: list[Problem] = []
    for variant, path in paths:
        try:
            found += _read(Path(path), variant, format, notes)
        except InvalidDataError as error:
            problems += error.problems
    if problems:
        raise InvalidDataError("answers refused:", limited(problems))
    answers = _of_benchmark(found, benchmark, notes)
    if id_offset:
        answers = [_shifted(answer, id_offset) for answer in answers]
    return _unique(answers, notes)


def _read(path: Path, variant: Variant, chosen: str, notes: list[str]) -> list[tuple[str | None, Answer]]:
    """Answers of one path, each with its benchmark where the file names one."""
    if not path.exists():
        raise NotFoundError(f"no file or folder at {path}")
    kind = _kind(path) if chosen == "auto" else chosen
    if kind == "lmms-eval":
        from optotype.store.importers.scores.lmms_eval import read_lmms_eval

        return list(_of_records(read_lmms_eval([path]), variant, notes))
    if kind == "vlmevalkit":
        from optotype.store.importers.scores.vlmevalkit import read_vlmevalkit

        return list(_of_records(read_vlmevalkit([path]), variant, notes))
    if not path.is_dir():
        return _of_table(path, variant, notes)
    from optotype.store.importers.scores.tables import is_table

    tables = sorted(file for file in path.rglob("*") if file.is_file() and is_table(file) and file.name[0] != ".")
    if not tables:
        raise FormatError(f"{path}: no tables of answers in it, and no logs of lmms-eval or VLMEvalKit")
    return [entry for file in tables for entry in _of_table(file, variant, notes)]


def _kind(path: Path) -> str:
    from optotype.store.importers.scores import lmms_eval, vlmevalkit

    if lmms_eval.recognises(path):
        return "lmms-eval"
    # A plain table may have the columns `index` and `prediction`, too; VLMEvalKit's lie in folders of their models.
    folder = path.absolute().parent
    named = any(path.name.startswith(f"{name}_") for name in (folder.name, folder.parent.name) if name)
    if (path.is_dir() or named or path.suffix.lower() in (".xlsx", ".json")) and vlmevalkit.recognises(path):
        return "vlmevalkit"
    return "table"


def _of_records(records: Records, variant: Variant, notes: list[str]) -> Iterable[tuple[str | None, Answer]]:
    """Answers out of what a harness's reader made of its files."""
    if records.circular:
        raise UsageError(
            f"{', '.join(sorted(records.circular))}: scored circularly, right only if all rotations are; "
            "pair accuracy asks each question once",
            hint="Give the vanilla run.",
        )
    notes += records.notes
    keys: dict[tuple[str, str], str] = {}
    if records.items is not None and "answer" in records.items:
        cells = zip(records.items["benchmark"], records.items["item_id"], records.items["answer"], strict=True)
        keys = {(name, item): key for name, item, key in cells if isinstance(key, str)}
    for row in records.table.to_dict("records"):
        invalid = row.get("invalid")
        score = float(row["score"])
        yield (
            str(row["benchmark"]),
            Answer(
                model=str(row["model"]),
                variant=variant,
                question=str(row["item_id"]),
                response=row["response"] if isinstance(row.get("response"), str) else "",
                verdict=score if score in (0.0, 1.0) else None,
                key=keys.get((row["benchmark"], row["item_id"])),
                invalid=invalid if isinstance(invalid, str) and invalid not in _NOT_SCORED else None,
                source=str(row.get("source", "")),
            ),
        )


def _of_table(path: Path, variant: Variant, notes: list[str]) -> list[tuple[str | None, Answer]]:
    from optotype.store.importers.scores.tables import read_text, stem

    table = read_text(path)
    names = [str(name) for name in table.columns]
    id_column = next((name for name in _IDS if name in names), None)
    response = next((name for name in _RESPONSES if name in names), None)
    if id_column is None or (response is None and "score" not in names):
        raise FormatError(
            f"{path}: not a table of answers; the question is named in one of {', '.join(_IDS)}, the answer stands in "
            f"one of {', '.join(_RESPONSES)}; got {', '.join(map(repr, names[:12]))}"
        )
    model = next((name for name in _MODELS if name in names), None)
    found: list[tuple[str | None, Answer]] = []
    problems: list[Problem] = []
    blind = 0
    for number, row in enumerate(table.to_dict("records"), 1):
        where = f"{path}:{number}"
        if row.get("modality", "").strip().lower() not in _IMAGE_RUNS:
            blind += 1
            continue
        for name, said in ((id_column, "question"), *([(model, "model")] if model else [])):
            if not row[name].strip():
                problems.append(Problem(where, "blank-id", f"{said} ({name}) is blank"))
        score = row.get("score", "").strip().lower()
        if score and score not in _VERDICTS:
            problems.append(Problem(where, "verdict", f"score is a verdict, 1 or 0, got {row['score']!r}"))
        try:
            asked = Variant.parse(row["variant"]) if row.get("variant", "").strip() else variant
        except UsageError as error:
            problems.append(Problem(where, "variant", error.message))
            continue
        answer = Answer(
            model=row[model].strip() if model else stem(path),
            variant=asked,
            question=row[id_column].strip(),
            response=None if response is None else row[response],
            verdict=_VERDICTS.get(score),
            invalid=row.get("invalid", "").strip() or None,
            source=where,
        )
        found.append((row.get("benchmark", "").strip() or None, answer))
    if problems:
        raise InvalidDataError(f"{path} refused:", limited(problems))
    if blind:
        notes.append(f"{path.name}: {blind} rows of runs without images were left out")
    return found


def _of_benchmark(found: Sequence[tuple[str | None, Answer]], chosen: str | None, notes: list[str]) -> list[Answer]:
    """The answers to the questions of one benchmark; those that name none count as of it."""
    names = sorted({name for name, _ in found if name is not None})
    if chosen is not None and chosen not in names:
        raise UsageError(f"no answers to {chosen!r} in these files", hint=did_you_mean(chosen, names) or None)
    if chosen is None and len(names) > 1:
        raise UsageError(f"answers to several benchmarks: {', '.join(names)}", hint=f"--benchmark {names[0]}")
    kept = [answer for name, answer in found if chosen is None or name in (None, chosen)]
    if len(kept) < len(found):
        notes.append(f"{len(found) - len(kept)} answers to other benchmarks than {chosen} were left out")
    return kept


def _shifted(answer: Answer, offset: int) -> Answer:
    try:
        return replace(answer, question=str(int(answer.question) + offset))
    except ValueError:
        raise UsageError(
            f"{answer.source}: an offset is added to ids that are whole numbers, got {answer.question!r}"
        ) from None


def _unique(answers: Sequence[Answer], notes: list[str]) -> Answers:
    """Each model, variant and question once; equal repeats are counted, others refused."""
    kept: dict[tuple[str, Variant, str], Answer] = {}
    problems: list[Problem] = []
    repeats = 0
    for answer in answers:
        first = kept.setdefault((answer.model, answer.variant, answer.question), answer)
        if first is answer:
            continue
        if _said(first) == _said(answer):
            repeats += 1
            continue
        message = (
            f"another answer of {answer.model} to question {answer.question!r} ({answer.variant}) than at "
            f"{first.source}; equal repeats are accepted"
        )
        problems.append(Problem(answer.source, "differing-answers", message))
    if problems:
        hint = "Runs of a variant are told apart by a column variant, or given with --variant NAME=FILE."
        raise InvalidDataError("answers refused:", limited(problems), hint=hint)
    if not kept:
        raise InvalidDataError("answers refused:", [Problem("answers", "empty", "the files hold no answers")])
    return Answers(list(kept.values()), repeats, notes)


def _said(answer: Answer) -> Mapping[str, Any]:
    return {name: getattr(answer, name) for name in ("response", "verdict", "key", "invalid")}
