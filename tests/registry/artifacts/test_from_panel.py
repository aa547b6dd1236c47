"""From scores to a published suite and frontier, with what the commands really write."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from optotype.registry.artifacts.index import Registry
from optotype.registry.artifacts.listing import diff_versions
from optotype.registry.artifacts.publish import publish
from optotype.registry.compressions import compress
from optotype.registry.frontiers import frontier
from optotype.registry.panels import import_scores
from optotype.store.project import Project


def _import(root: Path) -> None:
    rng = np.random.default_rng(0)
    lines = ["benchmark,item_id,model,score"]
    for benchmark in "abcd":
        for item in range(30):
            hard = rng.random()
            lines += [f"{benchmark},{item:02d},m{m},{int(rng.random() < (m + 2) / 12 - hard / 4)}" for m in range(8)]
    (root / "scores.csv").write_text("\n".join(lines) + "\n")
    models = ["model,family", *(f"m{m},{'xy'[m % 2]}" for m in range(8))]
    (root / "models.csv").write_text("\n".join(models) + "\n")
    import_scores(Project(root), "tiny", [root / "scores.csv"], models=root / "models.csv", track=False)


def test_suite_and_frontier_of_a_panel(root: Path, tmp_path: Path) -> None:
    _import(root)
    for version, retention in (("0.1.0", 0.2), ("0.2.0", 0.5)):
        out = tmp_path / f"suite-{version}"
        compress("tiny", project=root, stop_after=2, retention=retention, floor=0, category_by="benchmark", out=out)
        done = publish("suite", f"tiny@{version}", out, root=root)
        facts = done.version.manifest.facts
        assert 0 < facts["items"] <= 120
        assert facts["models"] == 8
        (node,) = done.version.manifest.lineage
        assert (node["role"], node["kind"], node["name"]) == ("panel", "scores", "tiny")
        assert node["inputs"][0]["name"] == "part-0001"
        assert done.version.manifest.parameters["retention"] == retention
    registry = Registry(root)
    assert all(registry.verify(version) == [] for version in registry.all())
    found = diff_versions(registry, "suite/tiny@0.1.0", "suite/tiny@0.2.0")
    assert found["parameters"] == {"retention": {"from": 0.2, "to": 0.5}}
    assert len(found["models"]) == 8
    assert len(found["items"]["added"]) > 0
    frontier("tiny", project=root, gain=0.3, out=tmp_path / "frontier")
    done = publish("frontier", "tiny@0.1.0", tmp_path / "frontier", root=root)
    assert done.version.manifest.facts["gain"] == 0.3
    assert registry.verify(done.version) == []
