"""Drafts: out of sight until they are whole, one step into place, removed when their writer is dead."""

import fcntl
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from optotype.schemas.errors import ConflictError
from optotype.store import drafts
from optotype.store.drafts import Draft, draft_file, is_draft, recover, recover_all, remove_leftovers, writing


def anything(_folder):
    return True


@pytest.fixture(params=["exchange", "steps"])
def both(request, monkeypatch):
    """With and without the system call that exchanges two names."""
    if request.param == "steps":
        monkeypatch.setattr(drafts, "_exchange", lambda one, other: False)
    return request.param


def test_replaces_in_place(tmp_path, both, files):
    target = tmp_path / "deep" / "a"
    for text in ("one", "two"):
        with Draft(target) as draft:
            (draft.path / "file").write_text(text)
            assert is_draft(draft.path.name)
            draft.commit(anything)
        assert (target / "file").read_text() == text
    assert files(tmp_path) == ["deep", "deep/a", "deep/a/file"]


def test_linux_exchanges(tmp_path):
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    if drafts._exchange(tmp_path / "a", tmp_path / "b"):
        assert (tmp_path / "a").read_text() == "b"
        assert (tmp_path / "b").read_text() == "a"
        with pytest.raises(FileNotFoundError):
            drafts._exchange(tmp_path / "a", tmp_path / "none")


def test_without_commit_nothing_is_left(tmp_path, files):
    with pytest.raises(RuntimeError, match="stop"), Draft(tmp_path / "a") as draft:  # noqa: PT012
        (draft.path / "file").write_text("x")
        raise RuntimeError("stop")
    with Draft(tmp_path / "b"):
        pass
    assert files(tmp_path) == []


def test_what_may_not_be_replaced_stays(tmp_path, files):
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for name in ("a", "link"):
        with Draft(tmp_path / name) as draft, pytest.raises(ConflictError):
            draft.commit(lambda folder: False)
    assert files(tmp_path) == ["a", "link"]


def test_a_live_draft_is_not_a_leftover(tmp_path):
    with Draft(tmp_path / "a") as one, Draft(tmp_path / "a") as two, Draft(tmp_path / "b"):
        assert one.path.is_dir()
        assert two.path.is_dir()
        two.commit(anything)
        one.commit(anything)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_one_writer_a_target(tmp_path, monkeypatch, files):
    monkeypatch.setattr(drafts, "_PATIENCE", 0.02)

    def other(name):
        with writing(tmp_path / name), Draft(tmp_path / name) as draft:
            draft.commit(anything)

    with ThreadPoolExecutor(1) as pool, writing(tmp_path / "a"):
        remove_leftovers(tmp_path)
        with pytest.raises(ConflictError, match=r"another process is writing .*/a"):
            pool.submit(other, "a").result()
        pool.submit(other, "b").result()
        with writing(tmp_path / "a"), Draft(tmp_path / "a") as draft:
            draft.commit(anything)
        assert all(is_draft(name) for name in files(tmp_path) if name not in "ab")
        with pytest.raises(ConflictError):  # the inner block did not let go of it
            pool.submit(other, "a").result()
    assert files(tmp_path) == ["a", "b"]


def test_a_single_write_waits_for_another(tmp_path):
    def write(text):
        with Draft(tmp_path / "a") as draft:
            (draft.path / "file").write_text(text)
            draft.commit(anything)

    with ThreadPoolExecutor(1) as pool:
        with Draft(tmp_path / "a") as first:
            later = pool.submit(write, "two")
            (first.path / "file").write_text("one")
            first.commit(anything)
            assert (tmp_path / "a" / "file").read_text() == "one"
            assert not later.done()
        later.result()
    assert (tmp_path / "a" / "file").read_text() == "two"


def test_the_lock_of_a_killed_writer_does_not_count(tmp_path, files):
    pid = os.fork()
    if pid == 0:
        with writing(tmp_path / "a"):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert len(files(tmp_path)) == 1
    with writing(tmp_path / "a"):
        pass
    assert files(tmp_path) == []


def test_leftovers_are_removed_others_are_not(tmp_path, files):
    (tmp_path / ".a.0123abcd.draft").mkdir()
    (tmp_path / ".a.0123abcd.draft" / "file").write_text("x")
    (tmp_path / ".b.csv.0123abcd.draft").write_text("x")
    (tmp_path / ".gitignore").write_text("x")
    (tmp_path / ".a.draft").mkdir()
    with draft_file(tmp_path / "c") as file:
        file.write(b"x")
    assert files(tmp_path) == [".a.draft", ".gitignore", "c"]


@pytest.mark.parametrize("old_is_there", [True, False])
def test_recovery_of_a_replacement_in_steps(tmp_path, old_is_there, files):
    (tmp_path / ".a.next").mkdir()
    (tmp_path / ".a.next" / "new").touch()
    if old_is_there:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "old").touch()
    recover_all(tmp_path)
    assert files(tmp_path) == ["a", "a/old" if old_is_there else "a/new"]


def test_recovery_waits_for_a_live_commit(tmp_path):
    (tmp_path / ".a.next").mkdir()
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    pid = os.fork()
    if pid == 0:
        os.close(descriptor)  # a copy of ours, which would hold the lock for the child too
        recover(tmp_path / "a")
        os._exit(0)
    assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    (tmp_path / ".a.next").rename(tmp_path / "a")
    os.close(descriptor)
    assert os.waitpid(pid, 0)[1] == 0
    assert (tmp_path / "a").is_dir()


def test_file_is_whole_or_not_there(tmp_path, files):
    target = tmp_path / "deep" / "file"
    with draft_file(target) as file:
        file.write(b"old")
    with pytest.raises(RuntimeError, match="stop"), draft_file(target) as file:  # noqa: PT012
        file.write(b"half")
        raise RuntimeError("stop")
    assert target.read_bytes() == b"old"
    assert files(tmp_path) == ["deep", "deep/file"]
