"""In whatever portions and order the same rows are imported, the panel is the same."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from optotype.store.panels import open_panel
from optotype.store.panels.importing import import_panel

COLUMNS = ["benchmark", "item_id", "model", "score", "modality", "response"]
CELLS = st.tuples(
    st.sampled_from("ab"), st.sampled_from("0123"), st.sampled_from("xyz"), st.sampled_from(["image", "blind"])
)
SCORES = st.tuples(st.sampled_from([0.0, 0.25, 1.0]), st.sampled_from(["", "A", "B", "?"]))


def truth(cells: dict[tuple[str, ...], tuple[float, str]]) -> pd.DataFrame:
    return pd.DataFrame(
        [(b, i, m, score, modality, response) for (b, i, m, modality), (score, response) in cells.items()],
        columns=COLUMNS,
    )


def take(folder: Path, rows: pd.DataFrame, number: int, items: Path | None = None) -> None:
    path = folder / f"{number}.csv"
    rows.to_csv(path, index=False)
    import_panel(folder / "panel", [path], items=items, invalid_response=r"\?")


def compare(shown: xr.Dataset, rows: pd.DataFrame) -> None:
    index = pd.MultiIndex.from_arrays([shown["benchmark"].to_numpy(), shown["item"].to_numpy()])
    assert set(index) == set(zip(rows["benchmark"], rows["item_id"], strict=True))
    for name, axis, modality in (("score", "model", "image"), ("blind", "blind_model", "blind")):
        part = rows[rows["modality"] == modality]
        assert (name in shown) == (name == "score" or len(part) > 0)
        if not len(part):
            continue
        assert shown[axis].to_numpy().tolist() == sorted(set(part["model"]))
        wanted = part.assign(score=part["score"].where(part["response"] != "?"))
        wanted = wanted.set_index(["model", "benchmark", "item_id"])["score"].unstack(["benchmark", "item_id"])  # noqa: PD010
        np.testing.assert_array_equal(
            shown[name].to_numpy(), wanted.reindex(index=shown[axis].to_numpy(), columns=index).to_numpy(np.float32)
        )


@settings(deadline=None, max_examples=40)
@given(st.dictionaries(CELLS, SCORES, min_size=1, max_size=40), st.integers(1, 4), st.randoms())
def test_any_split_gives_the_same_panel(cells: dict, portions: int, rng) -> None:
    rows = truth(cells)
    of = [rng.randrange(portions) for _ in range(len(rows))]
    order = rng.sample(range(len(rows)), len(rows))
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base)
        whole, parts = folder / "whole", folder / "parts"
        whole.mkdir()
        parts.mkdir()
        items = folder / "items.csv"
        listed = rows[["benchmark", "item_id"]].drop_duplicates().sample(frac=1, random_state=rng.randrange(1 << 30))
        listed.assign(answer=[f"a{place}" for place in range(len(listed))]).to_csv(items, index=False)
        take(whole, rows, 0, items)
        for portion in range(portions):
            here = [place for place in order if of[place] == portion]
            if here:
                take(parts, rows.iloc[here], portion, items)
        one, other = open_panel(whole / "panel"), open_panel(parts / "panel")
        compare(one, rows)
        xr.testing.assert_identical(one.drop_attrs().load(), other.drop_attrs().load())
        assert one.attrs["invalid"] == other.attrs["invalid"]
        assert one.attrs["invalid_blind"] == other.attrs["invalid_blind"]


class Imports(RuleBasedStateMachine):
    """Imports of some of the cells of one truth, repeats among them, against a plain dictionary."""

    @initialize(cells=st.dictionaries(CELLS, SCORES, min_size=4, max_size=30))
    def start(self, cells: dict) -> None:
        self.base = tempfile.TemporaryDirectory()
        self.folder = Path(self.base.name)
        self.cells, self.taken, self.number = cells, {}, 0
        self.parts: dict[str, bytes] = {}

    @rule(chosen=st.sets(st.integers(0, 29), min_size=1))
    def import_some(self, chosen: set[int]) -> None:
        keys = [key for place, key in enumerate(self.cells) if place in chosen]
        if keys:
            self.number += 1
            take(self.folder, truth({key: self.cells[key] for key in keys}), self.number)
            self.taken.update({key: self.cells[key] for key in keys})

    @invariant()
    def the_panel_is_what_was_imported(self) -> None:
        if not getattr(self, "taken", None):
            return
        compare(open_panel(self.folder / "panel"), truth(self.taken))
        files = {str(path): path.read_bytes() for path in (self.folder / "panel").glob("part-*/**/*") if path.is_file()}
        assert {name: files.get(name) for name in self.parts} == self.parts
        self.parts = files

    def teardown(self) -> None:
        if hasattr(self, "base"):
            self.base.cleanup()


Imports.TestCase.settings = settings(deadline=None, max_examples=15, stateful_step_count=6)
TestImports = Imports.TestCase
