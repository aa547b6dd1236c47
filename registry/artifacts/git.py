"""The one module that runs git: what is committed, which commit is HEAD, and tags of published versions."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from optotype.schemas.errors import ConflictError, ExternalError, NotFoundError

__all__ = [
    "archive",
    "changed",
    "clone",
    "commit_of",
    "differs_from_head",
    "ever_had",
    "files_at",
    "git",
    "head",
    "ignored",
    "is_bare",
    "is_repository",
    "make_tag",
    "read_file",
    "refresh",
    "tag_name",
    "tags",
]

_REPOSITORY_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")


def git(folder: Path, *arguments: str, check: bool = True, stdin: bytes | None = None) -> bytes:
    """Run git in ``folder`` and give what it printed; it never asks, and reads no repository but the folder's.

    Raises
    ------
    ExternalError
        git is not installed, or failed and ``check`` is true.
    """
    environment = {key: value for key, value in os.environ.items() if key not in _REPOSITORY_VARIABLES}
    environment |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, env=environment, capture_output=True, check=False, input=stdin
        )
    except OSError as error:
        raise ExternalError(f"git could not be started: {error}", hint="Is git installed?") from error
    if check and done.returncode != 0:
        said = _said(done.stderr.decode(errors="replace")) or f"exit code {done.returncode}"
        raise ExternalError(f"git {arguments[0]} failed: {said}")
    return done.stdout


def _said(text: str) -> str:
    """Why git failed: its first ``fatal:``, after what ssh or the other side said; its advice is left out."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    fatal = next((line for line in lines if line.startswith("fatal:")), None)
    cause = next((line for line in lines if line.startswith(("ssh:", "remote:", "error:", "ERROR:"))), None)
    found = [line for line in (cause, fatal) if line is not None]
    return "; ".join(found) if found else "".join(lines[-1:])


def _of_url(url: str, error: ExternalError) -> ExternalError:
    hint = error.hint or f"Is the URL right, and may you read it? Try: git ls-remote {shlex.quote(url)}"
    return ExternalError(f"{url}: {error.message}", hint=hint)


def is_repository(folder: Path) -> bool:
    """Whether ``folder`` lies in the working tree of a git repository; False where git is not installed."""
    try:
        return git(folder, "rev-parse", "--is-inside-work-tree", check=False).strip() == b"true"
    except ExternalError:
        return False


def is_bare(folder: Path) -> bool:
    """Whether ``folder`` itself is a bare repository; False where git is not installed."""
    if not (folder / "HEAD").is_file() or not (folder / "objects").is_dir():
        return False
    try:
        return git(folder, "rev-parse", "--is-bare-repository", check=False).strip() == b"true"
    except ExternalError:
        return False


