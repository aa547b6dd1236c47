"""What the registry asks of each kind of published thing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from optotype.schemas.documents import parse_document
from optotype.schemas.errors import OptotypeError, Problem

__all__ = ["Adapter", "Description", "Input", "Rows", "inputs_in", "limited", "missing_files", "read_document", "said"]

_DIGEST = re.compile(r"(sha256:)?(?P<hex>[0-9a-f]{64})")
_OWN = ("digest", "sha256", "files")  # keys whose digest is that of the thing the mapping describes
_SKIPPED = ("key",)  # a cache key is no digest of data
_NAMES = ("name", "source", "file", "path")
_KINDS = {"panel": "scores", "embedding": "embeddings", "part": "scores"}
_SHOWN = 20


@dataclass(frozen=True)
class Input:
    """One thing that a payload was made of.

    Attributes
    ----------
    role : str
        What it was used as: ``panel``, ``features``, ``dataset``, ``model`` ...
    kind : str
        What it is: a kind of array or published thing, ``model``, ``dataset``, ``file`` ...
    name : str
        Never an absolute path.
    digest : str
        ``sha256:`` and 64 hex digits.
    licence : str or None
        Where it states one.
    """

    role: str
    kind: str
    name: str
    digest: str
    licence: str | None = None


@dataclass(frozen=True)
class Rows:
    """The rows of a payload that a comparison of two versions speaks of.

    Attributes
    ----------
    key : tuple of str
        Names of the columns that identify a row.
    noun : str
        What a row is called, in the plural.
    rows : mapping
        Key -> the row's other values.
    weight : str or None
        The value that is a row's weight.
    """

    key: tuple[str, ...]
    noun: str
    rows: Mapping[tuple[str, ...], Mapping[str, Any]]
    weight: str | None = None


@dataclass(frozen=True)
class Description:
    """What a payload says of itself.

    Attributes
    ----------
    title : str
        One line.
    parameters : mapping
    seed : int or None
    inputs : tuple of Input
    facts : mapping
        Counts and the like, JSON values; ``content_digests`` lists the digests by which others name this payload.
    licences : tuple of str
    limits : tuple of str
        Sentences: what it should not be taken for.
    """

    title: str
    parameters: Mapping[str, Any]
    seed: int | None
    inputs: tuple[Input, ...]
    facts: Mapping[str, Any]
    licences: tuple[str, ...] = ()
    limits: tuple[str, ...] = field(default=())


class Adapter(Protocol):
    """Reads payloads of one kind. No method writes, and each reads the payload alone."""

    what: str
    """What a payload of this kind is: a sentence for cards."""
    load: str
    """A line of Python that opens the payload in ``folder``."""

    def problems(self, payload: Path) -> list[Problem]:
        """Everything in which a folder is not a payload of this kind."""

    def describe(self, payload: Path) -> Description:
        """What a sound payload says of itself."""

    def rows(self, payload: Path) -> Rows | None:
        """Its rows, where a comparison of two versions speaks of rows."""

    def ranks(self, payload: Path) -> dict[str, dict[str, Any]] | None:
        """``{model: {"rank": ..., "score": ...}}`` under this payload, where it ranks models."""


def inputs_in(node: object, role: str = "input", own: str | None = None) -> Iterator[Input]:
    """Every digest in a JSON value as an input, with the name that stands beside it.

    Parameters
    ----------
    node : JSON value
        Such as the ``inputs`` of an array's manifest.
    role : str
        Of digests that the value calls only ``digest``, ``sha256`` or ``files``.
    own : str, optional
        A digest to leave out: that of the thing itself.
    """
    if isinstance(node, Mapping):
        name = next((str(node[key]) for key in _NAMES if isinstance(node.get(key), str)), role)
        version = node.get("version")
        name = f"{name}=={version}" if isinstance(version, str) and "wheel" in role else name
        licence = node.get("licence")
        for key in sorted(node):
            value = node[key]
            called = key.removesuffix("_digest").removesuffix("_digests")
            match = _DIGEST.fullmatch(value) if isinstance(value, str) else None
            if key in _SKIPPED:
                continue
            if match is None:
                yield from inputs_in(value, role if key in _OWN else called, own)
            elif f"sha256:{match['hex']}" != own:
                mine = key in _OWN
                yield Input(
                    role if mine else called,
                    _KINDS.get(role if mine else called, role if mine else called),
                    _relative(name if mine else called),
                    f"sha256:{match['hex']}",
                    licence if mine and isinstance(licence, str) else None,
                )
    elif isinstance(node, (list, tuple)):
        for value in node:
            match = _DIGEST.fullmatch(value) if isinstance(value, str) else None
            if match is None:
                yield from inputs_in(value, role, own)
            elif f"sha256:{match['hex']}" != own:
                yield Input(role, _KINDS.get(role, role), role, f"sha256:{match['hex']}")


def _relative(name: str) -> str:
    """A name without the folders of one machine: of an absolute path the last part."""
    return PurePosixPath(name).name or "root" if name.startswith(("/", "~")) else name


def read_document(path: Path, kind: str, newest: int, problems: list[Problem]) -> dict[str, Any]:
    """A versioned JSON document of a payload; empty, with the problem noted, if it cannot be read."""
    try:
        document = parse_document(path.read_bytes(), kind=kind, where=path.name, newest=newest)
    except FileNotFoundError:
        problems.append(Problem(path.name, "missing-file", "it belongs to this kind and is not there"))
        return {}
    except OptotypeError as error:
        problems.append(Problem(path.name, "document", error.message))
        return {}
    if document.get("kind") != kind:
        problems.append(Problem(path.name, "wrong-kind", f"its kind is {document.get('kind')!r}, {kind!r} is wanted"))
        return {}
    return document


def missing_files(payload: Path, names: Sequence[str]) -> list[Problem]:
    """A problem for each of ``names`` that is not a file of the payload."""
    return [
        Problem(name, "missing-file", "it belongs to this kind and is not there")
        for name in names
        if not (payload / name).is_file()
    ]


def limited(problems: list[Problem]) -> list[Problem]:
    """The first twenty problems, and how many more there are."""
    if len(problems) <= _SHOWN:
        return problems
    more = Problem(problems[0].where, "more", f"and {len(problems) - _SHOWN} more problems")
    return [*problems[:_SHOWN], more]


def said(document: Mapping[str, Any], key: str = "warnings") -> tuple[str, ...]:
    """The warnings that a document holds."""
    found = document.get(key)
    return tuple(str(text) for text in found) if isinstance(found, list) else ()
