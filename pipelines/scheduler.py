"""Where the work of long verbs runs: threads, processes, or the workers of a dask.distributed cluster.

All three give the same bytes: the work is cut by the data alone, results come back in the order of the tasks, and BLAS
runs one thread per task everywhere.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, resource_tracker
from typing import Any, Protocol, TypeVar

import dask
from threadpoolctl import threadpool_limits

from optotype.schemas.errors import ExternalError, UsageError

__all__ = ["Scheduler", "cpu_count", "scheduler"]

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")

_CONNECT_SECONDS = 10


def cpu_count() -> int:
    """CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Scheduler(Protocol):
    """Runs tasks somewhere; results come back in order.

    Attributes
    ----------
    workers : int
        How many tasks run at a time.
    """

    workers: int

    def map(self, function: Callable[[S, T], R], shared: S, tasks: Iterable[T]) -> Iterator[R]:
        """``function(shared, task)`` of every task, in the order of the tasks.

        At most a few tasks per worker are under way or waiting to be taken, so memory does not grow with their number.
        ``function`` is a module-level function; ``shared`` and the tasks can be pickled.
        """
        ...


def _in_order(submit: Callable[[T], Any], tasks: Iterable[T], in_flight: int) -> Iterator[Any]:
    waiting: deque[Any] = deque()
    try:
        for task in tasks:
            waiting.append(submit(task))
            if len(waiting) >= in_flight:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


class _Threads:
    def __init__(self, pool: ThreadPoolExecutor, workers: int) -> None:
        self._pool = pool
        self.workers = workers

    def map(self, function: Callable[[S, T], R], shared: S, tasks: Iterable[T]) -> Iterator[R]:
        return _in_order(lambda task: self._pool.submit(function, shared, task), tasks, 2 * self.workers)


class _Processes:
    def __init__(self, pool: ProcessPoolExecutor, workers: int) -> None:
        self._pool = pool
        self.workers = workers

    def map(self, function: Callable[[S, T], R], shared: S, tasks: Iterable[T]) -> Iterator[R]:
        def submit(task: T) -> Any:
            with _deaf_children():  # a worker is started where there is something to do
                return self._pool.submit(function, shared, task)

        return _in_order(submit, tasks, 2 * self.workers)


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes that are started meanwhile never see Ctrl-C, from their first instruction on.

    A terminal sends it to all processes of a command; the one that the others work for answers for them.
    """
    resource_tracker.ensure_running()  # its start would let SIGINT through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited, unlike a handler
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Cluster:
    def __init__(self, client: Any) -> None:
        self._client = client
        self.workers = max(1, sum(client.nthreads().values()))

    def map(self, function: Callable[[S, T], R], shared: S, tasks: Iterable[T]) -> Iterator[R]:
        there = self._client.scatter(shared, broadcast=True, hash=False)

        def submit(task: T) -> Any:
            return self._client.submit(_with_one_blas_thread, function, there, task, pure=False)

        return _in_order(submit, tasks, 2 * self.workers)


_limited = False


def _limit_blas() -> None:
    """Hold BLAS to one thread in this worker process, for good."""
    global _limited
    if not _limited:
        # Not as a context: a worker may run several tasks at a time, and one that ends must not free the others.
        threadpool_limits(limits=1)
        _limited = True


def _with_one_blas_thread(function: Callable[[S, T], R], shared: S, task: T) -> R:
    _limit_blas()
    return function(shared, task)


@contextmanager
def scheduler(text: str = "threads", *, workers: int | None = None) -> Iterator[Scheduler]:
    """Open a scheduler for the time of a ``with`` block; dask computes there, too.

    Parameters
    ----------
    text : str
        ``threads`` (one task per CPU), ``processes`` (one worker process per CPU, started anew), or the address of
        the scheduler of a dask.distributed cluster (``tcp://host:8786``), whose workers must be able to
        import optotype and to read the arrays under the same paths or URLs.
    workers : int, optional
        Number of threads or processes instead of one per CPU.

    Raises
    ------
    UsageError
        ``text`` is none of the three.
    ExternalError
        There is no cluster at the address.
    """
    count = workers or cpu_count()
    if text == "threads":
        pool = ThreadPoolExecutor(count, thread_name_prefix="optotype")
        with threadpool_limits(limits=1), dask.config.set(scheduler="threads", num_workers=count):
            try:
                yield _Threads(pool, count)
            finally:
                pool.shutdown(cancel_futures=True)
    elif text == "processes":
        # spawn: forking a process that holds threads (BLAS, zarr's event loop) can hang.
        processes = ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_limit_blas)
        with threadpool_limits(limits=1), dask.config.set(scheduler="processes", num_workers=count):
            try:
                yield _Processes(processes, count)
            except BaseException as error:
                if not isinstance(error, Exception):  # Ctrl-C: nobody waits for what is under way
                    for worker in list((processes._processes or {}).values()):
                        worker.terminate()
                raise
            finally:
                processes.shutdown(cancel_futures=True)
    elif ":" in text:
        from distributed import Client

        try:
            client = Client(text, timeout=_CONNECT_SECONDS, set_as_default=True)
        except (OSError, ValueError, TimeoutError) as error:
            raise ExternalError(
                f"no dask.distributed scheduler answers at {text!r}: {error}",
                hint="Start one with `dask scheduler`, and workers with `dask worker ADDRESS`.",
            ) from error
        try:
            with threadpool_limits(limits=1):
                yield _Cluster(client)
        finally:
            client.close()
    else:
        raise UsageError(
            f"{text!r} is not a scheduler: threads, processes, or the address of a dask.distributed scheduler",
            hint="An address looks like tcp://127.0.0.1:8786.",
        )
