"""Running one stage ahead of the next in a thread. Arrow, AES and numpy release the interpreter's lock."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterable
from typing import TypeVar, cast

T = TypeVar("T")
_END = object()


def ahead(items: Iterable[T], depth: int = 1, stopped: threading.Event | None = None) -> Generator[T, None, None]:
    """Make the items in a thread, at most `depth` ahead of their use, besides the one in use.

    A slot is taken before an item is made (a bounded queue alone would let one more live), so memory is bounded by
    `depth` + 1 items. What the maker raises is raised here; leaving early ends the thread, at the latest with the next
    item: one that takes long to make can look at `stopped`.
    """
    ready: queue.SimpleQueue[tuple[object, BaseException | None]] = queue.SimpleQueue()
    slots = threading.Semaphore(depth)
    stopped = stopped or threading.Event()
    thread = threading.Thread(target=_make, args=(items, ready, slots, stopped), daemon=True)
    thread.start()
    try:
        while True:
            item, problem = ready.get()
            slots.release()
            if problem is not None:
                raise problem
            if item is _END:
                return
            yield cast(T, item)
            del item
    finally:
        stopped.set()
        slots.release()
        thread.join()


def _make(
    items: Iterable[T],
    ready: queue.SimpleQueue[tuple[object, BaseException | None]],
    slots: threading.Semaphore,
    stopped: threading.Event,
) -> None:
    try:
        slots.acquire()
        for item in items:
            if stopped.is_set():
                return
            ready.put((item, None))
            del item  # else it stays alive while the next one is made
            slots.acquire()
        ready.put((_END, None))
    except BaseException as problem:
        ready.put((_END, problem))
