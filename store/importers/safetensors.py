"""``.safetensors``: tensors mapped into memory; bfloat16 as its bits."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from optotype.schemas.errors import FormatError, Problem
from optotype.store.importers.source import Member, Members

__all__ = ["members"]

_DTYPES = {
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "BF16": "bfloat16",
    "BOOL": "bool",
    **{f"{kind}{bits}": f"{word}{bits}" for kind, word in (("I", "int"), ("U", "uint")) for bits in (8, 16, 32, 64)},
}


@contextmanager
def members(path: str) -> Iterator[Members]:
    """The tensors of the file; ids from the metadata key ``ids``, a JSON list."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as opened:  # checks the header against the file
            names, metadata = list(opened.keys()), opened.metadata() or {}
        header, start = _header(path)
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not a readable .safetensors file ({error})") from error
    found = Members(path, {})
    for name in names:
        tensor = header[name]
        dtype = _DTYPES.get(tensor["dtype"])
        if dtype is None:
            message = f"dtype is float16, float32, float64 or bfloat16, got {tensor['dtype']}"
            found.problems.append(Problem(name, "wrong-dtype", message))
            continue
        stored = np.dtype("uint16" if dtype == "bfloat16" else dtype).newbyteorder("<")
        shape, offset = tuple(tensor["shape"]), start + tensor["data_offsets"][0]
        if all(shape):
            array: Any = np.memmap(path, dtype=stored, mode="r", offset=offset, shape=shape)
        else:
            array = np.empty(shape, dtype=stored)
        found.arrays[name] = Member.of(array, dtype)
    if "ids" in metadata:
        try:
            found.ids = json.loads(metadata["ids"])
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{path}: metadata ids is not JSON ({error})") from error
        if not isinstance(found.ids, list):
            raise FormatError(f"{path}: metadata ids is a JSON list, got {type(found.ids).__name__}")
    yield found


def _header(path: str) -> tuple[dict[str, Any], int]:
    """The header of the file and where the tensors begin."""
    with Path(path).open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length)), 8 + length
