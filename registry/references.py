"""What the references of a command line stand for: bundles for their arrays, ``@FILE:KEY`` for names in a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from optotype.schemas.errors import FormatError, NotFoundError, UsageError, did_you_mean
from optotype.schemas.names import is_url_or_path

if TYPE_CHECKING:
    import xarray as xr

    from optotype.store.project import Kind, Project

__all__ = ["expand", "needs_project", "open_reference", "project_around", "project_for", "resolved", "value_in_file"]


def expand(project: Project | None, kind: Literal["features", "states"], references: Sequence[str]) -> list[str]:
    """References to single arrays, each once, in the order in which they were given.

    Parameters
    ----------
    project : Project or None
        Where bundles are looked for.
    kind : {"features", "states"}
    references : sequence of str
        Names, paths and URLs stay as they are. The name or local path of a bundle (one encoder run that wrote several
        layers) stands for its arrays, layer 8 before layer 10. ``@FILE:KEY`` stands for the names in a YAML or JSON
        file under a dotted key: the entries of a list or the keys of a mapping.

    Raises
    ------
    NotFoundError
        No such file or key.
    FormatError, UsageError
        Not YAML, or not a list or mapping of names.
    """
    from optotype.store.project import bundled

    named = [name for text in references for name in (_from_file(text) if text.startswith("@") else [text])]
    arrays = [array for name in named for array in (project.arrays(kind, name) if project else bundled(name))]
    return list(dict.fromkeys(arrays))


def needs_project(reference: str) -> bool:
    """Whether the reference means anything only in a project."""
    return reference.startswith("@") or not is_url_or_path(reference)


def project_for(project: Project | str | Path | None, references: Iterable[str]) -> Project | None:
    """The project that is meant; by default the one around the working directory, if a reference needs one.

    Raises
    ------
    NotFoundError
        There is none.
    """
    from optotype.store.project import Project

    if isinstance(project, Project):
        return project
    if project is not None:
        return Project.find(Path(project))
    return Project.find() if any(needs_project(reference) for reference in references) else None


def project_around(project: Project | str | Path | None) -> Project | None:
    """The project that is meant; by default the one around the working directory, None where there is none."""
    if project is not None:
        return project_for(project, ())
    from optotype.store.project import Project

    try:
        return Project.find()
    except NotFoundError:
        return None


def resolved(project: Project | None, kind: Kind, reference: str) -> str | Path:
    """Where an array or panel lies; without a project only a path or URL says.

    Raises
    ------
    UsageError
        A name, and no project.
    NotFoundError, ConflictError
        As `Project.resolve` does.
    """
    if project is not None:
        return project.resolve(kind, reference)
    if not is_url_or_path(reference):
        raise UsageError(f"{reference!r} is a name, and there is no project to look it up in")
    return reference


def _from_file(text: str) -> list[str]:
    """The names that ``@FILE:KEY`` stands for."""
    found, where = value_in_file(text, example="@params.yaml:encoders")
    if not isinstance(found, (list, dict)) or not found or not all(isinstance(name, str) for name in found):
        raise UsageError(f"{where} has to be a list of names or a mapping whose keys are names, got {found!r}")
    return list(found)


def value_in_file(text: str, *, example: str) -> tuple[Any, str]:
    """What stands under the dotted key of ``@FILE:KEY`` in a YAML or JSON file, and ``FILE: KEY`` for messages.

    Parameters
    ----------
    text : str
    example : str
        Such a reference, for the message about one that is not whole.

    Raises
    ------
    UsageError, NotFoundError, FormatError
        Not of that form; no such file or key; not YAML.
    """
    file, _, key = text[1:].rpartition(":")
    if not file or not key:
        raise UsageError(f"{text!r}: names from a file are written @FILE:KEY, for example {example}")
    import yaml

    try:
        document = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise NotFoundError(f"{text!r}: there is no file {file}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"{file}: not YAML or JSON ({' '.join(str(error).split())})") from error
    return _at(document, key, file), f"{file}: {key}"


def _at(document: Any, key: str, file: str) -> Any:
    """The value under a dotted key; a key that has dots itself is found, too."""
    if isinstance(document, dict):
        if key in document:
            return document[key]
        for name in document:
            if isinstance(name, str) and key.startswith(f"{name}."):
                return _at(document[name], key.removeprefix(f"{name}."), file)
    options = [name for name in document if isinstance(name, str)] if isinstance(document, dict) else []
    raise NotFoundError(f"{file}: there is no {key!r}", hint=did_you_mean(key, options) or None)


def open_reference(project: Project | str | Path | None, kind: str, reference: str) -> xr.Dataset:
    """A panel (``scores``) or item embeddings by name, path or URL.

    Raises
    ------
    NotFoundError, ConflictError, UsageError, FormatError, IntegrityError, ExternalError
        From the store.
    """
    source = resolved(project_for(project, [reference]), "scores" if kind == "scores" else "embeddings", reference)
    if kind == "scores":
        from optotype.store.panels import open_panel

        return open_panel(source)
    from optotype.store.embeddings import open_embeddings

    try:
        return open_embeddings(source)
    except NotFoundError as error:
        hint = "optotype embeddings list shows what the project holds; what DVC tracks may have to be fetched: dvc pull"
        raise NotFoundError(error.message, hint=hint) from error
