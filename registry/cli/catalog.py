"""``optotype catalog``: everything that is published, as a site to read."""

from __future__ import annotations

from pathlib import Path

import click

from optotype.registry.cli.commands import Group
from optotype.registry.cli.options import as_json
from optotype.registry.cli.output import emit, emit_json, human_bytes, note
from optotype.registry.cli.project import needed_project

__all__ = ["catalog"]

_EXAMPLES = [
    "optotype catalog build site",
    'optotype catalog build site --title "Suites of our group" --from https://example.org/suites.git --json',
]


@click.group(cls=Group, examples=_EXAMPLES)
def catalog() -> None:
    """A static site of all published versions, to open from a disk or to put on any web server."""


@catalog.command(examples=_EXAMPLES, short_help="Write the site.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--title", default="Published versions", show_default=True, metavar="TEXT", help="Heading.")
@click.option(
    "--from",
    "source",
    metavar="GIT_URL_OR_PATH",
    help="Where others pin from, for the commands on the pages. Default: a place to fill in.",
)
@as_json
@click.pass_context
def build(ctx: click.Context, folder: Path, title: str, source: str | None, as_json: bool) -> None:
    """Write a site of everything that is published; open DIR/index.html.

    It lists all versions, to search and filter; of each its card, facts, files, lineage, ranking or report, and the
    command that pins it; of each name what changed between its versions. It needs no server and no network, and can
    be read without JavaScript. A catalog that stands at DIR is replaced; the same versions give the same bytes.
    """
    from optotype.registry.catalog.build import build_catalog

    written = build_catalog(needed_project(ctx).root, folder, title=title, source=source)
    if as_json:
        emit_json(written)
    else:
        emit(str(written["index"]))
        note(
            f"{written['versions']} version(s) of {written['names']} name(s), {written['comparisons']} comparison(s), "
            f"{human_bytes(written['bytes'])}"
        )
    for line in written["notes"]:
        note(line)
