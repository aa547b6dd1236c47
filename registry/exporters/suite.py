"""A suite to work with: a published version, or a folder that ``optotype compress`` wrote."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.artifacts.index import Registry, Version
from optotype.registry.artifacts.kinds import adapter
from optotype.registry.artifacts.kinds.items import FILE, read_items
from optotype.registry.pins.registry import open_registry, pulled_panel
from optotype.schemas.documents import parse_document
from optotype.schemas.errors import IntegrityError, InvalidDataError, NotFoundError, Problem, UsageError
from optotype.store.project import Project

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["OpenSuite", "find_panel_of", "is_folder", "open_suite", "slug"]

_DOCUMENT = "compression.json"


@dataclass(frozen=True)
class OpenSuite:
    """The items of a suite and what is known of them.

    Attributes
    ----------
    name : str
        As published, or of the folder.
    version : str or None
        None for a folder.
    digest : str
        Of the payload as published; of a folder, of its table of items.
    items : DataFrame
        ``benchmark, item_id, category, weight`` and more, in catalogue order; ``weight`` is 1 where there was none.
    document : mapping
        Its ``compression.json``.
    folder : Path
    notes : tuple of str
    """

    name: str
    version: str | None
    digest: str
    items: pd.DataFrame
    document: Mapping[str, Any]
    folder: Path
    notes: tuple[str, ...] = field(default=())

    @property
    def label(self) -> str:
        """As people call it."""
        return self.name if self.version is None else f"suite/{self.name}@{self.version}"

    @property
    def keys(self) -> list[tuple[str, str]]:
        """(benchmark, item_id) of every item."""
        return list(zip(self.items["benchmark"], self.items["item_id"], strict=True))

    @property
    def benchmarks(self) -> list[str]:
        """By first appearance."""
        return list(dict.fromkeys(self.items["benchmark"]))

    @property
    def panel(self) -> Mapping[str, str]:
        """``name`` and ``digest`` of the panel that it was chosen on."""
        found = self.document.get("panel")
        return found if isinstance(found, Mapping) else {}


def slug(text: str) -> str:
    """A name as part of a file's or task's name: letters, digits, ``.``, ``-`` and ``_``."""
    return "".join(each if each.isascii() and (each.isalnum() or each in "._-") else "_" for each in text)


def is_folder(reference: str) -> bool:
    """Whether a suite is named by its folder and not as a published version."""
    return (Path(reference) / FILE).is_file()


def open_suite(reference: str, root: Path | None = None) -> OpenSuite:
    """Open a suite.

    Parameters
    ----------
    reference : str
        The folder with ``items.parquet`` and ``compression.json``, or a reference to a published version.
    root : Path, optional
        Of the project, for a reference; a lock in or above the working directory serves, too.

    Raises
    ------
    NotFoundError, UsageError, ConflictError
        There is no such suite, or the reference does not say which.
    InvalidDataError
        Everything that is wrong with its files.
    IntegrityError
        A file of a published version is not the one that was published.
    """
    if is_folder(reference):
        folder = Path(reference)
        name = folder.resolve().name
        digest = "sha256:" + hashlib.sha256((folder / FILE).read_bytes()).hexdigest()
        return _read(folder, name, None, digest)
    if Path(reference).is_dir():
        raise NotFoundError(
            f"{reference} is a folder without {FILE}", hint="optotype compress PANEL --out DIR writes a suite."
        )
    registry = open_registry(root)
    version = registry.resolve(reference, "suite")
    folder = registry.payload(version)
    _check_digests(version, folder)
    return _read(folder, version.name, version.version, version.digest)


def find_panel_of(
    suite: OpenSuite, project: Project | None, panel: str | None = None
) -> tuple[xr.Dataset | None, list[str]]:
    """The panel that a suite was chosen on, and what is to be known of it.

    Parameters
    ----------
    suite : OpenSuite
    project : Project or None
        Where it is looked for by digest, among the project's panels and what is published; else by name. Then, and
        without a project, among the pins that were pulled, by digest.
    panel : str, optional
        Name, path or URL of the panel to take instead, or ``scores/NAME[@VERSION]``, published or pinned.
    """
    from optotype.registry.artifacts.panel_ranks import find_panel
    from optotype.registry.references import open_reference
    from optotype.store.panels import open_panel

    digest, name = suite.panel.get("digest"), suite.panel.get("name")
    opened: xr.Dataset | None = None
    notes: list[str] = []
    if panel is not None:
        opened = _open_panel(project, panel)
    elif project is not None:
        path = find_panel(Registry(project.root), [{"kind": "scores", "digest": digest}])
        if path is not None:
            opened = open_panel(path)
        elif name and name in project.names("scores"):
            opened = open_reference(project, "scores", name)
    if panel is None and (opened is None or opened.attrs.get("digest") != digest):
        pulled, notes = pulled_panel(str(digest), None if project is None else project.root)
        opened = opened if pulled is None else open_panel(pulled)
    if opened is None:
        return None, notes
    if opened.attrs.get("digest") != digest:
        return opened, [
            f"the panel {opened.attrs.get('name')} is not, or no longer, the one that {suite.label} was chosen on"
        ]
    return opened, []


def _open_panel(project: Project | None, reference: str) -> xr.Dataset:
    """A panel by name, path or URL, else as it is published or pinned."""
    from optotype.registry.references import open_reference
    from optotype.store.panels import open_panel

    own = project is not None and reference in project.names("scores")
    if own or "://" in reference or Path(reference).exists():
        return open_reference(project, "scores", reference)
    try:
        registry = open_registry(None if project is None else project.root)
        version = registry.resolve(reference, "scores")
    except (NotFoundError, UsageError):
        if reference.startswith("scores/") or "@" in reference:
            raise
        try:
            return open_reference(project, "scores", reference)
        except NotFoundError as error:
            hint = error.hint or "optotype pin scores/NAME@VERSION --from GIT_URL_OR_PATH, then optotype pull"
            raise NotFoundError(error.message, hint=hint) from error
    folder = registry.payload(version)
    _check_digests(version, folder)
    return open_panel(folder)


def _read(folder: Path, name: str, version: str | None, digest: str) -> OpenSuite:
    problems = adapter("suite").problems(folder)
    if problems:
        raise InvalidDataError(f"{folder} is no suite:", problems, hint="optotype compress PANEL --out DIR writes one.")
    items = read_items(folder)
    notes = []
    weight = items["weight"].astype("float64")
    if weight.isna().any():
        if weight.notna().any():
            notes.append(f"{int(weight.isna().sum())} items without a weight count as 1")
        items["weight"] = weight.fillna(1.0)
    path = folder / _DOCUMENT
    document = parse_document(path.read_bytes(), kind="compression", where=str(path), newest=1)
    return OpenSuite(name, version, digest, items, document, folder, tuple(notes))


def _check_digests(version: Version, folder: Path) -> None:
    bad = []
    for entry in version.manifest.files:
        with (folder / entry.path).open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != entry.sha256.removeprefix("sha256:"):
                bad.append(Problem(f"{folder / entry.path}", "digest", "not the bytes that were published"))
    if bad:
        raise IntegrityError(
            f"{version}: " + "; ".join(map(str, bad)), hint=f"optotype verify {version} looks at every copy."
        )
