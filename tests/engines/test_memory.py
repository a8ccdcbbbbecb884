"""The allocator while a table is written, and after."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from sfumato.engines.embedded.engine import kept_memory


def _pool() -> str:
    return str(pa.default_memory_pool().backend_name)


def _fail(seen: list[str]) -> None:
    with kept_memory():
        seen.append(_pool())
        raise OSError("the disk is full")


def test_the_pool_is_put_back_also_after_an_error() -> None:
    usual, seen = _pool(), list[str]()
    with pytest.raises(OSError, match="full"):
        _fail(seen)
    assert (seen, _pool()) == (["system"], usual)


def test_writers_that_overlap_put_the_pool_back_once_the_last_is_done() -> None:
    usual = _pool()
    first_done, second_in = threading.Event(), threading.Event()

    def second() -> None:
        with kept_memory():
            second_in.set()
            first_done.wait()

    thread = threading.Thread(target=second)
    with kept_memory():
        thread.start()
        second_in.wait()
    assert _pool() == "system"
    first_done.set()
    thread.join()
    assert _pool() == usual
