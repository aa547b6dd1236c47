"""``optotype publish``, ``yank`` and ``alias``: what writes published versions and their state."""

from __future__ import annotations

from pathlib import Path

import click

from optotype.registry.cli.commands import Command
from optotype.registry.cli.options import as_json
from optotype.registry.cli.output import emit, emit_json, note, short_digest
from optotype.registry.cli.project import needed_project

__all__ = ["alias", "publish", "yank"]


@click.command(
    cls=Command,
    examples=[
        "optotype publish ranking emoji@0.1.0 --from data/ranking",
        'optotype publish ranking emoji@0.2.0 --from data/ranking-k50 --message "k = 50" --json',
    ],
    short_help="Publish a folder under a version, for good.",
)
@click.argument("kind", metavar="KIND")
@click.argument("reference", metavar="NAME@VERSION")
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Folder of what is published: its files keep their names. Hidden files are left out.",
)
@click.option("--message", default="", metavar="TEXT", help="What is new in this version, for its card.")
@click.option("--title", metavar="TEXT", help="One line for lists. Default: made from the data.")
@click.option(
    "--licence",
    "licences",
    multiple=True,
    metavar="TEXT",
    help="Licence of the sources, beside those that they state themselves; repeatable.",
)
@click.option("--tag", is_flag=True, help="Also tag the git commit that holds the version, as gto does.")
@as_json
@click.pass_context
def publish(
    ctx: click.Context,
    kind: str,
    reference: str,
    source: Path,
    message: str,
    title: str | None,
    licences: tuple[str, ...],
    tag: bool,
    as_json: bool,
) -> None:
    """Publish the files of a folder as one version of a name: artifacts/KIND/NAME/VERSION.

    KIND is suite, frontier, pairs, ranking, report, features, states or scores; VERSION is semantic, such as 1.2.0.
    The files are checked, copied, and described in manifest.json and CARD.md; commit the folder. Payloads up to 1 MiB
    are kept by git, larger ones by DVC.

    A published version never changes: the same bytes again do nothing, other bytes are refused. A run that is killed
    leaves a whole version or none.

    --tag makes the tag KIND/NAME@vVERSION on HEAD if HEAD holds the version; before that it says what to commit.
    """
    from optotype.registry.artifacts.publish import publish as publish_folder

    done = publish_folder(
        kind,
        reference,
        source,
        root=needed_project(ctx).root,
        message=message,
        tag=tag,
        title=title,
        licences=licences,
    )
    manifest = done.version.manifest
    if as_json:
        emit_json(
            {
                "reference": str(done.version),
                "created": done.created,
                "digest": manifest.digest,
                "files": len(manifest.files),
                "bytes": manifest.size,
                "storage": manifest.storage,
                "path": done.version.place.relative,
                "tag": done.tag,
                "notes": list(done.notes),
            }
        )
    else:
        what = "published" if done.created else "published before, the same bytes"
        emit(f"{done.version}  {short_digest(manifest.digest)}  {what}: {done.version.place.relative}")
        if done.tag is not None:
            emit(f"tag {done.tag}")
    for line in done.notes:
        note(line)


@click.command(
    cls=Command,
    examples=['optotype yank ranking/emoji@0.1.0 --why "pairs 12 and 40 had each other\'s captions"'],
    short_help="Say that a version should no longer be used.",
)
@click.argument("reference", metavar="REF")
@click.option("--why", required=True, metavar="TEXT", help="The reason, shown to whoever asks for the version.")
@as_json
@click.pass_context
def yank(ctx: click.Context, reference: str, why: str, as_json: bool) -> None:
    """Mark a published version as one that nobody should start to use.

    REF names it by version or digest: no range and no alias, which may come to stand for another one.
    Its bytes stay where they are and can be read by digest, but ranges and @latest pass it by and new pins of it are
    refused with the reason. Commit status.json to let others know.
    """
    from optotype.registry.artifacts.index import Registry

    version = Registry(needed_project(ctx).root).yank(reference, why)
    if as_json:
        emit_json({"reference": str(version), "digest": version.digest, "yanked": version.yanked})
    else:
        emit(f"{version} yanked: {version.yanked}")
    if version.aliases:
        words = ", ".join(f"@{word}" for word in version.aliases)
        note(f"{words} still stands for it: optotype alias {version.kind}/{version.name}@VERSION {version.aliases[0]}")


@click.command(
    cls=Command,
    examples=["optotype alias ranking/emoji@0.1.0 stable"],
    short_help="Let a word stand for a version.",
)
@click.argument("reference", metavar="REF")
@click.argument("word", metavar="WORD")
@as_json
@click.pass_context
def alias(ctx: click.Context, reference: str, word: str, as_json: bool) -> None:
    """Let NAME@WORD stand for a published version from now on, such as @stable.

    A word that stood for another version is moved. @latest cannot be given: it is the highest version that is neither
    a pre-release nor yanked. Pins are not touched, they hold versions and digests.
    """
    from optotype.registry.artifacts.index import Registry

    version, before = Registry(needed_project(ctx).root).alias(reference, word)
    if as_json:
        emit_json({"reference": str(version), "alias": word, "before": before})
        return
    moved = "" if before in (None, version.version) else f" (was {before})"
    emit(f"{version.kind}/{version.name}@{word} -> {version.version}{moved}")
