"""``optotype report``: results as pages that a person can read."""

from __future__ import annotations

from pathlib import Path

import click

from optotype.registry.cli import options
from optotype.registry.cli.commands import Group
from optotype.registry.cli.output import emit, emit_json
from optotype.registry.cli.project import needed_project

__all__ = ["report"]

_EXAMPLE = "optotype report ranking --ranking results/ranking.json --pairs pairs.csv --out reports"
_COMPRESSION = "optotype report compression --suite results/suite --panel panel --out reports"
_EVALUATION = "optotype report evaluation --evaluation results/evaluation --out reports"
_RETRIEVAL = "optotype report retrieval --retrieval results/retrieval.json --out reports"
_MIXTURES = "optotype report mixtures --ranking results/ranking.json --out reports"
_JUDGEMENT = "optotype report judgement --judgement results/judgement/judgement.json --out reports"


@click.group(cls=Group, examples=[_EXAMPLE])
def report() -> None:
    """Pages that show a result: one file each, to open in a browser without a network."""


@report.command(examples=[_EXAMPLE], short_help="Write the page of a ranking.")
@click.option(
    "--ranking",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="ranking.json, as optotype rank --out writes it.",
)
@click.option(
    "--pairs", type=click.Path(path_type=Path), required=True, metavar="TABLE", help="Table of ids, images and texts."
)
@options.out_folder("Folder for ranking.html and ranking.json.")
@click.option("--title", default="Vision encoders ranked by RAVEL", show_default=True, metavar="TEXT", help="Heading.")
@options.number("--examples", default=3, minimum=1, text="Items whose neighbours are shown.")
@options.number("--shown", default=5, minimum=1, text="Neighbours shown of each.")
@options.seed
@options.scheduler
@options.as_json
@click.pass_context
def ranking(
    ctx: click.Context,
    ranking: Path,
    pairs: Path,
    out: Path,
    title: str,
    examples: int,
    shown: int,
    seed: int,
    scheduler: str,
    as_json: bool,
) -> None:
    """Write ranking.html and the same numbers as ranking.json.

    The page holds the table, scores against chance, warnings, examples of neighbours, spectra, and a map of matched
    patches.
    """
    from optotype.registry.report.ranking.report import write_ranking_report

    written = write_ranking_report(
        ranking=ranking,
        project=needed_project(ctx),
        pairs=pairs,
        out=out,
        title=title,
        examples=examples,
        shown=shown,
        seed=seed,
        scheduler=scheduler,
    )
    if as_json:
        emit_json(written)
    else:
        emit(f"{written['html']}\n{written['json']}")


@report.command(examples=[_COMPRESSION], short_help="Write the page of a compressed suite.")
@click.option(
    "--suite",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="What optotype compress --out has written.",
)
@click.option(
    "--frontier", type=click.Path(path_type=Path), metavar="DIR", help="What optotype frontier --out has written."
)
@click.option("--panel", required=True, metavar="PANEL", help="The scores that the suite was made from.")
@click.option(
    "--probe",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="What optotype emoji panel --out has written, where the panel is of such probes.",
)
@options.out_folder("Folder for compression.html and compression.json; not the suite's own.")
@click.option("--title", default="A compressed suite", show_default=True, metavar="TEXT", help="Heading.")
@options.as_json
@click.pass_context
def compression(
    ctx: click.Context,
    suite: Path,
    frontier: Path | None,
    panel: str,
    probe: Path | None,
    out: Path,
    title: str,
    as_json: bool,
) -> None:
    """Write compression.html and the same numbers as compression.json.

    The page holds the funnel of the stages with their ρ, what each filter removed, representatives, budgets, the
    spectrum, how far every model moves, warnings, and, if given, the capability frontier and the panel of probes.
    """
    from optotype.registry.references import needs_project
    from optotype.registry.report.compression.report import write_compression_report

    written = write_compression_report(
        suite,
        panel,
        out,
        frontier=frontier,
        probe=probe,
        project=needed_project(ctx) if needs_project(panel) else None,
        title=title,
    )
    if as_json:
        emit_json(written)
    else:
        emit(f"{written['html']}\n{written['json']}")


