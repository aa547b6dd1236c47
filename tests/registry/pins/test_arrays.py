"""Features and states of others: pulled whole, or shard by shard straight from the DVC remote; a new encoder scored."""

from __future__ import annotations

import json
import pickle
import shutil
import threading
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optotype.pipelines.graphs import features_graph, states_graph, write_graphs
from optotype.pipelines.ravel import score
from optotype.registry.artifacts.publish import publish
from optotype.registry.pins.load import load, open_pinned
from optotype.registry.pins.pin import pin
from optotype.registry.pins.pull import pull
from optotype.registry.pins.tree import PINS
from optotype.registry.rankings import rank
from optotype.schemas.errors import ExternalError, IntegrityError, NotFoundError, UsageError
from optotype.store.features import write_features
from optotype.store.project import Project
from optotype.store.states import open_states, write_states

Run = Callable[..., str]
N, D, K = 64, 12, 5


def values(seed: int, rows: int, channels: int) -> Any:
    """Numbers that do not compress to nothing."""
    return np.random.default_rng(seed).normal(size=(rows, channels)).astype(np.float32)


def push(publisher: Any, shell: Run) -> None:
    """Send DVC's objects to the remote by hand: the layout is the same, and DVC takes seconds."""
    remote = publisher.root.parent / "remote"
    shutil.copytree(publisher.root / ".dvc" / "cache" / "files", remote / "files", dirs_exist_ok=True)
    assert shell(publisher.root, "git", "status", "--porcelain") == ""


def publish_states(publisher: Any, folder: Path, *, rows: int = N, channels: int = D) -> Any:
    """States ``lm`` and their graph, published as ``states/lm@1.0.0``."""
    write_states(
        publisher.root / "data" / "states" / "lm",
        ids=[f"i{i:05d}" for i in range(rows)],
        blocks=[values(0, rows, channels)],
        inputs={"operation": "test"},
    )
    (graph,) = write_graphs(Project.find(publisher.root), "lm", "states", ["lm"], ["l2"], k=K)
    shutil.copytree(publisher.root / "data" / "states" / "lm", folder / "lm")
    shutil.copytree(graph, folder / "neighbours" / "lm.l2")
    done = publish("states", "lm@1.0.0", folder, root=publisher.root)
    publisher.commit()
    return done


def test_a_new_encoder_is_scored_with_pulled_states_and_graphs_alone(
    publisher: Any, downstream: Path, tmp_path: Path
) -> None:
    done = publish_states(publisher, tmp_path / "payload")
    assert done.version.manifest.facts["neighbours"] == ["lm.l2"]
    pin("states/lm@1", publisher.url)
    pull(locked=True)
    publisher.root.rename(publisher.root.with_name("away"))
    mine = downstream / "mine"
    write_features(
        mine,
        ids=[f"i{i:05d}" for i in range(N)],
        row_size=np.full(N, 2),
        blocks=[values(1, 2 * N, 7)],
        dtype="float32",
        inputs={"operation": "test"},
    )
    graph = open_pinned("states/lm", array="neighbours/lm.l2")
    assert graph.attrs["name"] == "lm.l2"
    pulled = load("states", "lm").path
    mine_graph = features_graph(None, str(mine), k=K)
    by_graph = score(mine_graph, graph)
    assert by_graph.score == score(mine_graph, states_graph(None, str(pulled / "lm"), k=K)).score
    (row,) = rank([str(mine)], [str(pulled / "lm")], k=K)
    assert (row["score"], row["encoder"], row["model"]) == (by_graph.score, "mine", "lm")
    assert row["states_digest"] == open_pinned("states/lm").attrs["digest"]


def test_a_graph_of_other_states_is_not_published(publisher: Any, tmp_path: Path) -> None:
    from optotype.schemas.errors import InvalidDataError

    folder = tmp_path / "payload"
    publish_states(publisher, folder)
    shutil.rmtree(folder / "lm")
    write_states(
        folder / "lm", ids=[f"i{i:05d}" for i in range(N)], blocks=[values(3, N, D)], inputs={"operation": "other"}
    )
    with pytest.raises(InvalidDataError, match="not a neighbour graph of the states beside it"):
        publish("states", "lm@1.1.0", folder, root=publisher.root)


