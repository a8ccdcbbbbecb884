"""Running experiments, some at a time, and keeping what they give: a CSV and a picture each, one account of all.

An experiment that fails loses only itself: the others go on, and the account tells why it failed.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from multiprocessing import active_children, get_context
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty

from sfumato.auditor.report.page_figures import WIDE
from sfumato.errors import UsageError
from sfumato.show.pictures import svg
from sfumato_papers.catalogue import experiments
from sfumato_papers.charts import with_legend
from sfumato_papers.experiment import Experiment, Setting
from sfumato_papers.progress import Report, Shares
from sfumato_papers.results import Failure, Result, Run, index_html, papers_md, results_md, to_csv, to_json

Ended = Result | Failure
Told = tuple[str, float]
"""An experiment, and the share of its work that is done."""
Keep = Callable[[Result], None]
LISTEN = 0.5
"""Seconds between two looks at how far other processes are."""
KILLED = "its process was ended from outside, perhaps for want of memory"


def run(
    chosen: Sequence[Experiment], setting: Setting, *, processes: int = 1, report: Report, keep: Keep | None = None
) -> Run:
    """Run experiments; `keep` is given each result as soon as there is one.

    Each has the same seed whether it runs alone or with others, in any number of processes.
    """
    shares, ended = Shares(report, len(chosen)), dict[str, Ended]()
    for one in (_in_processes if processes > 1 else _in_turn)(chosen, setting, shares, processes):
        ended[one.name] = one
        shares.end(one.name)
        if keep is not None and isinstance(one, Result):
            keep(one)
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    in_order = [ended[e.name] for e in chosen]
    results = tuple(one for one in in_order if isinstance(one, Result))
    failures = tuple(one for one in in_order if isinstance(one, Failure))
    return Run(created, f"sfumato {version('sfumato')}", setting.seed, setting.quick, results, failures)


def write_result(result: Result, folder: Path) -> None:
    """Write the files of one experiment."""
    outcome = result.outcome
    (folder / f"{result.name}.csv").write_text(to_csv(outcome.rows), encoding="utf-8")
    picture = svg(with_legend(outcome.chart, f"{result.paper} {result.place}: {result.title}", WIDE))
    (folder / f"{result.name}.svg").write_text(picture, encoding="utf-8")


def write_pages(found: Run, folder: Path) -> None:
    """Write what is of all experiments; there is no account of the papers if one of them failed."""
    pages = {"results.json": to_json(found), "results.md": results_md(found), "index.html": index_html(found)}
    if not found.failures:
        pages["papers.md"] = papers_md(found)
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")


def new_folder(folder: Path) -> None:
    """Make the folder that a run is written to; raise if there is something in it."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{str(folder)!r} exists already.", "Choose another name, or remove it.")
    folder.mkdir(parents=True, exist_ok=True)


# --- in this process --------------------------------------------------------------------------------------------------


def _in_turn(chosen: Sequence[Experiment], setting: Setting, shares: Shares, processes: int) -> Iterator[Ended]:
    for experiment in chosen:
        yield _one(experiment, replace(setting, progress=partial(shares.hear, experiment.name)))


def _one(e: Experiment, setting: Setting) -> Ended:
    start = time.perf_counter()
    setting.progress(0.0)
    try:
        outcome = e.run(setting)
    except Exception as problem:  # whatever it is, the others must go on
        return Failure(e.name, e.paper, e.place, e.title, f"{type(problem).__name__}: {problem}")
    return Result(e.name, e.paper, e.place, e.title, outcome, time.perf_counter() - start)


# --- in several -------------------------------------------------------------------------------------------------------


def _in_processes(chosen: Sequence[Experiment], setting: Setting, shares: Shares, processes: int) -> Iterator[Ended]:
    """Run some at a time. If a process is killed, nobody knows by which one: those that are left run on their own."""
    left = {e.name: e for e in chosen}
    for one in _pooled(chosen, setting, shares, processes):
        del left[one.name]
        yield one
    for e in left.values():
        yield next(_pooled([e], setting, shares, 1), Failure(e.name, e.paper, e.place, e.title, KILLED))


def _pooled(chosen: Sequence[Experiment], setting: Setting, shares: Shares, processes: int) -> Iterator[Ended]:
    """Give what ends; of a process that is killed, and what was to run after it, nothing."""
    context, others = get_context("spawn"), set(active_children())
    told: Queue[Told] = context.Queue()
    with ProcessPoolExecutor(processes, context, _tell_to, (told,)) as pool:
        under_way = {pool.submit(_named, e.name, setting) for e in chosen}
        try:
            while under_way:
                done, under_way = wait(under_way, LISTEN, FIRST_COMPLETED)
                _hear(told, shares)
                yield from (future.result() for future in done if not _is_killed(future.exception()))
        finally:
            if under_way:  # interrupted: nobody waits for what runs
                for process in set(active_children()) - others:
                    process.terminate()


def _is_killed(problem: BaseException | None) -> bool:
    return isinstance(problem, BrokenProcessPool)


def _hear(told: Queue[Told], shares: Shares) -> None:
    """Pass on what was told since the last time."""
    while True:
        try:
            shares.hear(*told.get_nowait())
        except Empty:
            return


_heard_by: list[Queue[Told]] = []
"""In a process of the pool: who is told how far it is."""


def _tell_to(told: Queue[Told]) -> None:
    _heard_by.append(told)


def _named(name: str, setting: Setting) -> Ended:
    """Run an experiment in another process, where only its name is known."""
    tell = _heard_by[0].put
    return _one(
        next(e for e in experiments() if e.name == name), replace(setting, progress=lambda share: tell((name, share)))
    )
