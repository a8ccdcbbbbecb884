"""Running experiments, some at a time, and keeping what they give: a CSV and a picture each, one account of all."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

from sfumato.errors import UsageError
from sfumato.report.page_figures import WIDE
from sfumato.report.pictures import svg
from sfumato.reproduce.catalogue import experiments
from sfumato.reproduce.charts import with_legend
from sfumato.reproduce.experiment import Experiment, Setting
from sfumato.reproduce.results import Result, Run, index_html, papers_md, results_md, to_csv, to_json

Report = Callable[[str, int, int], None]
"""Told which experiment ended, how many have, and how many there are."""


def run(chosen: Sequence[Experiment], setting: Setting, *, processes: int = 1, report: Report) -> Run:
    """Run experiments. Each has the same seed whether it runs alone or with others, in any number of processes."""
    made = _in_processes(chosen, setting, processes) if processes > 1 else (_one(e, setting) for e in chosen)
    found = {}
    for done, result in enumerate(made, 1):
        found[result.name] = result
        report(result.name, done, len(chosen))
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    software = f"sfumato {version('sfumato')}"
    return Run(created, software, setting.seed, setting.quick, tuple(found[e.name] for e in chosen))


def write(found: Run, folder: Path) -> None:
    """Write the files of a run to a new folder."""
    for result in found.results:
        outcome = result.outcome
        (folder / f"{result.name}.csv").write_text(to_csv(outcome.rows), encoding="utf-8")
        picture = svg(with_legend(outcome.chart, f"{result.paper} {result.place}: {result.title}", WIDE))
        (folder / f"{result.name}.svg").write_text(picture, encoding="utf-8")
    pages = {
        "results.json": to_json(found),
        "results.md": results_md(found),
        "papers.md": papers_md(found),
        "index.html": index_html(found),
    }
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")


def new_folder(folder: Path) -> None:
    """Make the folder that a run is written to; raise if there is something in it."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{str(folder)!r} exists already.", "Choose another name, or remove it.")
    folder.mkdir(parents=True, exist_ok=True)


def _one(experiment: Experiment, setting: Setting) -> Result:
    start = time.perf_counter()
    outcome = experiment.run(setting)
    seconds = time.perf_counter() - start
    if outcome.is_generated:
        outcome = outcome.of_generated()
    return Result(experiment.name, experiment.paper, experiment.place, experiment.title, outcome, seconds)


def _named(name: str, setting: Setting) -> Result:
    """Run an experiment in another process, where only its name is known."""
    return _one(next(e for e in experiments() if e.name == name), setting)


def _in_processes(chosen: Sequence[Experiment], setting: Setting, processes: int) -> Iterator[Result]:
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        under_way: set[Future[Result]] = {pool.submit(_named, e.name, setting) for e in chosen}
        try:
            while under_way:
                done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            for future in under_way:
                future.cancel()
