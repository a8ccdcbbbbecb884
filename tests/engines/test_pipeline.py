"""One stage ahead of the next: exceptions travel, an early end ends the thread, few items are alive."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from sfumato.engines.base import ahead


class Item:
    """Something that can be counted while it is alive."""


def test_items_come_in_order() -> None:
    assert list(ahead(range(1000), depth=3)) == list(range(1000))
    assert list(ahead([])) == []


def test_items_are_made_in_another_thread() -> None:
    assert set(ahead(threading.get_ident() for _ in range(3))).isdisjoint({threading.get_ident()})


@pytest.mark.parametrize("problem", [ValueError("late"), KeyboardInterrupt(), SystemExit(3), MemoryError()])
def test_what_the_maker_raises_is_raised_here(problem: BaseException) -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise problem

    got: list[int] = []
    with pytest.raises(type(problem)) as caught:
        got.extend(ahead(items()))
    assert got == [1, 2]
    assert caught.value is problem


@pytest.mark.parametrize("leave", ["close", "raise", "forget"])
def test_leaving_early_ends_the_thread_and_closes_the_maker(leave: str) -> None:
    closed = threading.Event()
    before = threading.active_count()

    def items() -> Iterator[int]:
        try:
            yield from range(10**9)
        finally:
            closed.set()

    running = ahead(items(), depth=2)
    assert next(running) == 0
    if leave == "close":
        running.close()
    elif leave == "raise":
        with pytest.raises(RuntimeError, match="enough"):
            running.throw(RuntimeError("enough"))
    else:
        del running
        gc.collect()
    assert closed.wait(10)
    assert threading.active_count() == before


def test_a_maker_of_a_long_item_can_look_whether_it_is_still_wanted() -> None:
    """As the shuffle does, which reads all rows before it gives any."""
    stopped, working = threading.Event(), threading.Event()
    rounds = 0

    def items() -> Iterator[int]:
        nonlocal rounds
        yield 0
        while not stopped.is_set():
            rounds += 1
            working.set()
            stopped.wait(0.001)

    running = ahead(items(), stopped=stopped)
    assert next(running) == 0
    assert working.wait(10)
    running.close()  # would hang for ever otherwise
    assert rounds


def test_an_unused_pipeline_starts_no_thread() -> None:
    before = threading.active_count()
    ahead(iter([1]))
    assert threading.active_count() == before


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_few_items_are_alive(depth: int) -> None:
    """At most `depth` made ahead, and the one in use."""
    alive: weakref.WeakSet[Item] = weakref.WeakSet()
    most = 0

    def items() -> Iterator[Item]:
        nonlocal most
        for _ in range(200):
            item = Item()
            alive.add(item)
            most = max(most, len(alive))
            yield item
            del item

    for item in ahead(items(), depth):
        most = max(most, len(alive))
        del item
    assert 1 <= most <= depth + 1


def test_pipelines_can_be_nested() -> None:
    assert list(ahead(ahead(ahead(iter(range(50)))))) == list(range(50))
