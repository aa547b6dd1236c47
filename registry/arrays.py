"""The arrays of a project: take them in, list, show and give them out again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from optotype.registry.references import resolved
from optotype.schemas.errors import ConflictError, FormatError, IntegrityError, NotFoundError, UsageError
from optotype.schemas.names import check_array_name

if TYPE_CHECKING:
    from optotype.store.manifest import Manifest
    from optotype.store.project import Kind as StoredKind
    from optotype.store.project import Project

__all__ = [
    "Kind",
    "array_row",
    "export_array",
    "import_array",
    "import_under_name",
    "list_arrays",
    "place_in",
    "show_array",
]

Kind = Literal["features", "states"]


def import_array(
    project: Project,
    kind: Kind,
    name: str,
    file: str,
    *,
    track: bool = True,
    keep_invalid: bool = False,
    say: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Import a file into the project under a name; an array that is so called is replaced in one step.

    Parameters
    ----------
    project : Project
    kind : {"features", "states"}
    name : str
        Of the array.
    file : str
        ``.npz``, ``.npy``, ``.safetensors``, ``.pt`` or a Zarr folder, as `optotype.store.importers` takes them.
    track : bool
        Whether DVC tracks the array, where the project is one of DVC's.
    keep_invalid : bool
        Of states: whether rows that hold NaN or infinity are stored, as NaN throughout, for `optotype.retrieve`, which
        counts them as wrong.
    say : callable, optional
        Takes lines for the reader: what was replaced, and how many rows are not finite.

    Returns
    -------
    dict
        The row that `list_arrays` has for it.

    Raises
    ------
    UsageError
        Not a name, or features that are to keep invalid rows.
    ConflictError
        An array in a bundle is so called, something that is not an array is in the way, or another process is
        writing the same.
    NotFoundError, FormatError, InvalidDataError
        Of the importer; nothing was written.
    """
    from optotype.store import importers

    if keep_invalid and kind != "states":
        raise UsageError("only states keep invalid rows")
    states = functools.partial(importers.import_states, keep_invalid=keep_invalid)
    take: Callable[[Path, str], Manifest] = importers.import_features if kind == "features" else states

    def row(folder: Path) -> dict[str, Any]:
        from optotype.store.listing import show
        from optotype.store.rows import INVALID_ROWS

        if say is not None and keep_invalid:
            count = show(kind, folder)["attrs"].get(INVALID_ROWS, 0)
            rows = "1 row holds" if count == 1 else f"{count} rows hold"
            say(f"{name}: {rows} NaN or Inf; stored as NaN" if count else f"{name}: every row is finite")
        return array_row(project, kind, folder)

    return import_under_name(project, kind, name, file, take, row, track=track, say=say)


def import_under_name(
    project: Project,
    kind: StoredKind,
    name: str,
    file: str,
    take: Callable[[Path, str], Manifest],
    row: Callable[[Path], dict[str, Any]],
    *,
    track: bool,
    say: Callable[[str], None] | None,
) -> dict[str, Any]:
    """What the imports of all kinds of arrays share: check the name, replace in one step, say so, track, describe.

    Parameters
    ----------
    take : callable
        The importer: writes the file at the target, and gives the manifest.
    row : callable
        Describes the array at the target.

    Raises
    ------
    UsageError, ConflictError
        As `import_array` does.
    """
    from optotype.store import dvc
    from optotype.store.drafts import writing

    target = project.folder(kind) / check_array_name(name)
    others = [folder for folder in project.index(kind).get(name, []) if folder != target]
    if others:
        place = others[0].relative_to(project.root)
        raise ConflictError(f"{kind} {name!r} are there already: {place}", hint="Choose another name.")
    with writing(target):  # so that what is said is said of our own data
        before = _digest(target)
        manifest = take(target, file)
        if say is not None and before == manifest.digest:
            say(f"{name}: the same data was there already")
        elif say is not None and before is not None:
            say(f"{name}: replaced what was there ({before})")
        if track:
            dvc.track(target, root=project.root)
        return row(target)


def list_arrays(project: Project, kind: Kind) -> list[dict[str, Any]]:
    """What the project holds of one kind, sorted by name: one row for each array, ``error`` saying if it is damaged."""
    from optotype.store.listing import describe

    return describe(kind, project)


def array_row(project: Project, kind: Kind, folder: Path) -> dict[str, Any]:
    """The row that `list_arrays` has for the array in ``folder``."""
    from optotype.store.listing import describe

    (row,) = describe(kind, folder)
    return {**row, "path": place_in(project, folder)}


def show_array(project: Project | None, kind: Kind, reference: str) -> dict[str, Any]:
    """All that is known of one array, given by name, path or URL: sizes, layout, attributes, inputs, digest."""
    from optotype.store.listing import show

    source = resolved(project, kind, reference)
    row = show(kind, source)
    return {**row, "path": place_in(project, source)} if project is not None and isinstance(source, Path) else row


def export_array(
    project: Project | None,
    kind: Kind,
    reference: str,
    file: str,
    *,
    file_format: str | None = None,
    replace: bool = False,
) -> dict[str, Any]:
    """Write one array to a file for other programs.

    Parameters
    ----------
    reference : str
        Name, path or URL.
    file : str
        Written whole or not at all.
    file_format : str, optional
        ``npz``, ``npy``, ``safetensors`` or ``zarr``; by default the ending of ``file`` says.
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
    from optotype.store import export

    target = Path(file)
    source = resolved(project, kind, reference)
    if target.exists() and not replace:
        raise ConflictError(f"{file} is there already", hint="Replace it with --force, or choose another name.")
    written: Path
    write = export.export_features if kind == "features" else export.export_states
    written = write(source, target, file_format=file_format)
    return {"name": reference, "file": str(written), "format": file_format or target.suffix.lstrip(".")}


def place_in(project: Project, folder: Path) -> str:
    """The folder relative to the project if it lies in it, as `list_arrays` gives it."""
    inside = folder.resolve().is_relative_to(project.root)
    return folder.resolve().relative_to(project.root).as_posix() if inside else str(folder)


def _digest(folder: Path) -> str | None:
    """Digest of the array that stands in ``folder``, if one does; a word for it if it cannot be read."""
    from optotype.store.manifest import read_manifest

    try:
        return read_manifest(folder).digest
    except NotFoundError:
        return None
    except (FormatError, IntegrityError):
        return "unreadable"
