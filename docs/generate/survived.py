"""reference/survives: what the hard suites ran and saw, from their records."""

from __future__ import annotations

from docs.generate.markdown import code, table
from docs.generate.markdown import page as whole
from tests.faults.recorded import records

INTRODUCTION = """\
Suites that kill, starve and mislead sfumato, with the counts of the last run that was recorded.
Each case must leave what the third column says; a failure is a case that did not.
Every build runs a part of each suite; the commands run all of it, which can be more than was recorded.
They are typed in a copy of the repository."""

AGAIN = """\
## Run them again

`python -m tests.faults` lists the suites. With names it runs them, and writes their records and this page anew."""


def page() -> str:
    """Return the page."""
    seen = [
        (one.suite.cases, f"{one.cases:,}", one.suite.holds, f"{one.failures:,}", _time(one.seconds), one.date)
        for one in records()
    ]
    return whole(
        "What it survives",
        INTRODUCTION,
        table(("case", "cases", "after each", "failures", "took", "on"), seen),
        AGAIN,
        table(("suite", "command"), [(one.suite.name, code(one.suite.command)) for one in records()]),
    )


def _time(seconds: int) -> str:
    """Return a time as people say it.

    >>> _time(40), _time(300)
    ('40 s', '5 min')
    """
    return f"{seconds} s" if seconds < 120 else f"{round(seconds / 60):,} min"
