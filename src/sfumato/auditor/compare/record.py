"""A comparison as a value: in words, and as a dated, versioned record. Private: it holds figures of the true table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sfumato.auditor.compare.figures import Figures, Outcome, Spread
from sfumato.auditor.compare.recommending import Asked, Recommendation, recommend
from sfumato.auditor.compare.screen import first_screen, helpful, reasons
from sfumato.auditor.report.trade_off import Kind, Panel, Placed, trade_off_plot
from sfumato.errors import UsageError
from sfumato.methods import METHODS
from sfumato.methods.uniform import Uniform
from sfumato.show.results import Drawn, Private
from sfumato.show.words import percent, share
from sfumato.values.text import WIDTH, indented, table

VERSION = 1
SHORT = 0.01  # the share of the people from which on a method below the target is told

CLEARLY = 0.9  # of two means over a few releases, one is clearly smaller if it is below this part of the other

SHARES = (
    "guessed", "worst", "mean_error", "median_error", "sensitive_distance", "pair_distance", "share_error",
    "place_error", "published_share",
)  # fmt: skip
"""The shares and errors of a method, as rows of a table have them."""

INDEPENDENCE, PLAIN = "(independence table)", "(the table itself)"


@dataclass(frozen=True, repr=False)
class MethodComparison(Private, Drawn):
    """Every method on one table, at one requirement; and, if that was asked for, at one measured risk."""

    created: str
    software: str
    published: str  # the table
    policy_sha256: str
    rows: int
    requirement: str
    limit: float  # on the belief in a person's value: what all methods are asked for
    repeat: int
    seed: int | None
    counts_asked: int
    methods: tuple[Outcome, ...]
    references: tuple[Outcome, Outcome]  # the independence table, then the table itself
    target: float | None = None
    at_equal_risk: tuple[Outcome, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    sensitive: tuple[str, ...] = ()
    values: int = 0  # of the sensitive columns together
    comparison_version: int = VERSION

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON-ready values. Keys: docs/reference/json.md."""
        listed = asdict(self)
        version = {"comparison_version": listed.pop("comparison_version")}
        told = {"recommendation": asdict(self.recommendation), "conclusions": [*self.conclusions()]}
        return version | listed | told

    @property
    def recommendation(self) -> Recommendation:
        """What to take: by promise, by what a release keeps, and by the error of counts."""
        nothing = self.references[0].figures
        assert nothing is not None  # a reference is always measured
        secret = " / ".join(self.sensitive) or "the secret"
        return recommend(self.methods, nothing, Asked(secret, self.values, self.rows, self.repeat))

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> MethodComparison:
        if raw.get("comparison_version") != VERSION:
            raise UsageError("This is not the record of a comparison, version 1.", "Make one with `sfumato compare`.")
        try:
            return TypeAdapter(cls).validate_python(raw)
        except ValidationError as problem:
            first = problem.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise UsageError(
                f"The record of the comparison is damaged: {where}: {first['msg']}.", "Compare again."
            ) from None

    @property
    def measured(self) -> bool:
        """Whether a method that bounds a belief was measured, at the requirement or at equal risk."""
        return any(each.figures and each.figures.of_releases for each in (*self.methods, *self.at_equal_risk))

    def to_arrow(self) -> Any:
        """Return a row for each method and reference, and again at equal risk; figures are means over the releases."""
        import pyarrow as pa

        compared = {"at the requirement": (*self.methods, *self.references), "at equal risk": self.at_equal_risk}
        rows = [
            {"compared": when, "method": o.method, "asked": o.asked, "reason": o.reason}
            | {name: _mean(getattr(o.figures, name, None)) for name in SHARES}
            for when, outcomes in compared.items()
            for o in outcomes
        ]
        return pa.Table.from_pylist(rows)

    def __repr__(self) -> str:
        return f"MethodComparison({self.published!r}, {self.rows:,} records, {len(self.methods)} methods; private)"

    def _drawing(self, title: str) -> dict[str, Any]:
        panels = [Panel("At the same requirement", self._placed(self.methods))]
        if self.target is not None:
            panels.append(Panel("At equal measured risk", self._placed(self.at_equal_risk)))
        title = title or f"Methods on {Path(self.published).name}, {self.requirement}"
        subtitle = (
            "The lower left corner is the best. Lines: single releases. Diamond: the policy's own method. Crosses: "
            "nothing is associated, nothing is hidden."
        )
        return trade_off_plot(title, subtitle, panels)

    def _placed(self, outcomes: Sequence[Outcome]) -> tuple[Placed, ...]:
        kinds: list[tuple[Outcome, Kind]] = [(each, "own" if each.own else "method") for each in outcomes]
        kinds += [(each, "reference") for each in self.references]
        found = [(each.method, each.figures, kind) for each, kind in kinds if each.figures]
        return tuple(
            Placed(name, of.guessed.mean, of.mean_error.mean, of.mean_error.low, of.mean_error.high, kind)
            for name, of, kind in found
        )

    # --- in words -----------------------------------------------------------------------------------------------------

    def explain(self, *, details: bool = False) -> str:
        """Return the recommendation, in at most 25 lines; or, with `details`, all that was measured."""
        return self._details() if details else first_screen(self)

    def _details(self) -> str:
        promises = ["What each promises, to whom; the promises are not the same:", *_promises(self.methods)]
        parts = ["\n".join(self._head()), _table([*self.methods, *self.references]), *_reasons(self.methods)]
        parts.append("\n".join(promises))
        if self.target is not None:
            right = f"At equal measured risk: {share(self.target)} of the people guessed right, or the nearest below."
            parts += [f"{right}\n\n{_table(self.at_equal_risk)}", *_reasons(self.at_equal_risk)]
        advice = self.recommendation
        helps = (helpful(advice),) if advice.would_help else ()
        told = (*advice.sentences, *helps, *self.conclusions(), *self.notes)
        parts.append("\n".join(fill(line, WIDTH) for line in told))
        return "\n\n".join(parts)

    def _head(self) -> Iterator[str]:
        yield f"{self.published}: {self.rows:,} records. Asked: {self.requirement}."
        yield fill(
            f"Every method is asked for {percent(self.limit)} as the bound on the belief in a person's value, in its "
            f"own way (* the policy's own). Measured on {self.repeat} release(s) of each, thrown away since. right: "
            "people "
            "about whom one is right who knows everybody's quasi-identifiers and the release. exposed: the largest "
            "belief in a true value, from the rows that a person may be. error: relative, the mean and the median of "
            f"{self.counts_asked:,} random counts, the same for all. distance: total variation of the values, and in "
            f"pairs with each quasi-identifier. {self._of_order()}±: how far single releases are from the mean.",
            WIDTH,
        )

    def _of_order(self) -> str:
        """Say what errors of an order are, where the values have one."""
        if not any(each.figures and each.figures.share_error is not None for each in self.methods):
            return ""
        return (
            "up to: the mean error of the share of records up to a value. place: that of their mean place in the "
            "order, as a part of the range. "
        )

    def conclusions(self) -> Iterator[str]:
        """Yield what the comparison comes to: no winner is named where the releases of two methods overlap."""
        asked, equal = _measured(self.methods), _measured(self.at_equal_risk)
        bounding = {name: of for name, of in asked.items() if of.of_releases}
        yield _winner("At this requirement", bounding, self.repeat)
        if len(bounding) < len(asked):
            yield "Generalization is left out there: it bounds no belief, and is what others are compared with."
        if self.target is not None:
            yield _winner(f"At equal measured risk ({share(self.target)})", equal, self.repeat)
            risks = {name: of.guessed.mean for name, of in equal.items()}
            if short := [f"{name} {share(risk)}" for name, risk in risks.items() if risk < self.target - SHORT]:
                below = f"Below that risk by more than {SHORT:.0%} of the people, since no parameter tried is nearer"
                yield f"{below}: {', '.join(short)}."
        nothing, everything = _measured(self.references).values()
        yield from _uniform_better(self.methods)
        for when, measured in (("At this requirement", asked), ("At equal measured risk", equal)):
            yield from _poor(when, measured, nothing.mean_error.mean)
        yield (
            f"With the independence table one is right about {share(nothing.guessed.mean)} of the people, with "
            f"the table itself about {share(everything.guessed.mean)}. A guess by association is as good as the "
            "association is that a release keeps for its analysts. How sure one can be of a single person is "
            'another question: see "exposed".'
        )


