"""Publish a folder under a version: whole or not at all, once and for all."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import optotype
from optotype.registry.artifacts import dvcyaml, git
from optotype.registry.artifacts.announce import announce, announced
from optotype.registry.artifacts.cards import card
from optotype.registry.artifacts.copies import copied, flush_folders, hashed, payload_files
from optotype.registry.artifacts.index import Registry, Version
from optotype.registry.artifacts.kinds import adapter
from optotype.registry.artifacts.layout import ARTIFACTS, CARD, MANIFEST, PAYLOAD, Place, prepare, source_files
from optotype.registry.artifacts.lineage import Tracer, licences_of
from optotype.registry.artifacts.manifest import ArtifactManifest, Code
from optotype.schemas.errors import (
    ConflictError,
    IntegrityError,
    InvalidDataError,
    OptotypeError,
    Problem,
    UsageError,
)
from optotype.schemas.references import Exact, Reference
from optotype.store import dvc
from optotype.store.drafts import Draft
from optotype.store.manifest import FileEntry, files_digest

__all__ = ["SMALL", "Published", "publish"]

SMALL = 1 << 20
"""Bytes of a payload up to which git itself holds it, so that a bare clone serves it without a remote."""

_DIFFERENCES_SHOWN = 10
_ATTEMPTS = 10


@dataclass(frozen=True)
class Published:
    """What became of a publication.

    Attributes
    ----------
    version : Version
    created : bool
        False: the same bytes were published as this version already, and nothing was written.
    tag : str or None
        The git tag that stands at the version's commit, where one was asked for and could be made.
    notes : tuple of str
        What the publisher should know: files left out, why there is no tag yet.
    """

    version: Version
    created: bool
    tag: str | None = None
    notes: tuple[str, ...] = ()


def publish(
    kind: str,
    reference: str,
    source: str | Path,
    *,
    root: Path,
    message: str = "",
    tag: bool = False,
    title: str | None = None,
    licences: Sequence[str] = (),
) -> Published:
    """Publish the files of a folder as one version of a name.

    The payload is copied, checked against the schema of its kind, described, and takes its place together with its
    manifest and card in one step. A process killed at any point leaves a whole version or none; of two publishers of
    one version the second finds the first's. Payloads of more than `SMALL` bytes are handed to DVC and left checked
    out.

    Parameters
    ----------
    kind : str
        One of `optotype.schemas.references.KINDS`.
    reference : str
        ``name@1.2.0``.
    source : path
        Folder of the payload. Hidden files and files of DVC are left out, and named in the notes.
    root : Path
        The project.
    message : str
        Of this version, for its card.
    tag : bool
        Also tag the commit that holds the version, in the form of gto. If it is not committed yet, the notes say what
        to type; the same call tags it afterwards.
    title : str, optional
        One line; by default made from the data.
    licences : sequence of str
        Of the sources, beside those that they state themselves.

    Raises
    ------
    UsageError
        Not a kind, name or version; a tag without git; a payload for DVC where there is no DVC project.
    NotFoundError
        No such folder.
    InvalidDataError
        Every problem of the payload.
    ConflictError
        Other bytes are published as this version; says which files differ.
    IntegrityError
        What is published as this version is damaged.
    """
    place = _place(kind, reference, root)
    if tag and not git.is_repository(root):
        raise UsageError(f"--tag needs git, and {root} is not in a repository", hint="git init, or leave --tag out.")
    files, left_out, problems = source_files(Path(source), _caches(root, Path(source)))
    if not files and not problems:
        problems.append(_empty(left_out))
    if problems:
        raise InvalidDataError(f"{source} cannot be published:", problems)
    registry = Registry(root)
    registry.status(place.kind, place.name)  # one that cannot be read is told before anything is written
    prepare(root)
    try:
        with contextlib.ExitStack() as stack:
            draft = _draft(stack, place.folder)
            created = not _in_the_way(place)
            if created:
                with _told(draft.path, place, str(source)):
                    _write(place, files, draft.path, str(source), message=message, title=title, licences=licences)
                draft.commit(lambda _: False)
            else:
                _check_same(place, files, str(source))
    except BaseException:
        for folder in (place.folder.parent, place.folder.parent.parent):  # made for the draft
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
    version = registry.version(place.kind, place.name, place.version)
    notes = [f"left out: {', '.join(left_out)}"] if left_out else []
    if not created and (message and message != version.manifest.message):
        notes.append("published before, with another message, which stands")
    if not announce(registry, place.kind, place.name, place.version if tag else None):
        notes.append(
            f"there is no {dvcyaml.FILE} here, so `dvc artifacts get` does not know {place.kind}/{place.name}. If it "
            "should: optotype init (or dvc init), then publish again, which makes one"
        )
    notes += _ignored(version)
    made, why = _tag(version) if tag else (None, None)
    return Published(version, created, made, (*notes, *([why] if why else [])))


def _place(kind: str, reference: str, root: Path) -> Place:
    ref = Reference.parse(reference, kind)
    if not isinstance(ref.selector, Exact):
        what = "no version" if ref.selector is None else f"{ref.selector} instead of a version"
        known = Registry(root).versions(kind, ref.name)
        after = f"The newest one is {known[-1]}." if known else f"Try {ref.name}@0.1.0."
        raise UsageError(f"{reference!r} has {what}; what is published has one, such as 1.2.0", hint=after)
    return Place(Path(os.path.abspath(root)), kind, ref.name, ref.selector.version)  # noqa: PTH100 - links stay links


def _caches(root: Path, source: Path) -> list[Path]:
    """DVC's caches, of the project and of the one that the source lies in: what they check out may be links there."""
    folders = [root, *(each for each in (source.resolve(), *source.resolve().parents) if dvc.is_dvc_project(each))]
    return [cache for folder in folders if (cache := dvc.cache_folder(folder)) is not None]


