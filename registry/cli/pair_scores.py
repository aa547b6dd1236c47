"""``optotype pairs score``, ``match`` and ``correlate``: what models and encoders make of a pair suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from optotype.registry.cli import options
from optotype.registry.cli.commands import Command
from optotype.registry.cli.output import Column, emit, emit_json, emit_table, note
from optotype.registry.cli.project import project_if_needed

__all__ = ["correlate", "match", "score"]

_FORMATS = ("auto", "lmms-eval", "vlmevalkit", "table")
_VARIANTS = ("original", "swap", "numbers", "swap+numbers")


def _variants(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[tuple[str, str]]:
    """``VARIANT=PATH``, as often as there are files."""
    found = []
    for text in values:
        name, equals, path = text.partition("=")
        if not equals or not path or name not in _VARIANTS:
            raise click.BadParameter(
                f"{text!r}: written VARIANT=PATH, VARIANT one of {', '.join(_VARIANTS)}", ctx, param
            )
        found.append((name, path))
    return found


_level = click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    metavar="NUMBER",
    help="Of the intervals, between 0 and 1.",
)


@click.command(
    cls=Command,
    short_help="Score answers to the questions of pairs.",
    examples=[
        "optotype pairs score mmvp answers.csv",
        "optotype pairs score mmvp answers.csv --overlay corrected.json --out scores",
        "optotype pairs score mmvp answers.csv --variant swap=swapped.csv --variant numbers=numbered.csv --json",
    ],
)
@click.argument("suite", metavar="SUITE")
@click.argument("answers", metavar="ANSWERS...", nargs=-1)
@click.option("--overlay", metavar="OVERLAY", help="Corrected keys: a file, a folder, or what is published.")
@click.option(
    "--variant",
    "variants",
    multiple=True,
    callback=_variants,
    metavar="VARIANT=PATH",
    help="Answers to another form of the questions: swap (options in reverse order), numbers (1, 2 for a, b), "
    "swap+numbers; repeatable.",
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(_FORMATS),
    default="auto",
    show_default=True,
    help="What the answers are; auto looks at each.",
)
@click.option("--benchmark", metavar="NAME", help="Which one, where logs hold several.")
@click.option(
    "--id-offset",
    type=int,
    default=0,
    show_default=True,
    metavar="INTEGER",
    help="Added to the questions' numbers: 1 for MMVP in lmms-eval, which counts from 0.",
)
@options.out_folder("Also write pair-score.json, pair-score.csv and answers.csv into DIR.", required=False)
@options.as_json
@click.pass_context
def score(
    ctx: click.Context,
    suite: str,
    answers: tuple[str, ...],
    overlay: str | None,
    variants: list[tuple[str, str]],
    file_format: str,
    benchmark: str | None,
    id_offset: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Score models by their ANSWERS to the questions of SUITE, a published pair suite or the folder of one.

    A pair counts only if both of its questions are right; guessing between two options passes 25 % of pairs. Answers
    are options, or words that name one; ANSWERS are tables, logs of lmms-eval or results of VLMEvalKit. Answers that
    are missing, or name no option, are wrong, and are counted by their reason. Keys are the suite's, or those of
    --overlay, whatever a harness went by.
    """
    from optotype.registry import pair_scores

    if not answers and not variants:
        raise click.UsageError("Missing argument 'ANSWERS...'.", ctx)
    document = pair_scores.score_pairs(
        suite,
        answers,
        variants=variants,
        overlay=overlay,
        format=file_format,
        benchmark=benchmark,
        id_offset=id_offset,
        project=project_if_needed(ctx, []),
        out=out,
    )
    for line in document["notes"]:
        note(line)
    if as_json:
        emit_json(document)
        return
    rows = document["rows"]
    emit_table(_score_columns(rows), rows)
    for row in rows:
        if row["missing"]:
            reasons = ", ".join(f"{name} {count}" for name, count in row["missing"].items())
            note(f"{row['model']} ({row['variant']}): missing, and so wrong: {reasons}")
    _emit_patterns(rows, ("model", "variant"), [_count("missing")])


