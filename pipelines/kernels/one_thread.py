"""Numerical libraries held to one thread, so that the order of their additions never depends on the machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["one_thread"]

_LIBRARIES = threading.RLock()  # their number of threads belongs to the whole process


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS and OpenMP on one thread; a thread that comes meanwhile waits. Parallel work on this is for processes."""
    from threadpoolctl import threadpool_limits

    with _LIBRARIES, threadpool_limits(limits=1):
        yield
