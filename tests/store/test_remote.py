"""The same arrays through fsspec: file://, memory:// and HTTP servers with and without ranges."""

import functools
import http.server
import re
import threading

import fsspec
import numpy as np
import pytest

from optotype.schemas.errors import ExternalError, IntegrityError, NotFoundError, UsageError
from optotype.store import shards
from optotype.store.features import open_features, select_images, write_features
from optotype.store.manifest import read_manifest
from optotype.store.neighbours import open_neighbours
from optotype.store.states import open_states


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Sends whole files, whatever range is asked for."""

    requests: list[tuple[str, str | None]]

    def log_message(self, *_args):
        pass

    def do_GET(self):
        self.requests.append((self.path, self.headers.get("Range")))
        super().do_GET()


class _Ranges(_Quiet):
    """Knows ranges with a first and a last byte, as object stores do; no suffix ranges."""

    def do_GET(self):
        wanted = self.headers.get("Range")
        if wanted is None:
            super().do_GET()
            return
        self.requests.append((self.path, wanted))
        first, last = map(int, re.fullmatch(r"bytes=(\d+)-(\d+)", wanted).groups())
        with open(self.translate_path(self.path), "rb") as file:  # noqa: PTH123 - a str of the base class
            whole = file.read()
        body = whole[first : last + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{len(whole)}")
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def array(tmp_path, ragged, monkeypatch):
    monkeypatch.setattr(shards, "_INNER_BYTES", 256)
    monkeypatch.setattr(shards, "_SHARD_BYTES", 2048)
    data = ragged(images=60, channels=8)
    write_features(
        tmp_path / "a", ids=data.ids, row_size=data.row_size, blocks=[data.tokens], dtype="float32", inputs={}
    )
    return tmp_path / "a", data


@pytest.fixture
def serve(tmp_path):
    servers = []

    def start(handler):
        handler = type("Handler", (handler,), {"requests": []})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(tmp_path)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}", handler.requests

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def same(ds, data):
    np.testing.assert_array_equal(ds["patches"].values, data.tokens)
    assert ds["row_size"].values.tolist() == data.row_size.tolist()
    assert ds["image"].values.tolist() == data.ids
    assert ds.attrs["name"] == "a"


def test_file_url(array):
    path, data = array
    same(open_features(path.as_uri()), data)


def test_memory(array):
    path, data = array
    fs = fsspec.filesystem("memory")
    fs.put(str(path), "/box/a", recursive=True)
    try:
        same(open_features("memory://box/a"), data)
        fs.rm("/box/a/patches/c/1/0")
        with pytest.raises(IntegrityError, match="missing"):
            open_features("memory://box/a")["patches"].values  # noqa: B018
    finally:
        fs.rm("/box", recursive=True)


@pytest.mark.parametrize("handler", [_Quiet, _Ranges])
def test_http(array, serve, handler):
    path, data = array
    url, _ = serve(handler)
    ds = open_features(f"{url}/a")
    assert ds.attrs["digest"] == read_manifest(path).digest
    same(ds, data)
    some = select_images(ds, [30, 31])
    np.testing.assert_array_equal(some["patches"].values, np.concatenate([data.image(30), data.image(31)]))


def test_http_fetches_only_what_is_asked_for(array, serve):
    _, data = array
    url, requests = serve(_Ranges)
    ds = open_features(f"{url}/a")
    requests.clear()
    np.testing.assert_array_equal(select_images(ds, [7])["patches"].values, data.image(7))
    assert requests
    assert all(path.startswith("/a/patches/c/") and wanted for path, wanted in requests)  # ranges of one or two shards
    assert len({path for path, _ in requests}) <= 2


def test_nothing_there(serve):
    url, _ = serve(_Quiet)
    for open_array in (open_features, open_states, open_neighbours, read_manifest):
        with pytest.raises(NotFoundError):
            open_array(f"{url}/none")


def test_server_is_down(serve):
    with pytest.raises(ExternalError):
        open_features("http://127.0.0.1:9/a")


def test_unknown_protocol():
    with pytest.raises(UsageError):
        open_features("nonsense://a/b")
