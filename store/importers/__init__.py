"""Reads arrays that others wrote: ``.npz``, ``.npy``, ``.safetensors``, ``.pt`` and Zarr groups.

Nothing is unpickled, values are read in blocks, rows are stored sorted by id, and every problem of a file is
listed in one error.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optotype.store.importers.source import open_members
from optotype.store.importers.table import FEATURES_MEMBERS, STATES_MEMBERS, import_rows
from optotype.store.manifest import Manifest

__all__ = ["import_features", "import_states"]


def import_features(target: Path, file: str | Path, *, inputs_extra: Mapping[str, Any] | None = None) -> Manifest:
    """Store patch features from a file.

    Parameters
    ----------
    target : Path
        Folder of the array. One that stands there is replaced in one step; equal data is left alone.
    file : str or Path
        Holds ``ids`` (n strings) and either ``patches`` (n, M, d), or ``tokens`` (N, d) with ``row_size`` (n).
        ``.npy``: one array (n, M, d), or (N, d) with ``<stem>.row_size.npy`` beside it. Files without room for
        ids (``.npy``, ``.safetensors`` without metadata ``ids``, ``.pt`` of one tensor) have them beside:
        ``<stem>.ids.txt``, one a line, or ``<stem>.ids.json``, a list.
        float16, float32, float64 and bfloat16 are kept as they are.
    inputs_extra : mapping, optional
        JSON values to be kept in the manifest with the digest of the data.

    Returns
    -------
    Manifest
        Depends on the data alone: not on their order in the file, nor on its format.

    Raises
    ------
    InvalidDataError
        Every problem found; nothing is written.
    NotFoundError, FormatError, UsageError
        No such file, not readable, or of an unknown kind.
    MissingPackageError
        A ``.pt`` file without torch installed.
    """
    with open_members(file) as members:
        return import_rows(FEATURES_MEMBERS, Path(target), members, inputs_extra or {})


def import_states(
    target: Path, file: str | Path, *, inputs_extra: Mapping[str, Any] | None = None, keep_invalid: bool = False
) -> Manifest:
    """Store text states from a file that holds ``ids`` (n strings) and ``states`` (n, d).

    Everything else as for `import_features`.

    Parameters
    ----------
    keep_invalid : bool
        Whether rows that hold NaN or infinity are stored, as NaN throughout; the attribute ``invalid_rows`` and the
        inputs say how many, where there are any. Refused by default. Retrieval counts such rows as wrong; what else
        reads states refuses them.
    """
    with open_members(file) as members:
        return import_rows(STATES_MEMBERS, Path(target), members, inputs_extra or {}, keep_invalid=keep_invalid)
