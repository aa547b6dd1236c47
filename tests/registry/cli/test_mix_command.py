"""``optotype features mix``: a virtual encoder that list, show and rank know, and clear words where that cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from optotype.registry.cli.root import cli


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words), prog_name="optotype")


@pytest.fixture
def filled(project: Path) -> Path:
    for kind, name in (
        ("features", "clip-l14"),
        ("features", "dinov2-l14"),
        ("features", "siglip"),
        ("states", "qwen3"),
    ):
        taken = run(kind, "import", name, f"{name}.npz")
        assert taken.exit_code == 0, taken.stderr
    return project


def test_a_sweep_is_ranked_as_a_bundle(filled: Path) -> None:
    made = run("features", "mix", "additive", "clip-l14", "dinov2-l14", "--alpha", "1,0.5", "--as", "mof", "--json")
    assert made.exit_code == 0, made.stderr
    assert [(row["name"], row["alpha"], row["virtual"]) for row in json.loads(made.stdout)] == [
        ("mof-1.0", 1.0, True),
        ("mof-0.5", 0.5, True),
    ]
    assert run("features", "mix", "interleaved", "siglip", "dinov2-l14", "--as", "il").exit_code == 0
    listed = json.loads(run("features", "list", "--json").stdout)
    assert [row["name"] for row in listed] == ["clip-l14", "dinov2-l14", "il", "mof-0.5", "mof-1.0", "siglip"]
    assert not [row for row in listed if row["error"]]
    ranked = run("rank", "--features", "mof", "--features", "il", "--states", "qwen3", "-k", "5", "--json")
    assert ranked.exit_code == 0, ranked.stderr
    rows = {row["encoder"]: row["mixture"] for row in json.loads(ranked.stdout)}
    assert {name: told["ssl_ratio"] for name, told in rows.items()} == {"mof-1.0": 0.0, "mof-0.5": 0.5, "il": None}
    shown = run("features", "show", "il", "--json")
    assert json.loads(shown.stdout)["inputs"]["mixture"] == "interleaved"
    built = run("neighbours", "build", "mof", "--of", "features", "--array", "mof", "-k", "5", "--json")
    assert [row["array"] for row in json.loads(built.stdout)] == ["mof-0.5", "mof-1.0"]
    # Nothing was stored but the documents.
    files = {path.name for name in ("mof", "il") for path in (filled / "data/features" / name).rglob("*")}
    assert files == {"mixture.json", "mof-1.0", "mof-0.5"}


def test_a_stored_mixture_is_exported_and_a_virtual_one_says_how(filled: Path) -> None:
    mix = ("features", "mix", "additive", "clip-l14", "dinov2-l14", "--alpha", "0.5", "--as")
    assert run(*mix, "lazy").exit_code == 0
    refused = run("features", "export", "lazy", "lazy.npz")
    assert refused.exit_code == 5
    assert "holds no values of its own" in refused.stderr
    assert "--store" in refused.stderr
    assert run(*mix, "kept", "--store").exit_code == 0
    assert run("features", "export", "kept", "kept.npz").exit_code == 0
    again = run(*mix, "lazy", "--store")
    assert again.exit_code == 0
    assert "took the place" in again.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["additive", "clip-l14", "dinov2-l14"], 2, "needs the weight of A"),
        (["interleaved", "clip-l14", "dinov2-l14", "--alpha", "0.5"], 2, "has no weight"),
        (["additive", "clip-l14", "dinov2-l14", "--alpha", "1.5"], 2, "1.5 is not from 0 to 1"),
        (["additive", "clip-l14", "dinov2-l14", "--alpha", "nan"], 2, "nan is not from 0 to 1"),
        (["additive", "clip-l14", "dinov2-l14", "--alpha", "half"], 2, "'half' is not a number"),
        (["additive", "clip-l14", "dinov2-l14", "--alpha", "0.5", "--resize", "7"], 2, "'7' is not a grid"),
        (["additive", "clip-l14", "siglip", "--alpha", "0.5"], 4, "Or interleave them"),
        (["additive", "clip-l14", "siglip", "--alpha", "0.5", "--resize", "2x2"], 4, "no known grid"),
        (["additive", "clip-l14", "dinov2-l41", "--alpha", "0.5"], 3, "dinov2-l14"),
        (["stirred", "clip-l14", "dinov2-l14"], 2, "stirred"),
    ],
)
def test_refused(words: list[str], code: int, said: str, filled: Path) -> None:
    result = run("features", "mix", *words, "--as", "x")
    assert result.exit_code == code, result.stderr
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert not (filled / "data" / "features" / "x").exists()
