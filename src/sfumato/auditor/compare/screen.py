"""The first screen of a comparison: what it recommends, a small table, and where the rest is. At most 25 lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill, shorten
from typing import Protocol

from sfumato.auditor.compare.figures import Figures, Outcome
from sfumato.auditor.compare.recommending import IN_SHORT, Recommendation, promise_of
from sfumato.show.words import share
from sfumato.values.text import WIDTH, table

LINES = 25
END = 3  # lines below the table
LEAST_ROWS = 3  # of the table, at least
REASONS = 3 * WIDTH  # characters of a reason, at most
COLUMNS = ("method", "promise holds for", "counts off by", "what is published")


class Compared(Protocol):
    """What the first screen shows of a comparison."""

    @property
    def published(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def requirement(self) -> str: ...
    @property
    def repeat(self) -> int: ...
    @property
    def counts_asked(self) -> int: ...
    @property
    def methods(self) -> tuple[Outcome, ...]: ...
    @property
    def references(self) -> tuple[Outcome, Outcome]: ...
    @property
    def measured(self) -> bool: ...
    @property
    def recommendation(self) -> Recommendation: ...


def first_screen(found: Compared) -> str:
    """Return the recommendation and a small table; what does not fit stands in the details."""
    top = [f"{Path(found.published).name}: {found.rows:,} records. Asked: {found.requirement}.", ""]
    advice = found.recommendation
    told = [line for sentence in advice.sentences for line in _wrapped(sentence)]
    helps = _wrapped(helpful(advice)) if advice.would_help else []
    most = LINES - len(top) - END - 3 - LEAST_ROWS  # a blank line, and the head of the table
    told = told if len(told) <= most else [*told[: most - 1], "  ... (--details)"]
    room = most - len(told) + LEAST_ROWS
    if room - len(helps) >= LEAST_ROWS:  # else what would help stands in the details
        told, room = [*told, *helps], room - len(helps)
    if not found.measured:
        return "\n".join([*top, *told, *_why_not(found.methods, room + 2), *_rest(found, 0)])
    rows = _rows(found, max(LEAST_ROWS, room))
    listed = table(COLUMNS, rows, [False, False, True, False])
    return "\n".join([*top, *told, "", listed, *_rest(found, len(rows) - 1)])  # the last is what they must beat


def helpful(advice: Recommendation) -> str:
    """Return in a sentence what would help."""
    return f"What would help for {IN_SHORT[advice.choices[0].promise]}: {'; '.join(advice.would_help)}."


def _wrapped(sentence: str) -> list[str]:
    return fill(sentence, WIDTH, initial_indent="- ", subsequent_indent="  ").splitlines()


def _rows(found: Compared, most: int) -> list[list[str]]:
    """Return a row for the best of each choice and for the policy's own method, and last what they must beat."""
    own = [each.method for each in found.methods if each.own and each.figures]
    choices, outcomes = found.recommendation.choices, {each.method: each for each in found.methods}
    order = list(dict.fromkeys([*(choice.method for choice in choices), *own]))
    taken = dict.fromkeys([*own, *(choice.method for choice in choices if choice.better), *order])
    chosen = set(list(taken)[: most - 1])
    rows = [_row(outcomes[name], figures) for name in order if name in chosen and (figures := outcomes[name].figures)]
    nothing = found.recommendation.independence
    return [*rows, [found.references[0].method, "-", _error(nothing), "-"]]


def _row(outcome: Outcome, figures: Figures) -> list[str]:
    name = f"{'* ' if outcome.own else ''}{outcome.method}"
    return [name, IN_SHORT[promise_of(figures)], _error(figures.mean_error.mean), figures.keeps]


def _error(error: float) -> str:
    """Return an error for the column of the table; sentences tell it in two digits."""
    return f"±{share(error)}"


def _rest(found: Compared, listed: int) -> Iterator[str]:
    """Yield how many were measured, and where the rest is; the numbers add up to all methods. END lines."""
    measured = [each for each in found.methods if each.figures]
    missing, others = len(found.methods) - len(measured), len(measured) - listed
    told = f"{len(found.methods)} methods: {listed} above" if listed else f"{len(found.methods)} methods"
    told += f", {others} measured and in the details" if others else ""
    told += f", {missing} not measured" if missing else ""
    yield ""
    own = " * is your policy's own." if any(each.own for each in measured) else ""
    yield f"{told}.{own}"
    yield f"Measured on {found.counts_asked:,} counts in {found.repeat} release(s) each. More, with reasons: --details."


def _why_not(outcomes: Sequence[Outcome], most: int) -> Iterator[str]:
    """Yield why methods could not be measured, as far as there is room."""
    lines = [line for reason in reasons(outcomes) for line in _wrapped(shorten(reason, REASONS, placeholder=" ..."))]
    yield from lines if len(lines) <= most else [*lines[: most - 1], "  ..."]


def reasons(outcomes: Sequence[Outcome]) -> list[str]:
    """Return why some were not measured; those with the same reason are told together."""
    why: dict[str, list[str]] = {}
    for each in outcomes:
        if each.reason:
            why.setdefault(each.reason, []).append(f"{each.method} ({each.asked})")
    return [f"{', '.join(names)}: {reason}" for reason, names in why.items()]
