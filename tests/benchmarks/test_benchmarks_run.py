"""Every benchmark runs, at a size at which its figures mean nothing, and finds what its references find."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import chamfer, compression, pair_mining, retrieval, subsets

ROOT = Path(__file__).resolve().parents[2]
SIZES = chamfer.Sizes(
    n=24, patches=256, channels=16, k=4, runs=2, tiles_a_run=1, cube=64, products=1, stacks=9, rounds=1, most_rounds=1
)


def named_in_the_page(heading: str) -> set[str]:
    """Fields that a section of the page of figures names."""
    text = (ROOT / "benchmarks" / "README.md").read_text()
    section = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")]
    return {word for row in rows for word in row.split("`")[1::2]}


def test_every_benchmark_is_run_here() -> None:
    run = {module.__name__.split(".")[1] for module in (chamfer, compression, pair_mining, retrieval, subsets)}
    assert {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - {"__init__"} == run


def test_chamfer() -> None:
    result = json.loads(json.dumps(chamfer.measure(SIZES)))
    assert result["top_k_equal_to_float64_loop"] == {"fixed": True, "ragged": True}
    assert result["largest_difference_to_fast_maxsim"] < 1e-5
    assert result["rounds"] == 1
    assert result["case"] == {"n": 24, "patches": 256, "channels": 16, "k": 4, "tiles": 2, "seed": 1}
    assert min(result["peak_mb"], result["peak_mb_twice_n"]) > 0
    fields = named_in_the_page("All-pairs Chamfer similarity")
    assert len(fields) >= 5
    assert fields <= set(result)
    assert [line.split()[0] for line in chamfer.lines(result)] == [
        "fraction_of_sgemm",
        "ragged_fraction_of_sgemm",
        "speedup_vs_loop",
        "speedup_vs_fast_maxsim",
        "peak_mb",
    ]


def test_chamfer_memory_is_that_of_every_block_and_a_few_pairs() -> None:
    # Four blocks, of 1,024 images at most, are ten pairs of blocks.
    assert chamfer.search_some(3 * 1024 + 2, 1, 4, 5) == 4 + chamfer.MEMORY_PAIRS


def test_chamfer_memory_of_few_images_is_that_of_the_whole_job(capsys: pytest.CaptureFixture[str]) -> None:
    assert chamfer.search_some(6, 4, 4, 100) == 1
    chamfer.main(["--memory", "4"])
    assert float(capsys.readouterr().out) > 0


def test_pair_mining() -> None:
    result = json.loads(json.dumps(pair_mining.measure(2100, 2, channels=32, cube=64, products=1)))
    assert result["equal_to_float64_product"]
    assert result["found"] > 0
    assert result["case"] == {"n": 2100, "channels": 32, "above": 0.95, "below": 0.6}
    first = [line.split()[0] for line in pair_mining.lines(result)][:3]
    assert first == ["fraction_of_sgemm", "fraction_with_pooling", "peak_mb"]


def test_retrieval() -> None:
    result = json.loads(json.dumps(retrieval.measure(2100, 512, 20, 2, cube=64, products=1)))
    assert result["equal_to_float64_products"]
    assert 0 < result["p_at_1"]["expected"] < 100
    assert result["distinct_candidates"] == 2100 - 20  # one in a hundred has the target of the one before
    assert [line.split()[0] for line in retrieval.lines(result)] == [
        "fraction_of_sgemm",
        "fraction_without_reading",
        "peak_mb",
        "memory_of_ids_mb",
        "array_mb",
    ]


def test_subsets() -> None:
    result = json.loads(json.dumps(subsets.measure([(12, 8), (9, 6)], k=3, sample=20)))
    assert [row["subsets"] for row in result["cases"]] == [56, 20]
    assert all(row["largest_difference_to_loop"] < 1e-12 for row in result["cases"])


@pytest.mark.parametrize("job", compression.JOBS)
def test_compression(job: str) -> None:
    result = compression.run(job, 1500, 4, 40)
    assert result["job"] == job
    if job != "read":
        assert 0 < result["items_out"] <= result["items_in"] <= 1500


def test_compression_in_a_process_of_its_own() -> None:
    (row,) = compression.measure(100, 4, ["read"])
    assert set(row) == {"job", "seconds", "cpu_seconds", "peak_mb"}
