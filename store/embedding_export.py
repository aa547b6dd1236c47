"""Gives item embeddings out to other programs: ``.npz``, ``.safetensors`` and Zarr, whole or not at all.

Members have the names that the importer takes, so what is exported can be imported. The same array, the same bytes.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from optotype.schemas.errors import ConflictError, UsageError
from optotype.store.drafts import draft_file
from optotype.store.embeddings import EMBEDDINGS, VALUES, write_embeddings
from optotype.store.reading import StoredArray, StoredGroup

__all__ = ["EMBEDDING_FORMATS", "export_embeddings"]

EMBEDDING_FORMATS = ("npz", "safetensors", "zarr")
_BLOCK_BYTES = 32 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first time a zip can hold: no clock in the bytes
_FLOAT = np.dtype("<f4")


def export_embeddings(source: str | Path, file: str | Path, *, file_format: str | None = None) -> Path:
    """Write item embeddings to a file.

    Parameters
    ----------
    source : str or Path
        Folder or fsspec URL of the array.
    file : str or Path
        Replaced if it is there. ``.npz`` and ``.safetensors`` hold ``text`` and ``vision_text`` (n, d) float32 as far
        as there are, ``benchmark`` and ``item_id`` (in ``.safetensors`` JSON lists in the metadata); ``.zarr`` is the
        array itself, digest and all.
    file_format : {"npz", "safetensors", "zarr"}, optional
        By default the suffix of ``file`` says.

    Raises
    ------
    UsageError
        No such format.
    ConflictError
        ``file`` is a folder, and the format is not ``zarr``; or a folder that is no array of optotype.
    """
    file = Path(file)
    chosen = file_format or file.suffix.lower().removeprefix(".")
    if chosen not in EMBEDDING_FORMATS:
        formats = ", ".join(EMBEDDING_FORMATS)
        raise UsageError(f"{file}: embeddings are exported as {formats}; got {chosen or 'no suffix'}")
    group = StoredGroup(source, EMBEDDINGS)
    held = {entry.path.split("/", 1)[0] for entry in group.manifest.files}
    values = {name: group.array(name) for name in VALUES if name in held}
    labels = {"benchmark": group.strings("benchmark").tolist(), "item_id": group.strings("item").tolist()}
    if chosen == "zarr":
        write_embeddings(
            file,
            benchmark=labels["benchmark"],
            item=labels["item_id"],
            **{name: _reader(array) for name, array in values.items()},
            inputs=group.manifest.inputs,
            attrs=group.attrs,
        )
        return file
    if file.is_dir():
        raise ConflictError(f"{file} is a folder; {chosen} is written to a file", hint="Choose another name.")
    write = _write_npz if chosen == "npz" else _write_safetensors
    write(file, values, labels)
    return file


def _write_npz(file: Path, values: dict[str, StoredArray], labels: dict[str, list[str]]) -> None:
    with draft_file(file) as out, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, texts in labels.items():
            buffer = io.BytesIO()
            np.save(buffer, np.array(texts, dtype=str), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), buffer.getvalue())
        for name, array in values.items():
            header = {"descr": _FLOAT.str, "fortran_order": False, "shape": array.shape}
            with archive.open(zipfile.ZipInfo(f"{name}.npy", _EPOCH), "w", force_zip64=True) as member:
                np.lib.format.write_array_header_2_0(member, header)
                for block in _blocks(array):
                    member.write(np.ascontiguousarray(block, dtype=_FLOAT).data)


def _write_safetensors(file: Path, values: dict[str, StoredArray], labels: dict[str, list[str]]) -> None:
    # By hand, since the package's writer wants all values in memory. Format: length, JSON header, bytes.
    metadata = {name: json.dumps(texts, ensure_ascii=False) for name, texts in labels.items()}
    header: dict[str, Any] = {"__metadata__": metadata}
    offset = 0
    for name, array in values.items():
        size = int(np.prod(array.shape, dtype=np.int64)) * _FLOAT.itemsize
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with draft_file(file) as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for array in values.values():
            for block in _blocks(array):
                out.write(np.ascontiguousarray(block, dtype=_FLOAT).data)


def _reader(array: StoredArray) -> Any:
    return lambda: _blocks(array)


def _blocks(array: StoredArray) -> Iterator[Any]:
    step = max(1, _BLOCK_BYTES // (array.shape[1] * array.dtype.itemsize) // array.chunks[0]) * array.chunks[0]
    for start in range(0, array.shape[0], step):
        yield array[start : min(start + step, array.shape[0])]
