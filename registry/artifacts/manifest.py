"""The manifest of a published version: its files, what made them, and what they were made of."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from optotype.registry.artifacts.layout import is_inside
from optotype.schemas.documents import canonical_json, parse_document
from optotype.schemas.errors import FormatError, IntegrityError, UsageError
from optotype.schemas.references import check_kind, check_name, check_version
from optotype.store.manifest import FileEntry, files_digest

__all__ = ["FORMAT_VERSION", "ArtifactManifest", "Code", "lineage_faults"]

FORMAT_VERSION = 1

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_NODE = {"role", "kind", "name", "digest", "inputs"}


@dataclass(frozen=True)
class Code:
    """What wrote a version.

    Attributes
    ----------
    version : str
        Of optotype.
    git_commit : str or None
        HEAD of the repository that the version was published in; None outside git.
    dirty : bool or None
        Whether tracked files other than published versions differed from HEAD; None outside git.
    """

    version: str
    git_commit: str | None
    dirty: bool | None


@dataclass(frozen=True)
class ArtifactManifest:
    """What a published version consists of and what it was made of.

    Attributes
    ----------
    kind, name, version : str
    title : str
        One line for lists.
    digest : str
        ``sha256:`` and the SHA-256 of the canonical JSON of `files`, as for arrays: equal files, equal digest.
    files : tuple of FileEntry
        Of the payload, paths relative to it, sorted.
    storage : {"git", "dvc"}
        Who holds the payload.
    parameters : mapping
        What the payload was made with; JSON values.
    seed : int or None
    facts : mapping
        Counts and the like, for lists and the card; JSON values.
    lineage : tuple of mapping
        ``{"role", "kind", "name", "digest", "inputs": [...]}`` for each input, down to raw files.
    code : Code
    message : str
        The publisher's, of this version.
    licences : tuple of str
        Of the sources, as far as they state any.
    card : FileEntry
        ``CARD.md``.
    """

    kind: str
    name: str
    version: str
    title: str
    digest: str
    files: tuple[FileEntry, ...]
    storage: Literal["git", "dvc"]
    parameters: Mapping[str, Any]
    seed: int | None
    facts: Mapping[str, Any]
    lineage: tuple[Mapping[str, Any], ...]
    code: Code
    message: str
    licences: tuple[str, ...]
    card: FileEntry
    seal: str = field(default="", compare=False)

    @classmethod
    def parse(cls, text: bytes, where: str) -> ArtifactManifest:
        """Read a manifest and check that it agrees with itself.

        Raises
        ------
        FormatError
            Not a manifest, a newer one, or one with a path that leaves the payload.
        IntegrityError
            The digest does not belong to the files, or the seal not to the rest: it was changed.
        """
        document = parse_document(text, kind="manifest of a published version", where=where, newest=FORMAT_VERSION)
        try:
            manifest = cls(
                kind=check_kind(document["kind"]),
                name=check_name(document["name"]),
                version=check_version(document["version"]),
                title=_text(document["title"]),
                digest=_text(document["digest"]),
                files=tuple(_entry(file) for file in document["files"]),
                storage=document["storage"],
                parameters=dict(document["parameters"]),
                seed=document["seed"],
                facts=dict(document["facts"]),
                lineage=tuple(dict(node) for node in document["lineage"]),
                code=Code(**document["code"]),
                message=_text(document["message"]),
                licences=tuple(_text(licence) for licence in document["licences"]),
                card=_entry(document["card"]),
                seal=_text(document["seal"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, UsageError) as error:
            raise FormatError(f"{where}: this manifest lacks a field or has one of another type: {error}") from error
        faults = [f"{entry.path!r} is not a path inside the payload" for entry in manifest.files if _leaves(entry)]
        if len({entry.path for entry in manifest.files}) != len(manifest.files):
            faults.append("a file is listed twice")
        if manifest.storage not in ("git", "dvc"):
            faults.append(f"storage is git or dvc, got {manifest.storage!r}")
        faults += lineage_faults(manifest.lineage)
        if faults:
            raise FormatError(f"{where}: {'; '.join(faults)}")
        if manifest.digest != files_digest(manifest.files) or manifest.seal != _seal(document):
            raise IntegrityError(
                f"{where}: the digest or the seal does not belong to the rest; the manifest was changed",
                hint="Published versions never change: take the file from git again.",
            )
        return manifest

    def to_bytes(self) -> bytes:
        """The manifest as JSON, the same bytes for the same content."""
        document: dict[str, Any] = {"format_version": FORMAT_VERSION, **asdict(self)}
        document["seal"] = _seal(document)
        return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()

    @property
    def size(self) -> int:
        """Bytes of the payload."""
        return sum(entry.size for entry in self.files)


def lineage_faults(nodes: object, where: str = "lineage") -> list[str]:
    """What is wrong with a list of lineage nodes, in words; empty when it is sound."""
    if not isinstance(nodes, (list, tuple)):
        return [f"{where} is a list, got {type(nodes).__name__}"]
    faults: list[str] = []
    for i, node in enumerate(nodes):
        here = f"{where}[{i}]"
        if not isinstance(node, Mapping) or not set(node) >= _NODE:
            faults.append(f"{here} is an object with {', '.join(sorted(_NODE))}")
            continue
        if not all(isinstance(node[key], str) and node[key] for key in ("role", "kind", "name")):
            faults.append(f"{here}: role, kind and name are texts")
        if not isinstance(node["digest"], str) or _DIGEST.fullmatch(node["digest"]) is None:
            faults.append(f"{here}: {node['digest']!r} is not sha256: and 64 hex digits")
        faults += lineage_faults(node["inputs"], f"{here}.inputs")
    return faults


def _seal(document: Mapping[str, Any]) -> str:
    """A digest over everything else in the manifest, so that no field can be changed unseen by accident."""
    rest = {key: value for key, value in document.items() if key != "seal"}
    return "sha256:" + hashlib.sha256(canonical_json(rest)).hexdigest()


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text is wanted, got {value!r}")
    return value


def _entry(value: Mapping[str, Any]) -> FileEntry:
    return FileEntry(str(value["path"]), int(value["size"]), str(value["sha256"]))


def _leaves(entry: FileEntry) -> bool:
    return not is_inside(entry.path)
