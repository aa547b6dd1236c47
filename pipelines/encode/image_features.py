"""Images to patch features."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optotype.pipelines.encode.batches import check_dtype, to_stored
from optotype.pipelines.encode.images import open_image, scan_images
from optotype.pipelines.encode.loading import check_device, locate, platform_inputs, torch_state, versions
from optotype.pipelines.encode.protocol import VisionEncoder, output_problems
from optotype.pipelines.encode.runs import (
    FORMAT_VERSION,
    BatchRows,
    EncodedArray,
    check_positive,
    common_grid,
    fill,
    flushed_notes,
    flushed_share,
    layer_names,
    note_replaced,
    standing,
    standing_digest,
    sweep,
)
from optotype.pipelines.encode.vision import load_plugin, plan_vision, resolve_layers
from optotype.pipelines.progress import SILENT, Progress
from optotype.schemas.documents import cache_key
from optotype.schemas.errors import ConflictError, ModelError
from optotype.schemas.names import check_array_name
from optotype.schemas.sources import parse_source
from optotype.store.dataset import ImageTable, read_images
from optotype.store.drafts import writing
from optotype.store.features import write_features
from optotype.store.staging import Staging

if TYPE_CHECKING:
    from optotype.store.project import Project

__all__ = ["encode_images"]


def encode_images(
    project: Project,
    name: str,
    table_path: str | Path,
    source: str,
    *,
    layers: Sequence[int | None] | None = None,
    batch_size: int = 16,
    device: str = "cpu",
    dtype: str = "float16",
    image_size: int | None = None,
    trust_remote_code: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    target: Path | None = None,
) -> list[EncodedArray]:
    """Run a vision encoder over a table of images and write its patch tokens, one array for each layer.

    Rows come in the order of sorted ids, in fixed batches. A run that is killed goes on at its last finished part and
    ends in the same bytes; arrays that stand there already, made of the same inputs, are left alone.

    Parameters
    ----------
    project : Project
        Where arrays and unfinished parts are kept.
    name : str
        One layer becomes ``data/features/<name>``, several ``data/features/<name>/<name>-l<layer>`` (``-final`` for the
        final output), all out of one forward pass.
    table_path : str or Path
        A folder of images or a table with columns ``id`` and ``image`` (see `read_images`).
    source : str
        ``hf:<repo>@<revision>``, a local folder, or ``python:<module>:<factory>[@<folder>]``.
    layers : sequence of int or None, optional
        Hidden states (0 is the input of the first block where the model has it, negative ones count from the back);
        ``None`` among them, or instead of them, is the final output: ``last_hidden_state``, after the model's own final
        norm where it has one.
    batch_size : int
        Images in a forward pass.
    device : str
        ``cpu``, ``cuda``, ``cuda:<number>`` or ``mps``. The model computes in float32.
    dtype : {"float16", "float32", "float64"}
        Stored type.
    image_size : int, optional
        Side in pixels of the square that the model sees, instead of its own.
    trust_remote_code : bool
        Whether Python code in the model's folder may run.
    threads : int, optional
        Threads of torch on the CPU; as many as torch takes by itself by default. Part of the key.
    progress : Progress, optional
        Who is told; nobody by default.
    target : Path, optional
        Folder instead of ``data/features/<name>``.

    Returns
    -------
    list of EncodedArray
        One for each layer, in the order of ``layers``.

    Raises
    ------
    UsageError
        A name, number, layer or device that cannot be.
    NotFoundError
        No such table, model folder, repository or module.
    InvalidDataError
        The table has problems, or images cannot be read: all of them are listed, nothing is encoded.
    ModelError
        The model cannot be loaded, does not lay out its tokens as its family does, produces NaN, or values that
        ``dtype`` cannot hold.
    ConflictError
        Another process encodes the same, or something else stands at the target.
    """
    import torch

    report = progress or SILENT
    check_array_name(name)
    check_positive(batch_size=batch_size, image_size=image_size, threads=threads)
    stored = check_dtype(dtype)
    threads = threads or torch.get_num_threads()
    parsed = parse_source(source)
    place = check_device(device, source)
    files = locate(parsed, root=project.root, trust_remote_code=trust_remote_code)

    encoder: VisionEncoder | None = None
    if parsed.kind == "python":
        encoder = load_plugin(files, device=device, image_size=image_size)
        count, preprocessing = encoder.layers, dict(getattr(encoder, "preprocessing", None) or {})
    else:
        plan = plan_vision(files, image_size=image_size, trust_remote_code=trust_remote_code)
        count, preprocessing = plan.layers, dict(plan.preprocessor.settings)
    asked = resolve_layers(layers, count, source)

    images = read_images(table_path)
    common: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "of": "images",
        "dataset": images.digest,
        "model": dict(files.identity),
        "preprocessing": preprocessing,
        "image_size": image_size,
        "trust_remote_code": trust_remote_code,
        "dtype": dtype,
        "batch_size": batch_size,
        "threads": threads,
        "platform": platform_inputs(place),
        "versions": versions("torch", "transformers", "numpy", "pillow"),
    }
    folder = target or project.features / name
    names = layer_names(name, asked)
    paths = [folder] if len(asked) == 1 else [folder / each for each in names]
    _check_place(folder, bundle=len(asked) > 1)
    inputs = [{**common, "layer": layer} for layer in asked]
    there = [standing(path, made_of, report) for path, made_of in zip(paths, inputs, strict=True)]
    run_key = cache_key({**common, "layers": list(asked)})
    if all(there):
        sweep(project.staging, run_key)
        return [
            EncodedArray(each, path, manifest, skipped=True)
            for each, path, manifest in zip(names, paths, there, strict=True)
            if manifest is not None
        ]

    with writing(folder), Staging(project.staging, run_key) as staging:
        resumed = staging.done() > 0
        if staging.done() < len(images.ids):
            scan_images(images.ids, images.paths, threads=threads, progress=report)
            if encoder is None:
                encoder = plan.load(device)
            run = _ImageRun(encoder, source, images, asked, stored)
            with torch_state(threads):
                fill(staging, len(images.ids), batch_size, run.batch, report, title=f"encoding {name}", unit="images")
        results = []
        for output, (each, path, made_of, manifest) in enumerate(zip(names, paths, inputs, there, strict=True)):
            if manifest is not None:
                results.append(EncodedArray(each, path, manifest, skipped=True))
                continue
            results.append(_write(staging, output, each, path, images.ids, dtype, made_of, resumed, report))
        staging.discard()
    return results


def _check_place(folder: Path, *, bundle: bool) -> None:
    """Refuse to put a bundle where an array stands, and an array where a bundle stands."""
    if bundle and (folder / "zarr.json").exists():
        raise ConflictError(
            f"{folder} is an array; several layers need a folder of that name", hint="Remove it or choose another name."
        )
    if not bundle and any(folder.glob("*/zarr.json")) and not (folder / "zarr.json").exists():
        raise ConflictError(
            f"{folder} holds the arrays of several layers; one array cannot take its place",
            hint="Remove it or choose another name.",
        )


def _write(
    staging: Staging,
    output: int,
    name: str,
    path: Path,
    ids: Sequence[str],
    dtype: str,
    inputs: dict[str, Any],
    resumed: bool,
    progress: Progress,
) -> EncodedArray:
    row_size = staging.row_sizes(output)
    channels = next(staging.blocks(output)).shape[1]
    share = flushed_share(staging, output, int(row_size.sum()) * channels)
    layer = inputs["layer"]
    attrs: dict[str, Any] = {"layer": "final" if layer is None else layer, "flushed_to_zero": share}
    grid = common_grid(staging, output)
    if grid is not None:
        attrs["grid"] = grid  # rows, columns; tokens run row by row
    former = standing_digest(path)
    manifest = write_features(
        path, ids=ids, row_size=row_size, blocks=staging.blocks(output), dtype=dtype, inputs=inputs, attrs=attrs
    )
    note_replaced(name, former, manifest, progress)
    notes = flushed_notes(share, dtype)
    for note in notes:
        progress.note(f"{name}: {note}")
    return EncodedArray(name, path, manifest, resumed=resumed, notes=tuple(notes))


class _ImageRun:
    """Batches of one run: files in, rows in the stored type out."""

    def __init__(
        self, encoder: VisionEncoder, model: str, images: ImageTable, layers: Sequence[int | None], dtype: np.dtype[Any]
    ) -> None:
        self._encoder, self._model, self._images, self._layers, self._dtype = encoder, model, images, layers, dtype

    def batch(self, positions: range) -> BatchRows:
        table = self._images
        pictures = [open_image(table.paths[i], table.digests[i]) for i in positions]
        output = self._encoder.encode(self._encoder.preprocess(pictures), self._layers)
        problems = output_problems(output, images=len(pictures), layers=self._layers, where=self._model)
        if problems:
            lines = "\n  - ".join(problem.message for problem in problems)
            raise ModelError(f"{self._model}: what encode() returned breaks the protocol:\n  - {lines}")
        rows = BatchRows([], {"flushed": []}, [])
        for layer, arrays in zip(self._layers, output, strict=True):
            label = "the final layer" if layer is None else f"layer {layer}"
            casts = [
                to_stored(array, self._dtype, model=self._model, row=table.ids[i], layer=label)
                for i, array in zip(positions, arrays, strict=True)
            ]
            rows.values.append([cast.values.reshape(-1, cast.values.shape[-1]) for cast in casts])
            rows.counts["flushed"].append(sum(cast.flushed for cast in casts))
            rows.grids.append({(array.shape[0], array.shape[1]) if array.ndim == 3 else None for array in arrays})
        return rows
