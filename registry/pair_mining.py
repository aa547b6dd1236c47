"""Mined pairs of images, and the files that keep them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.references import project_for
from optotype.registry.results import check_out, write_json, write_table
from optotype.schemas.errors import InvalidDataError, Problem

if TYPE_CHECKING:
    import xarray as xr

    from optotype.pipelines.pairs.mining import Mining
    from optotype.pipelines.pairs.thresholds import Threshold
    from optotype.pipelines.progress import Progress
    from optotype.store.project import Project

__all__ = ["PAIR_MINING_FORMAT", "mine_pairs"]

PAIR_MINING_FORMAT = 1
TABLE, DOCUMENT, SHEET = "pairs.parquet", "pairs.json", "contact-sheet.html"

_SHOWN = 5


def mine_pairs(
    similar: str,
    different: str,
    *,
    project: Project | str | Path | None = None,
    above: float | None = None,
    below: float | None = None,
    above_quantile: float | None = None,
    below_quantile: float | None = None,
    per_image: int | None = None,
    common: bool = False,
    seed: int = 0,
    images: str | Path | None = None,
    shown: int = 60,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Find pairs of images that one encoder takes for alike and another tells apart.

    Parameters
    ----------
    similar, different : str
        Patch features of the two encoders: name, path or URL.
    project : Project or path, optional
        Where names are looked up; by default the one that the working directory lies in.
    above, below, above_quantile, below_quantile, per_image, common, seed
        As for `optotype.pipelines.pairs.mining.mine`.
    images : path, optional
        Table (id, image, and text if there is one) or folder of the pictures for the contact sheet. Without it the
        sheet names the images.
    shown : int
        Pairs on the sheet, the first ones; the table has all.
    out : path, optional
        Folder for ``pairs.parquet`` (``image_a, image_b, sim_similar, sim_different``, image_a < image_b; falling by
        the difference of the two, ties by ids), ``contact-sheet.html``, and ``pairs.json`` (what this function
        returns). No file holds a clock, path or random id: the same input gives the same bytes.

    Returns
    -------
    dict
        ``format_version, kind, similar, different`` (each ``name, digest, dtype, channels``), ``parameters,
        thresholds, counts, table`` (``file, rows, sha256``), ``warnings``; JSON-ready. ``counts.at_printed_thresholds``
        is what the paper's 0.95 and 0.6 give, whatever was asked for.

    Raises
    ------
    OptotypeError
        As `mine` and the store do, and InvalidDataError for an image of the features that ``images`` lacks; nothing is
        written then.
    """
    from optotype.pipelines.pairs.mining import mine
    from optotype.registry.report.contact_sheet import contact_sheet
    from optotype.store.drafts import draft_file

    folder = None if out is None else check_out(out)
    spaces = [_open(project, reference) for reference in (similar, different)]
    pictures, captions = ({}, {}) if images is None else _pictures(Path(images), spaces)
    parameters = {
        "above": above,
        "below": below,
        "above_quantile": above_quantile,
        "below_quantile": below_quantile,
        "per_image": per_image,
        "common": common,
        "seed": seed,
    }
    mining = mine(
        *spaces,
        above=above,
        below=below,
        above_quantile=above_quantile,
        below_quantile=below_quantile,
        per_image=per_image,
        common=common,
        seed=seed,
        scratch=None if folder is None else _there(folder),
        progress=progress,
    )
    document = _document(mining, spaces, parameters)
    if folder is not None:
        page, unreadable = contact_sheet(document, mining, pictures, captions, shown=shown)
        document["warnings"] += unreadable
        write_table(mining.table(), folder / TABLE)
        document["table"]["sha256"] = hashlib.sha256((folder / TABLE).read_bytes()).hexdigest()
        with draft_file(folder / SHEET) as file:
            file.write(page.encode())
        write_json(document, folder / DOCUMENT)
    return document


def _open(project: Project | str | Path | None, reference: str) -> xr.Dataset:
    """Features by name, path or URL; a virtual encoder opens as any other."""
    from optotype.pipelines.graphs import open_array

    return open_array(project_for(project, [reference]), "features", reference)


def _there(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists: on its disk there is room for the result, too."""
    folder = folder.absolute()
    while not folder.is_dir():
        folder = folder.parent
    return folder


def _pictures(table: Path, spaces: list[xr.Dataset]) -> tuple[Mapping[str, Path], Mapping[str, str]]:
    """Files and captions by image; known before hours of mining, not after."""
    from optotype.schemas.errors import FormatError, UsageError
    from optotype.store.dataset import read_images, read_texts

    found = read_images(table)
    pictures = dict(zip(found.ids, found.paths, strict=True))
    wanted = sorted(set.intersection(*({str(value) for value in space["image"].values} for space in spaces)))
    missing = [image for image in wanted if image not in pictures]
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        message = f"{len(missing)} of {len(wanted)} images of the features are not in it: {', '.join(missing[:_SHOWN])}"
        raise InvalidDataError(
            "The contact sheet cannot be made", [Problem(table.name, "missing-image", f"{message}{more}")]
        )
    captions: dict[str, str] = {}
    if not table.is_dir():
        try:
            texts = read_texts(table)
            captions = dict(zip(texts.ids, texts.texts, strict=True))
        except (InvalidDataError, FormatError, UsageError):
            captions = {}  # pictures without words are pictures, too
    return pictures, captions


def _document(mining: Mining, spaces: list[xr.Dataset], parameters: Mapping[str, Any]) -> dict[str, Any]:
    from optotype.pipelines.pairs.mining import ABOVE, BELOW

    return {
        "format_version": PAIR_MINING_FORMAT,
        "kind": "pair-mining",
        **dict(zip(("similar", "different"), map(_encoder, spaces), strict=True)),
        "parameters": dict(parameters),
        "thresholds": {"above": _threshold(mining.above), "below": _threshold(mining.below)},
        "counts": {
            "images": len(mining.ids),
            "pairs_of_images": mining.pairs,
            "above": mining.passed,
            "above_and_below": mining.found,
            "kept": len(mining.first),
            "at_printed_thresholds": {
                "above_threshold": ABOVE,
                "below_threshold": BELOW,
                "above": mining.printed_passed,
                "above_and_below": mining.printed_found,
            },
        },
        "table": {"file": TABLE, "rows": len(mining.first)},
        "warnings": list(mining.warnings),
    }


def _encoder(features: xr.Dataset) -> dict[str, Any]:
    patches = features["patches"]
    return {
        "name": str(features.attrs.get("name", "")),
        "digest": str(features.attrs.get("digest", "")),
        "dtype": str(patches.attrs.get("stored_dtype", patches.dtype)),
        "channels": int(patches.sizes["channel"]),
    }


def _threshold(threshold: Threshold) -> dict[str, Any]:
    return {
        "cosine": threshold.cosine,
        "quantile": threshold.quantile,
        "quantile_over_images": threshold.images,
        "pairs_beyond": threshold.beyond,
    }
