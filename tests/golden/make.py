"""Writes the golden arrays of the current format: `python tests/golden/make.py FOLDER`.

Run once when a format changes, into a new folder (`v2`); folders that are there are never written again.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr

from optotype.store.embeddings import write_embeddings
from optotype.store.features import write_features
from optotype.store.neighbours import write_neighbours
from optotype.store.panels.importing import import_panel
from optotype.store.states import write_states
from optotype.store.tasks.rows import TaskRows
from optotype.store.tasks.writing import write_tasks

IDS = ("1f600", "a b", "ä", "猫")
ROW_SIZE = (2, 1, 3, 1)


SCORES = (  # two imports, two parts
    "benchmark,item_id,model,score,modality,response\n猫,ä,m1,2.5,image,(A)\n猫,b,m1,,image,\nmmvp,1,m1,1,image,\n",
    "benchmark,item_id,model,score,modality\n猫,ä,m2,10,image\nmmvp,1,m2,0,image\nmmvp,1,m1,1,blind\n",
)


def patches() -> np.ndarray:
    """Seven tokens of three channels: multiples of 1/4, exact in float16."""
    return (np.arange(21, dtype=np.float64).reshape(7, 3) - 10) / 4


def tasks() -> TaskRows:
    """Three queries: two languages, a shared list and one of its own, a graded and a doubled truth."""
    rows = TaskRows()
    cat = rows.add_candidate("c1", target="猫", item="ä", text="猫")
    other = rows.add_candidate("c2", target="c2")
    image = rows.add_candidate("c3", target="b.png", embedding="c2", image="b.png")
    shared = rows.add_list([cat, other])
    rows.add_query("q1", task="i2t", language="it", of_list=shared, relevant={cat: 1.0}, item="ä", text="who?")
    rows.add_query("q2", task="i2t", language="en", of_list=shared, relevant={other: 2.0}, image="b.png")
    own = rows.add_list([image, cat])
    rows.add_query("q3", task="vqa", language="en", of_list=own, relevant={cat: 1.0, image: 1.0}, embedding="猫")
    return rows


def main(folder: Path) -> None:
    """Write one array of each kind."""
    write_features(
        folder / "features" / "tiny",
        ids=IDS,
        row_size=np.array(ROW_SIZE),
        blocks=[patches()],
        dtype="float16",
        inputs={"operation": "golden"},
        attrs={"layer": "final"},
    )
    write_states(
        folder / "states" / "tiny", ids=IDS, blocks=[patches()[:4]], dtype="float32", inputs={"operation": "golden"}
    )
    graph = xr.Dataset(
        {
            "neighbours": (("item", "rank"), np.array([[1, 2], [0, 2], [3, 0], [2, 1]], dtype=np.int32)),
            "similarity": (("item", "rank"), np.array([[0.5, 0.25], [0.5, 0.125], [1.0, 0.25], [1.0, 0.0]])),
            "eigenvalues": (("direction",), np.array([2.0, 1.0, 0.0])),
            "whitened_variance": (("direction",), np.array([1.0, 0.5, 0.0])),
        },
        coords={"item": ("item", np.array(IDS, dtype=object))},
        attrs={"kind": "features", "k": 2, "eps": 1e-4, "prenorm": "none"},
    )
    write_neighbours(folder / "neighbours" / "tiny", graph, inputs={"operation": "golden"})
    write_embeddings(
        folder / "embeddings" / "tiny",
        benchmark=["mmvp", "mmvp", "猫"],
        item=["1", "2", "ä"],
        text=patches()[:3].astype(np.float32),
        vision_text=np.vstack([patches()[3:5], [[np.nan] * 3]]).astype(np.float32),
        inputs={"operation": "golden"},
    )
    write_tasks(folder / "tasks" / "tiny", tasks(), inputs={"operation": "golden"})
    with tempfile.TemporaryDirectory() as tables:
        for number, text in enumerate(SCORES):
            (Path(tables) / f"{number}.csv").write_text(text, encoding="utf-8")
            import_panel(folder / "scores" / "tiny", [Path(tables) / f"{number}.csv"], scales={"猫": (0.0, 10.0)})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
