"""The one module that knows DVC: projects, tracked folders, what cache and remote hold, and locks of killed runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from configparser import ConfigParser
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from optotype.schemas.errors import ExternalError, FormatError, MissingPackageError, NotFoundError
from optotype.store.drafts import draft_file

__all__ = [
    "CachedFolder",
    "add_apart",
    "cache_folder",
    "cached_folder",
    "fetch",
    "folder_listing",
    "in_stage",
    "init",
    "is_dvc_project",
    "read_pointer",
    "release",
    "track",
]

# Linked files first; reflink alone fails where the file system has none.
_SETTINGS = {
    "core": {"analytics": "false", "check_update": "false"},
    "cache": {"type": '"reflink,hardlink,copy"'},
    # A list in params.yaml becomes an option given several times: --layer 8 --layer 10.
    "parsing": {"list": "append"},
}

_MD5 = re.compile(r"[0-9a-f]{32}(\.dir)?")
_LOCK_PATIENCE = 60.0  # seconds
_LOCK_PAUSE = 0.5
# As if there were no git, which ignores what is still being written; DVC refuses to track what git ignores.
_ADD_APART = """
import sys
from dvc.repo import Repo
with Repo(sys.argv[1], config={"core": {"no_scm": True}}) as repo:
    repo.add(sys.argv[2])
"""


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


def add_apart(folder: Path, *, root: Path) -> None:
    """Hand a folder to DVC although git would not see it yet, such as one that is still being written.

    As ``dvc add``: its files go to the cache and are linked from there, ``FOLDER.dvc`` is written beside it. But git is
    left alone: nothing is staged, no ``.gitignore`` written. The folder and its ``.dvc`` may be moved together.

    Raises
    ------
    ExternalError
        DVC failed, or another DVC process held its lock for a minute.
    """
    until = time.monotonic() + _LOCK_PATIENCE
    while True:
        command = [sys.executable, "-c", _ADD_APART, str(root), str(folder)]
        said = _said(command, root)
        if said is None:
            return
        if "Unable to acquire lock" not in said or time.monotonic() > until:
            raise ExternalError(f"dvc add {folder} failed: {said}")
        time.sleep(_LOCK_PAUSE)


def cache_folder(root: Path) -> Path | None:
    """The folder of DVC's cache of the project at ``root``; None where there is no DVC project."""
    if not is_dvc_project(root):
        return None
    from dvc.config import Config, ConfigError

    try:
        configured = Config(str(root / ".dvc"))["cache"].get("dir")
    except ConfigError as error:
        raise ExternalError(f"{root}/.dvc/config cannot be read: {error}") from error
    return Path(str(configured)) if configured else root / ".dvc" / "cache"


@dataclass(frozen=True)
class CachedFolder:
    """A tracked folder as DVC's cache holds it.

    Attributes
    ----------
    listing : Path
        The cache's file that lists the folder's files.
    files : dict of str to Path
        Relative path -> where the cache keeps the bytes, whether they are there or not.
    """

    listing: Path
    files: dict[str, Path]


def cached_folder(pointer: Path, cache: Path) -> CachedFolder | None:
    """What the cache holds of the folder that a ``.dvc`` file stands for; None if not even the list of its files.

    Raises
    ------
    FormatError
        The ``.dvc`` file or the list cannot be read.
    """
    md5 = read_pointer(pointer)
    listing = _object(cache, md5)
    try:
        text = listing.read_bytes()
    except FileNotFoundError:
        return None
    files = {relative: _object(cache, each) for relative, each in folder_listing(text, str(listing)).items()}
    return CachedFolder(listing, files)


def folder_listing(text: bytes, where: str) -> dict[str, str]:
    """Relative path -> MD5, out of DVC's list of a folder's files (an object whose name ends in ``.dir``).

    Raises
    ------
    FormatError
        Not such a list.
    """
    try:
        files = {str(entry["relpath"]): str(entry["md5"]) for entry in json.loads(text)}
        for md5 in files.values():
            _check_md5(md5)
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{where}: not DVC's list of a folder's files ({error})") from error
    return files


