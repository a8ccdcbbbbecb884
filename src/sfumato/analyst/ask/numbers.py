"""What is summed, and what is weighed by, must be numbers: checks against a release."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from sfumato.analyst.ask.conditions import check_numbers, counted
from sfumato.analyst.ask.measure import NUMERIC
from sfumato.analyst.counting.counts import CountedRelease, Counting
from sfumato.errors import UsageError
from sfumato.release.reading import quoted
from sfumato.values.text import meant


def check_weight(release: CountedRelease, weight: str, types: Mapping[str, str], randomized: Collection[str]) -> None:
    """Raise unless the weight, if there is one, is an untouched column of numbers, in text or not."""
    if not weight:
        return
    if weight not in types or weight in randomized:
        weighing = [name for name in types if name not in randomized]
        raise UsageError(f"There is no untouched column {weight!r} to weigh by.", meant(weight, weighing, "There are"))
    if not types[weight].startswith((*NUMERIC, "string")):
        raise UsageError(
            f"{weight!r} is of type {types[weight]}: it cannot be a weight.",
            "Name a column of numbers: --weight COLUMN",
        )
    check_texts(release, [weight], types)


def check_texts(release: CountedRelease, names: Iterable[str], types: Mapping[str, str]) -> None:
    """Raise unless all texts of these untouched columns are numbers."""
    for name in names:
        if types[name] == "string":
            try:
                check_numbers(release, name)
            except UsageError as problem:
                raise UsageError(problem.message, f"Name a column of numbers, or count instead: --by {name}") from None


def check_weights(release: CountedRelease, weight: str, where: str) -> None:
    """Raise unless every record that is asked about has a weight, if it needs one, and none is negative or infinite."""
    if not weight:
        return
    number = f"CAST({quoted(weight)} AS DOUBLE)"
    wrong = {
        "no weight": f"{number} IS NULL",
        "a negative weight": f"{number} < 0",
        "a weight that is not finite": f"NOT isfinite({number})",
    }
    asked = Counting((), tuple((f"count(*) FILTER (WHERE {sql})", "sum") for sql in wrong.values()), where)
    (counts,) = counted(release, asked, "")
    for what, rows in zip(wrong, counts, strict=True):
        if rows:
            raise UsageError(
                f"{rows:,} published record(s) have {what} ({weight!r}): an estimate would silently leave them out or "
                "take them off.",
                f"Say in the query which records are meant, e.g. WHERE {quoted(weight)} >= 0"
                + (f" AND {quoted(weight)} < 1e300." if "finite" in what else "."),
            )
