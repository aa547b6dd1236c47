"""docs/pin-a-suite.md works as written, on this repository's own publications."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from optotype.registry.cli.root import cli

ROOT = Path(__file__).resolve().parents[2]
FENCES = re.findall(r"^```(\w*)\n(.*?)^```", (ROOT / "docs" / "pin-a-suite.md").read_text(), flags=re.M | re.S)


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OPTOTYPE_CACHE", str(tmp_path / "cache"))
    runner, placed = CliRunner(), ""
    for language, text in FENCES:
        if language == "python":
            names: dict[str, object] = {}
            exec(compile(text, "pin-a-suite.md", "exec"), names)
            asked = names["asked"]
            guesses = np.random.default_rng(0).random(len(asked)) < 0.25  # type: ignore[arg-type]
            asked.assign(model="guess", score=guesses.astype(int)).to_csv("results.csv", index=False)  # type: ignore[attr-defined]
            continue
        for line in text.replace("GIT_URL", str(ROOT)).splitlines():
            done = runner.invoke(cli, shlex.split(line)[1:], prog_name="optotype")
            expected = (0, 2) if " update " in line else (0,)  # an update without --yes moves nothing
            assert done.exit_code in expected, f"{line}\n{done.output}{done.stderr}"
            placed = done.stdout if " place " in line else placed
    assert (folder / "optotype.lock").is_file()
    assert "guess" in placed
    assert "sha256:" in capsys.readouterr().out
