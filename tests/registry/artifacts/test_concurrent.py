"""Publishers at once, and publishers that are killed: every version is whole, and none is lost that was reported."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from payloads import make_report, make_states

from optotype.registry.artifacts import dvcyaml
from optotype.registry.artifacts.index import Registry
from optotype.registry.artifacts.publish import publish

# One process forks eight, each of which forks a child a publication and kills some. Two payloads compete for a version.
_CROWD = """
import json, os, random, select, signal, sys, time
from pathlib import Path
from optotype.registry.artifacts import announce, cards, diff, verify
from optotype.registry.artifacts.kinds import adapter
from optotype.registry.artifacts.publish import publish
from optotype.schemas.errors import ConflictError
from optotype.store import manifest

adapter("report")
import semver, ruamel.yaml, yaml
root, sources, log = (Path(name) for name in sys.argv[1:4])
PUBLISHERS, VERSIONS, EACH = 8, 20, 25

def child(version, variant, pipe):
    try:
        done = publish("report", f"r@{version}", sources / f"{version}-{variant}", root=root)
        os.write(pipe, json.dumps([version, done.version.digest, done.created]).encode())
    except ConflictError as error:
        os.write(pipe, json.dumps([version, None, error.message]).encode())
    except BaseException as error:
        os.write(pipe, json.dumps([version, None, f"FAILED {type(error).__name__}: {error}"]).encode())
    os._exit(0)

def publisher(number):
    rng = random.Random(number)
    jobs = [(f"1.{(number * EACH + i) % VERSIONS}.0", rng.choice("ab")) for i in range(EACH)]
    rng.shuffle(jobs)
    reports, killed = [], 0
    for version, variant in jobs:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            child(version, variant, write)
        os.close(write)
        if rng.random() < 0.5:
            time.sleep(rng.random() * 0.3)
            os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        killed += code == -signal.SIGKILL
        text = os.read(read, 65536)
        os.close(read)
        if text:
            reports.append(json.loads(text))
    (log / f"{number}.json").write_text(json.dumps({"reports": reports, "killed": killed, "jobs": len(jobs)}))
    os._exit(0)

pids = []
for number in range(PUBLISHERS):
    pid = os.fork()
    if pid == 0:
        publisher(number)
    pids.append(pid)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids))
"""


@pytest.mark.slow
def test_two_hundred_publications_of_twenty_versions_with_kills(root: Path, tmp_path: Path) -> None:
    (root / "dvc.yaml").write_text("# ours\nstages: {}\n")
    log, sources = tmp_path / "log", tmp_path / "sources"
    log.mkdir()
    for minor in range(20):
        for variant in "ab":
            make_report(sources / f"1.{minor}.0-{variant}", text=f"{minor} {variant}")
    command = [sys.executable, "-c", _CROWD, str(root), str(sources), str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    logs = [json.loads(path.read_text()) for path in log.iterdir()]
    assert sum(entry["jobs"] for entry in logs) == 200
    assert sum(entry["killed"] for entry in logs) >= 10
    reports = [report for entry in logs for report in entry["reports"]]
    assert [report[2] for report in reports if str(report[2]).startswith("FAILED")] == []
    successes = {(version, digest) for version, digest, _ in reports if digest is not None}
    assert len(successes) >= 10

    registry = Registry(root)
    there = {version.version: version for version in registry.all()}
    for version in there.values():
        assert registry.verify(version) == [], str(version)
    # None lost that was reported; and of two payloads one won, for everybody.
    assert {version: there[version].digest for version, _ in successes} == dict(successes)
    assert len(dict(successes)) == len(successes)
    created = [version for version, digest, made in reports if digest is not None and made is True]
    assert len(created) == len(set(created))

    # What the killed left behind goes with the next publication, and dvc.yaml tells of the latest version.
    publish("report", "r@1.99.0", make_report(tmp_path / "last", text="last"), root=root)
    names = {path.name for path in (root / "artifacts" / "report" / "r").iterdir()}
    assert names == {*there, "1.99.0"}
    text = (root / "dvc.yaml").read_text()
    assert text.startswith("# ours\n")
    assert dvcyaml.entry_path(text, "report/r") == "artifacts/report/r/1.99.0/payload"


# In a fork for each moment: an audit hook kills the process before its n-th file operation.
_MOMENTS = """
import json, os, shutil, signal, sys
from pathlib import Path
from optotype.registry.artifacts import announce, cards, diff, verify
from optotype.registry.artifacts.index import Registry
from optotype.registry.artifacts.kinds import adapter
from optotype.registry.artifacts.publish import publish
import semver, ruamel.yaml, yaml

adapter("report")
base, source = Path(sys.argv[1]), Path(sys.argv[2])
EVENTS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.scandir", "os.listdir", "subprocess.Popen"}

def attempt(root, kill_at):
    pid = os.fork()
    if pid == 0:
        count = 0
        def hook(event, arguments):
            nonlocal count
            if event in EVENTS:
                count += 1
                if count == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        publish("report", "r@1.0.0", source, root=root)
        (base / "total").write_text(str(count))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def fresh(name):
    root = base / name
    root.mkdir()
    (root / "dvc.yaml").write_text("stages: {}\\n")
    return root

assert attempt(fresh("first"), 0) == 0
total = int((base / "total").read_text())
seen, failures, left = [], [], 0
for moment in [*range(1, total - 80, 6), *range(max(1, total - 80), total)]:
    root = fresh(f"m{moment}")
    assert attempt(root, moment) == -signal.SIGKILL
    registry = Registry(root)
    versions = registry.all()
    seen.append(len(versions))
    left += any(path.name.endswith(".draft") for path in root.rglob("*"))
    failures += [str(problem) for version in versions for problem in registry.verify(version)]
    if moment % 5 == 0:
        assert attempt(root, 0) == 0
        (version,) = registry.all()
        failures += [str(problem) for problem in registry.verify(version)]
        names = [path.name for path in (root / "artifacts" / "report" / "r").iterdir()]
        assert names == ["1.0.0"], names
        assert "artifacts/report/r/1.0.0/payload" in (root / "dvc.yaml").read_text()
    shutil.rmtree(root)
print(json.dumps({"seen": seen, "failures": failures, "left": left}))
"""


def test_killed_at_any_moment(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    command = [sys.executable, "-c", _MOMENTS, str(base), str(make_report(tmp_path / "r"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["failures"] == []
    switch = result["seen"].index(1)
    assert switch > 10
    assert result["seen"] == [0] * switch + [1] * (len(result["seen"]) - switch)
    assert len(result["seen"]) - switch > 5
    assert result["left"] > 5


@pytest.mark.parametrize("patience", [0.2, 1.5])
def test_killed_while_dvc_works(repository: Path, tmp_path: Path, patience: float) -> None:
    large = make_states(tmp_path / "large", n=400, channels=800)
    script = (
        "import sys; from pathlib import Path; from optotype.registry.artifacts.publish import publish\n"
        "from optotype.store import dvc\n"
        "real = dvc.add_apart\n"
        "dvc.add_apart = lambda *a, **k: (print('now', flush=True), real(*a, **k))\n"
        "publish('states', 'lm@1.0.0', sys.argv[1], root=Path(sys.argv[2]))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(large), str(repository)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == "now\n"
    time.sleep(patience)
    process.kill()
    process.wait()
    registry = Registry(repository)
    for version in registry.all():
        assert registry.verify(version) == []
    done = publish("states", "lm@1.0.0", large, root=repository)
    assert registry.verified(done.version).copies == {"workspace": "whole", "cache": "whole"}
    assert registry.verify(done.version) == []
