"""Running one stage ahead of the next in a thread. Arrow, AES and numpy release the interpreter's lock."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar, cast

T = TypeVar("T")
U = TypeVar("U")
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


def side_by_side(function: Callable[[T], U], items: Iterable[T], workers: int = 2) -> Generator[U, None, None]:
    """Apply the function to the items in several threads, and give the results in the items' order.

    At most one item more than there are workers is under way or waiting.
    """
    with ThreadPoolExecutor(workers) as pool:
        under_way: deque[Future[U]] = deque()
        try:
            for item in items:
                under_way.append(pool.submit(function, item))
                del item
                if len(under_way) > workers:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()


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
