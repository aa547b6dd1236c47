"""Texts to states of a language model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optotype.pipelines.encode.batches import check_dtype, to_stored
from optotype.pipelines.encode.loading import check_device, locate, platform_inputs, torch_state, versions
from optotype.pipelines.encode.pooling import TEXT_POOLINGS, TextPooling
from optotype.pipelines.encode.prompts import LABELS, Prompting
from optotype.pipelines.encode.runs import (
    FORMAT_VERSION,
    BatchRows,
    EncodedArray,
    check_positive,
    count,
    fill,
    flushed_notes,
    flushed_share,
    note_replaced,
    standing,
    standing_digest,
    sweep,
)
from optotype.pipelines.encode.text import PADDINGS, Padding, load_language_model
from optotype.pipelines.progress import SILENT, Progress
from optotype.schemas.documents import cache_key
from optotype.schemas.errors import UsageError
from optotype.schemas.names import check_array_name
from optotype.schemas.sources import parse_source
from optotype.store.dataset import read_texts
from optotype.store.drafts import writing
from optotype.store.staging import Staging
from optotype.store.states import write_states

if TYPE_CHECKING:
    from optotype.store.project import Project

__all__ = ["encode_texts"]


def encode_texts(
    project: Project,
    name: str,
    table_path: str | Path,
    source: str,
    *,
    layer: int = -2,
    pooling: TextPooling = "mean",
    column: str = "text",
    where: Mapping[str, str] | None = None,
    template: str | None = None,
    template_task: str | None = None,
    template_side: str | None = None,
    language: str | None = None,
    style: str | None = None,
    batch_size: int = 16,
    device: str = "cpu",
    dtype: str = "float32",
    trust_remote_code: bool = False,
    gguf_file: str | None = None,
    max_length: int | None = None,
    padding: Padding = "right",
    threads: int | None = None,
    progress: Progress | None = None,
    target: Path | None = None,
) -> EncodedArray:
    """Run a language model over a column of texts and write one pooled state for each.

    Order, resuming and what is left alone are as in `encode_images`.

    Parameters
    ----------
    project : Project
        Where the array and unfinished parts are kept.
    name : str
        The array becomes ``data/states/<name>``.
    table_path : str or Path
        A table with the columns ``id`` and ``column``.
    source : str
        ``hf:<repo>@<revision>`` or a local folder; of safetensors or one GGUF file.
    layer : int
        Index into ``hidden_states``: 0 is the embeddings, -1 the model's own output, -2 (the default) the state before
        the last block.
    pooling : {"mean", "last", "cls", "last-before-eos"}
        Over real tokens, special ones included: their mean, the last one, the first one, the last one that is not the
        tokenizer's end-of-sequence token.
    column : str
        The column that holds the texts.
    where : mapping of str to str, optional
        Only rows whose cell in each of these columns is that text.
    template : str, optional
        Prompt template that the texts are put into, as `optotype.schemas.templates.get_template` takes it. Without one
        texts are encoded as they stand.
    template_task, template_side : str, optional
        Which prompts of it. The task of each row comes from the table's column ``task``, where it has one and none is
        given.
    language : str, optional
        Language of the prompts; by default from the table's column ``language``.
    style : {"plain", "punct", "newline"}, optional
        How prompts end, see `optotype.schemas.prompt_styles.styled`.
    batch_size, device, dtype, trust_remote_code, threads, progress, target
        As in `encode_images`.
    gguf_file : str, optional
        The GGUF file to load, where the source holds several or other weights too.
    max_length : int, optional
        Tokens read of a text; the model's limit by default. Longer texts are cut at the end and counted in a note.
    padding : {"right", "left"}
        Where the shorter texts of a batch are filled up. States do not depend on it but for rounding; a model of which
        that is not true is refused.

    Raises
    ------
    UsageError, NotFoundError, ConflictError
        As in `encode_images`; also a template that is not there, or that has no prompt of text alone for what is asked.
    InvalidDataError
        The table has problems, or texts are blank, have no tokens or no prompt: all of them are listed, nothing is
        encoded.
    ModelError
        The model cannot be loaded, is no language model, produces NaN, or values that ``dtype`` cannot hold.
    """
    import torch

    report = progress or SILENT
    check_array_name(name)
    check_positive(batch_size=batch_size, max_length=max_length, threads=threads)
    if pooling not in TEXT_POOLINGS:
        raise UsageError(f"{pooling!r} is not a pooling: {', '.join(TEXT_POOLINGS)}")
    if padding not in PADDINGS:
        raise UsageError(f"{padding!r} is not a side to pad on: {', '.join(PADDINGS)}")
    prompting = Prompting.parse(template, task=template_task, side=template_side, language=language, style=style)
    stored = check_dtype(dtype)
    threads = threads or torch.get_num_threads()
    parsed = parse_source(source)
    if parsed.kind == "python":
        raise UsageError(f"{source}: a language model is a hub repository or a folder, not a plug-in")
    place = check_device(device, source)
    files = locate(parsed, root=project.root, trust_remote_code=trust_remote_code, gguf=gguf_file)
    table = read_texts(table_path, column, labels=() if prompting is None else LABELS, where=where)
    inputs: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "of": "texts",
        "dataset": table.digest,
        "model": dict(files.identity),
        "gguf_file": gguf_file,
        "layer": layer,
        "pooling": pooling,
        "max_length": max_length,
        "trust_remote_code": trust_remote_code,
        "dtype": dtype,
        "batch_size": batch_size,
        "threads": threads,
        "platform": platform_inputs(place),
        "versions": versions("torch", "transformers", "tokenizers", "numpy"),
    }
    # What was not asked for is not in the key, so that arrays made before these options were there stay up to date.
    attrs: dict[str, Any] = {"layer": layer, "pooling": pooling}
    if padding != "right":
        inputs["padding"] = attrs["padding"] = padding
    if prompting is not None:
        table, inputs["template"] = prompting.apply(table)
        attrs["template"] = str(prompting.template)
    path = target or project.states / name
    there = standing(path, inputs, report)
    if there is not None:
        sweep(project.staging, cache_key(inputs))
        return EncodedArray(name, path, there, skipped=True)

    with writing(path), Staging(project.staging, cache_key(inputs)) as staging:
        resumed = staging.done() > 0
        if staging.done() < len(table.ids):
            model = load_language_model(
                files,
                device=device,
                trust_remote_code=trust_remote_code,
                gguf_file=gguf_file,
                max_length=max_length,
                padding=padding,
            )
            index = model.layer(layer)
            cut = model.check(table.ids, table.texts, pooling)

            def batch(positions: range) -> BatchRows:
                rows = slice(positions.start, positions.stop)
                states = model.states(table.texts[rows], index, pooling)
                casts = [
                    to_stored(state[np.newaxis], stored, model=source, row=identity, layer=f"layer {index}")
                    for identity, state in zip(table.ids[rows], states, strict=True)
                ]
                counts = {"flushed": [sum(cast.flushed for cast in casts)], "truncated": [sum(cut[rows])]}
                return BatchRows([[cast.values for cast in casts]], counts)

            with torch_state(threads):
                fill(staging, len(table.ids), batch_size, batch, report, title=f"encoding {name}", unit="texts")
        share = flushed_share(staging, 0, len(table.ids) * next(staging.blocks()).shape[1])
        truncated = count(staging, "truncated", 0)
        notes = flushed_notes(share, dtype)
        if truncated:
            notes.insert(0, f"{truncated} of {len(table.ids)} texts are longer than the model reads and were cut")
        former = standing_digest(path)
        manifest = write_states(
            path,
            ids=table.ids,
            blocks=staging.blocks(),
            dtype=dtype,
            inputs=inputs,
            attrs={**attrs, "flushed_to_zero": share, "truncated": truncated},
        )
        note_replaced(name, former, manifest, report)
        for note in notes:
            report.note(f"{name}: {note}")
        staging.discard()
    return EncodedArray(name, path, manifest, resumed=resumed, notes=tuple(notes))
