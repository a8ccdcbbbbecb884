"""Items that are made ahead, in a thread: an interrupt at any moment leaves nothing running."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from sfumato.engines import base
from sfumato.engines.base import ahead
from sfumato.errors import UsageError


def slowly() -> Iterator[int]:
    for number in range(5):
        time.sleep(0.05)
        yield number


def test_an_interrupt_while_the_thread_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The generator is being read by the thread already: closing it would raise "generator already executing"."""

    class Interrupted(threading.Thread):
        def start(self) -> None:
            super().start()
            time.sleep(0.01)
            raise KeyboardInterrupt

    monkeypatch.setattr(base.threading, "Thread", Interrupted)
    threads = threading.active_count()
    with pytest.raises(KeyboardInterrupt), closing(slowly()) as items:
        list(ahead(items))
    assert threading.active_count() == threads


def test_an_interrupt_before_the_thread_began(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(threading.Thread):
        def start(self) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(base.threading, "Thread", Interrupted)
    with pytest.raises(KeyboardInterrupt), closing(slowly()) as items:
        list(ahead(items))


def test_a_thread_that_cannot_be_started_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(base.threading, "Thread", Refused)
    with pytest.raises(UsageError, match="no more threads"):
        list(ahead(slowly()))


def test_all_items_come_in_their_order() -> None:
    assert list(ahead(slowly())) == [0, 1, 2, 3, 4]


def test_who_leaves_early_waits_for_nobody_where_one_thread_makes_for_another() -> None:
    """As where CSV is written: the second thread waited for ever for an end that the first one did not tell."""
    stopped = threading.Event()

    def first_and_what_comes_too_late() -> Iterator[int]:
        yield 1
        stopped.wait()
        yield 2

    made = ahead(first_and_what_comes_too_late(), stopped=stopped)
    pieces = ahead(made, stopped=stopped)
    assert next(pieces) == 1
    leaving = threading.Thread(target=pieces.close, daemon=True)
    leaving.start()
    leaving.join(timeout=60)
    assert not leaving.is_alive()
