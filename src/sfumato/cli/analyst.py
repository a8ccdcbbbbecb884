"""The analyst's commands: estimate, distribution, associate, regress, power."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.base import (
    Conf,
    Engine,
    Json,
    Master,
    ReleasePath,
    opened_release,
    print_json,
    progress_bar,
    split_names,
    tell,
)
from sfumato.errors import UsageError
from sfumato.show.formulas import warning
from sfumato.show.terminal import say, table_width
from sfumato.show.words import decimals_of, number, power_figure
from sfumato.values.text import table

if TYPE_CHECKING:
    from sfumato.analyst.answer import Answer
    from sfumato.analyst.regression.answer import Regression

Columns = Annotated[list[str] | None, typer.Option("--by", help="Columns to group by; repeat or separate by commas.")]
Where = Annotated[str, typer.Option("--where", help="A condition; on untouched columns, if others are randomized.")]
Target = Annotated[
    str,
    typer.Option("--target", help="table: intervals cover the added noise alone. population: sampling too."),
]
Level = Annotated[float, typer.Option("--level", help="Confidence level of the intervals.")]
AnyWhere = Annotated[str, typer.Option("--where", help="A condition on any columns.")]
SurveyStrata = Annotated[
    str, typer.Option("--survey-strata", help="A column in whose values records or clusters were drawn.")
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="A new file: .csv, .json, .parquet or .arrow.")]
Escape = Annotated[
    bool, typer.Option("--escape-formulas", help="In CSV: an apostrophe before text that spreadsheets would calculate.")
]
Plot = Annotated[Path | None, typer.Option("--plot", help="A new picture with error bars: .svg, .png, .pdf or .html.")]


NOTHING_THERE = re.compile(r"No published row |No value of .+ satisfies|.+ is no value of ")
"""How notes begin that say why nothing can be found: a word of the condition is wrong."""
NOISE_ONLY = "Intervals cover the added noise, not sampling. For conclusions about a population: --target population."


def estimate(
    release: ReleasePath,
    query: Annotated[
        str, typer.Argument(help='One SELECT, e.g. "SELECT sex, AVG(age) FROM release GROUP BY sex".')
    ] = "",
    by: Columns = None,
    where: Where = "",
    weight: Annotated[str, typer.Option("--weight", help="A column of survey weights, for a query.")] = "",
    method: Annotated[
        str, typer.Option("--method", help="inverse (unbiased), projected or em; classical, of a release by groups.")
    ] = "inverse",
    target: Target = "table",
    level: Level = 0.95,
    truth: Annotated[
        Path | None, typer.Option("--truth", help="The table that was published: how near do the estimates come?")
    ] = None,
    output: Output = None,
    escape_formulas: Escape = False,
    plot: Plot = None,
    engine: Engine = "embedded",
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Estimate counts and other figures, with error bars.

    From the release alone.
    """
    if query and (by or where or truth):
        raise UsageError("--by, --where and --truth do not go with a query.", "Say all of it in the query.")
    if weight and not query:
        raise UsageError("--weight goes with a query.", 'E.g. "SELECT COUNT(*) FROM release".')
    if truth and not query and (where or output or escape_formulas or plot or target != "table"):
        raise UsageError(
            "--where, --target, --output and --plot do not go with --truth.",
            "It compares the whole table; --json prints the figures for a program.",
        )
    how: dict[str, Any] = {"method": method, "target": target, "level": level}
    with opened_release(release, engine, master, conf) as opened:
        columns = split_names(by or [], opened.askable_names)
        if truth is not None:
            from sfumato.auditor.utility.distances import nearness

            tell(nearness(opened, truth, columns, method=method, level=level), as_json)  # type: ignore[arg-type]
            return
        answer = opened.sql(query, weight=weight, **how) if query else opened.count(columns, where, **how)
    title = query or ", ".join(["counts", *(f"by {name}" for name in answer.by[:1])])
    _save(answer, output, escape_formulas)
    _tell_answer(answer, title, plot, as_json)