def test_shards_come_when_they_are_read(
    with_dvc: Any, downstream: Path, tmp_path: Path, cache: Path, shell: Run
) -> None:
    rows, channels = 4_000, 128  # 2 MB
    source = tmp_path / "payload"
    write_states(
        source, ids=[f"i{i:05d}" for i in range(rows)], blocks=[values(0, rows, channels)], inputs={"operation": "test"}
    )
    done = publish("states", "lm@1.0.0", source, root=with_dvc.root)
    assert done.version.manifest.storage == "dvc"
    with_dvc.commit()
    made = pin("states/lm@1.0.0", with_dvc.url)
    with pytest.raises(NotFoundError, match="no object") as error:
        open_pinned("states/lm")
    assert "dvc push" in str(error.value.hint)
    push(with_dvc, shell)

    opened = open_pinned("states/lm")
    assert (opened.attrs["name"], opened["states"].shape) == ("lm", (rows, channels))
    sizes = {entry.sha256: entry.size for entry in done.version.manifest.files}
    there = [path for path in (cache / "objects").rglob("*") if path.is_file()]
    big = {sha: size for sha, size in sizes.items() if size > 1_000_000}
    assert len(big) == 1  # one shard, which was not fetched to open the array
    names = {f"{path.parent.name}{path.name}" for path in there}
    assert not names & set(big)
    # The reading side can be sent to another process, and needs git no more.
    shutil.move(str(with_dvc.root / ".git"), str(tmp_path / "git-away"))
    again = pickle.loads(pickle.dumps(opened))
    assert np.array_equal(again["states"][10:20].values, values(0, rows, channels)[10:20])
    names = {f"{path.parent.name}{path.name}" for path in (cache / "objects").rglob("*") if path.is_file()}
    assert set(big) <= names
    # Everything is in the cache by now.
    (tmp_path / "remote").rename(tmp_path / "remote-away")
    assert np.array_equal(open_pinned("states/lm")["states"].values, values(0, rows, channels))
    (pulled,) = pull()
    assert pulled.pin == made.pin
    assert (pulled.path / "zarr.json").is_file()
    shard = next(path for path in pulled.path.rglob("*") if path.is_file() and path.stat().st_size > 1_000_000)
    assert np.array_equal(open_pinned("states/lm")["states"].values, open_states(pulled.path)["states"].values)
    assert open_states(pulled.path).attrs["name"] == "lm"
    shard.chmod(0o644)
    data = bytearray(shard.read_bytes())
    data[5000] ^= 1
    shard.write_bytes(bytes(data))
    with pytest.raises(IntegrityError, match=f"{shard}: sha256"):
        open_pinned("states/lm")["states"][:1].compute()


