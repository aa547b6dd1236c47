"""Nearest neighbours of images (Chamfer) and of texts (cosine) after stabilised whitening, block by block.

No more than a few blocks of the n x n similarities exist at a time, and whitened rows are made again from the stored
ones whenever a block has left the cache (256 MiB a process): the cost is about one percent of the products, there is
no scratch file to clean up, and the same tasks run in threads, processes and on a cluster.
"""

from __future__ import annotations

import uuid
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.kernels.chamfer import (
    Group,
    chamfer_block,
    chamfer_pair,
    chamfer_pair_of_spaces,
    groups,
    offsets_of,
    one_of_spaces,
)
from optotype.pipelines.kernels.rows import BlockCache, RowReader, blocks_of_images, pairs_of_blocks, spans_of_rows
from optotype.pipelines.kernels.topk import DECIMALS, WINDOW, Candidates, top_k
from optotype.pipelines.kernels.whitening import (
    Moments,
    Prenorm,
    Whitening,
    check_eps,
    check_prenorm,
    fit,
    merge,
    moments,
    normalise_rows,
    whiten,
)
from optotype.pipelines.operators.mixtures import SPACES, is_interleaved, space
from optotype.pipelines.progress import SILENT, Progress
from optotype.pipelines.scheduler import Scheduler, scheduler
from optotype.schemas.errors import InvalidDataError, Problem, UsageError

__all__ = [
    "check_k",
    "feature_neighbours",
    "feature_neighbours_by_k",
    "nearest",
    "row_neighbours",
    "row_neighbours_by_k",
    "state_neighbours",
    "state_neighbours_by_k",
]

_WHITEN_ROWS = 2048
_PAIRS_A_TASK = 256
_SHOWN = 5

_CACHE = BlockCache()  # one per process: threads share it, workers have their own


def check_k(k: int, n: int) -> None:
    """UsageError unless 1 <= k < n."""
    if n < 2:
        raise UsageError(f"neighbours need two items or more, got {n}")
    if not 1 <= k < n:
        raise UsageError(
            f"k is from 1 to {n - 1} (n = {n} items, without the item itself), got {k}",
            hint=f"The largest k allowed here: -k {n - 1}",
        )


def nearest(similarity: xr.DataArray, k: int) -> xr.Dataset:
    """Neighbours out of a similarity matrix, lazy if the matrix is.

    Parameters
    ----------
    similarity : DataArray (item, item_other)
        Square; NaN on the diagonal (an item is not its own neighbour).
    k : int
        1 <= k < n.

    Returns
    -------
    Dataset
        ``neighbours(item, rank)`` int32, indices into ``item``; ``similarity(item, rank)`` float64, rounded to 12
        decimals. Falling by similarity, ties by index.
    """
    check_k(k, similarity.sizes["item"])
    index, value = xr.apply_ufunc(
        lambda block: top_k(block, k),
        similarity.chunk(item_other=-1) if similarity.chunks else similarity,
        input_core_dims=[["item_other"]],
        output_core_dims=[["rank"], ["rank"]],
        dask="parallelized",
        output_dtypes=[np.int32, np.float64],
        dask_gufunc_kwargs={"output_sizes": {"rank": k}},
    )
    return xr.Dataset({"neighbours": index, "similarity": value})


