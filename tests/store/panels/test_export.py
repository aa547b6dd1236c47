"""What is exported imports as the same panel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from optotype.schemas.errors import ConflictError, UsageError
from optotype.store.panels import open_panel
from optotype.store.panels.export import export_files, write_panel_files
from optotype.store.panels.importing import import_panel
from optotype.store.panels.parts import open_parts
from optotype.store.panels.summary import benchmark_means


@pytest.fixture
def panel(tmp_path: Path) -> Path:
    """Graded, on a scale of its own, with responses, invalid records, blind runs, two parts and labels."""
    rng = np.random.default_rng(3)
    rows = []
    for place in range(60):
        for model in range(4):
            if rng.random() < 0.7:
                low = -1 if place < 20 else 0
                rows.append(
                    (
                        f"b{place // 20}",
                        f"{place:03d}",
                        f"m{model}",
                        round(rng.uniform(low, 1), 2),
                        "(Z)" if rng.random() < 0.1 else f"r{model}",
                    )
                )
    frame = pd.DataFrame(rows, columns=["benchmark", "item_id", "model", "score", "response"])
    frame[::2].to_csv(tmp_path / "1.csv", index=False)
    frame.to_csv(tmp_path / "2.csv", index=False)
    frame.assign(score=0.1)[["benchmark", "item_id", "model", "score"]].to_csv(tmp_path / "blind.csv", index=False)
    items = frame[["benchmark", "item_id"]].drop_duplicates().assign(category='a,"b"\nc', note="é")
    items[::-1].to_csv(tmp_path / "items.csv", index=False)
    pd.DataFrame({"model": ["m1", "m2"], "family": ["f", ""], "note": ["x", ""]}).to_csv(
        tmp_path / "models.csv", index=False
    )
    folder = tmp_path / "panel"
    options = {"scales": {"b0": (-1.0, 1.0)}, "invalid_response": "Z"}
    import_panel(folder, [tmp_path / "1.csv"], **options)
    import_panel(folder, [tmp_path / "2.csv"], items=tmp_path / "items.csv", blind=[tmp_path / "blind.csv"], **options)
    models = pd.DataFrame(
        {"model": [f"m{i}" for i in range(4)], "family": ["f", "", "g", ""], "note": ["x", "", "", ""]}
    )
    models.to_csv(tmp_path / "models.csv", index=False)
    import_panel(folder, [tmp_path / "2.csv"], models=tmp_path / "models.csv", **options)
    assert len(open_parts(folder).parts) == 3
    return folder


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_tables_import_as_the_same_panel(kind: str, panel: Path, tmp_path: Path) -> None:
    target = tmp_path / f"out.{kind}"
    rows = write_panel_files(panel, target, kind)
    files = export_files(target, kind)
    first = [path.read_bytes() for path in files]
    write_panel_files(panel, target, kind)
    assert [path.read_bytes() for path in files] == first
    row = import_panel(tmp_path / "again", [files[0]], items=files[1], models=files[2])
    assert row["repeats"] == row["blank_rows"] == 0
    assert (
        row["scores"] + row["blind_scores"] + sum(sum(t.values()) for b in row["invalid"].values() for t in b.values())
        == rows
    )
    old, new = open_panel(panel), open_panel(tmp_path / "again")
    assert new.attrs["invalid"] == old.attrs["invalid"] != "{}"
    xr.testing.assert_identical(new.drop_attrs().load(), old.drop_attrs().load())


def test_a_group_shows_what_open_panel_shows(panel: Path, tmp_path: Path) -> None:
    write_panel_files(panel, tmp_path / "out.zarr", "zarr")
    group = xr.open_zarr(tmp_path / "out.zarr").load()
    shown = open_panel(panel).load()
    assert set(group.coords) == set(shown.coords)
    for name in shown.variables:
        if shown[name].dtype == object:
            assert group[name].to_numpy().tolist() == shown[name].to_numpy().tolist()
        else:
            np.testing.assert_array_equal(group[name].to_numpy(), shown[name].to_numpy())
    assert group["score"].dims == ("model", "item")
    assert group.attrs["digest"] == shown.attrs["digest"]


def test_means_are_scaled_and_of_all_scores(panel: Path) -> None:
    shown = open_panel(panel).load()
    for matrix in ("score", "blind"):
        means = benchmark_means(open_parts(panel), matrix)
        for name in ("b0", "b1", "b2"):
            values = shown[matrix].to_numpy()[:, shown["benchmark"].to_numpy() == name].astype(np.float64)
            low = -1 if name == "b0" else 0
            assert means[name] == pytest.approx((np.nanmean(values) - low) / (1 - low), abs=1e-12)


def test_targets_that_cannot_be(panel: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="parquet, csv, zarr"):
        export_files(tmp_path / "x.npz", "npz")
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(ConflictError, match="folder"):
        write_panel_files(panel, tmp_path / "x.csv", "csv")
