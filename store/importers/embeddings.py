"""Item embeddings that others computed: ``.npz``, ``.safetensors`` and Zarr groups. Nothing is unpickled."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from optotype.schemas.errors import FormatError, InvalidDataError, Problem, UsageError, did_you_mean
from optotype.store.checks import FLOATS, limited
from optotype.store.embeddings import VALUES, item_problems, write_embeddings
from optotype.store.importers import zarr as zarr_groups
from optotype.store.importers.source import Member, Members, open_members
from optotype.store.manifest import Manifest

__all__ = ["import_embeddings"]

_SUFFIXES = (".npz", ".safetensors", ".zarr")
_LABELS = {"benchmark": ("benchmark",), "item_id": ("item_id", "item")}  # the second is what optotype calls it itself
_BLOCK_BYTES = 8 << 20


def import_embeddings(target: Path, file: str | Path, *, inputs_extra: Mapping[str, Any] | None = None) -> Manifest:
    """Store item embeddings from a file.

    Parameters
    ----------
    target : Path
        Folder of the array. One that stands there is replaced in one step; equal data is left alone.
    file : str or Path
        ``.npz``, ``.safetensors`` or a Zarr group (also one of optotype's) that holds ``benchmark`` and ``item_id``
        (n strings each; in ``.safetensors`` JSON lists in the metadata) and ``text``, ``vision_text`` or both, shape
        (n, d), of float16, float32, float64 or bfloat16; stored as float32. A row of NaN was not embedded.
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
        No such file, not readable, or of another kind.
    """
    suffix = Path(str(file).rstrip("/")).suffix.lower()
    is_group = "://" in str(file) or "::" in str(file) or Path(file).is_dir()
    if not is_group and Path(file).exists() and suffix not in _SUFFIXES:
        raise UsageError(f"{file}: embeddings are read from {', '.join(_SUFFIXES)}; got {suffix or 'no suffix'}")
    with ExitStack() as stack:
        members = _zarr(str(file)) if is_group else stack.enter_context(open_members(file))
        labels, problems = _labels(members, str(file), suffix)
        values = {name: members.arrays[name] for name in VALUES if name in members.arrays}
        problems += members.problems
        problems += [problem for name, member in values.items() for problem in _value_problems(name, member)]
        if not values and not {problem.where for problem in problems} & set(VALUES):
            there = did_you_mean("text", sorted(members.arrays))
            message = f"neither text nor vision_text, shape (n, d), is in the file. {there}".strip()
            problems.append(Problem("text", "missing-member", message))
        if len(labels) == len(_LABELS):
            problems += item_problems(labels["benchmark"], labels["item_id"])
            rows = len(labels["item_id"])
            problems += [
                Problem(name, "length", f"{member.shape[0]} rows for {rows} items")
                for name, member in values.items()
                if len(member.shape) == 2 and member.shape[0] != rows
            ]
        if problems:
            raise InvalidDataError(f"{file} refused, nothing was written:", limited(problems))
        benchmark, item = labels["benchmark"], labels["item_id"]
        order = np.array(sorted(range(len(item)), key=lambda i: (benchmark[i], item[i])), dtype=np.int64)
        try:
            rows_of = {name: _in_order(member, order, Path(target).parent, stack) for name, member in values.items()}
            return write_embeddings(
                Path(target),
                benchmark=[benchmark[i] for i in order],
                item=[item[i] for i in order],
                text=rows_of.get("text"),
                vision_text=rows_of.get("vision_text"),
                inputs=lambda digest: {"operation": "import", "digest": digest, **(inputs_extra or {})},
            )
        except InvalidDataError as error:
            summary = f"{file} refused, nothing was written:"
            raise InvalidDataError(summary, limited(error.problems), hint=error.hint) from None


def _zarr(path: str) -> Members:
    """The members of a Zarr group, by name: a store over HTTP cannot be listed."""
    import zarr

    names = (*VALUES, *(name for names in _LABELS.values() for name in names))
    try:
        group = zarr.open_group(path, mode="r")
        arrays: dict[str, Any] = {name: group[name] for name in names if name in group}
    except (FileNotFoundError, ValueError, KeyError, OSError) as error:
        raise FormatError(f"{path}: not a readable Zarr group ({error})") from error
    found = Members(path, {})
    for name, array in arrays.items():
        if not hasattr(array, "shape"):
            found.problems.append(Problem(name, "not-an-array", "is a group, an array is wanted"))
        elif name in VALUES:
            found.arrays[name] = zarr_groups._member(path, array)
            missing = zarr_groups._missing_chunks(path, array)
            if missing is not None:
                found.problems.append(Problem(name, "missing-chunks", missing))
        else:
            strings = zarr_groups._strings(path, array)
            found.arrays[name] = Member((len(strings),), "str", partial(_slice, strings))
    return found


def _slice(values: list[Any], start: int, stop: int) -> list[Any]:
    return values[start:stop]


def _labels(members: Members, file: str, suffix: str) -> tuple[dict[str, list[str]], list[Problem]]:
    """``benchmark`` and ``item_id`` of the rows, and what is wrong with them."""
    labels: dict[str, list[str]] = {}
    problems: list[Problem] = []
    metadata = _metadata(file) if suffix == ".safetensors" and Path(file).is_file() else {}
    unreadable = {problem.where for problem in members.problems}
    for label, names in _LABELS.items():
        values: Any = None
        name = next((name for name in names if name in members.arrays or name in metadata), label)
        if name in metadata:
            values = metadata[name]
        elif name in members.arrays:
            member = members.arrays[name]
            values = member.read(0, member.shape[0]) if len(member.shape) == 1 else member.all()
        if values is None:
            if name not in unreadable:
                where = "in the metadata, as a JSON list" if suffix == ".safetensors" else "in the file"
                problems.append(Problem(label, "missing-member", f"n strings called {label} are wanted {where}"))
        elif isinstance(values, list):
            labels[label] = values  # what is no string is reported with the ids
        elif values.ndim != 1 or values.dtype.kind not in "UT":
            message = f"n strings are wanted, got {values.dtype} of shape {values.shape}; np.array(ids, dtype=str)"
            problems.append(Problem(label, "id-not-string", message))
        else:
            labels[label] = [str(value) for value in values]
    return labels, problems


def _metadata(file: str) -> dict[str, list[Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy") as opened:
            texts = opened.metadata() or {}
        lists = {name: json.loads(texts[name]) for names in _LABELS.values() for name in names if name in texts}
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise FormatError(f"{file}: its metadata cannot be read ({error})") from error
    bad = [name for name, value in lists.items() if not isinstance(value, list)]
    if bad:
        raise FormatError(f"{file}: metadata {', '.join(bad)} is a JSON list")
    return lists


def _value_problems(name: str, member: Member) -> list[Problem]:
    problems = []
    if member.dtype not in FLOATS:
        problems.append(Problem(name, "wrong-dtype", f"dtype is one of {', '.join(FLOATS)}, got {member.dtype}"))
    if len(member.shape) != 2 or 0 in member.shape[1:]:
        problems.append(Problem(name, "wrong-rank", f"shape is (n, d), got {member.shape}"))
    return problems


def _in_order(member: Member, order: Any, folder: Path, stack: ExitStack) -> Callable[[], Iterator[Any]]:
    """The member's rows in ``order``, in blocks, each time it is called.

    What can only be read in order is copied to a file without a name first, from which rows are read in any.
    """
    itemsize = 2 if member.dtype == "bfloat16" else np.dtype(member.dtype).itemsize
    step = max(1, _BLOCK_BYTES // (member.shape[1] * itemsize))
    starts = range(0, len(order), step)
    if np.array_equal(order, np.arange(len(order))):
        return lambda: (_floats(member.read(start, min(start + step, len(order))), member.dtype) for start in starts)
    if member.random_access:
        rows: Any = member.read(0, member.shape[0])
    else:
        folder.mkdir(parents=True, exist_ok=True)
        file = stack.enter_context(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115 - closed by the stack
        for start in starts:
            file.write(np.ascontiguousarray(member.read(start, min(start + step, len(order)))).data)
        file.flush()
        dtype = np.dtype("uint16" if member.dtype == "bfloat16" else member.dtype)
        rows = np.memmap(file, dtype=dtype, mode="r", shape=member.shape)
    return lambda: (_floats(rows[order[start : start + step]], member.dtype) for start in starts)


def _floats(block: Any, dtype: str) -> Any:
    """A block as floats: bfloat16 comes as its bits."""
    block = np.asarray(block)
    return (block.astype(np.uint32) << 16).view(np.float32) if dtype == "bfloat16" else block
