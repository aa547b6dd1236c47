"""``.npz``: members stored plainly are mapped into memory where they lie, compressed ones unpacked to disk first."""

from __future__ import annotations

import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from optotype.schemas.errors import FormatError, Problem
from optotype.store.importers.source import Member, Members

__all__ = ["members"]

_BLOCK = 4 << 20
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, ..., lengths of name and extra field


@contextmanager
def members(path: str) -> Iterator[Members]:
    """The arrays of the file."""
    found = Members(path, {})
    with ExitStack() as stack:
        try:
            archive = stack.enter_context(zipfile.ZipFile(path))
            file = stack.enter_context(Path(path).open("rb"))
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                if not info.filename.endswith(".npy"):
                    continue
                if info.compress_type == zipfile.ZIP_STORED:
                    holder: Any = file
                    start = _data_offset(file, info)
                    _check_crc(file, start, info)
                else:
                    # Has no name, so nothing is left of it when the process is killed.
                    holder = stack.enter_context(tempfile.TemporaryFile(dir=Path(path).absolute().parent))
                    with archive.open(info) as packed:
                        while block := packed.read(_BLOCK):
                            holder.write(block)
                    start = 0
                array = _map(holder, start, info.file_size)
                if array is None:
                    message = (
                        "holds pickled Python objects, which are not loaded; save strings as np.array(ids, dtype=str)"
                    )
                    found.problems.append(Problem(name, "pickle", message))
                else:
                    found.arrays[name] = Member.of(array)
        except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError, NotImplementedError) as error:
            raise FormatError(f"{path}: not a readable .npz file ({error})") from error
        yield found


def _data_offset(file: IO[bytes], info: zipfile.ZipInfo) -> int:
    """Where the bytes of a member begin: behind its own header, whose lengths may differ from the directory's."""
    file.seek(info.header_offset)
    header = file.read(_LOCAL_HEADER.size)
    if len(header) < _LOCAL_HEADER.size or not header.startswith(b"PK\x03\x04"):
        raise zipfile.BadZipFile(f"no member at {info.header_offset}")
    _, name, extra = _LOCAL_HEADER.unpack(header)
    return info.header_offset + _LOCAL_HEADER.size + int(name) + int(extra)


def _check_crc(file: IO[bytes], start: int, info: zipfile.ZipInfo) -> None:
    file.seek(start)
    left, crc = info.file_size, 0
    while left:
        block = file.read(min(_BLOCK, left))
        if not block:
            raise zipfile.BadZipFile(f"{info.filename} is cut short")
        crc = zlib.crc32(block, crc)
        left -= len(block)
    if crc != info.CRC:
        raise zipfile.BadZipFile(f"{info.filename} does not have its checksum")


def _map(file: IO[bytes], start: int, size: int) -> Any | None:
    """The array whose ``.npy`` bytes begin at ``start``; None if it holds Python objects."""
    file.seek(start)
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
    if dtype.hasobject:
        return None
    offset = file.tell()
    if size - (offset - start) != int(np.prod(shape, dtype=object)) * dtype.itemsize:
        raise ValueError(f"shape {shape} and {dtype} do not fit {size} bytes")
    if not all(shape):
        return np.empty(shape, dtype=dtype)  # nothing to map
    return np.memmap(file, dtype=dtype, mode="r", offset=offset, shape=shape, order="F" if fortran else "C")