@report.command(examples=[_EVALUATION], short_help="Write the page of an evaluation of selectors.")
@click.option(
    "--evaluation",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="What optotype evaluate --out has written.",
)
@options.out_folder("Folder for evaluation.html.")
@click.option("--title", default="Item selectors compared", show_default=True, metavar="TEXT", help="Heading.")
@options.as_json
def evaluation(evaluation: Path, out: Path, title: str, as_json: bool) -> None:
    """Write evaluation.html; the numbers are in the evaluation's own evaluation.json.

    The page says in words what can be concluded, and shows ρ by retention against random items, the table of
    selectors, and every other protocol that was run.
    """
    from optotype.registry.report.evaluation.report import write_evaluation_report

    written = write_evaluation_report(evaluation, out, title=title)
    if as_json:
        emit_json(written)
    else:
        emit(written["html"])


@report.command(examples=[_MIXTURES], short_help="Write the page of a ranking of mixtures of features.")
@click.option(
    "--ranking",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="ranking.json of virtual encoders, as optotype rank --out writes it.",
)
@options.out_folder("Folder for mixtures.html, mixtures.json and mixtures.csv.")
@click.option("--title", default="Mixtures of features", show_default=True, metavar="TEXT", help="Heading.")
@options.as_json
def mixtures(ranking: Path, out: Path, title: str, as_json: bool) -> None:
    """Write mixtures.html, the same numbers as mixtures.json, and mixtures.csv to plot.

    The page shows the score by the share of the second encoder for each language model, the interleaved mixture beside
    it, and says whether a mixture is better than both encoders alone.
    """
    from optotype.registry.report.mixtures.report import write_mixtures_report

    written = write_mixtures_report(ranking, out, title=title)
    if as_json:
        emit_json(written)
    else:
        emit(f"{written['html']}\n{written['json']}\n{written['csv']}")


@report.command(examples=[_RETRIEVAL], short_help="Write the page of retrieval over emoji.")
@click.option(
    "--retrieval",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="retrieval.json of kind emoji-retrieval, as optotype emoji retrieval --out writes it; not of kind retrieval, "
    "as optotype retrieve --out does.",
)
@options.out_folder("Folder for retrieval.html and retrieval.json; not that of FILE.")
@click.option("--title", default="Retrieval over emoji", show_default=True, metavar="TEXT", help="Heading.")
@options.as_json
def retrieval(retrieval: Path, out: Path, title: str, as_json: bool) -> None:
    """Write retrieval.html and the same numbers as retrieval.json.

    The page says in words what can be concluded, and shows P@1 by language, the gap to English, how much the style of
    the names matters, and every encoder.
    """
    from optotype.registry.report.retrieval.report import write_retrieval_report

    written = write_retrieval_report(retrieval, out, title=title)
    if as_json:
        emit_json(written)
    else:
        emit(f"{written['html']}\n{written['json']}")


@report.command(examples=[_JUDGEMENT], short_help="Write the page of metrics judged side by side.")
@click.option(
    "--judgement",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="judgement.json, as optotype judge --out writes it, or its folder.",
)
@options.out_folder("Folder for judgement.html.")
@click.option("--title", default="Metrics judged side by side", show_default=True, metavar="TEXT", help="Heading.")
@options.as_json
def judgement(judgement: Path, out: Path, title: str, as_json: bool) -> None:
    """Write judgement.html; the numbers are in the judgement's own judgement.json.

    The page says in words what can be concluded, and shows every metric with intervals, the ablation, curves over
    settings and pool sizes, and what each metric costs.
    """
    from optotype.registry.report.judgement.report import write_judgement_report

    written = write_judgement_report(judgement, out, title=title)
    if as_json:
        emit_json(written)
    else:
        emit(written["html"])
