"""Where published versions lie: ``artifacts/<kind>/<name>/<version>/``, and what may stand in a payload."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from optotype.schemas.errors import NotFoundError, Problem, UsageError
from optotype.schemas.references import check_kind, check_name, check_version

__all__ = [
    "ARTIFACTS",
    "CARD",
    "MANIFEST",
    "PAYLOAD",
    "PULLED",
    "STATUS",
    "Place",
    "is_inside",
    "prepare",
    "source_files",
    "without_path",
]

ARTIFACTS = "artifacts"
PULLED = "optotype_pins"  # holds an `artifacts` of what a lock pins, with the whole status of its source
MANIFEST = "manifest.json"
CARD = "CARD.md"
PAYLOAD = "payload"
STATUS = "status.json"

# DVC would take these for its own wherever they stand; git would act on a .gitignore.
_OF_DVC = ("dvc.yaml", "dvc.lock")
_MAX_PATH = 1024


@dataclass(frozen=True)
class Place:
    """The folder of one version. Checked when made: nothing in it can leave the folder of published versions.

    Attributes
    ----------
    root : Path
        The folder that holds ``artifacts/``.
    kind, name, version : str
    """

    root: Path
    kind: str
    name: str
    version: str

    def __post_init__(self) -> None:
        check_kind(self.kind)
        check_name(self.name)
        check_version(self.version)

    @property
    def folder(self) -> Path:
        """The version's folder."""
        return self.root / ARTIFACTS / self.kind / self.name / self.version

    @property
    def manifest(self) -> Path:
        """What it consists of and was made of."""
        return self.folder / MANIFEST

    @property
    def card(self) -> Path:
        """What a person reads."""
        return self.folder / CARD

    @property
    def payload(self) -> Path:
        """The published files; not there where DVC has not checked them out."""
        return self.folder / PAYLOAD

    @property
    def pointer(self) -> Path:
        """DVC's file beside a payload that git does not hold."""
        return self.folder / f"{PAYLOAD}.dvc"

    @property
    def is_there(self) -> bool:
        """Whether the folder holds anything: a version, whole or not. An empty folder, which git drops, is none."""
        if self.manifest.is_file():
            return True
        try:
            with os.scandir(self.folder) as entries:
                return any(True for _ in entries)
        except OSError:
            return False

    @property
    def mending(self) -> str:
        """What to type where the folder has no manifest."""
        if self.is_pulled:
            return f"Pull it again: optotype pull {self.kind}/{self.name}"
        return (
            f"Where git holds it, take it again: git checkout -- {self.relative}/{MANIFEST}. Else remove the folder: "
            f"rm -r {self.relative}"
        )

    @property
    def is_pulled(self) -> bool:
        """Whether the root is what `optotype.registry.pins` pulled, and not where versions are published."""
        return self.root.name == PULLED

    @property
    def relative(self) -> str:
        """The folder from the root, with ``/``; what was pulled, from the folder of the lock."""
        if self.is_pulled:
            return f"{PULLED}/{ARTIFACTS}/{self.kind}/{self.name}/{self.version}"
        return f"{ARTIFACTS}/{self.kind}/{self.name}/{self.version}"

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}@{self.version}"


def prepare(root: Path) -> None:
    """Make ``artifacts/`` with rules for git: no drafts, and no line ends changed in a payload."""
    folder = root / ARTIFACTS
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in ((".gitignore", ".*.draft\n.*.next\n"), (".gitattributes", "* -text\n")):
        path = folder / name
        if not path.exists():
            path.write_text(text, encoding="utf-8")


def is_inside(path: str) -> bool:
    """Whether a path of a payload is relative, plain and stays in its folder."""
    parts = PurePosixPath(path).parts
    plain = path.isprintable() and "\\" not in path and unicodedata.is_normalized("NFC", path)
    return (
        plain
        and 0 < len(path) <= _MAX_PATH
        and not path.startswith("/")
        and "/".join(parts) == path
        and ".." not in parts
        and not (len(parts[0]) == 2 and parts[0][1] == ":")
    )


def without_path(message: str, path: Path) -> str:
    """A message about a file without the file's path in front, for where the path stands beside it."""
    return message.removeprefix(f"{path}: ")


def source_files(source: Path, caches: Sequence[Path] = ()) -> tuple[dict[str, Path], list[str], list[Problem]]:
    """The files of a folder that can be published.

    Links to files are followed within the folder and into DVC's cache (DVC may link what it checks out), and nowhere
    else: what they name could be any file of this machine. Links to folders are not followed. Hidden files and files of
    DVC (``*.dvc``, ``dvc.yaml``, ``dvc.lock``) are left out: git and DVC would act on them where the payload stands.

    Parameters
    ----------
    source : Path
    caches : sequence of Path
        DVC's caches.

    Returns
    -------
    files : dict of str to Path
        Paths with ``/`` relative to ``source``, sorted.
    left_out : list of str
        Paths that are not published, sorted.
    problems : list of Problem
        What cannot be published and may not be left out in silence.

    Raises
    ------
    NotFoundError, UsageError
        There is no such folder; it is a file.
    """
    if not source.exists():
        raise NotFoundError(f"no folder at {source}")
    if not source.is_dir():
        raise UsageError(f"{source} is a file; what is published is a folder")
    files: dict[str, Path] = {}
    left_out: list[str] = []
    problems: list[Problem] = []
    allowed = [source.resolve(), *(cache.resolve() for cache in caches)]
    for base, folders, names in os.walk(source):
        here = Path(base)
        for name in sorted(folders):
            path = here / name
            relative = path.relative_to(source).as_posix()
            if name.startswith("."):
                left_out.append(f"{relative}/")
                folders.remove(name)
            elif path.is_symlink():
                problems.append(Problem(relative, "linked-folder", "a link to a folder; publish the folder itself"))
                folders.remove(name)
        for name in names:
            path = here / name
            relative = path.relative_to(source).as_posix()
            if name.startswith(".") or name.endswith(".dvc") or name in _OF_DVC:
                left_out.append(relative)
            elif not path.is_file():
                problems.append(Problem(relative, "not-a-file", "neither a file nor a link to one"))
            elif path.is_symlink() and not any(path.resolve().is_relative_to(folder) for folder in allowed):
                message = f"a link to {path.resolve()}, outside the folder; put a copy of the file here if it is meant"
                problems.append(Problem(relative, "link-outside", message))
            elif not is_inside(relative):
                message = "a name with a control character, backslash or decomposed letter, or a path that is too long"
                problems.append(Problem(repr(relative), "file-name", message))
            else:
                files[relative] = path
    lower: dict[str, str] = {}
    for relative in sorted(files):
        other = lower.setdefault(relative.casefold(), relative)
        if other != relative:
            problems.append(Problem(relative, "same-name", f"differs from {other} by the case of its letters alone"))
    return dict(sorted(files.items())), sorted(left_out), problems