def fetch(dvc_folder: Path, md5: str, file: IO[bytes]) -> None:
    """Copy one object of a project's default remote into a file. Its bytes are not checked; whoever asks for them does.

    Settings of the user (``dvc config --global``) and of ``config.local`` count, as they do for ``dvc pull``.

    Parameters
    ----------
    dvc_folder : Path
        The project's ``.dvc``, or a folder with a copy of its ``config``.
    md5 : str
        32 hex digits, and ``.dir`` for the list of a folder's files.
    file : binary file
        Open for writing.

    Raises
    ------
    NotFoundError
        The project has no default remote, or the remote has no such object.
    MissingPackageError
        The remote needs a package of DVC that is not installed.
    ExternalError
        The remote cannot be reached, or is not one that is addressed by content.
    """
    fs, base = _remote(str(dvc_folder))
    try:
        path = "/".join([base.rstrip("/"), *_object(Path(), md5).parts])
        with fs.open(path, "rb") as remote:
            shutil.copyfileobj(remote, file, 1 << 20)
    except FileNotFoundError as error:
        raise NotFoundError(
            f"the DVC remote at {base} has no object {md5}", hint="The publisher has to send it: dvc push"
        ) from error
    except Exception as error:  # whatever the client of this kind of storage raises
        raise ExternalError(f"the DVC remote at {base} cannot be read ({type(error).__name__}: {error})") from error


@lru_cache(maxsize=16)
def _remote(dvc_folder: str) -> tuple[Any, str]:
    """File system and path of the default remote."""
    from dvc.config import Config, ConfigError
    from dvc.config_schema import RelPath
    from dvc.fs import get_cloud_fs
    from dvc_objects.fs.errors import RemoteMissingDepsError

    try:
        config = Config(dvc_folder)
        name = config["core"].get("remote")
        if not name:
            raise NotFoundError(
                "the publisher's project has no default DVC remote, so payloads that git does not hold cannot be "
                "fetched",
                hint="Pin from a folder with the payload instead of a URL; or let the publisher run: "
                "dvc remote add --default NAME URL && dvc push",
            )
        settings = config["remote"][name]
        if isinstance(settings.get("url"), RelPath) and not (Path(dvc_folder).name == ".dvc"):
            raise ExternalError(
                f"the DVC remote {name!r} of the publisher is a path relative to the publisher's own folder",
                hint="Pin from that folder instead of a URL, or let the publisher give the remote an absolute place.",
            )
        if settings.get("worktree") or settings.get("version_aware"):
            raise ExternalError(f"the DVC remote {name!r} is not addressed by content (worktree or version_aware)")
        kind, options, path = get_cloud_fs(config, name=name)
        return kind(**options), str(path)
    except RemoteMissingDepsError as error:
        raise MissingPackageError(" ".join(str(error).split())) from error
    except (ConfigError, KeyError) as error:
        raise ExternalError(f"{dvc_folder}/config: DVC cannot read it ({error})") from error


def read_pointer(pointer: Path) -> str:
    """The hash of the folder that a ``.dvc`` file stands for: 32 hex digits and ``.dir``.

    Raises
    ------
    FormatError
        Not such a file.
    """
    import yaml

    try:
        (out,) = yaml.safe_load(pointer.read_bytes())["outs"]
        md5 = str(out["md5"])
    except (yaml.YAMLError, KeyError, TypeError, ValueError, UnicodeDecodeError, OSError) as error:
        raise FormatError(f"{pointer}: not a .dvc file of one folder ({error})") from error
    if _MD5.fullmatch(md5) is None or not md5.endswith(".dir"):
        raise FormatError(f"{pointer}: {md5!r} is not the hash of a folder")
    return md5


def _object(cache: Path, md5: str) -> Path:
    _check_md5(md5)
    return cache / "files" / "md5" / md5[:2] / md5[2:]


def _check_md5(md5: str) -> None:
    if _MD5.fullmatch(md5) is None:
        raise ValueError(f"{md5!r} is not an MD5 hash")


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
    said = _said([sys.executable, "-m", "dvc", *arguments], root)
    if said is not None:
        raise ExternalError(f"dvc {' '.join(arguments)} failed: {said}")


def _said(command: list[str], root: Path) -> str | None:
    """Run DVC; None if all went well, else the last line that it said."""
    # A process of its own: DVC changes global state (logging, signals, locks) when it runs inside another program.
    environment = {**os.environ, "DVC_NO_ANALYTICS": "1"}
    try:
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ExternalError(f"dvc could not be started: {error}") from error
    if done.returncode == 0:
        return None
    said = (done.stderr or done.stdout).strip().splitlines()
    return said[-1] if said else f"exit code {done.returncode}"
