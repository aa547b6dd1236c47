"""Units of work are computed once, found again, and come back in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optotype.pipelines.evaluation.units import Unit, code_digest, run_units
from optotype.pipelines.progress import SILENT
from optotype.schemas.errors import FormatError

_UNITS = [Unit("held-out", f"{n:02d}", "digest", 0.1 * (n + 1), "random") for n in range(6)]


def work(shared: str, unit: Unit) -> dict[str, Any]:
    """Leave a mark for each call; stop at the unit that the folder names."""
    folder = Path(shared)
    (folder / f"{unit.split}.{len(list(folder.glob(unit.split + '.*')))}").touch()
    if (folder / "stop").exists() and (folder / "stop").read_text() == unit.split:
        raise KeyboardInterrupt
    return {"rows": [{"split": unit.split, "third": 1 / 3, "none": None}]}


def _run(tmp_path: Path, *, key: str = "k", cache: bool = True) -> list[tuple[Unit, dict[str, Any]]]:
    marks = tmp_path / "marks"
    marks.mkdir(exist_ok=True)
    return list(
        run_units(
            _UNITS,
            work,
            str(marks),
            key=key,
            cache=tmp_path / "cache" if cache else None,
            workers=1,
            progress=SILENT,
            title="units",
        )
    )


def _calls(tmp_path: Path) -> int:
    return len(list((tmp_path / "marks").glob("*.*")))


def test_results_come_in_order_and_are_computed_once(tmp_path: Path) -> None:
    first = _run(tmp_path)
    assert [unit for unit, _ in first] == _UNITS
    assert [result["rows"][0]["split"] for _, result in first] == [unit.split for unit in _UNITS]
    assert _calls(tmp_path) == 6
    assert _run(tmp_path) == first
    assert _calls(tmp_path) == 6


def test_other_inputs_are_other_units(tmp_path: Path) -> None:
    _run(tmp_path)
    _run(tmp_path, key="other")
    assert _calls(tmp_path) == 12
    _run(tmp_path, cache=False)
    assert _calls(tmp_path) == 18


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    (tmp_path / "marks").mkdir()
    (tmp_path / "marks" / "stop").write_text("03")
    with pytest.raises(KeyboardInterrupt):
        _run(tmp_path)
    assert len(list((tmp_path / "cache").glob("*.json"))) == 3
    (tmp_path / "marks" / "stop").unlink()
    resumed = _run(tmp_path)
    assert _calls(tmp_path) == 4 + 3
    (tmp_path / "fresh").mkdir()
    assert resumed == _run(tmp_path / "fresh")


def test_a_result_that_is_damaged_is_an_error_that_names_it(tmp_path: Path) -> None:
    _run(tmp_path)
    path = sorted((tmp_path / "cache").glob("*.json"))[2]
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "format_version": 99}))
    with pytest.raises(FormatError, match=path.name):
        _run(tmp_path)
    path.write_text("{")
    with pytest.raises(FormatError, match=path.name):
        _run(tmp_path)


def test_code_digest_is_one_sha256() -> None:
    assert len(code_digest()) == 64
    assert code_digest() == code_digest()
