"""Pair suites to work with: a folder or a published version, perhaps under an overlay of corrected keys."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.references import project_around
from optotype.schemas.errors import IntegrityError, InvalidDataError, NotFoundError, Problem

if TYPE_CHECKING:
    from optotype.store.pair_suites import PairSuite
    from optotype.store.project import Project

__all__ = ["OpenPairSuite", "needs", "open_pair_suite"]


@dataclass(frozen=True)
class OpenPairSuite:
    """A pair suite and what it is called.

    Attributes
    ----------
    name : str
        As published, or of the folder.
    version : str or None
        None for a folder.
    suite : PairSuite
        Under the overlay, if one was given; its digest is that of the base all the same.
    overlay : mapping or None
        ``name, version, digest, corrections`` (a number) of the overlay.
    notes : tuple of str
    """

    name: str
    version: str | None
    suite: PairSuite
    overlay: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """What a result says of the suite that it is about; no path is in it."""
        overlay = None if self.overlay is None else dict(self.overlay)
        return {"name": self.name, "version": self.version, "digest": self.suite.digest, "overlay": overlay}


def open_pair_suite(
    reference: str | Path, *, project: Project | str | Path | None = None, overlay: str | Path | None = None
) -> OpenPairSuite:
    """Open a pair suite.

    Parameters
    ----------
    reference : str or path
        The folder of one, or a reference to a published version (``mmvp@1.0.0``, ``pairs/mmvp``).
    project : Project or path, optional
        Whose published versions are meant; by default the one around the working directory. A lock serves, too.
    overlay : str or path, optional
        Corrected keys: a file, a folder with ``overlay.json``, or a reference to a published version.

    Raises
    ------
    NotFoundError, UsageError, ConflictError
        There is no such suite or overlay, or the reference does not say which.
    FormatError
        Written by a newer optotype.
    InvalidDataError
        Everything that is wrong with its tables; corrections that do not fit.
    IntegrityError
        A file of a published version is not the one that was published.
    """
    from optotype.store.pair_overlays import apply_overlay, read_overlay
    from optotype.store.pair_suites import DOCUMENT, read_pair_suite

    folder, name, version = _find(reference, project)
    if version is not None and not (folder / DOCUMENT).is_file():
        raise NotFoundError(f"pairs/{name}@{version} holds no pair suite (no {DOCUMENT})")
    suite = read_pair_suite(folder)
    if overlay is None:
        return OpenPairSuite(name, version, suite)
    path, called, as_version = _find(overlay, project)
    corrections = read_overlay(path)
    notes = []
    if corrections.base not in ("", suite.digest):
        notes.append(f"the overlay {called} was made for other questions than those of {name}; its corrections fit")
    told = {
        "name": called,
        "version": as_version,
        "digest": corrections.digest,
        "corrections": len(corrections.corrections),
    }
    return OpenPairSuite(name, version, apply_overlay(suite, corrections), told, tuple(notes))


def _find(reference: str | Path, project: Project | str | Path | None) -> tuple[Path, str, str | None]:
    """Path, name and version of a folder or file, or of a published version."""
    path = Path(reference)
    if path.exists():
        return path, path.resolve().name, None
    name = str(reference).removeprefix("pairs/").partition("@")[0]
    if isinstance(reference, Path) or "/" in name or "." in name:  # no published thing is called so
        raise NotFoundError(f"there is nothing at {reference}")
    from optotype.registry.pins.registry import open_registry

    found = project_around(project)
    registry = open_registry(None if found is None else found.root)
    version = registry.resolve(str(reference), "pairs")
    folder = registry.payload(version)
    wrong = []
    for entry in version.manifest.files:
        with (folder / entry.path).open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != entry.sha256.removeprefix("sha256:"):
                wrong.append(Problem(str(folder / entry.path), "digest", "not the bytes that were published"))
    if wrong:
        hint = f"optotype verify {version} looks at every copy."
        raise IntegrityError(f"{version}: " + "; ".join(map(str, wrong)), hint=hint)
    return folder, version.name, version.version


def needs(suite: OpenPairSuite, part: str) -> None:
    """InvalidDataError unless the suite has questions or statements, whichever ``part`` names."""
    if not getattr(suite.suite, part):
        message = f"the suite has no {part}.csv"
        raise InvalidDataError(f"{suite.name} has no {part}:", [Problem(f"{part}.csv", "missing-file", message)])