@click.command(
    cls=Command,
    short_help="Match statements to images by a dual encoder.",
    examples=[
        "optotype pairs match mmvp-vlm --features clip-joint --states clip-joint",
        "optotype pairs match mmvp-vlm --features clip-joint --states clip-joint --tie second --json",
        "optotype pairs match mmvp-vlm --features clip-joint --states clip-joint --direction image-to-text --out match",
    ],
)
@click.argument("suite", metavar="SUITE")
@options.arrays("features", "Images in the joint space: name, path or URL; repeatable.")
@options.arrays("states", "Statements in the same space, one for each --features.")
@click.option(
    "--direction",
    type=click.Choice(("text-to-image", "image-to-text")),
    default="text-to-image",
    show_default=True,
    help="Find the image of each statement, as the public evaluator does, or the statement of each image.",
)
@click.option(
    "--tie",
    type=click.Choice(("wrong", "second")),
    default="wrong",
    show_default=True,
    help="What a tie is: no match, or the second of the two, as the public evaluator has it.",
)
@options.out_folder("Also write pair-match.json, pair-match.csv and matches.csv into DIR.", required=False)
@options.as_json
@click.pass_context
def match(
    ctx: click.Context,
    suite: str,
    features: tuple[str, ...],
    states: tuple[str, ...],
    direction: str,
    tie: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Match the statements of SUITE, a published pair suite or the folder of one, to its images.

    A pair counts only if both matches are right; guessing passes 25 % of pairs. FEATURES and STATES are the pooled,
    projected outputs of the two towers of one model, of as many channels, under the ids that the suite gives its images
    and statements; an image of several tokens is their mean.
    """
    from optotype.pipelines.progress import reporter
    from optotype.registry import pair_scores

    document = pair_scores.match_pairs(
        suite,
        features,
        states,
        direction=direction,
        tie=tie,
        project=project_if_needed(ctx, (*features, *states)),
        out=out,
        progress=reporter(),
    )
    for line in document["notes"]:
        note(f"Warning: {line}")
    if as_json:
        emit_json(document)
        return
    rows = document["rows"]
    emit_table(
        [
            Column("encoder", lambda row: str(row["encoder"])),
            Column("direction", lambda row: str(row["direction"])),
            *_PAIRS,
            _count("ties"),
        ],
        rows,
    )
    _emit_patterns(rows, ("encoder",), [_count("ties")])


@click.command(
    cls=Command,
    short_help="Correlate the failures of encoders and models.",
    examples=[
        "optotype pairs correlate encoders.csv models.csv",
        "optotype pairs correlate encoders.csv models.csv --level 0.9 --out correlation --json",
    ],
)
@click.argument("encoders", metavar="ENCODERS", type=click.Path(path_type=Path))
@click.argument("models", metavar="MODELS", type=click.Path(path_type=Path))
@_level
@options.out_folder("Also write pair-correlation.json and pair-correlation.csv into DIR.", required=False)
@options.as_json
def correlate(encoders: Path, models: Path, level: float, out: Path | None, as_json: bool) -> None:
    """Correlate what ENCODERS and MODELS score on each pattern: Pearson's r with Fisher's interval.

    Both are what `optotype pairs match` and `optotype pairs score` wrote (the JSON, or the folder of --out), or tables
    with the columns encoder or model, pattern and accuracy. Where r or its interval is undefined it is null, with the
    reason.
    """
    from optotype.registry import pair_correlations

    document = pair_correlations.correlate_pairs(encoders, models, level=level, out=out)
    rows = document["rows"]
    if as_json:
        emit_json(document)
    else:
        emit_table(_CORRELATIONS, rows)
    for row in rows:
        who = f"{row['encoder']} x {row['model']}"
        if row["reason"] is not None:
            note(f"{who}: {row['reason']}")
        if row["left_out"]:
            note(f"{who}: only one of the two has {', '.join(row['left_out'])}")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _count(name: str) -> Column:
    return Column(name, lambda row: str(sum(row[name].values()) if isinstance(row[name], Mapping) else row[name]), True)


_PAIRS = (
    Column("pairs", lambda row: f"{row['pairs_right']}/{row['pairs']}", right=True),
    Column("pair %", lambda row: _percent(row["pair_accuracy"]), right=True),
    Column("chance %", lambda row: _percent(row["chance"]), right=True),
    Column("mean of patterns %", lambda row: _percent(row["pattern_mean"]), right=True),
)
_CORRELATIONS = (
    Column("encoder", lambda row: str(row["encoder"])),
    Column("model", lambda row: str(row["model"])),
    Column("r", lambda row: _number(row["r"]), right=True),
    Column("low", lambda row: _number(row["low"]), right=True),
    Column("high", lambda row: _number(row["high"]), right=True),
    Column("patterns", lambda row: str(row["n"]), right=True),
)


def _score_columns(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    columns = [
        Column("model", lambda row: str(row["model"])),
        Column("variant", lambda row: str(row["variant"])),
        *_PAIRS,
        Column("question %", lambda row: _percent(row["question_accuracy"]), right=True),
        _count("missing"),
    ]
    if any(row["taken_out"] for row in rows):
        columns.append(_count("taken_out"))
    if any(row["against_original"] for row in rows):
        columns.append(Column("same option as original", _same, right=True))
    return columns


def _same(row: Mapping[str, Any]) -> str:
    against = row["against_original"]
    return "-" if against is None else f"{against['same_option']}/{against['questions']}"


def _emit_patterns(rows: Sequence[Mapping[str, Any]], keys: Sequence[str], more: Sequence[Column]) -> None:
    """A table of every run's patterns below the first one, if there are any."""
    lines = [{**{key: row[key] for key in keys}, **pattern} for row in rows for pattern in row["patterns"]]
    if not lines:
        return
    emit("")
    named = [Column(key, lambda row, key=key: str(row[key])) for key in (*keys, "pattern")]  # type: ignore[misc]
    questions = [Column("question %", lambda row: _percent(row["question_accuracy"]), right=True)]
    emit_table([*named, *_PAIRS[:2], *(questions if "question_accuracy" in lines[0] else []), *more], lines)
