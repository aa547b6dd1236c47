"""From the members of a file to a stored array: checks all of it, puts rows in the order of their ids."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from optotype.schemas.errors import InvalidDataError, Problem, did_you_mean
from optotype.schemas.names import id_problems
from optotype.store.checks import FLOATS, FiniteScan, blanked, check_row_size, limited
from optotype.store.importers.source import BARE, Member, Members
from optotype.store.manifest import Manifest
from optotype.store.rows import FEATURES, INVALID_ROWS, STATES, RowKind, write_rows

__all__ = ["FEATURES_MEMBERS", "STATES_MEMBERS", "MemberNames", "import_rows"]

_BLOCK_BYTES = 8 << 20
_KEEP = "Embeddings for optotype retrieve may have such rows, which count as wrong there: --keep-invalid"


@dataclass(frozen=True)
class MemberNames:
    """Which members make an array of a kind.

    Attributes
    ----------
    kind : RowKind
    fixed : str
        Member whose first axis is the item, and its dimensions.
    fixed_dims : tuple of str
    ragged : str or None
        Member (N, d) that comes with ``row_size``.
    """

    kind: RowKind
    fixed: str
    fixed_dims: tuple[str, ...]
    ragged: str | None


FEATURES_MEMBERS = MemberNames(FEATURES, "patches", ("n", "M", "d"), "tokens")
STATES_MEMBERS = MemberNames(STATES, "states", ("n", "d"), None)


@dataclass(frozen=True)
class _Table:
    """What was found in a file; parts that are missing or wrong are None and have a problem."""

    ids: list[Any] | None
    values: Member | None
    is_ragged: bool
    row_size: Any  # int64 (n,) for features, else None


def import_rows(
    names: MemberNames, target: Path, members: Members, extra: Mapping[str, Any], *, keep_invalid: bool = False
) -> Manifest:
    """Check the members and write the array; see `optotype.store.importers.import_features` and `import_states`."""
    problems = list(members.problems)
    table = _find(names, members, problems)
    if problems or table.ids is None or table.values is None:
        problems += [] if keep_invalid else _scan(names, table)
        raise _refused(names, members, problems)
    ids, values = table.ids, table.values
    order = np.array(sorted(range(len(ids)), key=ids.__getitem__), dtype=np.int64)
    ends = np.cumsum(table.row_size) if table.is_ragged else np.arange(1, len(ids) + 1)
    starts = np.concatenate([[0], ends[:-1]])
    # Counted first, for attributes are written before rows are.
    invalid = _count_invalid(values) if keep_invalid else 0
    noted = {INVALID_ROWS: invalid} if invalid else {}
    with ExitStack() as stack:
        if not values.random_access and not np.array_equal(order, np.arange(len(order))):
            values = stack.enter_context(_Unpacked(values, target.parent)).member
        try:
            return write_rows(
                names.kind,
                target,
                ids=[ids[i] for i in order],
                row_size=None if table.row_size is None else table.row_size[order],
                blocks=_gather(values, starts[order], ends[order])
                if not invalid
                else (blanked(block, values.dtype)[0] for block in _gather(values, starts[order], ends[order])),
                dtype=values.dtype,
                inputs=lambda digest: {"operation": "import", "digest": digest, **noted, **extra},
                attrs=noted or None,
                blank=bool(invalid),
            )
        except InvalidDataError as error:
            raise _refused(names, members, error.problems, error.hint) from None


def _refused(
    names: MemberNames, members: Members, problems: Sequence[Problem], hint: str | None = None
) -> InvalidDataError:
    if names.kind is STATES and any(problem.kind in ("nan", "infinite") for problem in problems):
        hint = hint or _KEEP
    return InvalidDataError(f"{members.where} refused, nothing was written:", limited(problems), hint=hint)


def _count_invalid(values: Member) -> int:
    rows = np.arange(values.shape[0])
    return sum(blanked(block, values.dtype)[1] for block in _gather(values, rows, rows + 1))


def _find(names: MemberNames, members: Members, problems: list[Problem]) -> _Table:
    """Find ids, values and row_size; adds every problem to ``problems``."""
    arrays = dict(members.arrays)
    unreadable = {problem.where for problem in problems}
    if BARE in arrays:
        bare = arrays.pop(BARE)
        arrays[names.ragged if names.ragged and len(bare.shape) == 2 else names.fixed] = bare
    ids = _ids(members, problems, unreadable)
    is_ragged = names.ragged is not None and names.ragged in arrays
    name = names.ragged if is_ragged and names.ragged else names.fixed
    values = arrays.get(name)
    dims = ("N", "d") if is_ragged else names.fixed_dims
    if is_ragged and names.fixed in arrays:
        problems.append(
            Problem(name, "ambiguous", f"the file holds both {names.fixed} and {names.ragged}; one is wanted")
        )
    if values is None:
        if not {names.fixed, names.ragged} & unreadable:
            wanted = f"{names.fixed} ({', '.join(names.fixed_dims)})"
            wanted += f" or {names.ragged} (N, d) with row_size (n)" if names.ragged else ""
            there = did_you_mean(names.fixed, sorted(arrays))
            problems.append(
                Problem(names.fixed, "missing-member", f"not in the file; {wanted} is wanted. {there}".strip())
            )
    else:
        sound = _check_values(name, dims, values, problems)
        if sound and not is_ragged and ids is not None and values.shape[0] != len(ids):
            problems.append(Problem(name, "length", f"{values.shape[0]} rows for {len(ids)} ids"))
        values = values if sound else None
    row_size: Any = None
    if is_ragged:
        row_size = _ragged_sizes(arrays.get("row_size"), ids, values, problems, unreadable)
    elif names.ragged is not None and values is not None:
        if "row_size" in arrays:
            message = f"belongs to {names.ragged} (N, d); {names.fixed} (n, M, d) has M tokens an image"
            problems.append(Problem("row_size", "ambiguous", message))
        row_size = np.full(values.shape[0], values.shape[1], dtype=np.int64)
    return _Table(ids, values, is_ragged, row_size)


def _ids(members: Members, problems: list[Problem], unreadable: set[str]) -> list[Any] | None:
    ids = members.ids
    if ids is None and (member := members.arrays.get("ids")) is not None:
        if len(member.shape) != 1:
            problems.append(Problem("ids", "wrong-rank", f"ids have shape (n,), got {member.shape}"))
            return None
        array = member.all()
        if array.dtype.kind not in "UT":
            message = f"ids are strings, got {array.dtype}; store them as np.array(ids, dtype=str)"
            problems.append(Problem("ids", "id-not-string", message))
            return None
        ids = [str(value) for value in array]
    if ids is None:
        if "ids" not in unreadable and not any(problem.where == "ids" for problem in problems):
            message = "not in the file nor beside it (<stem>.ids.txt or <stem>.ids.json); n strings are wanted"
            problems.append(Problem("ids", "missing-ids", message))
        return None
    if not ids:
        problems.append(Problem("ids", "empty", "there are no rows; an array has at least one"))
    problems += limited(id_problems(ids))
    return ids


def _check_values(name: str, dims: tuple[str, ...], values: Member, problems: list[Problem]) -> bool:
    """Add what is wrong with dtype and shape; returns whether the rank is right."""
    if values.dtype not in FLOATS:
        hint = "; convert it first, for example with .astype('float32')" if "int" in values.dtype else ""
        problems.append(Problem(name, "wrong-dtype", f"dtype is one of {', '.join(FLOATS)}, got {values.dtype}{hint}"))
    if len(values.shape) != len(dims):
        problems.append(Problem(name, "wrong-rank", f"shape is ({', '.join(dims)}), got {values.shape}"))
        return False
    if values.shape[-1] == 0:
        problems.append(Problem(name, "zero-channels", "there are 0 channels; there must be at least one"))
    if values.shape[0] == 0:
        problems.append(Problem(name, "empty", "there are no values"))
    if len(dims) == 3 and values.shape[1] == 0:
        problems.append(Problem(name, "row-size-range", "0 tokens an image; there must be at least one"))
    return True


def _ragged_sizes(
    member: Member | None, ids: list[Any] | None, values: Member | None, problems: list[Problem], unreadable: set[str]
) -> Any | None:
    if member is None:
        if "row_size" not in unreadable:
            message = "not in the file; with tokens (N, d) it is wanted: n token counts"
            problems.append(Problem("row_size", "missing-member", message))
        return None
    sizes = member.all()
    rows = len(ids) if ids is not None else len(np.atleast_1d(sizes))
    found = check_row_size(sizes, rows, None if values is None else values.shape[0])
    problems += found
    return None if found else sizes.astype(np.int64)


def _scan(names: MemberNames, table: _Table) -> list[Problem]:
    """Look for NaN and infinities in a file that is refused anyway, so that they are listed too."""
    values = table.values
    if values is None or values.dtype not in FLOATS or not all(values.shape):
        return []
    ids = table.ids or []
    row_size = table.row_size
    if (table.is_ragged and row_size is None) or (not table.is_ragged and len(ids) != values.shape[0]):
        ids, row_size = [], None  # rows belong to no item for sure
    scan = FiniteScan(ids, row_size, values.dtype)
    rows = np.arange(values.shape[0])
    for block in _gather(values, rows, rows + 1):
        scan.add(block)
    return scan.problems(names.ragged if table.is_ragged and names.ragged else names.fixed, names.kind.item)


def _gather(values: Member, starts: Any, ends: Any) -> Iterator[Any]:
    """Rows of the items in order, in blocks of about 8 MiB, shape (rows, d); ranges that touch are read at once."""
    channels = values.shape[-1]
    itemsize = 2 if values.dtype == "bfloat16" else np.dtype(values.dtype).itemsize
    step = max(1, _BLOCK_BYTES // (int(np.prod(values.shape[1:], dtype=np.int64)) * itemsize))
    breaks = np.flatnonzero(starts[1:] != ends[:-1]) + 1
    parts: list[Any] = []
    held = 0
    for first, last in zip([0, *breaks.tolist()], [*breaks.tolist(), len(starts)], strict=True):
        start, stop = int(starts[first]), int(ends[last - 1])
        while start < stop:
            end = min(stop, start + step - held)
            parts.append(np.asarray(values.read(start, end)).reshape(-1, channels))
            held += end - start
            start = end
            if held >= step:
                yield parts[0] if len(parts) == 1 else np.concatenate(parts)
                parts, held = [], 0
    if parts:
        yield parts[0] if len(parts) == 1 else np.concatenate(parts)


class _Unpacked:
    """A member copied in order to a file without a name, from which rows can be read in any order."""

    def __init__(self, values: Member, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed in __exit__
        dtype = np.dtype("uint16" if values.dtype == "bfloat16" else values.dtype)
        rows = np.arange(values.shape[0])
        for block in _gather(values, rows, rows + 1):
            self._file.write(np.ascontiguousarray(block, dtype=dtype).data)
        self._file.flush()
        self.member = Member.of(np.memmap(self._file, dtype=dtype, mode="r", shape=values.shape), values.dtype)

    def __enter__(self) -> _Unpacked:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
