"""What is kept of a run: results.json, results.md, the page of all experiments, and the account of each paper."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sfumato.auditor.report.page import Badge, Block, Items, Page, Section, Text, figure, html_of, table
from sfumato_papers.accounts import ACCOUNTS
from sfumato_papers.catalogue import PAPERS, experiments
from sfumato_papers.charts import specification
from sfumato_papers.experiment import Comparison, Outcome, Paper, Verdict

RESULTS_VERSION = 1
BADGES: Mapping[Verdict, Badge] = {
    "equal": Badge("equal", "within", "✓"),
    "within noise": Badge("within noise", "within", "≈"),
    "differs": Badge("differs", "above", "≠"),
}
HOLDS = Badge("as it says", "within", "✓")
"""Of a sentence."""
NO_ACCOUNT = "No account: the run was quick, of some experiments only, or of generated tables."
FAILED = "Failed"
"""The heading of experiments that gave nothing."""
TIMES = "Run times, of one run on one machine"
"""What neither confirms nor refutes, since the next run may come out otherwise."""
COLUMNS = ("what", "printed", "ours, as published", "ours, proved", "verdict")


@dataclass(frozen=True)
class Result:
    """An experiment that was run."""

    name: str
    paper: Paper
    place: str
    title: str
    outcome: Outcome
    seconds: float


@dataclass(frozen=True)
class Failure:
    """An experiment that did not come to its end, and why."""

    name: str
    paper: Paper
    place: str
    title: str
    reason: str


@dataclass(frozen=True)
class Run:
    """Experiments that were run together."""

    created: str
    software: str
    seed: int
    quick: bool
    results: tuple[Result, ...]
    failures: tuple[Failure, ...] = ()

    @property
    def seconds(self) -> float:
        """The sum of all run times: with several processes it takes less."""
        return sum(result.seconds for result in self.results)

    def of(self, paper: Paper) -> tuple[Result, ...]:
        """Return those of a paper."""
        return tuple(result for result in self.results if result.paper == paper)

    @property
    def verdicts(self) -> Mapping[Verdict, int]:
        """How many comparisons came out how."""
        return _tally(c for result in self.results for c in result.outcome.comparisons)


def _tally(comparisons: Iterable[Comparison]) -> Mapping[Verdict, int]:
    found = [c.verdict for c in comparisons]
    return {verdict: found.count(verdict) for verdict in BADGES}


def to_json(run: Run) -> str:
    """Return all that was found, except the charts."""
    content: dict[str, Any] = {"results_version": RESULTS_VERSION, **asdict(run)}
    for result in content["results"]:
        del result["outcome"]["chart"]
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False, default=float) + "\n"


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the lines of an experiment."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


# --- Markdown ---------------------------------------------------------------------------------------------------------


def results_md(run: Run) -> str:
    """Return one row for each comparison, by experiment."""
    return "\n".join([*_head(run), *(line for paper in PAPERS for r in run.of(paper) for line in _lines(r))]) + "\n"


def _head(run: Run) -> Iterator[str]:
    yield "# Results"
    yield ""
    yield f"{run.software}, {run.created}, seed {run.seed}{', quick run' if run.quick else ''}."
    yield ", ".join(_counted(run.verdicts)) + "."
    yield ""
    if run.failures:
        yield from (f"## {FAILED}", "", *(f"- {line}" for line in failed(run)), "")


def failed(run: Run) -> Iterator[str]:
    """Give each experiment that failed, with the reason."""
    yield from (f"{one.name} ({one.paper} {one.place}): {' '.join(one.reason.split())}" for one in run.failures)


def _counted(counts: Mapping[Verdict, int]) -> Iterator[str]:
    """Give how many comparisons came out how."""
    yield f"{counts['equal']} equal to the printed digits or as it says"
    yield f"{counts['within noise']} within the stated noise"
    yield f"{counts['differs']} that differ"


def _lines(result: Result) -> Iterator[str]:
    outcome = result.outcome
    yield f"## {result.name}: {result.paper} {result.place}"
    yield ""
    repeated = f" {outcome.repetitions} repetitions." if outcome.repetitions > 1 else ""
    yield f"{result.title}. Data: {outcome.data}.{repeated} {result.seconds:.1f} s."
    yield ""
    yield from _markdown_table(COLUMNS, (_cells(c) for c in outcome.comparisons))
    yield ""
    yield from (f"- {note}" for note in outcome.notes)
    if outcome.notes:
        yield ""


def _cells(c: Comparison) -> tuple[str, ...]:
    return (c.what, c.printed, c.as_published, c.proved, c.in_words)


def _markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def papers_md(run: Run) -> str:
    """Return the account of each paper: what was confirmed, what could not be, and why. Every number is of this run."""
    parts = [
        "# The papers, tested",
        "",
        "Made by `sfumato reproduce all -o DIR`, from which every number here is; do not edit. The papers' figures are "
        "lost in the scanned copies: there, what the text says of them is tested.",
        "",
    ]
    for paper in (paper for paper in PAPERS if run.of(paper)):
        parts += [f"## {paper}: {PAPERS[paper]}", "", *_account(run, paper)]
    return "\n".join(parts)


def _in_short(run: Run, paper: Paper) -> str:
    """Return what came of a paper, if the run is one that can tell."""
    known = {e.name for e in experiments() if e.paper == paper}
    is_whole = known == {r.name for r in run.of(paper)} and not run.quick
    if is_whole and not any(r.outcome.is_generated for r in run.of(paper)):
        return ACCOUNTS[paper].strip()
    return NO_ACCOUNT


def _account(run: Run, paper: Paper) -> Iterator[str]:
    yield _in_short(run, paper)
    yield ""
    untimed = [(r, c) for r in run.of(paper) for c in r.outcome.comparisons if not r.outcome.is_timed]
    yield "Comparisons: " + ", ".join(_counted(_tally(c for _, c in untimed))) + "."
    yield ""
    parts = {
        "Confirmed": [(r, c) for r, c in untimed if c.verdict != "differs"],
        "Not confirmed, and why": [(r, c) for r, c in untimed if c.verdict == "differs"],
        TIMES: [(r, c) for r in run.of(paper) for c in r.outcome.comparisons if r.outcome.is_timed],
    }
    for heading, chosen in parts.items():
        if chosen:
            rows = ((f"{r.place} ({r.name})", *_cells(c)) for r, c in chosen)
            yield from (f"### {heading}", "", *_markdown_table(("place", *COLUMNS), rows), "")
    notes = list(_notes(run.of(paper)))
    if notes:
        yield from ("### Notes", "", *notes, "")
    yield from ("Data: " + "; ".join(dict.fromkeys(r.outcome.data for r in run.of(paper))) + ".", "")


def _notes(results: Sequence[Result]) -> Iterator[str]:
    """Give each note once, with all places that it is for."""
    for note in dict.fromkeys(note for r in results for note in r.outcome.notes):
        yield f"- {'; '.join(r.place for r in results if note in r.outcome.notes)}: {note}"


# --- the page ---------------------------------------------------------------------------------------------------------


def index_html(run: Run) -> str:
    """Return the page of all experiments."""
    summary = Items(tuple(_counted(run.verdicts)))
    first = Section("summary", "In short", (summary, Text(_made(run))))
    failures = [Section("failed", FAILED, (Items(tuple(failed(run))),))] if run.failures else []
    papers = [_section(run, paper) for paper in PAPERS if run.of(paper)]
    return html_of(Page("The papers, tested", _subtitle(run), (), (first, *failures, *papers)))


def _subtitle(run: Run) -> str:
    return f"{len(run.results)} experiments, {run.created}"


def _made(run: Run) -> str:
    quick = " A quick run: fewer repetitions and smaller tables." if run.quick else ""
    return f"{run.software}, seed {run.seed}, {run.seconds:,.0f} seconds of run time in all.{quick}"


def _section(run: Run, paper: Paper) -> Section:
    blocks: list[Block] = [block for result in run.of(paper) for block in _blocks(result)]
    paragraphs = (Text(" ".join(part.split())) for part in _in_short(run, paper).split("\n\n"))
    return Section(paper.lower(), f"{paper}: {PAPERS[paper]}", (*paragraphs, *blocks))


def _blocks(result: Result) -> Iterator[Block]:
    outcome, chart = result.outcome, result.outcome.chart
    rows: list[list[str | Badge]] = [[*_cells(c)[:-1], _badge(c)] for c in outcome.comparisons]
    yield table(f"{result.place}: {result.title} ({result.name})", COLUMNS, rows, words=len(COLUMNS))
    told = (*_reasons(outcome.comparisons), *outcome.notes)
    if told:
        yield Items(told)
    caption = f"Data: {outcome.data}. {result.name}.csv has the numbers."
    yield figure(result.title, chart.alt, lambda size: specification(chart, size), caption, chart.keys)


def _badge(c: Comparison) -> Badge:
    return HOLDS if c.is_sentence and c.verdict == "equal" else BADGES[c.verdict]


def _reasons(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Give each reason once, with all that it is for."""
    for reason in dict.fromkeys(c.because for c in comparisons if c.because):
        yield f"{'; '.join(c.what for c in comparisons if c.because == reason)}: {reason}"
