"""Small made-up pairs and arrays for the alignment probes: images that say something about their captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from PIL import Image

from optotype.pipelines.emoji.probe.table import Pairs

__all__ = ["feature_array", "make_pairs", "state_array", "write_pairs_table"]


def make_pairs(groups: Mapping[str, int], *, texts: Sequence[str] = (), pixels: Sequence[str] = ()) -> Pairs:
    """Pairs with ids p000, p001, …, group after group; all different unless told otherwise."""
    names = [name for name, size in groups.items() for _ in range(size)]
    n = len(names)
    return Pairs(
        ids=tuple(f"p{i:03d}" for i in range(n)),
        texts=tuple(texts) or tuple(f"caption {i}" for i in range(n)),
        groups=tuple(names),
        images=tuple(f"images/p{i:03d}.png" for i in range(n)),
        pixels=tuple(pixels) or tuple(f"{i:064x}" for i in range(n)),
        digest="sha256:0",
    )


def _attrs(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "digest": f"sha256:{name}", **more}


def feature_array(
    pairs: Pairs, name: str, rows: np.ndarray, *, tokens: int = 2, seed: int = 0, **attrs: Any
) -> xr.Dataset:
    """Patch features whose mean token is ``rows`` (n, d) up to noise, as `open_features` gives them."""
    rng = np.random.default_rng(seed)
    patches = np.repeat(rows, tokens, axis=0) + rng.normal(scale=0.05, size=(len(rows) * tokens, rows.shape[1]))
    array = xr.Dataset(
        {"patches": (("token", "channel"), patches.astype(np.float32)), "row_size": ("image", [tokens] * len(rows))},
        coords={"image": ("image", np.array(pairs.ids, dtype=object))},
        attrs=_attrs(name, **attrs),
    )
    return array.chunk(token=37)


def state_array(pairs: Pairs, name: str, rows: np.ndarray) -> xr.Dataset:
    """Text states (n, d), as `open_states` gives them."""
    return xr.Dataset(
        {"states": (("text", "channel"), rows.astype(np.float32))},
        coords={"text": ("text", np.array(pairs.ids, dtype=object))},
        attrs=_attrs(name),
    ).chunk(text=50)


def write_pairs_table(folder: Path, ids: Sequence[str], groups: Sequence[str]) -> Path:
    """``pairs.csv`` with one 4 x 4 image each, all different."""
    (folder / "images").mkdir(parents=True)
    lines = ["id,image,text,group"]
    for number, (name, group) in enumerate(zip(ids, groups, strict=True)):
        Image.new("RGB", (4, 4), (number % 256, number // 256, 7)).save(folder / "images" / f"{name}.png")
        lines.append(f"{name},images/{name}.png,caption of {name},{group}")
    table = folder / "pairs.csv"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return table