def _mean(figure: Spread | float | None) -> float | None:
    return figure.mean if isinstance(figure, Spread) else figure


def _measured(outcomes: Sequence[Outcome]) -> dict[str, Figures]:
    return {each.method: each.figures for each in outcomes if each.figures}


def _winner(when: str, measured: Mapping[str, Figures], repeat: int) -> str:
    if not measured:
        return f"{when}, no method was measured."
    name = min(measured, key=lambda name: measured[name].mean_error.mean)
    best, error = measured[name], measured[name].mean_error
    if repeat == 1:
        return (
            f"{when}, {name} has the least mean error, {share(error.mean)}, on one release: how much that varies "
            "is not known, and no winner is named."
        )
    close = [other for other, of in measured.items() if other != name and of.mean_error.low <= error.high]
    told = share(error.mean)
    if best.of_releases:  # else there is one table
        told += f" ({share(error.low)} to {share(error.high)} over {repeat} releases)"
    others = (
        f"; {', '.join(close)} cannot be told from it" if close else ". All releases of the others have larger ones"
    )
    belief = f"with a belief of up to {share(best.worst)} in a true value"
    return f"{when}, the least mean error is {told}, of {name}, {belief}{others}."


def _poor(when: str, measured: Mapping[str, Figures], chance: float) -> Iterator[str]:
    """Tell who is no better than the independence table, which is off by `chance`, and who withholds records."""
    if names := [name for name, of in measured.items() if of.mean_error.mean >= chance]:
        yield (
            f"{when}, no better than the independence table (mean error {share(chance)}), in which values depend on "
            f"nothing: {', '.join(names)}."
        )
    if told := [f"{name} {share(1 - of.published_share)}" for name, of in measured.items() if of.published_share < 1]:
        yield (
            f"{when}, records are withheld: {', '.join(told)}. They are missing from counts, and their people are "
            "guessed like all others; that somebody is missing tells more (`sfumato audit`, missing)."
        )