def feature_neighbours(
    features: xr.Dataset,
    *,
    k: int,
    eps: float = 1e-4,
    prenorm: str = "none",
    whitened: bool = True,
    run: str | Scheduler = "threads",
    progress: Progress | None = None,
) -> xr.Dataset:
    """Top-k images of every image by Chamfer similarity of whitened patches.

    Products are float32; candidates within 1e-5 of the k-th place are scored again in float64 by one fixed routine, so
    the neighbour *sets* are those of float64. Stored similarities of the others are accurate to about 1e-6.

    An interleaved mixture has two spaces. Each is whitened on its own, tokens of unlike spaces never match, and the
    directional term of image i is (M_i^A c^A + M_i^B c^B) / (M_i^A + M_i^B), c the mean of its maxima in one space.

    Parameters
    ----------
    features : Dataset
        ``patches(token, channel)`` and ``row_size(image)``, coordinate ``image``; dask or NumPy, any float dtype. Or
        as :func:`optotype.pipelines.operators.mixtures.interleaved` gives them.
    k : int
        1 <= k < n.
    eps : float
        Absolute stabiliser of the whitening.
    prenorm : {"none", "l2"}
        Scale patches to unit length before the whitening.
    whitened : bool
        Whether they are whitened at all. If not, each patch is merely scaled to unit length: ``eps`` and ``prenorm``
        say nothing, and the result has no spectrum. A patch of zeros, as encoders that end in a ReLU give them, has
        cosine 0 to every patch; it counts among the matches and in the means like any other.
    run : str or Scheduler
        Where the work runs; see :func:`optotype.pipelines.scheduler.scheduler`.
    progress : callable, optional

    Returns
    -------
    Dataset
        ``neighbours(item, rank)`` int32, ``similarity(item, rank)`` float64, coordinate ``item`` (the ids);
        ``eigenvalues(direction)`` (raw, falling) and ``whitened_variance(direction)`` float64; parameters and
        diagnostics as attributes. Of a mixture the spectra of both spaces together, the diagnostics over both, and
        those of each space as ``a_rows``, ``b_rows``, ... Raw patches some of which are zero also have ``zero_rows``
        and ``zero_items``: how many such patches there are, and how many images have one.

    Raises
    ------
    UsageError
        ``k``, ``eps`` or ``prenorm`` out of range.
    InvalidDataError
        NaN or infinite values, values too large to whiten, patches without variance, patches without a direction
        after whitening, or, without whitening, images all of whose patches are zero (the images are named).
    """
    options: dict[str, Any] = {"eps": eps, "prenorm": prenorm, "whitened": whitened, "run": run, "progress": progress}
    return feature_neighbours_by_k(features, [k], **options)[k]


def feature_neighbours_by_k(
    features: xr.Dataset,
    ks: Sequence[int],
    *,
    eps: float = 1e-4,
    prenorm: str = "none",
    whitened: bool = True,
    run: str | Scheduler = "threads",
    progress: Progress | None = None,
) -> dict[int, xr.Dataset]:
    """Graphs for each of ``ks``, out of one pass over all pairs.

    Each is byte for byte what :func:`feature_neighbours` gives for that k alone. It is not the first columns of the
    graph of a larger k: there, near-ties at place k are ordered and stored as float32 found them, and only those at the
    larger k were scored again in float64.

    Parameters
    ----------
    ks : sequence of int
        One or more, each 1 <= k < n. Memory is n x (k + 64) for each.

    Other parameters and the errors are those of :func:`feature_neighbours`.

    Returns
    -------
    dict of int to Dataset
        By k, each once, in the order of ``ks``.
    """
    ids = [str(value) for value in features["image"].values]
    parts = [space(features, suffix) for suffix in SPACES] if is_interleaved(features) else [features]
    problems = []
    for suffix, part in zip(SPACES, parts, strict=False):
        where = "row_size" if len(parts) == 1 else f"row_size_{suffix}"
        row_size, tokens = np.asarray(part["row_size"].values, dtype=np.int64), part.sizes["token"]
        if row_size.size and row_size.min() < 1:
            problems.append(Problem(where, "empty-image", "every image has one patch or more"))
        if int(row_size.sum()) != tokens:
            problems.append(Problem(where, "sum", f"adds up to {int(row_size.sum())}, there are {tokens} patches"))
    if problems:
        raise InvalidDataError("These are not patch features", problems)
    spaces = [(part["patches"].data, offsets_of(np.asarray(part["row_size"].values, dtype=np.int64))) for part in parts]
    job = _Job("image", "features", whitened=whitened, single=False)
    return _neighbours(spaces, ids, job, ks, eps=eps, prenorm=prenorm, run=run, progress=progress)


def state_neighbours(
    states: xr.Dataset,
    *,
    k: int,
    eps: float = 1e-4,
    prenorm: str = "l2",
    whitened: bool = True,
    run: str | Scheduler = "threads",
    progress: Progress | None = None,
) -> xr.Dataset:
    """Top-k texts of every text by cosine similarity of whitened states, float64 throughout.

    Equal states are scored once and share their value, so exact ties stay exact wherever the rows stand.

    Parameters
    ----------
    states : Dataset
        ``states(text, channel)``, coordinate ``text``.

    Other parameters, the result and the errors are those of :func:`feature_neighbours`; a state of zeros that is not
    whitened is an error.
    """
    options: dict[str, Any] = {"eps": eps, "prenorm": prenorm, "whitened": whitened, "run": run, "progress": progress}
    return state_neighbours_by_k(states, [k], **options)[k]


