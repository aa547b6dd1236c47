"""The default project from end to end, with real weights, at n = 64: what `make repro` runs at n = 400."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from optotype.store.panels import open_panel

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
N = 64
K = 16

pytestmark = [pytest.mark.real, pytest.mark.slow]


class Default:
    """A copy of the default project in a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        wheels = os.environ.get("OPTOTYPE_WHEELS", str(ROOT / ".optotype" / "cache" / "wheels"))
        self.environment = {
            **os.environ,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "OPTOTYPE_WHEELS": wheels,
            "DVC_NO_ANALYTICS": "1",
            "DVC_SITE_CACHE_DIR": str(root.parent / "site"),
            "DVC_GLOBAL_CONFIG_DIR": str(root.parent / "global"),
            "DVC_SYSTEM_CONFIG_DIR": str(root.parent / "system"),
        }
        root.mkdir(parents=True)
        for name in ("dvc.yaml", "params.yaml", ".dvcignore"):
            shutil.copy2(ROOT / name, root / name)
        for name in ("pipelines", "registry", "schemas", "store"):  # stages depend on the code that they run
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        self.run("optotype", "init", "--no-scm", ".")
        params = self.params()
        params["pairs"]["n"] = N
        params["ranking"].update(k=K, null=200, bootstrap=200)
        params["probe"].update(min_items=4, bootstrap=200)
        params["compression"].update(k=1, floor=4)
        params["retrieval"].update(bootstrap=100)
        self.write(params)

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command, cwd=self.root, env=self.environment, capture_output=True, text=True, check=False, timeout=900
        )
        assert not check or done.returncode == 0, f"{command}\n{done.stdout[-8000:]}\n{done.stderr[-8000:]}"
        return done

    def params(self) -> dict[str, Any]:
        return yaml.safe_load((self.root / "params.yaml").read_text())

    def write(self, params: dict[str, Any]) -> None:
        (self.root / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))

    def repro(self) -> list[str]:
        """Runs `dvc repro`; the names of the stages that it ran."""
        done = self.run("dvc", "repro")
        return [line.split("'")[1] for line in done.stdout.splitlines() if line.startswith("Running stage ")]

    def digests(self) -> dict[str, str]:
        """Digest of every output, by path, as DVC wrote it down."""
        lock = yaml.safe_load((self.root / "dvc.lock").read_text())
        return {out["path"]: out["md5"] for stage in lock["stages"].values() for out in stage.get("outs", [])}

    def ranking(self) -> list[dict[str, Any]]:
        return json.loads((self.root / "data" / "ranking" / "ranking.json").read_text())["rows"]


@pytest.fixture(scope="module")
def default(tmp_path_factory: pytest.TempPathFactory) -> Default:
    project = Default(tmp_path_factory.mktemp("default") / "project")
    fetched = project.run(
        "optotype", "emoji", "model", "mobilenet-v2", "--out", "data/models/mobilenet-v2", check=False
    )
    if fetched.returncode == 10 and "CI" not in os.environ:
        pytest.skip(f"the weights could not be fetched: {fetched.stderr.strip().splitlines()[-1]}")
    stages = project.repro()
    assert len(stages) == len(set(stages)) > 20
    return project


def test_ranks_every_encoder_for_every_language_model(default: Default) -> None:
    rows = default.ranking()
    encoders = {row["encoder"] for row in rows}
    assert len(encoders) == 8
    assert {"vit-s14-focus-l8", "vit-s14-focus-l10", "vit-s14-focus-l12", "random-vit"} < encoders
    assert {row["model"] for row in rows} == {"minilm-l6", "smollm2-135m"}
    assert len(rows) == 8 * 2 * 4  # every choice of prenorm
    for row in rows:
        assert (row["n"], row["k"], row["metric"]) == (N, K, "ravel")
        assert row["chance"] == pytest.approx(K / (N - 1))
        assert 0 <= row["score"] <= 1
        assert row["null"]["repeats"] == 200
        assert row["features_dtype"] == "float16"


def test_null_agrees_with_chance(default: Default) -> None:
    for row in default.ranking():
        assert abs(row["null"]["mean"] - row["chance"]) < 0.01


