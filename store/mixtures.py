"""Virtual encoders: a folder with ``mixture.json``, which names two arrays of features and how they are mixed.

No values are in it. The digests of its parts are: an array that was made anew is noticed when the mixture is opened.
Light to import: standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from optotype.schemas.documents import cache_key, canonical_json, parse_document
from optotype.schemas.errors import ConflictError, FormatError, IntegrityError, NotFoundError, UsageError
from optotype.schemas.names import is_url_or_path
from optotype.store.drafts import Draft, flush
from optotype.store.location import Location
from optotype.store.manifest import read_manifest
from optotype.store.project import MIXTURE, Project

__all__ = [
    "Mixture",
    "MixtureKind",
    "Part",
    "check_parts",
    "is_mixture",
    "part_source",
    "read_mixture",
    "write_mixtures",
]

MIXTURE_FORMAT = 1
MixtureKind = Literal["additive", "interleaved"]


@dataclass(frozen=True)
class Part:
    """One of the two arrays of a mixture.

    Attributes
    ----------
    array : str
        Name in the project that the mixture lies in; else a URL, or a path relative to the mixture's folder.
    digest : str
        Of the array when it was mixed.
    """

    array: str
    digest: str


@dataclass(frozen=True)
class Mixture:
    """How two arrays of features make one virtual encoder.

    Attributes
    ----------
    kind : {"additive", "interleaved"}
    parts : (Part, Part)
        A and B.
    alpha : float or None
        Weight of A, from 0 to 1; additive alone.
    grid : (int, int) or None
        Rows and columns that the tokens of both are brought onto.
    channels : int or None
        Channels that the tokens of both are projected to.
    seed : int or None
        Of the projection.
    common : bool
        Only the images that both have.
    digest : str
        Stands for the values: that of `recipe`, or of the part that the mixture gives back as it is (α = 0 or 1).
    images, tokens, dims : int
        Images, tokens of all images (of both parts, if interleaved) and channels (the sum, if interleaved).
    dtype : str
        Of the tokens; both names, if interleaved and not the same.
    """

    kind: MixtureKind
    parts: tuple[Part, Part]
    alpha: float | None
    grid: tuple[int, int] | None
    channels: int | None
    seed: int | None
    common: bool
    digest: str
    images: int
    tokens: int
    dims: int
    dtype: str

    @property
    def recipe(self) -> dict[str, Any]:
        """Everything that the values depend on: the parts by digest, never by name."""
        return {
            "mixture_format": MIXTURE_FORMAT,
            "mixture": self.kind,
            "parts": [part.digest for part in self.parts],
            "alpha": self.alpha,
            "grid": None if self.grid is None else list(self.grid),
            "channels": self.channels,
            "seed": self.seed,
            "common": self.common,
        }

    @property
    def key(self) -> str:
        """`cache_key` of `recipe`."""
        return cache_key(self.recipe)

    @property
    def own_digest(self) -> str:
        """Digest of `recipe`."""
        return "sha256:" + hashlib.sha256(canonical_json(self.recipe)).hexdigest()

    @property
    def given_back(self) -> str | None:
        """Digest of the part that has all the weight, if one has."""
        part = {1.0: 0, 0.0: 1}.get(-1.0 if self.alpha is None else self.alpha)
        return None if part is None else self.parts[part].digest

    def to_bytes(self) -> bytes:
        """The document, the same bytes for the same mixture."""
        document = {
            "format_version": MIXTURE_FORMAT,
            "kind": "mixture",
            **{name: value for name, value in self.recipe.items() if name != "mixture_format"},
            "parts": [{"array": part.array, "digest": part.digest} for part in self.parts],
            "digest": self.digest,
            "images": self.images,
            "tokens": self.tokens,
            "dims": self.dims,
            "dtype": self.dtype,
        }
        return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()

    @classmethod
    def parse(cls, text: bytes, where: str) -> Mixture:
        """Read the document.

        Raises
        ------
        FormatError
            Not one, or a newer one.
        IntegrityError
            Its digest is neither that of its recipe nor one of its parts'.
        """
        document = parse_document(text, kind="mixture of features", where=where, newest=MIXTURE_FORMAT)
        try:
            if document["kind"] != "mixture" or document["mixture"] not in get_args(MixtureKind):
                raise ValueError(f"kind {document['kind']!r}, mixture {document['mixture']!r}")
            one, other = (Part(str(part["array"]), str(part["digest"])) for part in document["parts"])
            grid, alpha = document["grid"], document["alpha"]
            mixture = cls(
                kind=document["mixture"],
                parts=(one, other),
                alpha=None if alpha is None else float(alpha),
                grid=None if grid is None else (int(grid[0]), int(grid[1])),
                channels=_whole(document["channels"]),
                seed=_whole(document["seed"]),
                common=bool(document["common"]),
                digest=str(document["digest"]),
                images=int(document["images"]),
                tokens=int(document["tokens"]),
                dims=int(document["dims"]),
                dtype=str(document["dtype"]),
            )
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise FormatError(f"{where}: not a mixture of features ({error})", hint=_HINT) from error
        if (mixture.kind == "additive") != (mixture.alpha is not None) or not 0 <= (mixture.alpha or 0) <= 1:
            raise FormatError(f"{where}: alpha is {mixture.alpha} in this {mixture.kind} mixture", hint=_HINT)
        if mixture.digest not in (mixture.own_digest, mixture.given_back):
            raise IntegrityError(f"{where}: the digest is not that of the mixture; the file was changed", hint=_HINT)
        return mixture


_HINT = "Mix it again: optotype features mix additive|interleaved A B --as NAME"


def is_mixture(source: str | Path | Location) -> bool:
    """Whether a virtual encoder lies at a path; behind a URL none is looked for."""
    folder = Location.of(source).local
    return folder is not None and (folder / MIXTURE).is_file()


def read_mixture(source: str | Path | Location) -> Mixture:
    """The virtual encoder at a path or URL.

    Raises
    ------
    NotFoundError
        There is none.
    FormatError, IntegrityError
        Not a sound document.
    """
    location = Location.of(source)
    try:
        text = location.read(MIXTURE)
    except FileNotFoundError as error:
        raise NotFoundError(f"no mixture of features at {location}") from error
    return Mixture.parse(text, f"{location}/{MIXTURE}")


def part_source(source: str | Path | Location, part: Part) -> str | Path:
    """Where a part lies: a name is one of the project that the mixture lies in, a path is relative to the mixture.

    Raises
    ------
    NotFoundError, ConflictError
        From the project: there is none, or no array (or two) of that name.
    UsageError
        The mixture lies behind a URL, where names and relative paths mean nothing.
    """
    if "://" in part.array or "::" in part.array:
        return part.array
    folder = Location.of(source).local
    if folder is None:
        raise UsageError(f"{source}: the parts of a mixture behind a URL cannot be found", hint="Give a local folder.")
    if is_url_or_path(part.array):
        return Path(os.path.normpath(folder / part.array))
    return Project.find(folder).resolve("features", part.array)


def check_parts(source: str | Path | Location, mixture: Mixture) -> list[str | Path]:
    """Where the parts lie, in order, after a look at their digests.

    Raises
    ------
    ConflictError
        A part is another array by now.
    NotFoundError, FormatError, IntegrityError, ExternalError
        A part is not there, or no array.
    """
    found = []
    for part in mixture.parts:
        where = part_source(source, part)
        digest = read_manifest(where).digest
        if digest != part.digest:
            raise ConflictError(
                f"{Location.of(source)}: mixed of {part.array} with digest {part.digest}; it has {digest} by now",
                hint=_HINT,
            )
        found.append(where)
    return found


def write_mixtures(target: Path, mixtures: Mapping[str, Mixture] | Mixture) -> None:
    """Write a virtual encoder, or several as a bundle, as the folder ``target``; it takes its place in one step.

    Parameters
    ----------
    target : Path
        Replaced if it holds virtual encoders.
    mixtures : Mixture, or mapping of str to Mixture
        The one; or the members of the bundle by name.

    Raises
    ------
    ConflictError
        Something else is there, for example an array with values.
    """
    files = {"": mixtures} if isinstance(mixtures, Mixture) else dict(mixtures)
    target = Path(target)
    if target.exists() and not _replaceable(target):
        raise ConflictError(
            f"{target} is in the way: it holds more than mixtures of features",
            hint="Choose another name, or remove it first.",
        )
    with Draft(target) as draft:
        for name, mixture in files.items():
            folder = draft.path / name
            folder.mkdir(exist_ok=True)
            with (folder / MIXTURE).open("xb") as file:
                file.write(mixture.to_bytes())
            flush(folder / MIXTURE)
            flush(folder)
        draft.commit(_replaceable)


def _replaceable(folder: Path) -> bool:
    """Whether a folder holds virtual encoders and nothing else, or nothing."""
    files = [path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()]
    return folder.is_dir() and all(file.name == MIXTURE and len(file.parts) <= 2 for file in files)


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)
