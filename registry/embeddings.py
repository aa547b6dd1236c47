"""Item embeddings of a project: take them in, list, show and give them out again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.arrays import import_under_name, place_in
from optotype.registry.references import resolved
from optotype.schemas.errors import ConflictError, OptotypeError

if TYPE_CHECKING:
    from optotype.store.project import Project

__all__ = ["embedding_row", "export_embeddings", "import_embeddings", "list_embeddings", "show_embeddings"]

_FIELDS = ("name", "items", "benchmarks", "channels", "text", "vision_text", "dtype", "digest", "key", "bytes", "error")


def import_embeddings(
    project: Project, name: str, file: str, *, track: bool = True, say: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Import item embeddings into the project under a name; those that are so called are replaced in one step.

    Parameters
    ----------
    project : Project
    name : str
        The array becomes ``data/embeddings/<name>``.
    file : str
        ``.npz``, ``.safetensors`` or a Zarr group, as `optotype.store.importers.embeddings.import_embeddings` takes it.
    track : bool
        Whether DVC tracks the array, where the project is one of DVC's.
    say : callable, optional
        Takes lines for the reader: what was replaced.

    Returns
    -------
    dict
        The row that `list_embeddings` has for it.

    Raises
    ------
    UsageError, NotFoundError, FormatError, InvalidDataError
        Not a name, or of the importer; nothing was written.
    ConflictError
        Something that is no array is in the way, or another process is writing the same.
    """
    from optotype.store.importers import embeddings as importer

    row = functools.partial(embedding_row, project)
    return import_under_name(project, "embeddings", name, file, importer.import_embeddings, row, track=track, say=say)


def list_embeddings(project: Project) -> list[dict[str, Any]]:
    """What the project holds, sorted by name: one row for each array, ``error`` saying if it is damaged.

    Returns
    -------
    list of dict
        As `optotype.store.embeddings.describe_embeddings` gives them; ``path`` relative to the project.
    """
    from optotype.store.embeddings import describe_embeddings

    rows = []
    for folders in project.index("embeddings").values():
        for folder in folders:
            try:
                row = describe_embeddings(folder)
            except OptotypeError as error:
                row = {**dict.fromkeys(_FIELDS), "name": folder.name, "error": error.message}
            rows.append({**row, "path": folder.relative_to(project.root).as_posix()})
    return rows


def embedding_row(project: Project, folder: Path) -> dict[str, Any]:
    """The row that `list_embeddings` has for the array in ``folder``."""
    from optotype.store.embeddings import describe_embeddings

    return {**describe_embeddings(folder), "path": place_in(project, folder)}


def show_embeddings(project: Project | None, reference: str) -> dict[str, Any]:
    """All that is known of one array, given by name, path or URL: sizes, attributes, inputs, digest."""
    from optotype.store.embeddings import describe_embeddings

    source = resolved(project, "embeddings", reference)
    row = describe_embeddings(source, whole=True)
    return {**row, "path": place_in(project, source)} if project is not None and isinstance(source, Path) else row


def export_embeddings(
    project: Project | None, reference: str, file: str, *, file_format: str | None = None, replace: bool = False
) -> dict[str, Any]:
    """Write one array to a file for other programs.

    Parameters
    ----------
    reference : str
        Name, path or URL.
    file : str
        Written whole or not at all.
    file_format : str, optional
        ``npz``, ``safetensors`` or ``zarr``; by default the ending of ``file`` says.
    replace : bool
        Whether a file that is there may be replaced.

    Returns
    -------
    dict
        ``name``, ``file``, ``format``.

    Raises
    ------
    UsageError
        The ending says nothing and no format is given.
    ConflictError
        The file is there.
    """
    from optotype.store import embedding_export

    target = Path(file)
    source = resolved(project, "embeddings", reference)
    if target.exists() and not replace:
        raise ConflictError(f"{file} is there already", hint="Replace it with --force, or choose another name.")
    written = embedding_export.export_embeddings(source, target, file_format=file_format)
    return {"name": reference, "file": str(written), "format": file_format or target.suffix.lstrip(".")}
