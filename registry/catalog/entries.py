"""What the catalog shows of each version, read once: manifest, card, and payload as far as its bytes are right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optotype.registry.artifacts.copies import hashed, payload_files
from optotype.registry.artifacts.index import Registry, Version
from optotype.registry.artifacts.lineage import lines
from optotype.registry.artifacts.listing import list_versions
from optotype.registry.artifacts.manifest import ArtifactManifest
from optotype.schemas.errors import OptotypeError
from optotype.schemas.references import sort_key
from optotype.store.manifest import FileEntry

__all__ = ["LARGEST_READ", "Entry", "read_entries", "without_root"]

LARGEST_READ = 256 << 20  # bytes of a payload that is still read; of larger ones the manifest is shown


@dataclass(frozen=True)
class Entry:
    """One version, as far as it can be read.

    Attributes
    ----------
    version : Version
    row : mapping
        As `optotype.registry.artifacts.listing.list_versions` gives it; errors without the path of the project.
    manifest : ArtifactManifest or None
        None where it cannot be read; ``row["error"]`` says why.
    card : str or None
        Markdown; None where its bytes are not those of the manifest.
    payload : Path or None
        A copy whose every byte is the published one; None where ``notes`` says why not.
    notes : tuple of str
        What a reader should know: copies that are absent or damaged.
    damaged : bool
        Whether any of the notes is about wrong bytes, not absent ones.
    """

    version: Version
    row: Mapping[str, Any]
    manifest: ArtifactManifest | None
    card: str | None
    payload: Path | None
    notes: tuple[str, ...]
    damaged: bool

    @property
    def digests(self) -> frozenset[str]:
        """Digests by which others name this version or its content."""
        if self.manifest is None:
            return frozenset()
        return frozenset({self.manifest.digest, *map(str, self.manifest.facts.get("content_digests", ()))})

    @property
    def made_of(self) -> frozenset[str]:
        """Digests of everything in its lineage."""
        return (
            frozenset(str(node["digest"]) for _, node in lines(self.manifest.lineage)) if self.manifest else frozenset()
        )

    @property
    def prerelease(self) -> bool:
        """Whether its version has a part after a hyphen."""
        return bool(sort_key(self.version.version).prerelease)


def read_entries(registry: Registry) -> list[Entry]:
    """Every published version, by kind and name, newest first. Damaged ones are among them and do not stop the rest."""
    rows = {(row["kind"], row["name"], row["version"]): row for row in list_versions(registry)}
    versions = {(version.kind, version.name, version.version): version for version in registry.all()}
    return [_entry(registry, versions[key], row) for key, row in rows.items() if key in versions]


def without_root(registry: Registry, text: str) -> str:
    """A message that names files from the project's folder on: a catalog is the same wherever it was built."""
    for root in dict.fromkeys((registry.root.absolute(), registry.root.resolve(), registry.root)):
        text = text.replace(f"{root}/", "").replace(str(root), ".") if str(root) != "." else text
    return text


def _entry(registry: Registry, version: Version, row: Mapping[str, Any]) -> Entry:
    if row["error"] is not None:
        return Entry(version, {**row, "error": without_root(registry, row["error"])}, None, None, None, (), True)
    manifest = version.manifest
    notes: list[str] = []
    card, wrong = _card(version, manifest)
    notes += wrong
    payload, absent, damaged = _payload(registry, version, manifest)
    notes += [without_root(registry, note) for note in absent]
    return Entry(version, row, manifest, card, payload, tuple(notes), damaged or bool(wrong))


def _card(version: Version, manifest: ArtifactManifest) -> tuple[str | None, list[str]]:
    path = version.place.card
    if not path.is_file():
        return None, ["its card is not here"]
    (found,) = hashed({manifest.card.path: path})
    if found != manifest.card:
        return None, ["its card is not shown: the file was changed after it was published"]
    return path.read_text(encoding="utf-8"), []


def _payload(registry: Registry, version: Version, manifest: ArtifactManifest) -> tuple[Path | None, list[str], bool]:
    """The folder, or None and why, and whether that is damage."""
    if manifest.size > LARGEST_READ:
        return (
            None,
            [f"its payload is larger than {LARGEST_READ >> 20} MiB; what is shown comes from the manifest"],
            False,
        )
    try:
        folder = registry.payload(version)
    except OptotypeError as error:
        return None, [error.message], error.exit_code == 7
    differing = sorted(_differing(folder, manifest.files))
    if differing:
        named = ", ".join(differing[:3]) + (f" and {len(differing) - 3} more" if len(differing) > 3 else "")
        return None, [f"its payload is not shown: these files are not those of the manifest: {named}"], True
    return folder, [], False


def _differing(folder: Path, files: tuple[FileEntry, ...]) -> Iterator[str]:
    found = {entry.path: entry for entry in hashed(payload_files(folder))}
    wanted = {entry.path: entry for entry in files}
    yield from (path for path in found.keys() | wanted.keys() if found.get(path) != wanted.get(path))