def test_report_and_its_numbers_are_written(default: Default) -> None:
    page = (default.root / "reports" / "ranking.html").read_text()
    numbers = json.loads((default.root / "reports" / "ranking.json").read_text())
    assert "vit-s14-focus-l10" in page
    assert "http-equiv" not in page or "refresh" not in page
    assert numbers["format_version"] == 1


def test_metrics_and_plots_are_shown(default: Default) -> None:
    metrics = json.loads(default.run("dvc", "metrics", "show", "--json").stdout)
    (files,) = [revision["data"] for revision in metrics.values()]
    shown = {Path(name).parent.name: file["data"] for name, file in files.items()}
    assert set(shown) == {"ranking", "probe", "suite", "blind-pairs", "retrieval"}
    assert set(shown["ranking"]) == {"minilm-l6", "smollm2-135m"}
    assert set(shown["suite"]) == {"stage_0", "stage_1", "stage_2", "stage_3"}
    default.run("dvc", "plots", "show", "--out", "plots")
    page = (default.root / "plots" / "index.html").read_text()
    assert "random-vit x minilm-l6" in page


def test_probes_become_a_panel_and_a_suite(default: Default) -> None:
    panel = open_panel(default.root / "data" / "scores" / "emoji")
    assert panel.sizes["model"] == 8 * 2 * 2  # encoders, language models, kinds of map
    assert {"random-vit/minilm-l6/ridge", "vit-s14-focus-l10/smollm2-135m/contrastive"} < set(panel["model"].values)
    assert panel.sizes["blind_model"] >= 4
    assert np.isfinite(panel["score"].values).all()
    kept = pd.read_parquet(default.root / "data" / "suite" / "items.parquet")
    assert 0 < len(kept) < panel.sizes["item"]
    assert kept["cell"].notna().any()
    known = set(zip(panel["benchmark"].values, panel["item"].values, strict=True))
    assert set(zip(kept["benchmark"], kept["item_id"], strict=True)) < known
    assert (default.root / "data" / "frontier" / "items.parquet").is_file()
    assert "random-vit" in (default.root / "reports" / "compression.html").read_text()


def test_emoji_are_found_by_name_in_five_languages(default: Default) -> None:
    rows = json.loads((default.root / "data" / "retrieval" / "retrieval.json").read_text())["rows"]
    assert len(rows) == 8 * 2 * 2 * 2 * 2 * 5  # encoders, language models, styles fitted on, styles, tasks, languages
    assert {row["language"] for row in rows} == {"en", "de", "es", "fr", "it"}
    for row in rows:
        p1 = row["p1"]
        assert 0 <= p1["pessimistic"] <= p1["expected"] <= p1["optimistic"] <= 100
    assert "French" in (default.root / "reports" / "retrieval.html").read_text()


def test_again_runs_nothing(default: Default) -> None:
    assert default.repro() == []


def test_another_eps_encodes_nothing(default: Default) -> None:
    before, params = default.digests(), default.params()
    changed = default.params()
    changed["ranking"]["eps"] = 2e-4
    default.write(changed)
    stages = default.repro()
    assert {stage.split("@")[0] for stage in stages} == {"neighbours", "neighbours-texts", "ranking", "report"}
    assert all(row["eps"] == 2e-4 for row in default.ranking())
    default.write(params)
    default.repro()
    assert default.digests() == before


def test_one_more_encoder_runs_its_own_stages(default: Default) -> None:
    params = default.params()
    more = {**params["encoders"]["random-vit"]}
    more["options"] = {**more["options"], "layers": 6}
    changed = {**params, "encoders": {**params["encoders"], "random-vit-half": more}}
    default.write(changed)
    stages = default.repro()
    own = ["features@random-vit-half", "neighbours@random-vit-half"]
    after = ["blind-pairs", "compress", "compression-report", "frontier", "panel", "probe", "ranking", "report"]
    after += ["retrieval", "retrieval-report"]
    assert sorted(stages) == sorted(own + after)
    assert "random-vit-half" in {row["encoder"] for row in default.ranking()}
    default.write(params)
    default.repro()
