"""Benchmark items to embeddings of their texts and, where the model sees images, of texts with their images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optotype.pipelines.encode.batches import to_stored
from optotype.pipelines.encode.images import open_image, scan_images
from optotype.pipelines.encode.items_embedders import (
    FORMED,
    POOLING,
    Embedder,
    EmbedderKind,
    embedder_kind,
    load_embedder,
)
from optotype.pipelines.encode.items_table import ItemRows, items_of_panel, items_of_table
from optotype.pipelines.encode.loading import check_device, locate, platform_inputs, torch_state, versions
from optotype.pipelines.encode.runs import (
    FORMAT_VERSION,
    BatchRows,
    EncodedArray,
    check_positive,
    count,
    fill,
    note_replaced,
    standing,
    standing_digest,
    sweep,
)
from optotype.pipelines.encode.text import POOLINGS, Pooling
from optotype.pipelines.progress import SILENT, Progress
from optotype.schemas.documents import cache_key
from optotype.schemas.errors import UsageError
from optotype.schemas.names import check_array_name
from optotype.schemas.sources import parse_source
from optotype.store.drafts import writing
from optotype.store.embeddings import write_embeddings
from optotype.store.staging import Staging

if TYPE_CHECKING:
    from optotype.store.project import Project

__all__ = ["encode_items"]

_STORED = np.dtype("float32")


def encode_items(
    project: Project,
    name: str,
    source: str,
    *,
    items: str | Path | None = None,
    panel: str | Path | None = None,
    images_root: str | Path | None = None,
    text_column: str = "question",
    pooling: Pooling | None = None,
    batch_size: int = 16,
    device: str = "cpu",
    max_length: int | None = None,
    trust_remote_code: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    target: Path | None = None,
) -> EncodedArray:
    """Embed benchmark items: E^L of the text alone and E^VL of text and image, by the same model.

    A text model gives ``text`` alone: its last layer, pooled. A dual encoder (CLIP, SigLIP: ``get_text_features`` and
    ``get_image_features``) gives its text features, and as E^VL the mean of the unit vectors of text and image
    features, since it has no vector for both. A vision-language model gives its last layer at the last token, of the
    text and of one sequence of image and text. No vector is normalised after that.

    Items without a text are left out, items without an image have a row of NaN in ``vision_text``; both are counted in
    notes. Order, resuming and what is left alone are as in `optotype.pipelines.encode.encode_images`.

    Parameters
    ----------
    project : Project
        Where the array and unfinished parts are kept.
    name : str
        The array becomes ``data/embeddings/<name>``.
    source : str
        ``hf:<repo>@<revision>`` or a local folder.
    items : str or Path
        An items table with the columns ``benchmark``, ``item_id``, ``text_column`` and perhaps ``image``.
    panel : str or Path
        Or a panel, by name, path or URL, whose items have these.
    images_root : str or Path, optional
        Folder that the images' paths start from; by default the table's, of a panel the project's.
    text_column : str
        Which column the texts are in.
    pooling : {"mean", "last", "cls"}, optional
        Of the last layer: by default ``mean`` for text models, ``last`` for vision-language models. A dual encoder
        pools by itself.
    batch_size, device, trust_remote_code, threads, progress, target
        As in `optotype.pipelines.encode.encode_images`.
    max_length : int, optional
        Tokens read of a text, for text models and dual encoders; the model's limit by default. Longer texts are cut at
        the end and counted in a note.

    Raises
    ------
    UsageError
        Neither a table nor a panel, or both; a name, number, pooling or device that cannot be.
    NotFoundError
        No such table, panel, folder or repository.
    InvalidDataError
        The items have problems, or images cannot be read: all of them are listed, nothing is encoded.
    ModelError
        The model cannot be loaded or run, or produces NaN.
    ConflictError
        Another process encodes the same, or something else stands at the target.
    """
    import torch

    report = progress or SILENT
    check_array_name(name)
    check_positive(batch_size=batch_size, max_length=max_length, threads=threads)
    if pooling is not None and pooling not in POOLINGS:
        raise UsageError(f"{pooling!r} is not a pooling: {', '.join(POOLINGS)}")
    threads = threads or torch.get_num_threads()
    parsed = parse_source(source)
    if parsed.kind == "python":
        raise UsageError(f"{source}: an embedder is a hub repository or a folder, not a plug-in")
    place = check_device(device, source)
    rows = _read(project, items, panel, text_column, images_root)
    files = locate(parsed, root=project.root, trust_remote_code=trust_remote_code)
    kind = embedder_kind(files, trust_remote_code=trust_remote_code)
    if kind == "text":
        rows = rows.without_images()
    sees = any(image is not None for image in rows.images)
    inputs: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "of": "items",
        "dataset": rows.digest,
        "model": dict(files.identity),
        "embedder": kind,
        "pooling": _pooling(kind, pooling),
        "max_length": max_length,
        "trust_remote_code": trust_remote_code,
        "batch_size": batch_size,
        "threads": threads,
        "platform": platform_inputs(place),
        "versions": versions("torch", "transformers", "tokenizers", "numpy", "pillow"),
    }
    path = target or project.folder("embeddings") / name
    there = standing(path, inputs, report)
    if there is not None:
        sweep(project.staging, cache_key(inputs))
        return EncodedArray(name, path, there, skipped=True)

    with writing(path), Staging(project.staging, cache_key(inputs)) as staging:
        resumed = staging.done() > 0
        if staging.done() < len(rows.item):
            seen = [(label, image) for label, image in zip(rows.labels, rows.images, strict=True) if image is not None]
            scan_images([s[0] for s in seen], [s[1] for s in seen], threads=threads, progress=report)
            with torch_state(threads):
                embedder = load_embedder(
                    files,
                    kind,
                    pooling=pooling,
                    device=device,
                    max_length=max_length,
                    trust_remote_code=trust_remote_code,
                )
                run = _ItemRun(embedder, source, rows, with_images=sees)
                fill(staging, len(rows.item), batch_size, run.batch, report, title=f"encoding {name}", unit="items")
        truncated = count(staging, "truncated", 0)
        notes = _notes(rows, kind, truncated)
        former = standing_digest(path)
        attrs: dict[str, Any] = {"embedder": kind, "pooling": _pooling(kind, pooling), "truncated": truncated}
        if sees:
            attrs["vision_text"] = FORMED[kind]
        manifest = write_embeddings(
            path,
            benchmark=rows.benchmark,
            item=rows.item,
            text=lambda: staging.blocks(0),
            vision_text=(lambda: staging.blocks(1)) if sees else None,
            inputs=inputs,
            attrs=attrs,
        )
        note_replaced(name, former, manifest, report)
        for note in notes:
            report.note(f"{name}: {note}")
        staging.discard()
    return EncodedArray(name, path, manifest, resumed=resumed, notes=tuple(notes))


class _ItemRun:
    """Batches of one run: texts and image files in, rows in float32 out."""

    def __init__(self, embedder: Embedder, model: str, rows: ItemRows, *, with_images: bool) -> None:
        self._embedder, self._model, self._rows, self._with_images = embedder, model, rows, with_images
        self._cut = embedder.check(rows.labels, rows.texts)

    def batch(self, positions: range) -> BatchRows:
        rows, labels = self._rows, self._rows.labels
        texts = [rows.texts[i] for i in positions]
        outputs = [self._embedder.text(texts)]
        if self._with_images:
            blank = np.full_like(outputs[0], np.nan)
            shown = [k for k, i in enumerate(positions) if rows.images[i] is not None]
            if shown:
                files = [(rows.images[positions[k]], rows.digests[positions[k]]) for k in shown]
                pictures = [open_image(file, digest) for file, digest in files if file is not None]
                blank[shown] = self._embedder.vision_text([texts[k] for k in shown], pictures)
            outputs.append(blank)
        values: list[list[Any]] = []
        for output, where in zip(outputs, ("the text's embedding", "the embedding with the image"), strict=False):
            kept = []
            for i, row in zip(positions, output, strict=True):
                absent = where != "the text's embedding" and rows.images[i] is None
                whole = row[np.newaxis]
                if not absent:  # NaN that the model made is an error, NaN for an item without an image is not
                    whole = to_stored(whole, _STORED, model=self._model, row=labels[i], layer=where).values
                kept.append(whole)
            values.append(kept)
        cut = sum(self._cut[i] for i in positions)
        return BatchRows(values, {"truncated": [cut] * len(values)})


def _read(
    project: Project,
    items: str | Path | None,
    panel: str | Path | None,
    text_column: str,
    images_root: str | Path | None,
) -> ItemRows:
    root = None if images_root is None else Path(images_root)
    if root is not None and not root.is_dir():
        raise UsageError(
            f"{root} is not a folder", hint="--images-root is the folder that the images' paths start from."
        )
    if items is not None and panel is None:
        return items_of_table(items, text_column=text_column, images_root=root)
    if panel is not None and items is None:
        source = project.resolve("scores", str(panel))
        return items_of_panel(source, text_column=text_column, images_root=root or project.root)
    given = "both were given" if items is not None else "neither was given"
    raise UsageError(f"items come from a table or from a panel; {given}", hint="--items TABLE or --panel PANEL")


def _pooling(kind: EmbedderKind, pooling: Pooling | None) -> Pooling | None:
    return pooling or POOLING[kind]


def _notes(rows: ItemRows, kind: EmbedderKind, truncated: int) -> list[str]:
    notes = []
    if rows.blank:
        notes.append(f"{rows.blank} items have no text and were left out")
    if truncated:
        notes.append(f"{truncated} of {len(rows.item)} texts are longer than the model reads and were cut")
    unseen = sum(image is None for image in rows.images)
    if kind == "text":
        notes.append("the model reads text alone: vision dependence is 0, and cells are drawn on texts")
    elif unseen == len(rows.item):
        notes.append("no item has an image: there is no vision_text")
    elif unseen:
        notes.append(f"{unseen} of {len(rows.item)} items have no image, and so no vision_text")
    return notes