def state_neighbours_by_k(
    states: xr.Dataset,
    ks: Sequence[int],
    *,
    eps: float = 1e-4,
    prenorm: str = "l2",
    whitened: bool = True,
    run: str | Scheduler = "threads",
    progress: Progress | None = None,
) -> dict[int, xr.Dataset]:
    """Graphs as :func:`state_neighbours` gives them for each of ``ks``; see :func:`feature_neighbours_by_k`."""
    ids = [str(value) for value in states["text"].values]
    rows, job = states["states"].data, _Job("text", "states", whitened=whitened, single=True)
    return _single(rows, ids, job, ks, eps=eps, prenorm=prenorm, run=run, progress=progress)


def row_neighbours(
    rows: NDArray[np.floating],
    ids: Sequence[str],
    *,
    k: int,
    eps: float = 1e-4,
    prenorm: str = "none",
    whitened: bool = True,
    run: str | Scheduler = "threads",
    progress: Progress | None = None,
) -> xr.Dataset:
    """Top-k images of every image by cosine similarity of one vector each, float64 throughout.

    Parameters
    ----------
    rows : ndarray (n, d)
        Pooled features.
    ids : sequence of str
        Of the rows.

    Other parameters, the result and the errors are those of :func:`feature_neighbours`; equal rows share their value,
    as in :func:`state_neighbours`. A row of zeros that is not whitened is an error.
    """
    options: dict[str, Any] = {"eps": eps, "prenorm": prenorm, "whitened": whitened, "run": run, "progress": progress}
    return row_neighbours_by_k(rows, ids, [k], **options)[k]


def row_neighbours_by_k(
    rows: NDArray[np.floating],
    ids: Sequence[str],
    ks: Sequence[int],
    *,
    eps: float = 1e-4,
    prenorm: str = "none",
    whitened: bool = True,
    run: str | Scheduler = "threads",
    progress: Progress | None = None,
) -> dict[int, xr.Dataset]:
    """Graphs as :func:`row_neighbours` gives them for each of ``ks``; see :func:`feature_neighbours_by_k`."""
    job = _Job("image", "features", whitened=whitened, single=True)
    return _single(rows, list(ids), job, ks, eps=eps, prenorm=prenorm, run=run, progress=progress)


def _single(rows: Any, ids: list[str], job: _Job, ks: Sequence[int], **options: Any) -> dict[int, xr.Dataset]:
    return _neighbours([(rows, np.arange(len(ids) + 1, dtype=np.int64))], ids, job, ks, **options)


@dataclass(frozen=True)
class _Job:
    """What is compared, and how."""

    item: str  # "image" or "text"
    kind: str  # "features" or "states"
    whitened: bool
    single: bool  # one row an item, float64; else sets of rows, by Chamfer


@dataclass(frozen=True)
class _Rows:
    """What the first pass needs, wherever it runs."""

    token: str
    reader: RowReader
    prenorm: Prenorm
    digests: bool
    moments: bool