def head(folder: Path) -> str | None:
    """The commit of HEAD; None outside git and before the first commit."""
    if not is_repository(folder):
        return None
    return git(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", check=False).decode().strip() or None


def commit_of(repository: Path, revision: str) -> str:
    """The commit that a branch, tag or hash stands for.

    Raises
    ------
    NotFoundError
        The repository has no such revision.
    """
    found = git(
        repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", check=False
    )
    commit = found.decode().strip().splitlines()
    if not commit:
        raise NotFoundError(f"{repository}: git has no revision {revision!r}")
    return commit[-1]


def changed(root: Path, relative: str = ".") -> list[str]:
    """Tracked files under ``relative`` that differ from HEAD, with ``/`` relative to ``root``, sorted."""
    found = git(root, "diff", "--name-only", "--relative", "-z", "HEAD", "--", relative)
    return sorted(os.fsdecode(name) for name in found.split(b"\0") if name)


def differs_from_head(root: Path, relative: str) -> list[str]:
    """Files under ``relative`` that are not in HEAD just as they stand: changed, added or missing; sorted."""
    prefix = git(root, "rev-parse", "--show-prefix").decode().strip()
    found = git(root, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--", relative)
    names = [os.fsdecode(entry[3:]) for entry in found.split(b"\0") if entry]
    return sorted(name.removeprefix(prefix) for name in names)


def files_at(root: Path, revision: str, relative: str) -> set[str]:
    """Files under ``relative`` at a revision, with ``/`` relative to ``root``."""
    found = git(root, "ls-tree", "-r", "-z", "--name-only", revision, "--", relative)
    return {os.fsdecode(name) for name in found.split(b"\0") if name}


def ever_had(folder: Path, relative: str) -> bool:
    """Whether a commit before HEAD, or HEAD, touched ``relative`` of a folder in a working tree; False outside git."""
    if not is_repository(folder):
        return False
    return bool(git(folder, "log", "-1", "--format=%H", "--", relative, check=False).strip())


def ignored(root: Path, paths: Sequence[str]) -> list[str]:
    """Those of ``paths`` (relative to ``root``) that git would not take up, because a rule says to ignore them."""
    listing = b"\0".join(os.fsencode(path) for path in paths)
    found = git(root, "check-ignore", "-z", "--stdin", check=False, stdin=listing)
    return sorted(os.fsdecode(name) for name in found.split(b"\0") if name)


def read_file(repository: Path, revision: str, relative: str) -> bytes | None:
    """The bytes of a file at a revision, also of a bare repository; None if it was not there.

    ``relative`` counts from the root of the repository, or from ``repository`` where it starts with ``./``.
    """
    name = f"{revision}:{relative}"
    if git(repository, "cat-file", "-t", name, check=False).strip() != b"blob":
        return None
    return git(repository, "cat-file", "blob", name)


def archive(repository: Path, revision: str, relative: str, target: Path) -> None:
    """Unpack a folder of a revision into ``target``, which is made; bytes as committed, whatever the line-end rules.

    Raises
    ------
    NotFoundError
        The revision has no such folder.
    ExternalError
        git failed, or the folder holds a link or submodule.
    """
    listing = git(repository, "ls-tree", "-r", "-z", "--full-tree", revision, "--", relative)
    entries = [entry.split(b"\t", 1) for entry in listing.split(b"\0") if entry]
    if not entries:
        raise NotFoundError(f"{repository}: nothing at {relative} in {revision}")
    for mode, name in entries:
        if mode.split()[0] not in (b"100644", b"100755"):
            raise ExternalError(f"{os.fsdecode(name)} in {revision} is a link or submodule; only plain files are taken")
        path = target / Path(os.fsdecode(name)).relative_to(relative)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(git(repository, "cat-file", "blob", mode.split()[2].decode()))


def clone(url: str, target: Path) -> None:
    """Clone a repository, bare and with all its tags, into ``target``.

    Raises
    ------
    ExternalError
        git failed.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        git(target.parent, "clone", "--quiet", "--bare", "--", url, str(target))
    except ExternalError as error:
        raise _of_url(url, error) from error


def refresh(bare: Path, url: str) -> None:
    """Make a bare clone equal to its origin once more: branches, tags (moved and removed ones too), and HEAD.

    Raises
    ------
    ExternalError
        The origin cannot be reached.
    """
    mirrored = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
    try:
        found = git(bare, "ls-remote", "--symref", "--", url, "HEAD").decode(errors="replace")
        git(bare, "fetch", "--quiet", "--force", "--prune", "--", url, *mirrored)
    except ExternalError as error:
        raise _of_url(url, error) from error
    for line in found.splitlines():
        if line.startswith("ref: refs/heads/"):
            git(bare, "symbolic-ref", "HEAD", line.split()[1])


def tag_name(kind: str, name: str, version: str) -> str:
    """The tag of a published version, in the form of gto: ``suite/prime@v1.2.0``."""
    return f"{kind}/{name}@v{version}"


def tags(repository: Path, kind: str, name: str) -> dict[str, str]:
    """Version -> commit, for each tag of `tag_name` in the repository."""
    prefix = f"refs/tags/{tag_name(kind, name, '')}"
    listing = git(repository, "for-each-ref", "--format=%(refname) %(objectname) %(*objectname)", "refs/tags")
    found = {}
    for line in listing.decode().splitlines():
        ref, *hashes = line.split()
        if ref.startswith(prefix) and re.fullmatch(r"[0-9A-Za-z.-]+", ref.removeprefix(prefix)):
            found[ref.removeprefix(prefix)] = hashes[-1]  # of an annotated tag: what it points to
    return found


def make_tag(root: Path, tag: str, commit: str, message: str) -> bool:
    """Make an annotated tag; False if it stands at that commit already.

    Raises
    ------
    ConflictError
        The tag stands at another commit.
    """
    name = f"refs/tags/{tag}"
    standing = git(root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False).decode().strip()
    if standing == commit:
        return False
    if standing:
        raise ConflictError(
            f"the tag {tag} stands at commit {standing[:12]}, not at {commit[:12]}",
            hint="A tag of a published version is never moved. If this one is wrong, publish a new version.",
        )
    git(root, "tag", "--annotate", "--message", message, tag, commit)
    return True