def _uniform_better(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Say than which methods plain uniform perturbation estimates the values better, clearly."""
    far = {name: of.sensitive_distance for name, of in _measured(outcomes).items()}
    plain = far.get(Uniform.name, math.inf)
    for method in METHODS:
        own = far.get(method.name, 0.0)
        if method.beside_uniform and plain < CLEARLY * own:
            yield (
                f"Plain uniform perturbation estimates the values better than {method.name}: a total variation of "
                f"{share(plain, 2)} against {share(own, 2)}. {method.beside_uniform}"
            )


COLUMNS = (
    "method", "asked", "right", "exposed", "error", "median", "distance", "in pairs", "rows", "plan s", "publish s",
)  # fmt: skip


IN_ORDER = ("up to", "place")


def _table(outcomes: Sequence[Outcome]) -> str:
    """Return a line for each method; with errors of the order, where values have one."""
    measured = [(each, each.figures) for each in outcomes if each.figures]
    rows = [_row(each, figures) for each, figures in measured]
    if not any(figures.share_error is not None for _, figures in measured):
        return table(COLUMNS, rows, [False, False, *[True] * (len(COLUMNS) - 2)])
    place = COLUMNS.index("in pairs") + 1
    for row, (_, figures) in zip(rows, measured, strict=True):
        row[place:place] = ["-" if e is None else share(e, 2) for e in (figures.share_error, figures.place_error)]
    head = (*COLUMNS[:place], *IN_ORDER, *COLUMNS[place:])
    return table(head, rows, [False, False, *[True] * (len(head) - 2)])


def _row(outcome: Outcome, figures: Figures) -> list[str]:
    return [
        f"{'* ' if outcome.own else ''}{outcome.method}",
        outcome.asked,
        _percents(figures.guessed),
        share(figures.worst),
        _percents(figures.mean_error),
        _percents(figures.median_error),
        share(figures.sensitive_distance, 2),
        "-" if figures.pair_distance is None else share(figures.pair_distance, 2),
        share(figures.published_share),
        *("-" if t is None else f"{t:.2f}" for t in (figures.plan_seconds, figures.publish_seconds)),
    ]


def _percents(spread: Spread) -> str:
    """Return the mean, and how far single releases are from it."""
    off = max(spread.high - spread.mean, spread.mean - spread.low)
    return f"{share(spread.mean)} ±{100 * off:.1f}" if off >= 5e-4 else share(spread.mean)


def _reasons(outcomes: Sequence[Outcome]) -> list[str]:
    lines = [indented(reason) for reason in reasons(outcomes)]
    return ["\n".join(["Not measured, because:", *lines])] if lines else []


def _promises(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for each in outcomes:
        if each.figures is not None:
            own, told = each.figures.promised, f"{each.method}: {each.promise}"
            if own is not None:
                told += (
                    f" Measured {percent(own.worst)} ({own.attacker}), promised {own.direction} {percent(own.bound)}: "
                )
                told += f"{own.verdict}."
            yield indented(told)