def test_a_flipped_byte_in_the_remote_is_named(
    with_dvc: Any, downstream: Path, tmp_path: Path, cache: Path, shell: Run
) -> None:
    rows, channels = 4_000, 128
    source = tmp_path / "payload"
    write_states(
        source, ids=[f"i{i:05d}" for i in range(rows)], blocks=[values(0, rows, channels)], inputs={"operation": "test"}
    )
    publish("states", "lm@1.0.0", source, root=with_dvc.root)
    with_dvc.commit()
    push(with_dvc, shell)
    pin("states/lm@1.0.0", with_dvc.url)
    shard = max((p for p in (tmp_path / "remote").rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    shard.chmod(0o644)
    data = bytearray(shard.read_bytes())
    data[5000] ^= 1
    shard.write_bytes(bytes(data))
    lazy = open_pinned("states/lm")
    said = r"artifacts/states/lm/1\.0\.0/payload/states/c/0/0 \(object [0-9a-f]{32} of the DVC remote\): sha256"
    for use in (lambda: lazy["states"][:1].compute(), lambda: pull()):
        with pytest.raises(IntegrityError, match=said):
            use()
    assert not (downstream / PINS / "artifacts" / "states" / "lm" / "1.0.0").exists()
    data[5000] ^= 1
    shard.write_bytes(bytes(data))
    listing = next((tmp_path / "remote").rglob("*.dir"))
    good = listing.read_bytes()
    shutil.rmtree(cache / "versions")
    pin("states/lm@1.0.0", with_dvc.url)
    listing.chmod(0o644)
    listing.write_bytes(good.replace(b"zarr.json", b"zarr.jsom", 1))
    with pytest.raises(IntegrityError, match=r"payload\.dvc: the DVC remote holds other bytes"):
        pull()
    listing.write_bytes(good)
    assert pull()[0].state == "pulled"


def test_from_a_path_no_remote_is_needed(with_dvc: Any, downstream: Path, tmp_path: Path, cache: Path) -> None:
    source = tmp_path / "payload"
    write_states(
        source, ids=[f"i{i:05d}" for i in range(4000)], blocks=[values(0, 4000, 128)], inputs={"operation": "test"}
    )
    done = publish("states", "lm@1.0.0", source, root=with_dvc.root)
    with_dvc.commit()
    assert not (tmp_path / "remote").exists()
    pin("states/lm@1.0.0", "../publisher")
    assert open_pinned("states/lm")["states"].shape == (4000, 128)
    assert pull()[0].state == "pulled"
    # Not checked out either: DVC's cache has it.
    for folder in (done.version.place.payload, downstream / PINS, cache):
        shutil.rmtree(folder)
    assert pull()[0].state == "pulled"
    for folder in (with_dvc.root / ".dvc" / "cache", downstream / PINS, cache):
        shutil.rmtree(folder)
    with pytest.raises(NotFoundError, match=r"not there, nor in DVC's cache, nor in a remote"):
        pull()


@pytest.mark.parametrize("url", [None, "../../remote", "/elsewhere/remote"])
def test_remotes_that_others_cannot_use(
    url: str | None, with_dvc: Any, downstream: Path, tmp_path: Path, shell: Run
) -> None:
    source = tmp_path / "payload"
    write_states(
        source, ids=[f"i{i:05d}" for i in range(4000)], blocks=[values(0, 4000, 128)], inputs={"operation": "test"}
    )
    publish("states", "lm@1.0.0", source, root=with_dvc.root)
    config = with_dvc.root / ".dvc" / "config"
    text = config.read_text()
    old = str(tmp_path / "remote")
    config.write_text(text.replace("remote = store\n", "") if url is None else text.replace(old, url))
    with_dvc.commit()
    push(with_dvc, shell)
    bare = tmp_path / "bare.git"
    shell(tmp_path, "git", "clone", "--quiet", "--bare", str(with_dvc.root), str(bare))
    pin("states/lm@1.0.0", bare.as_uri())
    said = {
        None: "no default DVC remote",
        "../../remote": "relative to the publisher's own folder",
        "/elsewhere/remote": "no object",
    }
    with pytest.raises((NotFoundError, ExternalError), match=said[url]):
        pull()
    if url == "../../remote":  # of a working tree on this machine it can be used
        pin("states/lm@1.0.0", with_dvc.url)
        shutil.rmtree(with_dvc.root / ".dvc" / "cache")
        assert pull()[0].state == "pulled"


def test_which_array(publisher: Any, downstream: Path, tmp_path: Path) -> None:
    folder = tmp_path / "payload"
    for name in ("a", "b"):
        write_states(folder / name, ids=["x", "y", "z"], blocks=[values(0, 3, 4)], inputs={"operation": name})
    publish("states", "lm@1.0.0", folder, root=publisher.root)
    publisher.suite("1.0.0")
    pin("states/lm@1.0.0", publisher.url)
    pin("suite/prime@1.0.0", publisher.url)
    for array, said in ((None, "several arrays; there are a, b"), ("c", "no array 'c'")):
        with pytest.raises(NotFoundError, match=said):
            open_pinned("states/lm", array=array)
    assert open_pinned("lm", array="b").attrs["name"] == "b"
    with pytest.raises(UsageError, match="features or states"):
        open_pinned("suite/prime")
    with pytest.raises(UsageError, match="another version"):
        open_pinned("states/lm@2.0.0", array="a")
    lock = json.loads((downstream / "optotype.lock").read_text())
    assert [entry["kind"] for entry in lock["pins"]] == ["states", "suite"]


def test_through_http(with_dvc: Any, downstream: Path, tmp_path: Path, shell: Run) -> None:
    source = tmp_path / "payload"
    write_states(
        source, ids=[f"i{i:05d}" for i in range(4000)], blocks=[values(0, 4000, 128)], inputs={"operation": "test"}
    )
    publish("states", "lm@1.0.0", source, root=with_dvc.root)
    remote = tmp_path / "remote"
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(remote))

        def log_message(self, *_: object) -> None:
            asked.append(self.path)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            config = with_dvc.root / ".dvc" / "config"
            config.write_text(config.read_text().replace(str(remote), f"http://127.0.0.1:{server.server_port}"))
            with_dvc.commit()
            push(with_dvc, shell)
            bare = tmp_path / "bare.git"
            shell(tmp_path, "git", "clone", "--quiet", "--bare", str(with_dvc.root), str(bare))
            pin("states/lm@1.0.0", bare.as_uri())
            opened = open_pinned("states/lm")
            assert 0 < len({path for path in asked if path.startswith("/files/md5/")}) < 10
            assert np.array_equal(opened["states"][:3].values, values(0, 4000, 128)[:3])
            assert pull(locked=True)[0].state == "pulled"
        finally:
            server.shutdown()
            thread.join()
