"""Published versions as git, DVC and gto see them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from payloads import make_report, make_states, make_suite

from optotype.registry.artifacts import git
from optotype.registry.artifacts.index import Registry
from optotype.registry.artifacts.publish import SMALL, publish
from optotype.schemas.errors import ConflictError, ExternalError, IntegrityError, NotFoundError

Run = Callable[..., str]
DVC = (sys.executable, "-m", "dvc")


def _commit(run: Run, folder: Path, message: str = "publish") -> str:
    run(folder, "git", "add", ".")
    run(folder, "git", "commit", "--quiet", "-m", message)
    return run(folder, "git", "rev-parse", "HEAD").strip()


def _tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """States of more than 1 MiB."""
    return make_states(tmp_path / "large", n=400, channels=800)


def test_a_bare_clone_serves_a_small_payload(repository: Path, tmp_path: Path, shell: Run) -> None:
    source = make_suite(tmp_path / "suite", {"a/1": None})
    (source / "notes.txt").write_bytes(b"line ends\r\nof both\nkinds")
    done = publish("suite", "prime@1.0.0", source, root=repository)
    assert done.version.manifest.storage == "git"
    assert done.version.manifest.code.dirty is False
    assert done.version.manifest.code.git_commit == git.head(repository)
    _commit(shell, repository)
    bare = tmp_path / "bare.git"
    git.clone(str(repository), bare)
    base = done.version.place.relative
    for name, data in _tree(source).items():
        assert git.read_file(bare, "HEAD", f"{base}/payload/{name}") == data
    git.archive(bare, "HEAD", "artifacts/suite/prime", tmp_path / "out" / "artifacts" / "suite" / "prime")
    copy = Registry(tmp_path / "out")
    version = copy.resolve("prime@latest")
    assert version.manifest == done.version.manifest
    assert copy.verify(version) == []
    # A working copy whose git turns line ends around has the same bytes all the same.
    shell(tmp_path, "git", "clone", "--quiet", "-c", "core.autocrlf=true", str(bare), "copy")
    assert _tree(tmp_path / "copy" / base / "payload") == _tree(source)


def test_what_git_would_leave_out_is_told(repository: Path, tmp_path: Path) -> None:
    (repository / ".gitignore").write_text("*.csv\n")
    done = publish("suite", "prime@1.0.0", make_suite(tmp_path / "s", {"a/1": None}), root=repository)
    assert any("git ignores 1 files" in note and "models.csv" in note for note in done.notes)


def test_dirty_means_code_and_not_publications(repository: Path, tmp_path: Path, shell: Run) -> None:
    for i, name in enumerate(("a", "b")):
        done = publish("report", f"{name}@1.0.0", make_report(tmp_path / name), root=repository)
        assert done.version.manifest.code.dirty is False, i
    _commit(shell, repository)
    with (repository / "dvc.yaml").open("a") as file:
        file.write("params: [other.yaml]\n")
    assert (
        publish("report", "c@1.0.0", make_report(tmp_path / "c"), root=repository).version.manifest.code.dirty is True
    )


def test_dvc_yaml_names_the_latest_version_and_keeps_its_comments(repository: Path, tmp_path: Path) -> None:
    import yaml

    def entry() -> dict[str, object]:
        text = (repository / "dvc.yaml").read_text()
        assert text.startswith("# what we run\nstages: {}\n")
        found: dict[str, object] = yaml.safe_load(text)["artifacts"]["report/r"]
        return found

    for version in ("1.0.0", "1.1.0", "1.0.1", "2.0.0-rc.1"):
        publish("report", f"r@{version}", make_report(tmp_path / version, text=version), root=repository)
    digest = Registry(repository).resolve("r@1.1.0").digest
    assert entry() == {
        "path": "artifacts/report/r/1.1.0/payload",
        "type": "report",
        "desc": "1.1.0",
        "meta": {"version": "1.1.0", "digest": digest},
        "labels": ["optotype"],
    }
    Registry(repository).yank("r@1.1.0", "wrong")
    assert entry()["path"] == "artifacts/report/r/1.0.1/payload"
    for version in ("1.0.1", "1.0.0"):
        Registry(repository).yank(f"r@{version}", "wrong")
    assert entry()["path"] == "artifacts/report/r/2.0.0-rc.1/payload"
    Registry(repository).yank("r@2.0.0-rc.1", "wrong")
    assert "artifacts" not in yaml.safe_load((repository / "dvc.yaml").read_text())


def test_a_tag_waits_for_the_commit_and_is_read_by_gto(repository: Path, tmp_path: Path, shell: Run) -> None:
    from gto.tag import Action, parse_name

    source = make_report(tmp_path / "r")
    early = publish("report", "r@1.0.0", source, root=repository, tag=True)
    assert early.tag is None
    assert "git add artifacts dvc.yaml && git commit" in early.notes[-1]
    commit = _commit(shell, repository)
    again = publish("report", "r@1.0.0", source, root=repository, tag=True)
    assert (again.created, again.tag) == (False, "report/r@v1.0.0")
    assert parse_name("report/r@v1.0.0") == {"name": "report/r", "version": "v1.0.0", "action": Action.REGISTER}
    assert git.tags(repository, "report", "r") == {"1.0.0": commit}
    assert shell(repository, "git", "cat-file", "-t", "report/r@v1.0.0").strip() == "tag"  # annotated, as gto's are
    shown = json.loads(shell(repository, str(Path(sys.executable).parent / "gto"), "show", "--json", "report/r"))
    assert [row["version"] for row in shown] == ["v1.0.0"]
    # A second version on the commit of the first would break it, and one that is not in HEAD cannot be found.
    later = make_report(tmp_path / "s", text="later")
    assert publish("report", "r@1.1.0", later, root=repository, tag=True).tag is None
    _commit(shell, repository)
    assert publish("report", "r@1.1.0", later, root=repository, tag=True).tag == "report/r@v1.1.0"
    # A version of an older line: with --tag dvc.yaml points to it, so that its commit serves it.
    fix = make_report(tmp_path / "f", text="fix")
    assert publish("report", "r@1.0.1", fix, root=repository, tag=True).tag is None
    _commit(shell, repository)
    assert publish("report", "r@1.0.1", fix, root=repository, tag=True).tag == "report/r@v1.0.1"
    for version, text in (("1.0.0", "hello"), ("1.1.0", "later"), ("1.0.1", "fix")):
        out = tmp_path / "got" / version
        out.parent.mkdir(exist_ok=True)
        shell(tmp_path, *DVC, "artifacts", "get", str(repository), "report/r", "--rev", f"v{version}", "-o", str(out))
        assert text in (out / "ranking.html").read_text()
    with pytest.raises(ConflictError, match="stands at commit"):
        git.make_tag(repository, "report/r@v1.0.0", git.commit_of(repository, "HEAD"), "moved")


def test_two_tags_of_one_name_are_not_put_on_one_commit(repository: Path, tmp_path: Path, shell: Run) -> None:
    one, two = make_report(tmp_path / "1"), make_report(tmp_path / "2", text="two")
    publish("report", "r@1.0.0", one, root=repository)
    publish("report", "r@1.1.0", two, root=repository)
    _commit(shell, repository)
    assert publish("report", "r@1.1.0", two, root=repository, tag=True).tag is not None
    refused = publish("report", "r@1.0.0", one, root=repository, tag=True)
    assert refused.tag is None
    assert "does not point to 1.0.0" in refused.notes[-1]


def test_a_dvc_yaml_is_made_in_a_dvc_project_and_no_lost_tag_elsewhere(
    repository: Path, root: Path, tmp_path: Path, shell: Run
) -> None:
    (repository / "dvc.yaml").unlink()
    _commit(shell, repository)
    source = make_report(tmp_path / "r")
    early = publish("report", "r@1.0.0", source, root=repository, tag=True)
    assert not any("there is no dvc.yaml" in note for note in early.notes)
    assert "report/r:" in (repository / "dvc.yaml").read_text()
    _commit(shell, repository)
    assert publish("report", "r@1.0.0", source, root=repository, tag=True).tag == "report/r@v1.0.0"
    shell(tmp_path, *DVC, "artifacts", "get", str(repository), "report/r", "--rev", "v1.0.0", "-o", "got")
    assert _tree(tmp_path / "got") == _tree(source)

    shell(root, "git", "init", "--quiet", ".")
    publish("report", "r@1.0.0", source, root=root)
    _commit(shell, root)
    refused = publish("report", "r@1.0.0", source, root=root, tag=True)
    assert refused.tag is None
    assert "optotype init" in refused.notes[-1]
    assert git.tags(root, "report", "r") == {}


def test_a_tag_that_meets_a_clean_tree(repository: Path, tmp_path: Path, shell: Run) -> None:
    from optotype.registry.artifacts.announce import announce

    for version in ("1.0.0", "1.1.0"):
        publish("report", f"r@{version}", make_report(tmp_path / version, text=version), root=repository)
    announce(Registry(repository), "report", "r", "1.0.0")
    commit = _commit(shell, repository)
    git.make_tag(repository, "report/r@v1.1.0", commit, "by hand")
    shell(repository, "git", "commit", "--quiet", "--allow-empty", "-m", "other")
    git.make_tag(repository, "report/r@v0.9.0", git.commit_of(repository, "HEAD"), "by hand")
    refused = publish("report", "r@1.0.0", tmp_path / "1.0.0", root=repository, tag=True)
    assert "HEAD has the tag of 0.9.0" in refused.notes[-1]
    advice = refused.notes[-1].split("break gto. ")[1].split(", then publish")[0]
    assert "--allow-empty" in advice
    shell(repository, "sh", "-c", advice)
    assert publish("report", "r@1.0.0", tmp_path / "1.0.0", root=repository, tag=True).tag == "report/r@v1.0.0"


def test_nothing_here_is_not_good(repository: Path, large: Path) -> None:
    from optotype.registry.artifacts.listing import verify_versions

    done = publish("states", "lm@1.0.0", large, root=repository)
    assert [row["state"] for row in verify_versions(Registry(repository))] == ["good"]
    shutil.rmtree(done.version.place.payload)
    shutil.rmtree(repository / ".dvc" / "cache" / "files")
    (row,) = verify_versions(Registry(repository), "lm@1.0.0")
    assert (row["state"], row["problems"]) == ("not here", [])


def test_a_large_payload_is_kept_by_dvc(repository: Path, tmp_path: Path, large: Path, shell: Run) -> None:
    shell(repository, *DVC, "remote", "add", "--default", "store", str(tmp_path / "remote"))
    source = _tree(large)
    assert sum(map(len, source.values())) > SMALL
    done = publish("states", "lm@1.0.0", large, root=repository)
    place = done.version.place
    assert done.version.manifest.storage == "dvc"
    names = [".gitignore", "CARD.md", "manifest.json", "payload", "payload.dvc"]
    assert sorted(p.name for p in place.folder.iterdir()) == names
    assert _tree(place.payload) == source
    registry = Registry(repository)
    assert registry.verified(done.version).copies == {"workspace": "whole", "cache": "whole"}
    assert not publish("states", "lm@1.0.0", large, root=repository).created
    assert publish("states", "lm@1.0.0", large, root=repository, tag=True).tag is None
    _commit(shell, repository)
    assert shell(repository, "git", "ls-files", "artifacts/states/lm/1.0.0/payload") == ""
    assert publish("states", "lm@1.0.0", large, root=repository, tag=True).tag == "states/lm@v1.0.0"
    assert "up to date" in shell(repository, *DVC, "status")

    shell(repository, *DVC, "push")
    copy = tmp_path / "copy"
    shell(tmp_path, "git", "clone", "--quiet", str(repository), str(copy))
    for name, command in {
        "get": ("get", str(copy), place.relative),
        "import": ("import", str(copy), place.relative),
    }.items():
        here = tmp_path / name
        here.mkdir()
        shell(here, *DVC, "init", "--no-scm", "--quiet")
        shell(here, *DVC, *command, "-o", "version")
        got = _tree(here / "version")
        assert {key.removeprefix("payload/"): got[key] for key in got if key.startswith("payload/")} == source
        assert got["manifest.json"] == place.manifest.read_bytes()
    shell(tmp_path, *DVC, "artifacts", "get", str(copy), "states/lm", "-o", str(tmp_path / "artifact"))
    assert _tree(tmp_path / "artifact") == source


def test_copies_in_the_cache(repository: Path, large: Path, tmp_path: Path) -> None:
    done = publish("states", "lm@1.0.0", large, root=repository)
    registry, place = Registry(repository), done.version.place
    shutil.rmtree(place.payload)
    version = registry.resolve("lm@1.0.0")
    assert registry.verified(version).copies == {"workspace": "absent", "cache": "whole"}
    assert registry.verify(version) == []
    folder = registry.payload(version)
    assert folder.is_relative_to(repository / ".optotype" / "cache")
    assert _tree(folder) == _tree(large)
    assert registry.payload(version) == folder
    assert _tree(registry.payload(version, cache=tmp_path / "elsewhere")) == _tree(large)

    shard = max(
        (p for p in (repository / ".dvc/cache/files/md5").rglob("*") if p.is_file()), key=lambda p: p.stat().st_size
    )
    data = bytearray(shard.read_bytes())
    data[100] ^= 1
    shard.chmod(0o644)
    shard.write_bytes(bytes(data))
    (problem,) = registry.verify(version)
    assert problem.where == shard.relative_to(repository).as_posix()
    assert problem.kind == "digest"
    assert "states/c/0/0" in problem.message
    with pytest.raises(IntegrityError, match="other bytes"):
        registry.payload(version, cache=tmp_path / "third")
    assert not (tmp_path / "third").exists() or list((tmp_path / "third").iterdir()) == []
    listing = next((repository / ".dvc/cache/files/md5").rglob("*.dir"))
    listing.chmod(0o644)
    before = listing.read_bytes()
    for text in (b"{", b"{}", b'[{"relpath": "a", "md5": "../../x"}]'):
        listing.write_bytes(text)
        assert [p.kind for p in registry.verify(version)] == (["pointer"] if text != b"{}" else []), text
    listing.write_bytes(b'[{"relpath": "a", "md5": "%s"}]' % (b"0" * 32))
    assert [p.kind for p in registry.verify(version)] == ["other-files"]
    listing.write_bytes(before)
    shard.unlink()
    assert registry.verified(version).copies == {"workspace": "absent", "cache": "partial"}
    with pytest.raises(NotFoundError) as error:
        registry.payload(version, cache=tmp_path / "fourth")
    assert "dvc pull" in str(error.value.hint)
    place.pointer.write_text("outs: [{md5: nonsense, path: payload}]\n")
    assert [p.kind for p in registry.verify(version)] == ["pointer"]
    place.pointer.unlink()
    assert [p.kind for p in registry.verify(version)] == ["missing-file"]


def test_a_cache_in_another_place_is_found(repository: Path, large: Path, tmp_path: Path, shell: Run) -> None:
    shell(repository, *DVC, "cache", "dir", str(tmp_path / "cache"))
    done = publish("states", "lm@1.0.0", large, root=repository)
    assert (tmp_path / "cache" / "files" / "md5").is_dir()
    assert Registry(repository).verified(done.version).copies["cache"] == "whole"


def test_dvc_that_fails_leaves_nothing(repository: Path, large: Path) -> None:
    (repository / "dvc.yaml").write_text("stages: [")
    with pytest.raises(ExternalError, match="dvc add"):
        publish("states", "lm@1.0.0", large, root=repository)
    assert Registry(repository).all() == []


def test_a_committed_version_that_is_changed_with_a_right_digest_is_named(
    repository: Path, tmp_path: Path, shell: Run
) -> None:
    from dataclasses import replace

    done = publish("report", "r@1.0.0", make_report(tmp_path / "r"), root=repository)
    _commit(shell, repository)
    done.version.place.manifest.write_bytes(replace(done.version.manifest, message="better").to_bytes())
    (problem,) = Registry(repository).verify(Registry(repository).resolve("r@1.0.0"))
    assert (problem.where, problem.kind) == ("artifacts/report/r/1.0.0/manifest.json", "changed-since-commit")


def test_a_project_in_a_folder_of_a_repository(tmp_path: Path, shell: Run) -> None:
    shell(tmp_path, "git", "init", "--quiet", ".")
    root = tmp_path / "sub" / "project"
    root.mkdir(parents=True)
    (root / "dvc.yaml").write_text("stages: {}\n")
    source = make_report(tmp_path / "r")
    publish("report", "r@1.0.0", source, root=root, tag=True)
    _commit(shell, tmp_path)
    assert publish("report", "r@1.0.0", source, root=root, tag=True).tag == "report/r@v1.0.0"
    (root / "artifacts/report/r/1.0.0/CARD.md").write_text("x")
    problems = Registry(root).verify(Registry(root).resolve("r@1.0.0"))
    assert {p.kind for p in problems} == {"size", "changed-since-commit"}


def test_git_words(tmp_path: Path, shell: Run) -> None:
    assert git.head(tmp_path) is None
    assert not git.is_repository(tmp_path)
    with pytest.raises(ExternalError, match="git clone failed"):
        git.clone(str(tmp_path / "nothing"), tmp_path / "bare")
    shell(tmp_path, "git", "init", "--quiet", ".")
    assert git.head(tmp_path) is None
    (tmp_path / "a").symlink_to("b")
    commit = _commit(shell, tmp_path)
    assert git.commit_of(tmp_path, "HEAD") == commit
    with pytest.raises(NotFoundError):
        git.commit_of(tmp_path, "--upload-pack=x")
    with pytest.raises(NotFoundError):
        git.archive(tmp_path, "HEAD", "nothing", tmp_path / "out")
    with pytest.raises(ExternalError, match="link or submodule"):
        git.archive(tmp_path, "HEAD", "a", tmp_path / "out")
    assert git.read_file(tmp_path, "HEAD", "nothing") is None


def test_without_git_installed(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises((OSError, subprocess.SubprocessError)):
        subprocess.run(["git", "--version"], check=True)
    done = publish("report", "r@1.0.0", make_report(tmp_path / "r"), root=root)
    assert done.version.manifest.code.git_commit is None
    assert Registry(root).verify(done.version) == []
