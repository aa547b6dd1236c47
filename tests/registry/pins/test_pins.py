"""A second repository pins, pulls and uses a suite, and is told by file name when anything is not what it was."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from optotype.registry.artifacts.index import Registry
from optotype.registry.artifacts.manifest import ArtifactManifest
from optotype.registry.pins.load import load, load_suite
from optotype.registry.pins.lock import LOCK, Lock, Pin, read_lock, write_lock
from optotype.registry.pins.pin import pin
from optotype.registry.pins.pull import pull
from optotype.registry.pins.registry import open_registry
from optotype.registry.pins.tree import PINS
from optotype.registry.pins.update import Moved, update
from optotype.schemas.errors import (
    ConflictError,
    ExternalError,
    FormatError,
    IntegrityError,
    NotFoundError,
    UsageError,
)

Run = Callable[..., str]
PLACE = "artifacts/suite/prime/1.0.0"


def flip(path: Path, at: int = 10) -> None:
    """Flip one bit of one byte, read-only or not."""
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


@pytest.fixture(params=["url", "path", "bare"])
def source(request: pytest.FixtureRequest, publisher: Any, tmp_path: Path, shell: Run) -> Callable[[], str]:
    """The three forms of a source; called after publishing."""

    def of() -> str:
        if request.param == "url":
            return str(publisher.url)
        if request.param == "path":
            return "../publisher"
        bare = tmp_path / "bare.git"
        if bare.exists():
            shell(bare, "git", "fetch", "--quiet", "--force", "--prune", "origin", "+refs/*:refs/*")
        else:
            shell(tmp_path, "git", "clone", "--quiet", "--mirror", str(publisher.root), str(bare))
        return "../bare.git"

    return of


def test_pin_pull_and_use(publisher: Any, downstream: Path, source: Callable[[], str], shell: Run) -> None:
    published = publisher.suite("1.0.0", "a/1", "b/2", tag=True)
    publisher.suite("1.2.0", "a/1", "b/3", tag=True)
    publisher.suite("2.0.0", "c/1")
    publisher.suite("2.1.0-rc.1", "c/1")
    text = source()
    made = pin("suite/prime@^1.0", text)
    assert (made.before, made.notes) == (None, ())
    assert (made.pin.version, made.pin.requested, made.pin.source) == ("1.2.0", "^1.0", text)
    assert made.pin.tag == "suite/prime@v1.2.0"
    assert made.pin.revision == shell(publisher.root, "git", "rev-parse", "suite/prime@v1.2.0^{commit}").strip()
    assert read_lock(downstream) == Lock((made.pin,))
    with pytest.raises(NotFoundError, match="not pulled"):
        load_suite("prime")
    (pulled,) = pull(locked=True)
    assert (pulled.state, pulled.notes) == ("pulled", ())
    suite = load_suite("prime")
    assert suite.items[["benchmark", "item_id"]].to_numpy().tolist() == [["a", "1"], ["b", "3"]]
    assert suite.path == pulled.path == downstream / PINS / "artifacts/suite/prime/1.2.0/payload"
    assert suite.manifest.digest == suite.pin.digest
    assert str(suite) == "suite/prime@1.2.0"
    assert pull(["suite/prime@^1"])[0].state == "present"
    assert load("suite", "prime@1.2.0").path == suite.path
    # What was pulled is a registry of its own, and git sees the lock alone.
    assert Registry(downstream / PINS).verify(Registry(downstream / PINS).resolve("prime@latest")) == []
    assert shell(downstream, "git", "status", "--porcelain", "--untracked-files=all").split() == ["??", LOCK]
    exact = pin("prime@1.0.0", text)
    assert (exact.before, exact.pin.digest) == (made.pin, published.version.digest)
    assert pin("suite/prime@latest").pin.version == "2.0.0"  # from the source that it had
    assert pin("suite/prime@latest").pin.tag is None


def test_offline_from_the_cache(
    publisher: Any, downstream: Path, source: Callable[[], str], tmp_path: Path, cache: Path
) -> None:
    publisher.suite("1.0.0", tag=True)
    pin("suite/prime@1.0.0", source())
    pull()
    for folder in (publisher.root, tmp_path / "bare.git", cache / "repositories"):
        if folder.exists():
            folder.rename(folder.with_name(f"{folder.name}.away"))
    shutil.rmtree(downstream / PINS)
    (again,) = pull(locked=True)
    assert again.state == "pulled"
    assert "cannot be reached" in again.notes[0]
    assert len(load_suite("prime").items) == 2
    with pytest.raises((ExternalError, NotFoundError)):
        pin("suite/prime@1.0.0")
    shutil.rmtree(cache)
    assert pull()[0].state == "present"
    shutil.rmtree(downstream / PINS)
    with pytest.raises(ExternalError, match="cannot be reached"):
        pull()
    assert not (downstream / PINS / PLACE).exists()


def test_a_flipped_byte_in_what_was_pulled_is_named(publisher: Any, downstream: Path) -> None:
    publisher.suite("1.0.0")
    pin("suite/prime@1.0.0", publisher.url)
    pull()
    bad = downstream / PINS / PLACE / "payload" / "items.parquet"
    flip(bad)
    for use in (lambda: load_suite("prime"), lambda: pull()):
        with pytest.raises(IntegrityError, match=rf"{bad}: sha256 [0-9a-f]*, published was") as error:
            use()
        assert "Remove" in str(error.value.hint)
    (bad.parent / "extra.txt").write_text("x")
    bad.unlink()
    with pytest.raises(IntegrityError) as error:
        load_suite("prime")
    assert "items.parquet: missing" in error.value.message
    assert "extra.txt: the manifest does not list it" in error.value.message
    shutil.rmtree(downstream / PINS / PLACE)
    assert pull()[0].state == "pulled"
    assert len(load_suite("prime").items) == 2


def test_a_flipped_byte_at_the_source_or_in_the_cache(publisher: Any, downstream: Path, cache: Path) -> None:
    publisher.suite("1.0.0")
    pin("suite/prime@1.0.0", "../publisher")
    bad = publisher.payload("1.0.0") / "models.csv"
    flip(bad)
    with pytest.raises(IntegrityError, match=f"{bad}: sha256"):
        pull()
    assert not (downstream / PINS / PLACE).exists()
    flip(bad)
    models = bad.read_bytes()
    pull()
    shutil.rmtree(downstream / PINS)
    objects = sorted(path for path in (cache / "objects").rglob("*") if path.is_file())
    assert len(objects) == 5  # three files, manifest and card
    for path in objects:
        flip(path, 0)
    assert pull()[0].state == "pulled"  # fetched again
    shutil.rmtree(downstream / PINS)
    publisher.root.rename(publisher.root.with_name("away"))
    sha256 = hashlib.sha256(models).hexdigest()
    one = cache / "objects" / sha256[:2] / sha256[2:]
    flip(one, 0)
    with pytest.raises(ExternalError, match=rf"1 of its 3 files are not in the cache \(damaged there: {one}\)"):
        pull()
    assert one.exists()  # until a good one is there
    flip(one, 0)
    for path in objects:
        flip(path, 0)
    with pytest.raises(ExternalError, match=rf"not in the cache \(damaged there: {cache}/objects/"):
        pull()
    assert all(path.exists() for path in objects)
    publisher.root.with_name("away").rename(publisher.root)
    assert pull()[0].state == "pulled"


def test_an_edited_manifest_is_named(publisher: Any, downstream: Path, source: Callable[[], str]) -> None:
    publisher.suite("1.0.0")
    pin("suite/prime@1.0.0", source())
    pull()
    # Edited with a right seal, and committed: only the lock can tell.
    path = publisher.root / PLACE / "manifest.json"
    before = path.read_bytes()
    manifest = ArtifactManifest.parse(before, "")
    path.write_bytes(replace(manifest, message="better").to_bytes())
    publisher.commit()
    source()
    with pytest.raises(IntegrityError, match=f"{PLACE}/manifest.json: not the manifest that optotype.lock pins"):
        pull()
    path.write_bytes(before)
    publisher.commit()
    source()
    assert pull()[0].state == "present"
    mine = downstream / PINS / PLACE / "manifest.json"
    mine.write_bytes(before.replace(b"0.05", b"0.06"))
    for use in (lambda: load_suite("prime"), lambda: pull(), lambda: open_registry(None).resolve("suite/prime")):
        with pytest.raises(IntegrityError, match=f"{mine}: not the manifest"):
            use()
    mine.unlink()
    with pytest.raises(IntegrityError, match=f"{mine}: missing"):
        load_suite("prime")


def test_a_moved_tag_is_named(publisher: Any, downstream: Path, source: Callable[[], str], shell: Run) -> None:
    publisher.suite("1.0.0", tag=True)
    pin("suite/prime@1.0.0", source())
    pull()
    commit = publisher.commit()
    for move in (("git", "tag", "--force", "suite/prime@v1.0.0", commit), ("git", "tag", "-d", "suite/prime@v1.0.0")):
        shell(publisher.root, *move)
        source()
        said = f"stands at commit {commit[:12]}" if "--force" in move else "is gone"
        with pytest.raises(IntegrityError, match=f"the tag suite/prime@v1.0.0 {said}.*{PLACE}/manifest.json"):
            pull()
    assert pin("suite/prime@1.0.0").pin.tag is None
    assert pull()[0].state == "present"
    # A tag that comes later is fine where it holds the pinned manifest.
    shell(publisher.root, "git", "tag", "suite/prime@v1.0.0", commit)
    source()
    assert pull()[0].state == "present"
    path = publisher.root / PLACE / "manifest.json"
    path.write_bytes(replace(ArtifactManifest.parse(path.read_bytes(), ""), message="x").to_bytes())
    other = publisher.commit()
    shell(publisher.root, "git", "tag", "--force", "suite/prime@v1.0.0", other)
    shell(publisher.root, "git", "revert", "--no-edit", "HEAD")
    source()
    with pytest.raises(IntegrityError, match=f"{PLACE}/manifest.json at the tag suite/prime@v1.0.0: not the manifest"):
        pull()
    with pytest.raises(IntegrityError, match=r"tag suite/prime@v1.0.0 holds"):
        pin("suite/prime@1.0.0")


def test_a_yanked_version(publisher: Any, downstream: Path, source: Callable[[], str]) -> None:
    publisher.suite("1.0.0")
    done = publisher.suite("1.1.0", "a/1")
    pin("suite/prime@^1", source())
    Registry(publisher.root).yank("suite/prime@1.1.0", "the answer key was wrong")
    publisher.commit()
    source()
    (pulled,) = pull()
    said = "artifacts/suite/prime/status.json: suite/prime@1.1.0 was yanked: the answer key was wrong"
    assert said in pulled.notes[0]
    assert len(load_suite("prime").items) == 1
    assert open_registry(None).resolve("prime").yanked == "the answer key was wrong"
    with pytest.raises(ConflictError, match=said):
        pull(locked=True)
    for text in ("suite/prime@1.1.0", f"suite/prime@{done.version.digest}"):
        with pytest.raises(ConflictError, match=said) as error:
            pin(text)
        assert "1.0.0" in str(error.value.hint)
    assert pin("suite/prime@^1").pin.version == "1.0.0"


def test_a_folder_that_has_not_committed(publisher: Any, downstream: Path, tmp_path: Path) -> None:
    publisher.suite("1.0.0")
    (publisher.root / PLACE / "CARD.md").touch()
    assert pin("suite/prime@1.0.0", publisher.root).notes == ()
    shutil.copytree(publisher.root / "artifacts", tmp_path / "plain" / "artifacts")
    plain = pin("suite/prime@1.0.0", "../plain")
    assert plain.pin.revision is None
    assert "not under git" in plain.notes[0]
    (pulled,) = pull()
    assert "no git revision" in pulled.notes[0]
    with pytest.raises(UsageError, match="--locked"):
        pull(locked=True)
    with (publisher.root / PLACE / "payload" / "models.csv").open("a") as file:
        file.write("\n")
    made = pin("suite/prime@1.0.0", "../publisher")
    assert made.pin.revision is None
    assert "models.csv" in made.notes[0]


def test_what_cannot_be_pinned(publisher: Any, downstream: Path, tmp_path: Path, shell: Run) -> None:
    publisher.suite("1.0.0")
    with pytest.raises(UsageError, match="which version") as which:
        pin("suite/prime", publisher.url)
    assert "1.0.0" in str(which.value)
    with pytest.raises(NotFoundError, match=r"1\.0\.0"):
        pin("suite/prime@^2", publisher.url)
    with pytest.raises(NotFoundError, match="no suite/prim is published") as error:
        pin("suite/prim@1.0.0", publisher.url)
    assert "suite/prime" in str(error.value.hint)
    with pytest.raises(UsageError, match="from where"):
        pin("suite/prime@1.0.0")
    with pytest.raises(NotFoundError, match="no such folder"):
        pin("suite/prime@1.0.0", "../nothing")
    with pytest.raises(NotFoundError, match="nothing is published"):
        pin("suite/prime@1.0.0", ".")
    with pytest.raises(ExternalError, match="git clone failed"):
        pin("suite/prime@1.0.0", (tmp_path / "nothing").as_uri())
    for text, said in {
        "ext::sh -c true": "neither",
        "--upload-pack=x": "neither",
        "ftp://x/y": "git URL starts with",
        "https://me:secret@host/x": "password",
    }.items():
        with pytest.raises(UsageError, match=said) as refused:
            pin("suite/prime@1.0.0", text)
        assert "secret" not in str(refused.value)
    assert not (downstream / LOCK).exists()
    with pytest.raises(NotFoundError, match="nothing is pinned"):
        pull()
    shell(tmp_path, "git", "init", "--quiet", "--bare", "empty.git")
    with pytest.raises(NotFoundError):
        pin("suite/prime@1.0.0", (tmp_path / "empty.git").as_uri())


def test_a_project_in_a_folder_of_the_repository(tmp_path: Path, publisher: Any, downstream: Path, shell: Run) -> None:
    publisher.suite("1.0.0")
    mono = tmp_path / "mono"
    shutil.copytree(publisher.root / "artifacts", mono / "sub" / "registry" / "artifacts")
    shell(mono, "git", "init", "--quiet", ".")
    shell(mono, "git", "add", ".")
    shell(mono, "git", "commit", "--quiet", "-m", "x")
    made = pin("prime@1.0.0", mono.as_uri())
    assert made.pin.kind == "suite"
    assert pull(locked=True)[0].state == "pulled"
    assert pin("prime@1.0.0", "../mono/sub/registry").pin.revision == made.pin.revision
    shutil.copytree(mono / "sub", mono / "other")
    shell(mono, "git", "add", ".")
    shell(mono, "git", "commit", "--quiet", "-m", "x")
    with pytest.raises(ConflictError, match="several folders"):
        pin("prime@1.0.0", mono.as_uri())


def test_rewritten_history(publisher: Any, downstream: Path, cache: Path, shell: Run) -> None:
    publisher.suite("1.0.0")
    pin("suite/prime@1.0.0", publisher.url)
    shell(publisher.root, "git", "checkout", "--quiet", "--orphan", "trunk")
    publisher.commit()
    shell(publisher.root, "git", "branch", "-D", "main")
    shutil.rmtree(cache)
    assert pull(locked=True)[0].state == "pulled"  # HEAD has the same manifest
    shutil.rmtree(downstream / PINS)
    shutil.rmtree(cache)
    shutil.rmtree(publisher.root / "artifacts")
    publisher.suite("2.0.0")
    shell(publisher.root, "git", "checkout", "--quiet", "--orphan", "third")
    publisher.commit()
    shell(publisher.root, "git", "branch", "-D", "trunk")
    with pytest.raises(IntegrityError, match=f"{PLACE}/manifest.json: gone"):
        pull()
    assert pin("suite/prime@2.0.0", publisher.url).pin.version == "2.0.0"


def test_a_version_that_was_deleted_later_is_in_its_commit(
    publisher: Any, downstream: Path, source: Callable[[], str], shell: Run
) -> None:
    publisher.suite("1.0.0")
    made = pin("suite/prime@1.0.0", source()).pin
    for left in (True, False):  # another version is left, then nothing at all
        if left:
            publisher.suite("2.0.0", "c/1")
        shutil.rmtree(publisher.root / (PLACE if left else "artifacts"))
        publisher.commit()
        source()
        (pulled,) = pull(locked=True)
        assert pulled.state == "pulled"
        assert f"no longer in {made.source}; it is read from commit {str(made.revision)[:12]}" in pulled.notes[0]
        assert len(load_suite("prime").items) == 2
        shutil.rmtree(downstream / PINS)
        shutil.rmtree(Path(os.environ["OPTOTYPE_CACHE"]))


def test_the_revision_of_a_lock_is_looked_for(
    publisher: Any, downstream: Path, source: Callable[[], str], shell: Run
) -> None:
    before = publisher.commit()
    publisher.suite("1.0.0")
    made = pin("suite/prime@1.0.0", source()).pin
    assert pull()[0].notes == ()
    write_lock(downstream, Lock((replace(made, revision="a" * 40),)))
    assert "has no commit aaaaaaaaaaaa" in pull()[0].notes[0]
    write_lock(downstream, Lock((replace(made, revision=before),)))
    with pytest.raises(IntegrityError, match=f"manifest.json at commit {before[:12]}: not there"):
        pull()


def test_update_fills_a_revision_in(publisher: Any, downstream: Path) -> None:
    publisher.suite("1.0.0")
    extra = publisher.root / PLACE / "payload" / "extra"
    extra.write_text("x")
    assert pin("suite/prime@1.0.0", "../publisher").pin.revision is None
    extra.unlink()
    commit = publisher.commit()
    (moved,) = update(agree=lambda move: False)
    assert (moved.diff, moved.after.revision) == (None, commit)
    assert read_lock(downstream).pins == (moved.after,)
    publisher.commit()
    assert not update(agree=lambda move: True)[0].moved


def test_git_says_why(tmp_path: Path, downstream: Path) -> None:
    url = (tmp_path / "nothing").as_uri()
    with pytest.raises(ExternalError, match=f"{url}: git clone failed: fatal: .*does not (exist|appear)") as error:
        pin("suite/prime@1.0.0", url)
    assert f"git ls-remote {url}" in str(error.value.hint)
    assert "and the repository exists" not in error.value.message


def test_a_cache_that_cannot_be_used_is_called_one(
    publisher: Any, downstream: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher.suite("1.0.0")
    (tmp_path / "file").write_text("")
    for place in (Path("/proc/nope"), tmp_path / "file", tmp_path / "file" / "below"):
        monkeypatch.setenv("OPTOTYPE_CACHE", str(place))
        for text in (publisher.url, "../publisher"):
            with pytest.raises(UsageError, match=f"the cache {place} cannot be made") as error:
                pin("suite/prime@1.0.0", text)
            assert "OPTOTYPE_CACHE" in str(error.value.hint)


def test_update_shows_the_difference_first(publisher: Any, downstream: Path, source: Callable[[], str]) -> None:
    publisher.suite("1.0.0", "a/1", "b/2")
    first = pin("suite/prime@^1", source()).pin
    pull()
    assert [(m.diff, m.moved) for m in update(agree=lambda move: False)] == [(None, False)]
    publisher.suite("1.1.0", "a/1", "c/3", tag=True)
    publisher.suite("2.0.0", "z/1")
    source()
    shown: list[Moved] = []

    def look(move: Moved) -> bool:
        assert read_lock(downstream).pins == (first,)
        shown.append(move)
        return len(shown) > 1

    (left,) = update(["prime"], agree=look)
    assert not left.moved
    assert read_lock(downstream).pins == (first,)
    (moved,) = update(agree=look)
    assert moved.moved
    assert moved.diff is not None
    assert moved.diff["items"]["added"] == [["c", "3"]]
    assert moved.diff["items"]["removed"] == [["b", "2"]]
    assert (moved.after.version, moved.after.tag) == ("1.1.0", "suite/prime@v1.1.0")
    assert read_lock(downstream).pins == (moved.after,)
    (further,) = update(["suite/prime@^2"], agree=lambda move: True)
    assert (further.after.version, further.after.requested) == ("2.0.0", "^2")
    assert pull()[0].path.parent.name == "2.0.0"
    with pytest.raises(NotFoundError, match="not pinned"):
        update(["suite/other"], agree=lambda move: True)


def test_update_needs_its_source(publisher: Any, downstream: Path) -> None:
    publisher.suite("1.0.0")
    pin("suite/prime@^1", publisher.url)
    publisher.root.rename(publisher.root.with_name("away"))
    with pytest.raises(ExternalError, match="cannot be reached"):
        update(agree=lambda move: True)


def test_a_name_without_a_version_is_the_pin(publisher: Any, downstream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher.suite("1.0.0")
    publisher.suite("1.1.0", "a/1")
    pin("suite/prime@1.0.0", publisher.url)
    with pytest.raises(NotFoundError, match="optotype pull suite/prime"):
        open_registry(None).resolve("prime")
    pull()
    registry = open_registry(None)
    assert registry.resolve("prime").version == "1.0.0"
    assert registry.payload(registry.resolve("suite/prime")).is_relative_to(downstream)
    assert registry.resolve("prime@^1").version == "1.0.0"  # what was pulled
    # In a project, its own versions count too, and its lock says which a name means.
    shutil.copytree(downstream / PINS, publisher.root / PINS)
    shutil.copy(downstream / LOCK, publisher.root / LOCK)
    monkeypatch.chdir(publisher.root)
    mixed = open_registry(publisher.root)
    assert (mixed.resolve("prime").version, mixed.resolve("prime@latest").version) == ("1.0.0", "1.1.0")
    write_lock(publisher.root, Lock())
    with pytest.raises(UsageError, match="which version"):
        open_registry(publisher.root).resolve("prime")
    monkeypatch.chdir(publisher.root.parent)
    with pytest.raises(NotFoundError):
        open_registry(None)


def test_the_lock(tmp_path: Path) -> None:
    one = Pin(
        "suite",
        "a",
        "^1",
        "1.0.0",
        "sha256:" + "0" * 64,
        "sha256:" + "1" * 64,
        "../x",
        "2" * 40,
        "suite/a@v1.0.0",
        3,
        9,
    )
    two = replace(one, kind="pairs", tag=None, revision=None)
    lock = Lock().with_pin(one).with_pin(two)
    assert [p.kind for p in lock.pins] == ["pairs", "suite"]
    write_lock(tmp_path, lock)
    text = (tmp_path / LOCK).read_bytes()
    assert Lock.parse(text, "") == lock == read_lock(tmp_path)
    assert lock.with_pin(replace(one, version="1.1.0", tag=None)).get("suite", "a") == replace(
        one, version="1.1.0", tag=None
    )
    document = json.loads(text)
    assert document["format_version"] == 1
    bad: list[dict[str, Any]] = [
        {"kind": "suites"},
        {"name": "../a"},
        {"version": "1"},
        {"digest": "sha256:0"},
        {"manifest": None},
        {"revision": "main"},
        {"requested": ""},
        {"tag": "suite/b@v1.0.0"},
        {"source": ""},
        {"source": "a\nb"},
        {"files": "3"},
        {"extra": 1},
    ]
    for change in bad:
        changed = {**document, "pins": [{**document["pins"][1], **change}]}
        with pytest.raises(FormatError, match=r"x\.lock"):
            Lock.parse(json.dumps(changed).encode(), "x.lock")
    first, second = document["pins"]
    broken = {key: value for key, value in first.items() if key not in ("digest", "tag")} | {"bytes": -1, "kind": "x"}
    everything = {**document, "more": 1, "pins": [broken, "text", {**second, "files": True, "name": 3}]}
    with pytest.raises(FormatError) as error:
        Lock.parse(json.dumps(everything).encode(), "x.lock")
    for said in (
        "unknown field 'more'",
        "digest is missing",
        "tag is missing",
        "bytes: a whole number from 0 up, got -1",
        "'x' is not a kind",
        'pins[1]: an entry is a JSON object, got "text"',
        "files: a whole number from 0 up, got true",
        "name: text, got 3",
    ):
        assert said in error.value.message
    for word in ("__init__", "**", "Traceback"):
        assert word not in error.value.message
    with pytest.raises(FormatError, match="pins is a list"):
        Lock.parse(b'{"format_version": 1, "kind": "lock"}', "x.lock")
    with pytest.raises(FormatError, match="merge marks") as error:
        Lock.parse(b"{\n<<<<<<< HEAD\n}\n=======\n>>>>>>> other\n", "x.lock")
    assert "git checkout" in str(error.value.hint)
    with pytest.raises(FormatError, match="pinned twice: suite/a"):
        Lock.parse(json.dumps({**document, "pins": [document["pins"][1]] * 2}).encode(), "")
    with pytest.raises(FormatError, match="format_version 2"):
        Lock.parse(json.dumps({**document, "format_version": 2}).encode(), "")


def test_pulls_and_pins_at_once(publisher: Any, downstream: Path, cache: Path) -> None:
    for name in "abcd":
        publisher.suite("1.0.0", name=name)
    script = (
        "import sys; from optotype.registry.pins.pin import pin; from optotype.registry.pins.pull import pull\n"
        "pin(f'suite/{sys.argv[1]}@1.0.0', sys.argv[2]); pull()"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script, name, publisher.url], stderr=subprocess.PIPE, text=True)
        for name in "abcd"
    ]
    for process in running:
        said = process.communicate(timeout=120)[1]
        assert process.returncode == 0, said
    assert [made.name for made in read_lock(downstream).pins] == list("abcd")
    assert [each.state for each in pull(locked=True)] == ["present"] * 4
    assert [*downstream.rglob("*.draft"), *cache.rglob("*.draft")] == []


@pytest.mark.parametrize("after", [1, 2, 4, 5, 6, 8])
def test_a_pull_that_is_killed_leaves_all_or_nothing(publisher: Any, downstream: Path, after: int) -> None:
    publisher.suite("1.0.0")
    pin("suite/prime@1.0.0", publisher.url)
    script = f"""
import os, signal
from pathlib import Path
calls = 0
def counted(function):
    def instead(*a, **k):
        global calls
        calls += 1
        if calls == {after}:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*a, **k)
    return instead
Path.replace, Path.rename, os.fsync = counted(Path.replace), counted(Path.rename), counted(os.fsync)
from optotype.registry.pins.pull import pull
pull()
"""
    killed = subprocess.run([sys.executable, "-c", script], check=False, timeout=120, capture_output=True)
    assert killed.returncode == -9
    assert not (downstream / PINS / PLACE).exists() or len(load_suite("prime").items) == 2
    assert pull()[0].path.is_dir()
    assert len(load_suite("prime").items) == 2
