"""Threads, processes and a cluster give the same bytes."""

from __future__ import annotations

import operator
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
from threadpoolctl import threadpool_info

from optotype.pipelines.operators.neighbours import feature_neighbours, state_neighbours
from optotype.pipelines.scheduler import Scheduler, scheduler
from optotype.schemas.errors import ExternalError, UsageError
from optotype.store.features import open_features
from optotype.store.project import Project


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Address of a local cluster of two worker processes."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as running:
        yield running.scheduler_address


def _check(place: Scheduler) -> None:
    assert place.workers >= 1
    # Functions of a module that workers can import, which a test module is not.
    assert list(place.map(operator.pow, 3, range(40))) == [3**i for i in range(40)]
    assert list(place.map(operator.pow, 2, [])) == []
    with pytest.raises(ZeroDivisionError):
        list(place.map(operator.floordiv, 12, [*range(1, 9), 0, *range(1, 30)]))
    assert list(place.map(operator.pow, 2, [5])) == [32]  # still at work after a failure


def test_threads() -> None:
    with scheduler("threads", workers=3) as place:
        _check(place)


def test_processes() -> None:
    with scheduler("processes", workers=2) as place:
        _check(place)


def test_cluster(cluster: str) -> None:
    with scheduler(cluster) as place:
        assert place.workers == 2
        _check(place)


def test_tasks_in_flight_are_bounded() -> None:
    started = threading.Semaphore(0)
    taken = 0

    def tasks() -> Iterator[int]:
        nonlocal taken
        for number in range(1000):
            taken += 1
            yield number

    def note(_: None, task: int) -> int:
        started.release()
        return task

    with scheduler("threads", workers=2) as place:
        results = place.map(note, None, tasks())
        assert next(results) == 0
        assert taken <= 4
        assert sum(results) == sum(range(1, 1000))


def test_blas_has_one_thread_inside_and_its_own_number_again_outside() -> None:
    before = [(library["filepath"], library["num_threads"]) for library in threadpool_info()]
    with scheduler("threads") as place:
        np.ones((2, 2)) @ np.ones((2, 2))
        assert place.workers >= 1
        assert {library["num_threads"] for library in threadpool_info()} == {1}
    after = [(library["filepath"], library["num_threads"]) for library in threadpool_info()]
    assert after == before


def test_same_bytes_everywhere(cluster: str, project: Project, put: SimpleNamespace, make: SimpleNamespace) -> None:
    items = make.ragged(0, 60, 16, most=40)
    items[50] = items[4]
    put.features("a", items)
    features = open_features(project.features / "a")
    states = make.states(np.random.default_rng(1).standard_normal((60, 30)).astype(np.float32))
    graphs = [
        (feature_neighbours(features, k=9, run=run), state_neighbours(states, k=9, run=run))
        for run in ("threads", "processes", cluster)
    ]
    for images, texts in graphs[1:]:
        xr.testing.assert_identical(images, graphs[0][0])
        xr.testing.assert_identical(texts, graphs[0][1])


def test_number_of_threads_does_not_change_a_byte(make: SimpleNamespace) -> None:
    data = make.features(make.ragged(2, 40, 16, most=40))
    found = []
    for workers in (1, 2, 5):
        with scheduler("threads", workers=workers) as place:
            found.append(feature_neighbours(data, k=9, run=place))
    xr.testing.assert_identical(found[1], found[0])
    xr.testing.assert_identical(found[2], found[0])


def test_what_is_no_scheduler() -> None:
    with pytest.raises(UsageError, match="threads, processes"), scheduler("thread"):
        pass


def test_no_cluster_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optotype.pipelines.scheduler._CONNECT_SECONDS", 1)
    with pytest.raises(ExternalError, match=r"no dask\.distributed"), scheduler("tcp://127.0.0.1:1"):
        pass


def test_workers_are_deaf_to_ctrl_c_and_nobody_waits_for_them() -> None:
    code = (
        "import signal; from optotype.pipelines.scheduler import scheduler\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "    try:\n"
        "        with scheduler('processes', workers=2) as place:\n"
        "            for seconds in place.map(max, 0, [0, 0, 0, 0, 0]): print('at work', flush=True)\n"
        "            list(map(print, place.map(pow, 10, [0])))\n"
        "            list(place.map(signal.sigtimedwait, [], [600, 600]))\n"
        "    except KeyboardInterrupt: print('interrupted', flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    while process.stdout.readline().strip() != "1":
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    out, error = process.communicate(timeout=120)
    assert (out, error, process.returncode) == ("interrupted\n", "", 0)
