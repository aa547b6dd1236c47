"""Results on a suite read back and placed: by hand, through the harnesses' forms, and on real models held out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from payloads import make_suite

from optotype.registry.artifacts.publish import publish
from optotype.registry.compressions import compress
from optotype.registry.exporters.exporter import export
from optotype.registry.panels import import_scores
from optotype.registry.pins.pin import pin
from optotype.registry.pins.pull import pull
from optotype.registry.placement import place
from optotype.schemas.errors import IntegrityError, InvalidDataError, NotFoundError, UsageError
from optotype.store.panels import open_panel
from optotype.store.project import Project


def _project(folder: Path) -> Project:
    (folder / ".optotype").mkdir(parents=True)
    (folder / ".optotype" / "project.json").write_text('{"format_version": 1}\n', encoding="utf-8")
    return Project.find(folder)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A panel ``mini`` of 14 models with a suite made of it, and ``all.csv`` with every score."""
    project = _project(tmp_path / "project")
    random = np.random.default_rng(0)
    ability = np.linspace(-1.5, 1.5, 14)
    rows = [
        {"benchmark": benchmark, "item_id": f"{i:03d}", "model": f"m{m:02d}", "score": 10.0 * float(right)}
        for benchmark, size in (("one", 30), ("two", 25))
        for i in range(size)
        for m, right in enumerate(random.random(14) < 1 / (1 + np.exp(-(ability - random.normal()))))
    ]
    pd.DataFrame(rows).to_csv(project.root / "all.csv", index=False)
    scales = {"one": (0.0, 10.0), "two": (0.0, 10.0)}
    import_scores(project, "mini", [project.root / "all.csv"], scales=scales, track=False)
    compress("mini", project=project, retention=0.3, floor=0, k=2, out=project.root / "suite")
    monkeypatch.chdir(project.root)
    return project


def _results(project: Project, model: str, name: str = "new") -> pd.DataFrame:
    """What a model of the panel said on the suite, under another name."""
    scores = pd.read_csv(project.root / "all.csv", dtype={"item_id": str})
    suite = pd.read_parquet(project.root / "suite" / "items.parquet")[["benchmark", "item_id"]]
    found = scores[scores["model"] == model].merge(suite, on=["benchmark", "item_id"])
    return found.assign(model=name)


def _only(document: dict[str, Any]) -> dict[str, Any]:
    (row,) = document["models"]
    return dict(row)


def test_a_model_of_the_panel_comes_out_where_it_is(project: Project) -> None:
    _results(project, "m09", "m09").to_csv("r.csv", index=False)
    document = place("suite", ["r.csv"], project=project)
    row = _only(document)
    assert document["panel"]["name"] == "mini"
    assert "m09 is in the panel" in " ".join(document["notes"])
    assert (row["answered"], row["missing"], row["among"]) == (row["items"], 0, 14)
    kept = pd.read_csv("suite/models.csv").set_index("model")
    assert row["score"] == pytest.approx(kept.loc["m09", "score_compressed"], abs=1e-9)
    assert row["rank"] == kept.loc["m09", "rank_compressed"]
    assert row["estimate"]["low"] <= row["estimate"]["value"] <= row["estimate"]["high"]
    assert row["estimate"]["models"] == 13
    assert json.loads(json.dumps(document, allow_nan=False)) == document | {
        "models": [
            {**row, "full_ranks": list(row["full_ranks"]), "left_out": [], "categories": list(row["categories"])}
        ]
    }


