"""``.npy``: one array, mapped into memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from optotype.schemas.errors import FormatError
from optotype.store.importers.source import BARE, Member, Members

__all__ = ["members"]


@contextmanager
def members(path: str) -> Iterator[Members]:
    """The array of the file, under the name ``""``."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise FormatError(f"{path}: not a readable .npy file without pickles ({error})") from error
    if not isinstance(array, np.ndarray):
        raise FormatError(f"{path}: not a .npy file; a zip of arrays ends in .npz")
    yield Members(path, {BARE: Member.of(array)})
