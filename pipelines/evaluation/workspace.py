"""The panel of an evaluation on local disk, so that every worker process reads the same bytes and none is sent them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.compression.scaled import unit_scale
from optotype.pipelines.compression.slices import Slices, slices
from optotype.pipelines.evaluation.splits import Split
from optotype.pipelines.selectors.pool import Pool
from optotype.pipelines.selectors.selector import Selection
from optotype.store.drafts import draft_file

__all__ = ["Workspace"]

_BLOCK = 1 << 22  # numbers read from the panel at a time
_CHUNK = 4096  # items of a chunk when a workspace is read as a panel


class Workspace:
    """A folder with one panel, its cleaned items and pools, and the plan of an evaluation; written by one process.

    Arrays lie there as ``.npy`` and are mapped, labels as Parquet and JSON: nothing is pickled.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._members: dict[tuple[str, int], NDArray[np.int64]] = {}
        # Of the split at hand: pools by category, and what was chosen of them (see the module `category`).
        self.side: tuple[str, tuple[int, ...]] | None = None
        self.pools: dict[int, Pool] = {}
        self.kept: dict[tuple[str, int], dict[tuple[Any, ...], Any]] = {}  # of a pool and category, for all splits
        self.selections: dict[tuple[int, str, int, int], Selection] = {}

    @classmethod
    @lru_cache(maxsize=1)
    def of(cls, folder: str) -> Workspace:
        """The workspace of a folder, opened once in a process."""
        return cls(Path(folder))

    @classmethod
    def write(
        cls, folder: Path, panel: xr.Dataset, plan: Mapping[str, Any], splits: Mapping[str, list[Split]]
    ) -> Workspace:
        """Write a panel, read block by block, and the plan.

        Parameters
        ----------
        folder : Path
            Exists and is empty.
        panel : Dataset
            As `optotype.store.panels.open_panel` gives it.
        plan : mapping
            JSON-ready parameters that the units of work read.
        splits : mapping
            Splits of each protocol.
        """
        import pandas as pd

        variables = {"score": np.float32, "response": np.uint32}
        for name, dtype in variables.items():
            if name in panel:
                _write_blocks(folder / f"{name}.npy", panel[name].data, np.dtype(dtype), axis=1)
        for dim in ("model", "item"):
            labels = {
                str(name): coord.to_numpy() for name, coord in panel.coords.items() if tuple(coord.dims) == (dim,)
            }
            pd.DataFrame(labels).to_parquet(folder / f"{dim}.parquet")
        document = {
            "plan": dict(plan),
            "attrs": {str(name): panel.attrs[name] for name in ("name", "digest") if name in panel.attrs},
            "splits": {
                protocol: [[s.name, list(s.build), list(s.held_out), s.seed] for s in found]
                for protocol, found in splits.items()
            },
        }
        (folder / "plan.json").write_text(json.dumps(document), encoding="utf-8")
        return cls(folder)

    def put(self, name: str, array: Any) -> None:
        """Keep one more array, of any number of rows; it takes its place in one step."""
        if hasattr(array, "__array__") and not isinstance(array, np.ndarray):
            _write_blocks(self.folder / f"{name}.npy", array, np.dtype(np.float32), axis=0)
            return
        with draft_file(self.folder / f"{name}.npy") as file:
            np.save(file, np.ascontiguousarray(array), allow_pickle=False)

    def put_note(self, name: str, value: Any) -> None:
        """Keep a JSON-ready value that becomes known while the work goes on."""
        with draft_file(self.folder / f"{name}.json") as file:
            file.write(json.dumps(value).encode())

    def note(self, name: str) -> Any:
        """A value of `put_note`."""
        return json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))

    def has(self, name: str) -> bool:
        """Whether an array of this name was kept."""
        return (self.folder / f"{name}.npy").is_file()

    def get(self, name: str) -> NDArray[Any]:
        """An array that was kept, mapped into memory."""
        array: NDArray[Any] = np.load(self.folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        return array

    @cached_property
    def _document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.folder / "plan.json").read_text(encoding="utf-8"))
        return document

    @cached_property
    def slices(self) -> Slices:
        """Slices of the panel by the column of the plan."""
        return slices(self.panel, self.plan["category_by"])

    def members(self, pool: str, category: int) -> NDArray[np.int64]:
        """Items of a category in a pool (the name of an array (items,) bool), as positions in the panel, ascending."""
        key = (pool, category)
        if key not in self._members:
            inside = self.get(pool) & (self.slices.category_of_item == category)
            self._members[key] = np.flatnonzero(inside)
        return self._members[key]

    @property
    def plan(self) -> dict[str, Any]:
        """The parameters."""
        plan: dict[str, Any] = self._document["plan"]
        return plan

    def split(self, protocol: str, name: str) -> Split:
        """A split by the name that it has within its protocol."""
        for found, build, held_out, seed in self._document["splits"][protocol]:
            if found == name:
                return Split(found, tuple(build), tuple(held_out), seed)
        raise KeyError((protocol, name))

    @cached_property
    def panel(self) -> xr.Dataset:
        """The panel as `open_panel` gives one; scores are mapped and chunked along the items."""
        import dask.array as da
        import pandas as pd

        coords: dict[str, Any] = {}
        for dim in ("model", "item"):
            for name, column in pd.read_parquet(self.folder / f"{dim}.parquet").items():
                numeric = pd.api.types.is_numeric_dtype(column)
                coords[str(name)] = (dim, column.to_numpy() if numeric else column.to_numpy(dtype=object))
        data = {
            name: (("model", "item"), da.from_array(self.get(name), chunks=(-1, _CHUNK)))
            for name in ("score", "response")
            if self.has(name)
        }
        return xr.Dataset(data, coords=coords, attrs=self._document["attrs"])

    @cached_property
    def labels(self) -> dict[str, NDArray[Any]]:
        """Coordinates of the items that selectors read."""
        names = ("benchmark", "item", "scoring", "scale_min", "scale_max")
        return {name: self.panel[name].to_numpy() for name in names if name in self.panel.coords}

    def scores(self, models: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.float64]:
        """Scaled scores of some models on some items, (models, items) float64, NaN where missing."""
        raw = np.asarray(self.get("score")[:, index][models], dtype=np.float64)
        low, high = self.labels["scale_min"][index], self.labels["scale_max"][index]
        return np.asarray(unit_scale(raw, low, high), dtype=np.float64)

    def responses(self, models: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.uint32] | None:
        """Digests of the answers of some models on some items, or None if the panel has none."""
        return np.asarray(self.get("response")[:, index][models]) if self.has("response") else None


def _write_blocks(path: Path, source: Any, dtype: np.dtype[Any], axis: int) -> None:
    """Copy a lazy two-dimensional array to a ``.npy`` file, a block of its long axis at a time."""
    target = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=tuple(source.shape))
    step = max(1, _BLOCK // max(1, source.shape[1 - axis]))
    for start in range(0, source.shape[axis], step):
        part = (slice(None),) * axis + (slice(start, start + step),)
        block = source[part]
        # The other axis is whole, and the caller's scheduler is not asked: its workers may be processes.
        target[part] = np.asarray(block.compute(scheduler="threads") if hasattr(block, "compute") else block)
    target.flush()