def test_without_the_panel_the_scores_that_the_suite_keeps_serve(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = _results(project, "m09", "m09").assign(score=lambda table: table["score"] / 10)
    (tmp_path / "elsewhere").mkdir()
    results.to_csv(tmp_path / "elsewhere" / "r.csv", index=False)
    _results(project, "m09", "m09").to_csv("r.csv", index=False)
    here = _only(place("suite", ["r.csv"]))
    monkeypatch.chdir(tmp_path / "elsewhere")
    document = place("../project/suite", ["r.csv"])
    row = _only(document)
    assert document["panel"] is None
    for name in ("value", "low", "high", "error"):
        assert row["estimate"][name] == pytest.approx(here["estimate"][name], abs=1e-9)
    assert (row["rank"], row["full_rank"]) == (here["rank"], here["full_rank"])
    assert all(each["estimate"] is None for each in row["categories"])


def test_without_the_panel_a_partial_result_is_not_estimated(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = _results(project, "m09").assign(score=lambda table: table["score"] / 10)
    monkeypatch.chdir(tmp_path)
    for answered in (1, len(results) - 1):
        results.iloc[:answered].to_csv("r.csv", index=False)
        row = _only(place("project/suite", ["r.csv"]))
        assert (row["answered"], row["missing"]) == (answered, len(results) - answered)
        assert row["score"] is not None
        assert [row[name] for name in ("estimate", "rank", "full_rank", "full_ranks")] == [None] * 4
        assert f"{len(results) - answered} of {len(results)} items have no score" in row["reason"]
        assert "--panel" in row["reason"]
    results.to_csv("r.csv", index=False)
    assert _only(place("project/suite", ["r.csv"]))["estimate"] is not None


def test_a_pinned_panel_is_found_by_digest_and_by_name(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _results(project, "m09").iloc[1:].to_csv(tmp_path / "r.csv", index=False)
    wanted = place("suite", [tmp_path / "r.csv"])
    publish("scores", "board@0.1.0", project.root / "data/scores/mini", root=project.root)
    publish("suite", "small@0.1.0", project.root / "suite", root=project.root)
    monkeypatch.setenv("OPTOTYPE_CACHE", str(tmp_path / "cache"))
    here = tmp_path / "down"
    here.mkdir()
    monkeypatch.chdir(here)
    for name in ("scores/board", "suite/small"):
        pin(f"{name}@0.1.0", project.root)
    pull(["suite/small"])
    with pytest.raises(InvalidDataError, match="between 0 and 1") as error:  # scales are the panel's
        place("small", ["../r.csv"])
    assert "optotype pull scores/board" in str(error.value.hint)
    with pytest.raises(NotFoundError, match="was not pulled"):
        place("small", ["../r.csv"], panel="scores/board@0.1.0")
    pull()
    for panel in (None, "scores/board", "scores/board@0.1.0", "board"):
        found = place("small", ["../r.csv"], panel=panel)
        assert found["models"] == wanted["models"]
        assert found["panel"] == {"name": "board", "digest": wanted["panel"]["digest"]}
    with pytest.raises(NotFoundError):
        place("small", ["../r.csv"], panel="scores/other")
    other = _project(tmp_path / "other")  # a project with a lock and nothing of its own
    for name in ("optotype.lock", "optotype_pins"):
        (here / name).rename(other.root / name)
    monkeypatch.chdir(other.root)
    for panel in (None, "scores/board@0.1.0"):
        assert place("small@0.1.0", ["../r.csv"], panel=panel)["models"] == wanted["models"]
    part = next(other.root.glob("optotype_pins/artifacts/scores/board/0.1.0/payload/panel.json"))
    part.write_bytes(part.read_bytes() + b" ")
    with pytest.raises(IntegrityError, match=r"panel\.json"):
        place("small", ["../r.csv"])


def test_refit_takes_the_errors_of_models_that_a_suite_was_made_without(project: Project) -> None:
    _results(project, "m09").to_csv("r.csv", index=False)
    plain, refitted = (_only(place("suite", ["r.csv"], refit=refit, level=0.8)) for refit in (False, True))
    assert refitted["estimate"]["value"] == plain["estimate"]["value"]
    everything = pd.read_csv("all.csv", dtype={"item_id": str})
    misses = []
    for m in range(14):  # the slow way: a panel, a suite and results for each model
        model, root = f"m{m:02d}", project.root / f"without-{m}"
        other = _project(root)
        everything[everything["model"] != model].to_csv(root / "all.csv", index=False)
        import_scores(other, "mini", [root / "all.csv"], scales={"one": (0.0, 10.0), "two": (0.0, 10.0)}, track=False)
        compress("mini", project=other, retention=0.3, floor=0, k=2, out=root / "suite")
        suite = pd.read_parquet(root / "suite" / "items.parquet")[["benchmark", "item_id"]]
        mine = everything[everything["model"] == model]
        mine.merge(suite, on=["benchmark", "item_id"]).to_csv(root / "r.csv", index=False)
        found = _only(place(str(root / "suite"), [root / "r.csv"], project=other))
        full = mine.groupby("benchmark")["score"].mean().mean() / 10
        misses.append(abs(found["estimate"]["value"] - full))
    reach = sorted(misses)[11]  # of 14, ⌈0.8 · 15⌉ = 12
    assert refitted["estimate"]["error"] == pytest.approx(np.mean(misses), abs=1e-9)
    assert refitted["estimate"]["low"] == pytest.approx(max(0, plain["estimate"]["value"] - reach), abs=1e-9)
    assert refitted["estimate"]["high"] == pytest.approx(min(1, plain["estimate"]["value"] + reach), abs=1e-9)


def test_what_is_missing_is_counted(project: Project) -> None:
    results = _results(project, "m05")
    results["response"] = "A"
    results.loc[results.index[:2], "response"] = "(Z)"
    results.iloc[1:].to_csv("r.csv", index=False)
    row = _only(place("suite", ["r.csv"], invalid_response=r"\(Z\)"))
    assert row["answered"] == row["items"] - 2
    assert row["missing"] == 2
    assert row["invalid"] == {"response matches \\(Z\\)": 1}
    assert row["estimate"] is not None


def test_what_is_unknown_is_refused_all_of_it(project: Project) -> None:
    results = _results(project, "m05")
    outside = results.iloc[:3].assign(item_id=["900", "901", "902"])
    stranger = results.iloc[:1].assign(benchmark="three")
    pd.concat([results, outside, stranger, results.iloc[:1].assign(score=3.0)]).to_csv("r.csv", index=False)
    with pytest.raises(InvalidDataError) as error:
        place("suite", ["r.csv"])
    kinds = sorted(problem.kind for problem in error.value.problems)
    assert kinds == ["differing-scores", "unknown-benchmark", *["unknown-item"] * 3]
    results.assign(score=results["score"] + 1).to_csv("r.csv", index=False)
    with pytest.raises(InvalidDataError) as error:
        place("suite", ["r.csv"])
    assert {problem.kind for problem in error.value.problems} == {"off-scale"}
    with pytest.raises(UsageError, match="no benchmark 'won'"):
        place("suite", ["r.csv"], benchmarks={"one": "won"})


def test_results_come_back_under_exported_names(project: Project) -> None:
    """Equal placements, whether the results are a table, logs of lmms-eval or a table of VLMEvalKit."""
    table = _results(project, "m03")
    table.to_csv("r.csv", index=False)
    wanted = _only(place("suite", ["r.csv"]))
    done = export("suite", "lmms-eval", "tasks", tasks={"one": "a/a.yaml", "two": "b/b.yaml"}, project=project)
    folder = Path("logs/new")
    folder.mkdir(parents=True)
    for run in done["runs"]:
        rows = table[table["benchmark"] == run["benchmark"]]
        lines = [
            {"doc_id": i, "target": "A", "filtered_resps": ["A"], "acc": {"index": row.item_id, "score": row.score}}
            for i, row in enumerate(rows.itertuples())
        ]
        text = "\n".join(map(json.dumps, lines))
        (folder / f"20250101_000000_samples_{run['name']}.jsonl").write_text(text, encoding="utf-8")
    assert _only(place("suite", ["logs"])) == wanted

    work = Path("work/new")
    work.mkdir(parents=True)
    for benchmark in ("one", "two"):  # ids come back as the whole numbers that the harness made of them
        rows = table[table["benchmark"] == benchmark]
        judged = pd.DataFrame(
            {"index": rows["item_id"].astype(int), "question": "?", "prediction": "A", "hit": rows["score"]}
        )
        judged.to_csv(work / f"new_suite_{benchmark}_exact_matching_result.tsv", sep="\t", index=False)
    assert _only(place("suite", ["work"])) == wanted

    blind = table.assign(benchmark=[f"suite_{name}_blind" for name in table["benchmark"]])
    blind.to_csv("blind.csv", index=False)
    with pytest.raises(InvalidDataError, match="no score of a run with images"):
        place("suite", ["blind.csv"])
    assert "without images are left out" in " ".join(place("suite", ["r.csv", "blind.csv"])["notes"])


def test_a_published_suite(project: Project) -> None:
    published = publish("suite", "mini@1.0.0", project.root / "suite", root=project.root)
    _results(project, "m03").to_csv("r.csv", index=False)
    document = place("suite/mini@1.0.0", ["r.csv"])
    assert (document["suite"]["name"], document["suite"]["version"]) == ("mini", "1.0.0")
    assert document["models"] == place("suite", ["r.csv"])["models"]
    assert export("mini@^1", "ids", "ids.txt")["digest"] == document["suite"]["digest"]
    payload = next((project.root / "artifacts/suite/mini/1.0.0/payload").glob("models.csv"))
    payload.chmod(0o644)
    payload.write_bytes(payload.read_bytes().replace(b"m03", b"m04"))
    assert published is not None
    with pytest.raises(IntegrityError, match=r"models\.csv"):
        place("mini@1.0.0", ["r.csv"])


def test_no_such_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFoundError):
        place("mini@1.0.0", ["r.csv"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError, match=r"without items\.parquet"):
        place("empty", ["r.csv"])
    make_suite(tmp_path / "mini", {"one/1": 1.0})
    with pytest.raises(NotFoundError):
        place("mini", ["r.csv"])


def test_held_out_models_of_the_real_panel(shared_panel: Path, tmp_path: Path) -> None:
    """Suites chosen on half of the models place the other half: mostly within the intervals, closer than raw means."""
    from optotype.pipelines.compression.compress import compress as run
    from optotype.pipelines.compression.slices import slices
    from optotype.pipelines.placement.place import place as place_one
    from optotype.pipelines.placement.yardstick import yardstick

    project = _project(tmp_path)
    files = [shared_panel / name for name in ("scores.parquet", "items.parquet", "models.csv")]
    import_scores(project, "panel", files[:1], items=files[1], models=files[2], track=False)
    panel: xr.Dataset = open_panel(project.resolve("scores", "panel")).load()
    panel = panel.isel(item=np.flatnonzero(panel["benchmark"].to_numpy() != "blink_val"))
    cut = slices(panel, "benchmark")
    names = list(zip(panel["benchmark"].to_numpy().tolist(), panel["item"].to_numpy().tolist(), strict=True))
    full = yardstick(panel, cut, np.arange(1)).slices.mean(axis=1)
    models = np.flatnonzero(np.isfinite(full))
    assert len(models) == 21
    errors, raw, inside = [], [], []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(models)
        build = panel.isel(model=np.sort(order[:11]))
        suite = run(build, category_by="benchmark", floor=0, retention=0.05).items
        index = np.array([names.index(key) for key in zip(suite["benchmark"], suite["item_id"], strict=True)])
        measure = yardstick(build, cut, index)
        for model in order[11:].tolist():
            scores = panel["score"].to_numpy()[model, index].astype(np.float64)
            found = place_one(scores, suite["category"].tolist(), np.ones(len(index)), measure, 0.9)
            assert found.estimate is not None
            assert found.score is not None
            errors.append(abs(found.estimate.value - full[model]))
            raw.append(abs(found.score - full[model]))
            inside.append(found.estimate.low <= full[model] <= found.estimate.high)
    assert np.mean(errors) < 0.6 * np.mean(raw)
    assert np.mean(inside) > 0.75
