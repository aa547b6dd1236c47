"""A process killed at any moment leaves the old array or the whole new one, and nothing for good beside it."""

import json
import subprocess
import sys

import pytest

# In a fork for each moment: an audit hook kills the process before its n-th file operation.
_SCRIPT = """
import json, os, shutil, signal, sys
from pathlib import Path
import dask.array, numpy as np
from optotype.store import drafts, shards
from optotype.store.features import write_features
from optotype.store.manifest import read_manifest, verify

base, mode = Path(sys.argv[1]), sys.argv[2]
shards._INNER_BYTES, shards._SHARD_BYTES = 512, 2048
if mode == "steps":
    drafts._exchange = lambda one, other: False
target = base / "data" / "array"
EVENTS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.scandir", "os.listdir", "ctypes.dlsym"}

def write(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, 24)
    blocks = [rng.standard_normal((int(sizes.sum()), 8)).astype("float32")]
    ids = [f"i{i:02d}" for i in range(24)]
    return write_features(target, ids=ids, row_size=sizes, blocks=blocks, dtype="float32", inputs={"seed": seed})

def in_child(work):
    # Whether the child ended by itself; in forks only, so that no thread of Zarr runs in here.
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\\n".encode())
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -signal.SIGKILL), f"child failed: {code}"
    return code == 0

def replace(kill_at):
    count = 0
    def hook(event, arguments):
        nonlocal count
        if event in EVENTS:
            count += 1
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)
    write(2)
    (base / "total").write_text(str(count))

def state():
    assert verify(target) == []  # restores it first, where that is needed
    return read_manifest(target).digest

def reset():
    shutil.rmtree(target.parent)
    shutil.copytree(base / "old", target)

def hidden():
    return [path.name for path in target.parent.iterdir() if path.name.startswith(".")]

assert in_child(lambda: write(1))
old = state()
shutil.copytree(target, base / "old")
assert in_child(lambda: replace(0))
new = state()
assert old != new
total = int((base / "total").read_text())
seen, left = [], 0
# Now and then while it is written, and every moment around the exchange and after it.
for moment in [*np.linspace(1, total - 35, 10).astype(int).tolist(), *range(total - 34, total + 1)]:
    reset()
    assert not in_child(lambda: replace(moment))
    left += bool(hidden())
    seen.append({old: "old", new: "new"}[state()])
    if moment % 8 == 0:
        assert in_child(lambda: write(2))
        assert state() == new and hidden() == []
print(json.dumps({"seen": seen, "left": left}))
"""


@pytest.mark.parametrize("mode", ["exchange", "steps"])
def test_killed_while_replacing(tmp_path, mode):
    command = [sys.executable, "-c", _SCRIPT, str(tmp_path), mode]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    switch = result["seen"].index("new")
    assert switch > 0
    assert set(result["seen"][:switch]) == {"old"}  # never old after new
    assert set(result["seen"][switch:]) == {"new"}
    assert result["left"] > 0  # drafts were left over, and removed by the next writer


_FIRST = """
import os, signal, sys
from pathlib import Path
import numpy as np
from optotype.store.features import write_features
def blocks():
    yield np.ones((2, 3), "float32")
    os.kill(os.getpid(), signal.SIGKILL)
write_features(Path(sys.argv[1]), ids=["a", "b"], row_size=[1, 2], blocks=blocks(), dtype="float32", inputs={})
"""


def test_killed_while_writing_the_first_time(tmp_path, ragged):
    from optotype.store import drafts
    from optotype.store.features import write_features
    from optotype.store.project import Project

    project = Project.init(tmp_path)
    target = project.features / "a"
    done = subprocess.run([sys.executable, "-c", _FIRST, str(target)], capture_output=True, check=False)
    assert done.returncode == -9
    assert not target.exists()
    assert project.names("features") == []  # a draft is no array
    assert all(drafts.is_draft(path.name) for path in project.features.iterdir())
    assert any(path.is_dir() for path in project.features.iterdir())
    data = ragged()
    write_features(target, ids=data.ids, row_size=data.row_size, blocks=[data.tokens], dtype="float32", inputs={})
    assert [path.name for path in project.features.iterdir()] == ["a"]