@dataclass(frozen=True)
class _Space:
    """Rows that are whitened together and compared with each other alone."""

    token: str
    reader: RowReader
    whitening: Whitening | None  # None: rows are scaled to unit length alone
    offsets: NDArray[np.int64]  # of items
    directions: int

    def unit(self, rows: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Unit vectors of ``rows``, and which have none."""
        if self.whitening is None:
            return normalise_rows(rows.astype(np.float64))
        return whiten(rows, self.whitening)


@dataclass(frozen=True)
class _Work:
    """What a pair of blocks needs, wherever it runs."""

    spaces: tuple[_Space, ...]  # one, but for interleaved mixtures
    blocks: list[tuple[int, int]]
    offsets: NDArray[np.int64]  # of items, in all spaces together
    distinct: NDArray[np.int64] | None  # of texts: rows that stand for all rows equal to them


@dataclass(frozen=True)
class _Span:
    """What the first pass found in a span of rows."""

    moments: Moments | None  # None where a value is not finite, or where none are wanted
    not_finite: NDArray[np.int64]
    digests: list[bytes]


def _read_span(shared: _Rows, span: tuple[int, int]) -> _Span:
    rows = shared.reader.read(*span, _CACHE)
    finite = np.isfinite(rows).all(axis=1)
    digests = [blake2b(row.tobytes(), digest_size=16).digest() for row in rows] if shared.digests else []
    if not finite.all():
        return _Span(None, span[0] + np.flatnonzero(~finite), digests)
    found = moments(rows, shared.prenorm) if shared.moments else None
    return _Span(found, np.empty(0, dtype=np.int64), digests)


def _whitened_images(
    work: _Work, space: _Space, number: int
) -> tuple[NDArray[np.float32], list[Group], NDArray[np.int64]]:
    first, last = work.blocks[number]

    def make() -> tuple[NDArray[np.float32], list[Group], NDArray[np.int64]]:
        start, stop = int(space.offsets[first]), int(space.offsets[last])
        rows = space.reader.read(start, stop, _CACHE)
        white = np.empty((stop - start, space.directions), dtype=np.float32)
        zero = np.zeros(stop - start, dtype=bool)
        for top in range(0, len(rows), _WHITEN_ROWS):
            part = slice(top, top + _WHITEN_ROWS)
            white[part], zero[part] = space.unit(rows[part])
        without = np.searchsorted(space.offsets, start + np.flatnonzero(zero), side="right") - 1
        cut = groups(space.offsets[first : last + 1] - start)
        if len(work.spaces) > 1:
            cut = one_of_spaces(cut, np.diff(work.offsets[first : last + 1]))
        return white, cut, without

    key = (space.token, "white", number)
    white, cut, without = _CACHE.get(key, make, lambda made: int(made[0].nbytes))
    return white, cut, without


def _whitened_texts(
    work: _Work, distinct: NDArray[np.int64], number: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    first, last = work.blocks[number]
    wanted = distinct[first:last]
    (space,) = work.spaces

    def make() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        rows = space.reader.read(int(wanted[0]), int(wanted[-1]) + 1, _CACHE)[wanted - wanted[0]]
        white, zero = space.unit(rows)
        return white, wanted[zero]

    white, without = _CACHE.get((space.token, "white", number), make, lambda made: int(made[0].nbytes))
    return white, without


def _pair_of_blocks(work: _Work, pair: tuple[int, int]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Similarities of two blocks, and the item of each row without a direction (of the diagonal blocks)."""
    i, j = pair
    if work.distinct is not None:
        rows, without_direction = _whitened_texts(work, work.distinct, i)
        if i != j:
            return rows @ _whitened_texts(work, work.distinct, j)[0].T, without_direction
        block = rows @ rows.T
        lower = np.tril_indices(len(block), -1)
        block[lower] = block.T[lower]
        return block, without_direction
    made = [_images_in_space(work, space, i, j) for space in work.spaces]
    (total, zero), *others = made
    for block, without in others:
        total += block
        zero = np.concatenate([zero, without])
    return total, zero


def _images_in_space(work: _Work, space: _Space, i: int, j: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """What one space adds to the similarities of two blocks of images, and the image of each row without direction."""
    a, a_groups, without = _whitened_images(work, space, i)
    if i == j:
        return chamfer_block(a, a_groups), without
    b, b_groups, _ = _whitened_images(work, space, j)
    return chamfer_block(a, a_groups, b, b_groups), without


def _exact_image(space: _Space, image: int) -> NDArray[np.float64]:
    """One image whitened in float64 by a call of its own: its bytes depend on its own values alone."""

    def make() -> NDArray[np.float64]:
        rows = space.reader.read(int(space.offsets[image]), int(space.offsets[image + 1]), _CACHE)
        return space.unit(rows)[0]

    made: NDArray[np.float64] = _CACHE.get((space.token, "exact", image), make, lambda made: int(made.nbytes))
    return made


def _exact_pairs(work: _Work, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    if len(work.spaces) == 1:
        (space,) = work.spaces
        return np.array([chamfer_pair(_exact_image(space, int(i)), _exact_image(space, int(j))) for i, j in pairs])
    images = [[[_exact_image(space, int(image)) for space in work.spaces] for image in pair] for pair in pairs]
    return np.array([chamfer_pair_of_spaces(a, b) for a, b in images])


class _Spread:
    """Mean, sd, minimum and maximum of the similarities i < j, streamed."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.square = 0.0
        self.low = np.inf
        self.high = -np.inf

    def add(self, values: NDArray[np.float64]) -> None:
        if values.size == 0:
            return
        count = self.count + values.size
        delta = float(values.mean()) - self.mean
        self.square += float(values.var()) * values.size + delta**2 * self.count * values.size / count
        self.mean += delta * values.size / count
        self.count = count
        self.low = min(self.low, float(values.min()))
        self.high = max(self.high, float(values.max()))

    def attributes(self) -> dict[Hashable, Any]:
        sd = float(np.sqrt(self.square / self.count))
        named = {"mean": self.mean, "sd": sd, "min": self.low, "max": self.high}
        return {f"similarity_{name}": round(float(value), DECIMALS) for name, value in named.items()}


def _open(run: str | Scheduler) -> AbstractContextManager[Scheduler]:
    return scheduler(run) if isinstance(run, str) else nullcontext(run)


def _counted(results: Iterator[Any], what: str, total: int, unit: str, progress: Progress) -> Iterator[Any]:
    with progress(what, total=total, unit=unit) as task:
        for result in results:
            yield result
            task.advance()


def _named(positions: NDArray[np.int64], ids: Sequence[str], kind: str, message: str) -> list[Problem]:
    found = [Problem(repr(ids[int(position)]), kind, message) for position in positions[:_SHOWN]]
    if len(positions) > _SHOWN:
        found.append(Problem("ids", kind, f"and {len(positions) - _SHOWN} more"))
    return found


def _neighbours(
    spaces: Sequence[tuple[Any, NDArray[np.int64]]],
    ids: list[str],
    job: _Job,
    ks: Sequence[int],
    *,
    eps: float,
    prenorm: str,
    run: str | Scheduler,
    progress: Progress | None,
) -> dict[int, xr.Dataset]:
    """Neighbours of items whose rows lie in one space or several: (rows, offsets of the items) of each."""
    n, item = len(ids), job.item
    ks = list(dict.fromkeys(ks))
    if not ks:
        raise UsageError("neighbours are looked for under one k or more")
    for k in ks:
        check_k(k, n)
    eps = check_eps(eps)
    norm = check_prenorm(prenorm)
    report = progress or SILENT
    # They name this job in the caches of the workers; nothing depends on them.
    tokens = [uuid.uuid4().hex for _ in spaces]
    fitted: list[_Space] = []
    try:
        with _open(run) as place:
            for suffix, token, (rows, offsets) in zip(SPACES, tokens, spaces, strict=False):
                reader = RowReader(rows, token)
                where = f"{item}s" if len(spaces) == 1 else f"{item}s in space {suffix}"
                whitening, digests = _fit(
                    reader, rows.shape, offsets, ids, job, eps, norm, token, place, report, where=where
                )
                directions = rows.shape[1] if whitening is None else whitening.matrix.shape[1]
                fitted.append(_Space(token, reader, whitening, offsets, directions))
            work, stands_for = _plan(tuple(fitted), job, digests)
            found, spread, zeros = _search(work, stands_for, ids, job, ks, place, report)
    finally:
        for token in tokens:
            _CACHE.drop(token)
    shapes = [rows.shape for rows, _ in spaces]
    whitenings = [space.whitening for space in fitted if space.whitening is not None]
    attributes: dict[Hashable, Any] = {}
    if whitenings:
        attributes |= {"eps": eps, "prenorm": norm, **_diagnostics(whitenings)}
    else:
        count, channels = sum(shape[0] for shape in shapes), sum(shape[1] for shape in shapes)
        attributes |= {"whitened": False, "rows": count, "channels": channels, "rows_over_channels": count / channels}
    attributes |= spread.attributes() | zeros
    if len(whitenings) > 1:
        for suffix, whitening in zip(SPACES, whitenings, strict=True):
            attributes.update({f"{suffix}_{name}": entry for name, entry in _diagnostics([whitening]).items()})
    return {
        k: _dataset(ids, index, value, whitenings, {"kind": job.kind, "k": k, **attributes})
        for k, (index, value) in zip(ks, found, strict=True)
    }


def _fit(
    reader: RowReader,
    shape: tuple[int, int],
    offsets: NDArray[np.int64],
    ids: list[str],
    job: _Job,
    eps: float,
    prenorm: Prenorm,
    token: str,
    place: Scheduler,
    progress: Progress,
    *,
    where: str,
) -> tuple[Whitening | None, list[bytes]]:
    """The whitening, None if there is to be none, and digests of the rows, where each is an item."""
    item = job.item
    shared = _Rows(token, reader, prenorm, digests=job.single, moments=job.whitened)
    spans = spans_of_rows(*shape)
    total: Moments | None = None
    digests: list[bytes] = []
    broken: list[NDArray[np.int64]] = []
    what = f"whitening of {where}" if job.whitened else f"reading {where}"
    for span in _counted(place.map(_read_span, shared, spans), what, len(spans), "spans", progress):
        digests += span.digests
        if span.not_finite.size:
            broken.append(span.not_finite)
        elif span.moments is not None:
            # In the order of the rows: the bytes of a sum depend on its order.
            total = span.moments if total is None else merge(total, span.moments)
    if broken:
        items = np.unique(np.searchsorted(offsets, np.concatenate(broken), side="right") - 1)
        raise InvalidDataError(
            f"Values that are not finite in {len(items)} {item}(s)",
            _named(items, ids, "not-finite", "holds NaN or Inf"),
        )
    if total is None:
        return None, digests
    return fit(total, eps, prenorm, where=where, option=f"--prenorm-{job.kind}"), digests


def _plan(spaces: tuple[_Space, ...], job: _Job, digests: list[bytes]) -> tuple[_Work, NDArray[np.int64]]:
    """The work, and for each item the number of the row that stands for it."""
    offsets: NDArray[np.int64] = sum((space.offsets for space in spaces[1:]), start=spaces[0].offsets)
    # Blocks are cut by the space that takes the most memory: those of the others are no larger, or hardly.
    largest = max(spaces, key=lambda space: int(space.offsets[-1]) * space.directions)
    directions = largest.directions
    if not job.single:
        stands_for = np.arange(len(offsets) - 1)
        distinct = None
        blocks = blocks_of_images(largest.offsets, directions)
    else:
        seen: dict[bytes, int] = {}
        stands_for = np.array([seen.setdefault(digest, len(seen)) for digest in digests], dtype=np.int64)
        distinct = np.unique(stands_for, return_index=True)[1].astype(np.int64)
        blocks = blocks_of_images(np.arange(len(distinct) + 1, dtype=np.int64), directions)
    return _Work(spaces, blocks, offsets, distinct), stands_for


def _search(
    work: _Work,
    stands_for: NDArray[np.int64],
    ids: list[str],
    job: _Job,
    ks: Sequence[int],
    place: Scheduler,
    progress: Progress,
) -> tuple[list[tuple[NDArray[np.int32], NDArray[np.float64]]], _Spread, dict[Hashable, Any]]:
    """Neighbours and similarities for each of ``ks``, the spread of all similarities, what is told of zero rows."""

    def exact_row(row: int, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        return _exact_pairs(work, np.column_stack([np.full(len(columns), row), columns]))

    images = work.distinct is None
    # Each k is fed the same blocks by itself: which near-ties are settled, and so the bytes, hangs on k.
    sieves = [Candidates(len(ids), k, window=WINDOW if images else 0.0, exact=exact_row) for k in ks]
    spread = _Spread()
    members = [np.flatnonzero((stands_for >= first) & (stands_for < last)) for first, last in work.blocks]
    inside = [stands_for[items] - first for items, (first, _) in zip(members, work.blocks, strict=True)]
    count = len(work.blocks)
    pairs = list(pairs_of_blocks(count))
    without: list[NDArray[np.int64]] = []
    zeros: dict[Hashable, Any] = {}
    results = _counted(
        place.map(_pair_of_blocks, work, pairs), f"similarity of {job.item}s", len(pairs), "blocks", progress
    )
    for done, ((i, j), (block, zero)) in enumerate(zip(pairs, results, strict=True)):
        if i == j:
            without.append(zero)
            if done == count - 1:
                zeros = _checked_directions(np.concatenate(without), np.diff(work.offsets), ids, job)
        full = block if images else block[np.ix_(inside[i], inside[j])]
        if i == j:
            np.fill_diagonal(full, np.nan)
            spread.add(full[np.triu_indices(len(full), 1)])
        else:
            spread.add(full.ravel())
            turned = np.ascontiguousarray(full.T)
            for sieve in sieves:
                sieve.add(members[j], members[i], turned)
        for sieve in sieves:
            sieve.add(members[i], members[j], full)
    return [sieve.finish(_settle(work, sieve.undecided(), place, progress)) for sieve in sieves], spread, zeros


def _checked_directions(
    without: NDArray[np.int64], sizes: NDArray[np.int64], ids: Sequence[str], job: _Job
) -> dict[Hashable, Any]:
    """What a graph tells of rows without a direction, given the item of each; items that cannot do with them are named.

    A whitened row always has one unless it is the mean itself, which is a flaw of the data; a raw patch of zeros is
    what a ReLU leaves of a patch in which it found nothing, and an item has others.
    """
    items, counts = np.unique(without, return_counts=True)
    if job.whitened:
        message = "has no direction after whitening (a row equal to the mean, or to zero)"
    elif job.single:
        message = "has no direction (a row of zeros)"
    else:
        lost = items[counts == sizes[items]]
        if not lost.size:
            return {"zero_rows": int(counts.sum()), "zero_items": len(items)} if items.size else {}
        items, message = lost, "has no direction (all of its patches are zero)"
    if items.size:
        raise InvalidDataError(
            f"{len(items)} {job.item}(s) cannot be compared", _named(items, ids, "zero-norm", message)
        )
    return {}


def _settle(
    work: _Work, undecided: list[tuple[int, NDArray[np.int64]]], place: Scheduler, progress: Progress
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.float64]]]:
    """Exact values of the near-ties; every unordered pair is scored once."""
    if not undecided:
        return
    n = np.int64(len(work.offsets))
    keys = [np.minimum(row, columns) * n + np.maximum(row, columns) for row, columns in undecided]
    wanted = np.unique(np.concatenate(keys))
    pairs = np.column_stack([wanted // n, wanted % n])
    tasks = [pairs[start : start + _PAIRS_A_TASK] for start in range(0, len(pairs), _PAIRS_A_TASK)]
    scored = np.concatenate(
        list(_counted(place.map(_exact_pairs, work, tasks), "near-ties", len(tasks), "batches", progress))
    )
    for (row, columns), key in zip(undecided, keys, strict=True):
        yield row, columns, scored[np.searchsorted(wanted, key)]


def _dataset(
    ids: list[str],
    index: NDArray[np.int32],
    value: NDArray[np.float64],
    fitted: Sequence[Whitening],
    attributes: dict[Hashable, Any],
) -> xr.Dataset:
    members: dict[Hashable, Any] = {
        "neighbours": (("item", "rank"), index),
        "similarity": (("item", "rank"), value),
    }
    if fitted:
        # The whole space is the direct sum of the spaces, and its spectrum all of theirs.
        eigenvalues = np.concatenate([whitening.eigenvalues for whitening in fitted])
        variance = np.concatenate([whitening.whitened_variance for whitening in fitted])
        falling = np.argsort(-eigenvalues, kind="stable") if len(fitted) > 1 else slice(None)
        members["eigenvalues"] = (("direction",), eigenvalues[falling])
        members["whitened_variance"] = (("direction",), variance[falling])
    return xr.Dataset(members, coords={"item": ("item", np.array(ids, dtype=object))}, attrs=attributes)


def _diagnostics(fitted: Sequence[Whitening]) -> dict[Hashable, Any]:
    """What a whitening, or those of several spaces together, did to the rows."""
    eps = fitted[0].eps
    kept = np.concatenate([whitening.kept for whitening in fitted])
    rows = sum(whitening.count for whitening in fitted)
    channels = sum(len(whitening.mean) for whitening in fitted)
    return {
        "rows": rows,
        "channels": channels,
        "directions": len(kept),
        "rows_over_channels": rows / channels,
        "share_below_eps": float(np.mean(kept < eps)),
        "variance_below_eps": float(kept[kept < eps].sum() / kept.sum()),
        "median_eigenvalue": float(np.median(kept)),
        # Σ λ/(λ+ε): directions that keep their weight. Near rows - 1, all rows are equally far from each other.
        "effective_directions": float((kept / (kept + eps)).sum()),
    }