def distribution(
    release: ReleasePath,
    column: Annotated[str, typer.Argument(help="A randomized column of numbers, of bins, or in a declared order.")],
    by: Columns = None,
    where: AnyWhere = "",
    weight: Annotated[str, typer.Option("--weight", help="A column of survey weights.")] = "",
    target: Target = "table",
    level: Level = 0.95,
    output: Output = None,
    escape_formulas: Escape = False,
    plot: Plot = None,
    engine: Engine = "embedded",
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Estimate shares at or below each value, with error bars."""
    how: dict[str, Any] = {"target": target, "level": level}
    with opened_release(release, engine, master, conf) as opened:
        columns = split_names(by or [], opened.askable_names)
        answer = opened.distribution(column, columns, where, weight=weight, **how)
    _save(answer, output, escape_formulas)
    _tell_answer(answer, f"share of the records at or below each {column}", plot, as_json)


def associate(
    release: ReleasePath,
    between: Annotated[list[str] | None, typer.Option("--between", help="Two columns, separated by a comma.")] = None,
    exposed: Annotated[str, typer.Option("--exposed", help="A condition on any columns, for risks.")] = "",
    outcome: Annotated[str, typer.Option("--outcome", help="A condition on any columns, for risks.")] = "",
    where: Annotated[str, typer.Option("--where", help="A condition: which records are asked.")] = "",
    normaliser: Annotated[
        str, typer.Option("--normaliser", help="Whose entropy the uncertainty coefficient is divided by.")
    ] = "second",
    strata: Annotated[
        list[str] | None, typer.Option("--strata", help="Columns: risks are compared within their values, and pooled.")
    ] = None,
    standard: Annotated[
        str, typer.Option("--standard", help="Whose strata risks are standardised to: all, exposed or others.")
    ] = "all",
    weight: Annotated[str, typer.Option("--weight", help="A column of survey weights, for risks.")] = "",
    cluster: Annotated[
        str, typer.Option("--cluster", help="A column whose rows were sampled together, for a population.")
    ] = "",
    survey_strata: SurveyStrata = "",
    target: Target = "table",
    level: Level = 0.95,
    engine: Engine = "embedded",
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Measure how two columns go together, with error bars.

    Or compare risks: --exposed and --outcome.
    """
    how: dict[str, Any] = {"target": target, "level": level}
    if between and (exposed or outcome):
        raise UsageError("--between does not go with --exposed and --outcome.", "Ask for one of the two.")
    if between and (strata or weight or cluster or survey_strata):
        raise UsageError(
            "--strata, --weight, --cluster and --survey-strata are for risks.", "Name --exposed and --outcome."
        )
    with opened_release(release, engine, master, conf) as opened:
        names = split_names(between or [], opened.askable_names)
        if between and len(names) != 2:
            raise UsageError(f"An association is between two columns, not {len(names)}.", "--between sex,diagnosis")
        if between:
            found = opened.association(names[0], names[1], where, normaliser=normaliser, **how)  # type: ignore[arg-type]
        else:
            by = split_names(strata or [], opened.askable_names)
            how |= {"strata": by, "standard": standard, "weight": weight, "cluster": cluster}
            how |= {"survey_strata": survey_strata}
            found = opened.risks(exposed, outcome, where, **how)
    if as_json:
        print_json(found.to_dict())
        return
    columns = ["estimate", "standard_error", "lower", "upper", "naive", "bias"]
    figures = [[number(getattr(m, name)) for name in columns] for m in found.measures]
    notes = list(found.notes)
    if (t := found.test) is not None:
        notes[:0] = [
            f"Independence: chi-square {t.statistic:,.1f}, {t.degrees} degrees of freedom, p = {t.p_value:.3g}.",
            f"{found.naive}: {t.naive_statistic:,.1f}, p = {t.naive_p_value:.3g}.",
        ]
    _print_table([found.what], [(m.name,) for m in found.measures], columns, figures, notes)


def regress(
    release: ReleasePath,
    formula: Annotated[str, typer.Argument(help="E.g. \"diagnosis == 'diabetes' ~ age + C(region) * sex\".")],
    family: Annotated[str, typer.Option("--family", help="logistic, multinomial, linear or poisson.")] = "logistic",
    where: AnyWhere = "",
    weights: Annotated[str, typer.Option("--weights", help="A column of survey weights.")] = "",
    offset: Annotated[str, typer.Option("--offset", help="Added to the linear predictor, e.g. log(years).")] = "",
    cluster: Annotated[str, typer.Option("--cluster", help="A column that tells which rows are one person's.")] = "",
    survey_strata: SurveyStrata = "",
    method: Annotated[
        str, typer.Option("--method", help="inverse (unbiased), or likelihood, of randomized outcomes alone.")
    ] = "inverse",
    interval: Annotated[
        str | None, typer.Option("--interval", help="score (unless it takes long), or wald: by standard errors.")
    ] = None,
    target: Target = "table",
    level: Level = 0.95,
    output: Output = None,
    escape_formulas: Escape = False,
    plot: Plot = None,
    engine: Engine = "embedded",
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Fit a regression model, corrected for the noise.

    The naive fit stands beside it.
    """
    how: dict[str, Any] = {"method": method, "target": target, "level": level, "interval": interval}
    asked: dict[str, Any] = {"where": where, "weights": weights, "offset": offset, "cluster": cluster}
    asked |= {"survey_strata": survey_strata}
    with opened_release(release, engine, master, conf) as opened, progress_bar("Fitting", None, as_json) as progress:
        found = opened.regress(formula, family, **asked, **how, progress=progress)
    _save(found, output, escape_formulas)
    if plot is not None:
        found.plot(plot)
    tell(found, as_json)


def power(
    release: ReleasePath,
    by: Columns = None,
    where: AnyWhere = "",
    share: Annotated[
        float | None, typer.Option("--share", help="The assumed share of a cell; by default the one in the release.")
    ] = None,
    width: Annotated[
        float | None, typer.Option("--width", help="Required half-width of the interval of a share.")
    ] = None,
    chance: Annotated[
        float, typer.Option("--chance", help="Required probability of detecting a non-zero count.")
    ] = 0.8,
    target: Target = "table",
    level: Level = 0.95,
    engine: Engine = "embedded",
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Say how exact a count will be, before it is asked.

    Also the rarest group that would be seen, and the records needed.
    """
    how: dict[str, Any] = {"target": target, "level": level, "chance": chance}
    with opened_release(release, engine, master, conf) as opened:
        columns = split_names(by or [], opened.askable_names)
        found = opened.power(columns, where, share=share, width=width, **how)
    if as_json:
        about = {"target": found.target, "level": found.level, "chance": found.chance}
        print_json({**about, "rows": found.rows(), "notes": list(found.notes)})
        return
    shown = ["records", "assumed_share", "share_half_width", "least_share", "least_count", "records_to_see"]
    shown += [] if width is None else ["records_for_width"]
    figures = [[*(_power_figure(name, row) for name in shown), _is_seen(row)] for row in found.rows()]
    _print_table(found.by, found.groups, [*shown, "seen"], figures, found.notes)


MOST_TIMES = 100
"""How many times the records of a group is a number that somebody could still collect; beyond, none is told."""


def _power_figure(name: str, row: Mapping[str, Any]) -> str:
    """Return a figure of a group; how many records it would need only where that is of any use."""
    if name == "records_to_see" and (row["times_to_see"] or 0) > MOST_TIMES:
        return f"> {MOST_TIMES} times"
    return power_figure(name, row[name])


def _is_seen(row: Mapping[str, Any]) -> str:
    """Return whether the cell, with its assumed share, is told from 0 with the chance that was asked for."""
    least = row["least_share"]
    return "yes" if least is not None and row["assumed_share"] >= least else "too small"


def _save(answer: Answer | Regression, output: Path | None, escape_formulas: bool) -> None:
    """Write an answer to a file where that is asked; say so where a spreadsheet program would calculate its text."""
    from sfumato.show.files import formulas_in

    if output is None:
        if escape_formulas:
            raise UsageError("--escape-formulas goes with --output.", "Name a file: --output FILE.csv.")
        return
    answer.save(output, escape_formulas)
    if not escape_formulas and (names := formulas_in(answer.to_arrow(), output)):
        say(warning(names, "Write it with --escape-formulas, or as .parquet."), error=True)


def _tell_answer(answer: Answer, title: str, plot: Path | None, as_json: bool) -> None:
    """Write a picture of an answer where that is asked, and print it."""
    from sfumato.analyst.answer import SAMPLING

    if plot is not None:
        answer.plot(plot, title)
    if as_json:
        print_json(answer.to_dict())
        return
    columns = answer.figures()
    rows = zip(*columns.values(), strict=True)
    figures = [[number(figure, decimals_of(error)) for figure in (value, error, *ends)] for value, error, *ends in rows]
    if wrong := [note for note in answer.notes if NOTHING_THERE.match(note)]:  # before figures that are all 0
        say("\n".join([*wrong, ""]))
    notes = [note for note in answer.notes if note not in wrong]
    covered = NOISE_ONLY if answer.target == "table" else SAMPLING
    _print_table(answer.by, answer.groups, list(columns), figures, [*notes, covered])


def _print_table(
    by: Sequence[str],
    groups: Iterable[Sequence[Any]],
    columns: Sequence[str],
    figures: Iterable[Sequence[str]],
    notes: Iterable[str],
) -> None:
    """Print a line for each group with its figures, and the notes below."""
    lines = zip(groups, figures, strict=True)
    rows = [[*("(missing)" if value is None else str(value) for value in group), *told] for group, told in lines]
    say(table([*by, *columns], rows, [False] * len(by) + [True] * len(columns), table_width()), fold=False)
    for note in notes:
        say(note)
