"""Which allocator Arrow takes its memory from while a table is written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

_lock = threading.Lock()
_usual: list[Any] = []  # the pool from before, once for each writer under way


@contextmanager
def kept_memory() -> Iterator[None]:
    """Let Arrow use the C library's allocator, which keeps what was freed for the next batch.

    Arrow's own gives unused memory back after milliseconds, and every batch pays for fresh pages: a third to a half of
    all CPU time of publishing. Arrays remember where their memory is from, so the pool may change at any time.
    """
    with _lock:
        _usual.append(pa.default_memory_pool())
        pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        with _lock:
            if len(_usual) == 1:
                pa.set_memory_pool(_usual[0])
            _usual.pop()
