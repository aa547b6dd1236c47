"""The one module that knows DVC: makes a project a DVC project, tracks folders, releases what killed runs held."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

from optotype.schemas.errors import ExternalError
from optotype.store.drafts import draft_file

__all__ = ["in_stage", "init", "is_dvc_project", "release", "track"]

# Linked files first; reflink alone fails where the file system has none.
_SETTINGS = {
    "core": {"analytics": "false", "check_update": "false"},
    "cache": {"type": '"reflink,hardlink,copy"'},
    # A list in params.yaml becomes an option given several times: --layer 8 --layer 10.
    "parsing": {"list": "append"},
}


def is_dvc_project(root: Path) -> bool:
    """Whether ``root`` itself is a DVC project."""
    return (root / ".dvc" / "config").is_file()


def in_stage() -> bool:
    """Whether this process was started by a DVC stage, which tracks its own outputs."""
    return "DVC_STAGE" in os.environ or "DVC_ROOT" in os.environ


def init(root: Path, *, scm: bool) -> None:
    """Make ``root`` a DVC project, bound to git or not; one that is there already is left as it is.

    Raises
    ------
    ExternalError
        DVC failed.
    """
    if is_dvc_project(root):
        return
    subdir = ["--subdir"] if scm and not (root / ".git").exists() else []
    _run(root, "init", "--quiet", *subdir, *([] if scm else ["--no-scm"]))
    # In the file itself: `dvc config` takes one setting a call, and each call starts all of DVC.
    config = ConfigParser()
    path = root / ".dvc" / "config"
    config.read(path, encoding="utf-8")
    config.read_dict(_SETTINGS)
    with path.open("w", encoding="utf-8") as file:
        config.write(file)


def track(path: Path, *, root: Path) -> bool:
    """``dvc add`` a file or folder of the project at ``root``.

    Returns
    -------
    bool
        False, and nothing done, inside a DVC stage or where the project is not under DVC.

    Raises
    ------
    ExternalError
        DVC failed.
    """
    if in_stage() or not is_dvc_project(root):
        return False
    _run(root, "add", str(path))
    return True


def release(root: Path) -> list[int]:
    """Take out of DVC's lock file what processes hold that are no longer running.

    DVC keeps who works on which path in ``.dvc/tmp/rwlock`` and asks only whether there is a process of that number. A
    killed one that its parent has not collected yet (a zombie) still has its number, so a run started soon after a
    kill is refused. Locks of living processes are left alone.

    Returns
    -------
    list of int
        Numbers of the processes whose locks were released, rising.
    """
    path = root / ".dvc" / "tmp" / "rwlock"
    try:
        lock = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except ValueError:
        lock = {}  # cut short by a kill: nothing in it can be honoured, and DVC refuses to read it
    gone: set[int] = set()

    def living(holder: dict[str, object]) -> bool:
        number = int(str(holder["pid"]))
        if _runs(number):
            return True
        gone.add(number)
        return False

    write = {name: holder for name, holder in lock.get("write", {}).items() if living(holder)}
    read = {name: [holder for holder in some if living(holder)] for name, some in lock.get("read", {}).items()}
    kept = {"write": write, "read": {name: some for name, some in read.items() if some}}
    if kept != lock:
        with draft_file(path) as file:
            file.write(json.dumps(kept).encode())
    return sorted(gone)


def _runs(number: int) -> bool:
    """Whether a process of that number exists and is more than a zombie."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        status = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return not Path("/proc/self/stat").exists()  # gone in between, or a system without /proc
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def _run(root: Path, *arguments: str) -> None:
    # A process of its own: DVC changes global state (logging, signals, locks) when it runs inside another program.
    command = [sys.executable, "-m", "dvc", *arguments]
    environment = {**os.environ, "DVC_NO_ANALYTICS": "1"}
    try:
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ExternalError(f"dvc could not be started: {error}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise ExternalError(f"dvc {' '.join(arguments)} failed: {said[-1] if said else f'exit code {done.returncode}'}")
