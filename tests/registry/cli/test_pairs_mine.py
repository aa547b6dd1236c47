"""``optotype pairs mine``: what it prints, what it writes, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from optotype.registry.cli.commands import Root
from optotype.registry.cli.pairs import pairs
from optotype.registry.pair_mining import mine_pairs
from optotype.store.importers import import_features
from optotype.store.project import Project


@pytest.fixture
def arrays(project: Path) -> Path:
    """The project with its two encoders imported."""
    for name in ("siglip", "dinov2"):
        import_features(project / "data" / "features" / name, f"{name}.npz")
    return project


def _mine(*arguments: str) -> Result:
    root = Root(name="optotype")
    root.add_command(pairs)
    words = ["pairs", "mine", "--similar", "siglip", "--different", "dinov2", *arguments]
    return CliRunner().invoke(root, words, prog_name="optotype")


def test_it_prints_both_thresholds_and_writes_three_files(arrays: Path) -> None:
    result = _mine("--above-quantile", "0.9", "--below", "0.1", "--per-image", "2", "--out", "mined")
    assert result.exit_code == 0, result.stderr
    head, asked, printed, last = result.stdout.splitlines()
    assert head.split()[:4] == ["thresholds", "above", "below", "pairs"]
    assert "(quantile 0.9)" in asked
    assert asked.split()[-3:][0] == printed.split()[-3:][0] == "8,128"
    assert " 0.95 " in printed
    assert " 0.6 " in printed
    document = json.loads((arrays / "mined" / "pairs.json").read_text())
    assert last == f"{document['counts']['kept']} pairs kept in mined"
    assert sorted(path.name for path in (arrays / "mined").iterdir()) == [
        "contact-sheet.html",
        "pairs.json",
        "pairs.parquet",
    ]


def test_json_is_what_the_function_returns(arrays: Path) -> None:
    options = {"above": 0.5, "below_quantile": 0.25, "per_image": 4, "seed": 3, "shown": 5}
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    result = _mine(*words, "--common", "--out", "mined", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document == json.loads((arrays / "mined" / "pairs.json").read_text())
    again = mine_pairs("siglip", "dinov2", project=Project(arrays), common=True, out=arrays / "other", **options)  # type: ignore[arg-type]
    assert document == again
    assert document["counts"]["kept"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--above", "0.9", "--above-quantile", "0.9"], "give one of the two"),
        (["--below", "0.9", "--below-quantile", "0.9"], "give one of the two"),
        (["--above", "1.2"], "not a cosine from -1 to 1"),
        (["--below", "nan"], "not a cosine from -1 to 1"),
        (["--below-quantile", "1"], "not between 0 and 1"),
        (["--per-image", "0"], "--per-image"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: list[str], message: str, arrays: Path) -> None:
    result = _mine(*arguments, "--out", "mined", "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert not (arrays / "mined").exists()


def test_unknown_features_are_named(arrays: Path) -> None:
    result = _mine("--similar", "siglop", "--out", "mined")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "siglip" in result.stderr
