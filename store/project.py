"""A project: the folder that holds ``.optotype/project.json``, and the arrays in it."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from optotype.schemas.documents import parse_document
from optotype.schemas.errors import ConflictError, NotFoundError, UsageError, did_you_mean
from optotype.schemas.names import check_array_name, is_url_or_path
from optotype.store.drafts import is_draft, recover_all

__all__ = ["KINDS", "MIXTURE", "PANEL", "Kind", "Project", "bundled", "holds_arrays"]

Kind = Literal["features", "states", "neighbours", "embeddings", "scores", "tasks"]
KINDS: tuple[Kind, ...] = ("features", "states", "neighbours", "embeddings", "scores", "tasks")

_FORMAT_VERSION = 1
_FOLDER = ".optotype"
_DOCUMENT = "project.json"
PANEL = "panel.json"  # lists the parts of a panel
MIXTURE = "mixture.json"  # of features, a virtual encoder
_COMMANDS: dict[str, str] = {
    "features": "optotype features import NAME FILE",
    "states": "optotype states import NAME FILE",
    "neighbours": "optotype neighbours build NAME",
    "embeddings": "optotype embeddings import NAME FILE",
    "scores": "optotype scores import PANEL PATH",
    "tasks": "optotype tasks import NAME PATH",
}


@dataclass(frozen=True)
class Project:
    """A project on disk.

    Attributes
    ----------
    root : Path
        Absolute path of the folder that holds ``.optotype/project.json``.
    """

    root: Path

    @classmethod
    def find(cls, start: Path | None = None) -> Project:
        """The project that ``start`` (default: the working directory) lies in, looked for upward.

        Raises
        ------
        NotFoundError
            Neither ``start`` nor a folder above it is a project.
        FormatError
            The project was written by a newer optotype.
        """
        here = (Path.cwd() if start is None else Path(start)).resolve()
        for folder in (here, *here.parents):
            document = folder / _FOLDER / _DOCUMENT
            if document.is_file():
                parse_document(document.read_bytes(), kind="project", where=str(document), newest=_FORMAT_VERSION)
                return cls(folder)
        raise NotFoundError(
            f"{here} is not in a project: no {_FOLDER}/{_DOCUMENT} here or in a folder above",
            hint="Make one with: optotype init",
        )

    @classmethod
    def init(cls, path: Path, scm: bool | None = None) -> Project:
        """Make ``path`` a project; what is already there stays as it is.

        Parameters
        ----------
        path : Path
            Folder, made when missing.
        scm : bool, optional
            Whether DVC is bound to git. Default: if ``path`` lies in a git repository.

        Raises
        ------
        UsageError
            ``scm`` is true but ``path`` is not in a git repository; or ``path`` is a file.
        ExternalError
            DVC failed.
        """
        root = Path(path).resolve()
        if root.exists() and not root.is_dir():
            raise UsageError(f"{root} is a file; a project is a folder")
        in_git = any((folder / ".git").exists() for folder in (root, *root.parents))
        if scm and not in_git:
            raise UsageError(
                f"{root} is not in a git repository", hint="Run `git init` first, or leave git out: --no-scm"
            )
        root.mkdir(parents=True, exist_ok=True)
        folder = root / _FOLDER
        folder.mkdir(exist_ok=True)
        _write_once(folder / ".gitignore", "*\n!.gitignore\n!project.json\n")
        (root / "data").mkdir(exist_ok=True)
        _write_once(root / "data" / ".gitignore", ".*.draft\n.*.next\n")

        from optotype.store import dvc  # knows DVC; slow to import, needed by this verb only

        dvc.init(root, scm=in_git if scm is None else scm)
        # The document comes last: a folder with it is a whole project.
        _write_once(folder / _DOCUMENT, json.dumps({"format_version": _FORMAT_VERSION}) + "\n")
        return cls(root)

    @property
    def features(self) -> Path:
        """Folder of the patch features."""
        return self.root / "data" / "features"

    @property
    def states(self) -> Path:
        """Folder of the text states."""
        return self.root / "data" / "states"

    @property
    def neighbours(self) -> Path:
        """Folder of the neighbour graphs that a stage wrote."""
        return self.root / "data" / "neighbours"

    @property
    def scores(self) -> Path:
        """Folder of the panels of scores."""
        return self.root / "data" / "scores"

    @property
    def staging(self) -> Path:
        """Folder of the parts of unfinished encodings."""
        return self.root / _FOLDER / "staging"

    @property
    def cache(self) -> Path:
        """Folder of what can be computed again."""
        return self.root / _FOLDER / "cache"

    def folder(self, kind: Kind) -> Path:
        """Folder of the arrays of one kind."""
        return self.root / "data" / kind

    def index(self, kind: Kind) -> dict[str, list[Path]]:
        """Names of the arrays of one kind, each with the folders that hold it (more than one: a conflict).

        A folder without ``zarr.json`` is a bundle, whose children are arrays; a panel of scores is a folder with
        ``panel.json``, whose children are its parts; features with ``mixture.json`` are a virtual encoder.
        """
        found: dict[str, list[Path]] = {}
        for entry in _folders(self.folder(kind)):
            if kind == "scores":
                arrays = [entry] if (entry / PANEL).is_file() else []
            else:
                arrays = [entry] if _is_array(entry) else [child for child in _folders(entry) if _is_array(child)]
            for array in arrays:
                found.setdefault(array.name, []).append(array)
        return dict(sorted(found.items()))

    def names(self, kind: Kind) -> list[str]:
        """Names of the arrays of one kind, sorted."""
        return list(self.index(kind))

    def arrays(self, kind: Kind, reference: str) -> list[str]:
        """The arrays that ``reference`` stands for: those of the bundle so called, layer 8 before 10; else itself.

        A local path may be that of a bundle, too.
        """
        if is_url_or_path(reference):
            return bundled(reference)
        index = self.index(kind)
        bundle = self.folder(kind) / reference
        if reference in index:
            return [reference]
        found = [name for name, folders in index.items() if any(folder.parent == bundle for folder in folders)]
        return sorted(found, key=_natural) or [reference]

    def resolve(self, kind: Kind, reference: str) -> str | Path:
        """Where the array lies that ``reference`` (a name, path or fsspec URL) means.

        A name is looked up in the project; anything with a slash or ``::`` is a path or URL and returned as it is.

        Raises
        ------
        NotFoundError
            No array of that kind is so called; suggests the closest.
        ConflictError
            Two arrays are so called (in different bundles).
        UsageError
            The reference is neither a name nor a path.
        """
        if is_url_or_path(reference):
            return reference if "://" in reference or "::" in reference else Path(reference)
        check_array_name(reference)
        index = self.index(kind)
        hits = index.get(reference, [])
        if not hits:
            suggestion = did_you_mean(reference, list(index)) or f"There are none yet. {_COMMANDS[kind]} adds one."
            raise NotFoundError(f"no {kind} called {reference!r} in {self.root}", hint=suggestion)
        if len(hits) > 1:
            places = ", ".join(str(hit.relative_to(self.root)) for hit in hits)
            raise ConflictError(
                f"{reference!r} names {len(hits)} {kind} arrays: {places}",
                hint=f"Say which by its path, for example ./{hits[0].relative_to(self.root)}, or remove one.",
            )
        return hits[0]


def bundled(path: str) -> list[str]:
    """Paths of the arrays of the bundle at a local path, layer 8 before 10; the reference itself if it is none."""
    if not is_url_or_path(path) or "://" in path or "::" in path:
        return [path]
    folder = Path(path)
    if not folder.is_dir() or _is_array(folder):
        return [path]
    names = sorted((child.name for child in _folders(folder) if _is_array(child)), key=_natural)
    return [f"{path.rstrip('/')}/{name}" for name in names] or [path]


def holds_arrays(folder: Path) -> bool:
    """Whether ``folder`` is a project's folder of the arrays of a kind, or a bundle in one."""
    for root in folder.absolute().parents:
        if (root / _FOLDER / _DOCUMENT).is_file():
            parts = folder.absolute().relative_to(root).parts
            return parts[0] == "data" and len(parts) in (2, 3) and parts[1] in KINDS
    return False


def _folders(parent: Path) -> list[Path]:
    """Visible folders in ``parent``, sorted by name; arrays whose replacement was cut short are restored first."""
    if not parent.is_dir():
        return []
    recover_all(parent)
    return sorted(Path(e.path) for e in os.scandir(parent) if e.is_dir() and not is_draft(e.name) and e.name[0] != ".")


def _is_array(folder: Path) -> bool:
    return (folder / "zarr.json").is_file() or (folder / MIXTURE).is_file()


def _write_once(path: Path, text: str) -> None:
    if not path.exists():
        path.write_text(text, encoding="utf-8")


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts ``l8`` before ``l10``: runs of digits count by their value."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", name)]