def _draft(stack: contextlib.ExitStack, folder: Path) -> Draft:
    for _ in range(_ATTEMPTS):
        # Another first publisher of the name that is refused takes the empty folder away with it.
        with contextlib.suppress(FileNotFoundError):
            return stack.enter_context(Draft(folder))
    return stack.enter_context(Draft(folder))


def _in_the_way(place: Place) -> bool:
    """Whether a version stands at a place; an empty folder is taken away.

    Raises
    ------
    ConflictError
        A folder without a manifest stands there.
    """
    if not os.path.lexists(place.folder):
        return False
    if place.is_there and not place.manifest.is_file():
        raise ConflictError(
            f"{place.relative}: a folder without {MANIFEST} is in the way; it is no whole version, and nothing was "
            "changed",
            hint=place.mending,
        )
    if not place.is_there and place.folder.is_dir():
        place.folder.rmdir()
        return False
    return True


@contextlib.contextmanager
def _told(folder: Path, place: Place, source: str) -> Iterator[None]:
    """Errors name what the publisher knows: the source, and not the draft that is gone when they are read."""

    def plain(text: str) -> str:
        return text.replace(str(folder / PAYLOAD), source).replace(str(folder), str(place.folder))

    try:
        yield
    except InvalidDataError as error:
        problems = [Problem(plain(p.where), p.kind, plain(p.message)) for p in error.problems]
        raise InvalidDataError(plain(error.summary), problems, hint=error.hint and plain(error.hint)) from error
    except OptotypeError as error:
        raise type(error)(plain(error.message), hint=error.hint and plain(error.hint)) from error


def _empty(left_out: Sequence[str]) -> Problem:
    return Problem(".", "empty", f"no files{f' but {len(left_out)} that are left out' if left_out else ''}")


def _check_same(place: Place, files: Mapping[str, Path], source: str) -> None:
    """Refuse other bytes than are published as this version."""
    manifest = Registry(place.root).version(place.kind, place.name, place.version).manifest
    before = {entry.path: entry for entry in manifest.files}
    now = {entry.path: entry for entry in hashed(files)}
    if before == now:
        return
    lines = [
        *(f"{name}: not in {source}" for name in sorted(set(before) - set(now))),
        *(f"{name}: not in the published version" for name in sorted(set(now) - set(before))),
        *(f"{name}: other bytes" for name in sorted(set(now) & set(before)) if now[name] != before[name]),
    ]
    more = [f"and {len(lines) - _DIFFERENCES_SHOWN} more"] if len(lines) > _DIFFERENCES_SHOWN else []
    known = Registry(place.root).versions(place.kind, place.name)
    raise ConflictError(
        f"{place} is published already, with other bytes:\n"
        + "\n".join(f"  - {line}" for line in lines[:_DIFFERENCES_SHOWN] + more),
        hint=f"Published versions never change. Choose a version after {known[-1]}.",
    )


def _write(
    place: Place,
    files: Mapping[str, Path],
    folder: Path,
    source: str,
    *,
    message: str,
    title: str | None,
    licences: Sequence[str],
) -> None:
    """Write a whole version into ``folder``, forced to disk."""
    payload = folder / PAYLOAD
    entries = copied(files, payload)
    reader = adapter(place.kind)
    problems = reader.problems(payload)
    if problems:
        raise InvalidDataError(f"{source} is not what is published as {place.kind}:", problems)
    description = reader.describe(payload)
    storage: Literal["git", "dvc"] = "git" if sum(entry.size for entry in entries) <= SMALL else "dvc"
    if storage == "dvc":
        _hand_to_dvc(place, payload, entries)
    lineage = Tracer(place.root).trace(description.inputs)
    stated = {" ".join(text.split()) for text in (*licences, *description.licences, *licences_of(lineage))}
    line = " ".join((title or description.title).split())
    text = card(
        str(place),
        what=reader.what,
        load=reader.load,
        description=description,
        title=line,
        digest=files_digest(entries),
        files=entries,
        storage=storage,
        lineage=lineage,
        licences=sorted(stated - {""}),
        message=message,
    )
    (folder / CARD).write_text(text, encoding="utf-8", newline="\n")
    (written,) = hashed({CARD: folder / CARD}, flush=True)
    manifest = ArtifactManifest(
        kind=place.kind,
        name=place.name,
        version=place.version,
        title=line,
        digest=files_digest(entries),
        files=tuple(entries),
        storage=storage,
        parameters=description.parameters,
        seed=description.seed,
        facts=description.facts,
        lineage=tuple(lineage),
        code=_code(place.root),
        message=message,
        licences=tuple(sorted(stated - {""})),
        card=written,
    )
    (folder / MANIFEST).write_bytes(manifest.to_bytes())
    _check_written(folder, manifest)


def _check_written(folder: Path, manifest: ArtifactManifest) -> None:
    """Force a version to disk, reading it once more: what takes its place is what the manifest says."""
    again = ArtifactManifest.parse((folder / MANIFEST).read_bytes(), str(folder / MANIFEST))
    there = hashed(payload_files(folder), flush=True)
    payload = [entry for entry in there if entry.path.startswith(f"{PAYLOAD}/")]
    if again != manifest or [(f"{PAYLOAD}/{e.path}", e.size, e.sha256) for e in manifest.files] != [
        (e.path, e.size, e.sha256) for e in payload
    ]:
        raise IntegrityError(f"{folder}: what was written is not what was meant; nothing was published")
    flush_folders(folder)


def _hand_to_dvc(place: Place, payload: Path, entries: Sequence[FileEntry]) -> None:
    if not dvc.is_dvc_project(place.root):
        size = sum(entry.size for entry in entries)
        raise UsageError(
            f"a payload of {size:,} bytes is kept by DVC (git takes up to {SMALL:,}), and {place.root} is not a DVC "
            "project",
            hint="Make it one: optotype init (in a git repository), or dvc init",
        )
    dvc.add_apart(payload, root=place.root)
    (payload.parent / ".gitignore").write_text(f"/{PAYLOAD}\n", encoding="utf-8")


def _code(root: Path) -> Code:
    """What wrote the version. Published versions and their entries in dvc.yaml do not make a tree dirty."""
    commit = git.head(root)
    if commit is None:
        return Code(optotype.__version__, None, None)
    changed = [name for name in git.changed(root) if not name.startswith(f"{ARTIFACTS}/")]
    if dvcyaml.FILE in changed:
        before = git.read_file(root, "HEAD", f"./{dvcyaml.FILE}") or b""
        now = root / dvcyaml.FILE
        if now.is_file() and dvcyaml.without_artifacts(before) == dvcyaml.without_artifacts(now.read_bytes()):
            changed.remove(dvcyaml.FILE)
    return Code(optotype.__version__, commit, bool(changed))


def _held_by_git(version: Version) -> list[str]:
    """Files of a version that git has to hold, from the root."""
    place, manifest = version.place, version.manifest
    names = [MANIFEST, CARD]
    if manifest.storage == "git":
        names += [f"{PAYLOAD}/{entry.path}" for entry in manifest.files]
    else:
        names += [place.pointer.name, ".gitignore"]
    return [f"{place.relative}/{name}" for name in names]


def _ignored(version: Version) -> list[str]:
    root = version.place.root
    if not git.is_repository(root):
        return []
    names = git.ignored(root, _held_by_git(version))
    if not names:
        return []
    return [f"git ignores {len(names)} files of {version} (such as {names[0]}): take them up with git add --force"]


def _tag(version: Version) -> tuple[str | None, str | None]:
    """Tag the commit that holds a version; or why not, and what to type."""
    place, root = version.place, version.place.root
    name = git.tag_name(place.kind, place.name, place.version)
    standing = git.tags(root, place.kind, place.name)
    if place.version in standing:
        return name, None
    commit = git.head(root)
    why = f"{place} is not committed" if commit is None else _untaggable(version, commit, standing)
    if commit is None or why is not None:
        files = f"{ARTIFACTS} {dvcyaml.FILE}" if (root / dvcyaml.FILE).is_file() else ARTIFACTS
        what = f"git add {files} && git commit"
        if commit is not None and not any(git.differs_from_head(root, name) for name in files.split()):
            what = f"git commit --allow-empty -m {shlex.quote(f'publish {place}')}"
        return None, f"not tagged yet: {why}. {what}, then publish again with --tag"
    manifest = version.manifest
    git.make_tag(root, name, commit, f"{manifest.title}\n\n{manifest.message}".strip())
    return name, None


def _untaggable(version: Version, commit: str, standing: Mapping[str, str]) -> str | None:
    """Why the tag of a version may not stand at a commit: gto and DVC would not find the payload by it."""
    place, root = version.place, version.place.root
    committed = git.files_at(root, commit, place.relative)
    if not committed.issuperset(_held_by_git(version)) or git.differs_from_head(root, place.relative):
        return f"{place} is not committed"
    if not (root / dvcyaml.FILE).is_file():
        return f"without {dvcyaml.FILE} `dvc artifacts get` never finds the tag. optotype init (or dvc init) first"
    text = git.read_file(root, commit, f"./{dvcyaml.FILE}")
    if text is None or not announced(text, place):
        return f"{dvcyaml.FILE} of HEAD does not point to {place.version}"
    others = sorted(other for other, at in standing.items() if at == commit)
    if others:
        return f"HEAD has the tag of {others[0]}, and two tags of one name on a commit break gto"
    return None
