"""`sfumato init`: a complete policy for a table, with the reason for every choice as a comment.

Nothing is guessed silently. What the tool cannot know is left open, as a text that no policy takes (`DECIDE: ...`);
what it reads off the table is marked (`from_table = true`) until somebody confirms it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from sfumato.engines.base import Source
from sfumato.engines.embedded.counting import count_sensitive, rough_median
from sfumato.engines.embedded.csv_source import CsvSource
from sfumato.errors import TableError
from sfumato.methods import METHODS
from sfumato.methods.uniform import Uniform
from sfumato.publisher import toml
from sfumato.publisher.policy import UNDECIDED
from sfumato.publisher.policy_rules import BinRule, ColumnRule
from sfumato.publisher.proposal.choosing import Choice, choose, requirement, round_breaks, round_width
from sfumato.publisher.proposal.roles import (
    MANY_NUMBERS,
    QUANTITY_WORDS,
    Guess,
    guess_roles,
    is_all_numbers,
    is_category,
)
from sfumato.publisher.survey.counting import describe_columns
from sfumato.publisher.survey.found import Column
from sfumato.publisher.survey.overview import looks_of
from sfumato.publisher.table import check_columns, no_progress
from sfumato.release.formats import FORMATS
from sfumato.values.arrays import Progress
from sfumato.values.attributes import LEFT_OUT_ROLES, Schema
from sfumato.values.looks import PERSON_WORDS, words
from sfumato.values.profile import Profile
from sfumato.values.recoding import Bins
from sfumato.values.section import InputRule

DELIMITERS = (";", "\t", "|")
LISTED = 60  # a domain with at most so many values is listed, ready to be declared
FROM_TABLE = "from_table = true    # confirm what stands above, then remove this line"


@dataclass(frozen=True)
class Proposal:
    """A policy for a table, and why each column has its role; the reasons are comments of the text, too."""

    text: str
    reasons: dict[str, str]


def propose(source: Source, sensitive: str | None = None) -> str:
    """Return the text of a policy file for a table; `sensitive`: the column that is the secret, where that is known."""
    return proposal(source, sensitive).text


def proposal(source: Source, sensitive: str | None = None, progress: Progress = no_progress) -> Proposal:
    """Return a policy for a table."""
    source, delimiter = with_delimiter(source)
    check_columns(source.names, source.names)
    rows, columns = describe_columns(source, progress)
    if not rows:
        raise TableError(
            f"{source.description!r} has no rows: nothing can be proposed.", "Give a table with a row for each record."
        )
    guesses = guess_roles(columns, rows, looks_of(source, rows, columns), sensitive)
    secret = next(g for g in guesses if g.role == "sensitive")
    breaks = _breaks(source, secret.column)
    bins = Bins(breaks=breaks) if breaks and _needs_bins(secret.column) else None
    profile = _counted(source, secret.column, bins)
    choice = choose(profile, in_order=_is_quantity(secret.column))
    if choice.is_useless and breaks and bins is None and not is_category(secret.column):
        bins = Bins(breaks=breaks)
        profile = _counted(source, secret.column, bins)
        choice = choose(profile, in_order=True)
    sections = [
        _head(source, rows),
        _top_level(source, guesses),
        _about(),
        _input(source, delimiter, columns),
        *(
            _sensitive(g, bins, breaks, profile) if g is secret else [*_column(g), *_second(source, g, choice)]
            for g in guesses
        ),
        _person(guesses),
        _method(profile, choice, _known(guesses)),
        _requirement(choice),
        _linking(guesses, profile),
        _output(profile),
    ]
    text = "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"
    return Proposal(text, {g.column.name: f"{g.reason.rstrip('.')}." for g in guesses})


def _known(guesses: Sequence[Guess]) -> list[str]:
    """Return the columns that others are taken to know."""
    return [g.column.name for g in guesses if g.role == "quasi_identifier" and not g.decision]


def with_delimiter(source: Source) -> tuple[Source, str]:
    """Open a CSV file again if its header has another delimiter than the comma."""
    if isinstance(source, CsvSource) and len(source.names) == 1:
        found = max(DELIMITERS, key=source.names[0].count)
        if found in source.names[0]:
            return CsvSource(source.path, InputRule(delimiter=found)), found
    return source, source.rule.delimiter if isinstance(source, CsvSource) else ","


def _counted(source: Source, column: Column, bins: Bins | None) -> Profile:
    rule = ColumnRule(
        role="sensitive",
        bins=BinRule(breaks=bins.breaks) if bins else None,
        missing="category" if column.missing else "error",
    )
    return count_sensitive(source, Schema((rule.attribute(column.name),)), no_progress)


# --- the sections -------------------------------------------------------------------------------------------


def _head(source: Source, rows: int) -> list[str]:
    told = (
        f"A proposal for {source.description} ({rows:,} rows), made by `sfumato init`.",
        "Read every comment: roles were guessed from names and counts, and you know more. Texts that begin with "
        "DECIDE are yours to replace; until then the policy is refused. The comments hold figures of the table: "
        "keep this file private.",
        "identifier, drop: left out. quasi_identifier: others may know it of a person; published as it is, but for "
        "bins. sensitive: the secret, randomized. other: published as it is, for what nobody outside knows and "
        "what does not tell the secret; choose it only if you are sure.",
        "from_table = true: what stands there was read off the table, so the release tells of it, and less can be "
        "promised. Put what you would have put without looking, and remove the line.",
        "Next: `sfumato profile TABLE POLICY` shows what this policy means for the table.",
    )
    return [*map(toml.comment, told), "version = 1"]


def _top_level(source: Source, guesses: Sequence[Guess]) -> list[str]:
    unique = next((toml.quote(g.column.name) for g in guesses if g.unique_id), None)
    if unique is None:
        return []
    series = Path(source.description).name.split(".")[0] or "table"  # the name of the file
    return [
        toml.comment(
            f"{unique} is different in every row. As record key (with a key file) it makes a record keep its noise in "
            "later releases of the same series while its value stays. "
            "ASSUMED, NOT PROVED, is then that how long a value lasts says nothing about it; the plan "
            "says how much equal and different published values tell where that is not so. "
            "The name of the series must be the same in every release, and another one for every other table:"
        ),
        *toml.commented([f"record_key = {unique}", f"series = {toml.quote(series)}"]),
    ]


def _about() -> list[str]:
    return [
        toml.comment(
            "For whoever signs: these lines stand on the first page of the report (`sfumato report`). What is left out "
            "is a blank there, to fill in by hand. State them before you plan: a plan and a release are of one policy, "
            "with these lines. Write nothing about single records here:"
        ),
        *toml.commented(
            [
                "[about]",
                'title = "What the table holds, and of when"',
                'owner = "Who answers for it"',
                'purpose = "What the release is for"',
                'recipients = "Who gets it"',
            ]
        ),
    ]


def _input(source: Source, delimiter: str, columns: Sequence[Column]) -> list[str]:
    lines = []
    if delimiter != ",":
        lines += [
            toml.comment("The header has no comma, but this mark between its names:"),
            "[input]",
            f"delimiter = {toml.quote(delimiter)}",
        ]
    texts = sorted({text for c in columns for text in c.missing_texts})
    if texts and isinstance(source, CsvSource):
        where = ", ".join(toml.quote(c.name) for c in columns if c.missing_texts)
        missing = f"missing_values = [{', '.join(map(toml.quote, ['', *texts]))}]"
        lines += [
            toml.comment(f"Texts in {where} look like missing values, but are taken as they are. If they are missing:"),
            *toml.commented([missing] if lines else ["[input]", missing]),
        ]
    return lines


def _column(guess: Guess) -> list[str]:
    column = guess.column
    lines = [toml.comment(f"{guess.reason}."), f"[columns.{toml.key(column.name)}]", _role(guess)]
    if guess.role in LEFT_OUT_ROLES:
        return lines
    return [*lines, *_bins(column), *_missing(column)]


def _second(source: Source, guess: Guess, choice: Choice) -> list[str]:
    """Say what a second sensitive column needs: a method of its own, where records are drawn one by one."""
    if guess.rank is None:
        return []
    if not choice.method.draws_alone:
        return [
            toml.comment(
                f"If it is sensitive: with {choice.method.name} it is randomized together with the first, and their "
                "values multiply."
            )
        ]
    column, breaks = guess.column, _breaks(source, guess.column) if _needs_bins(guess.column) else ()
    own = f"columns.{toml.key(column.name)}"
    in_order = len(breaks) > 1 and not column.missing
    method = next(each for each in METHODS if each.for_order) if in_order else Uniform
    return [
        toml.comment(
            "If it is sensitive, it is drawn by itself, with a method and a requirement of its own; what both columns "
            "tell of a record multiplies:"
        ),
        *toml.commented(
            [
                *([f"bins = {{ breaks = {toml.numbers(breaks)} }}"] if breaks else []),
                *(['missing = "category"'] if column.missing else []),
                f"[{own}.method]",
                f"name = {toml.quote(method.name)}",
                f"[{own}.requirement]",
                "gamma = 3    # odds change by at most 3",
            ]
        ),
    ]


def _role(guess: Guess) -> str:
    return f"role = {toml.quote(f'{UNDECIDED}: {guess.decision}' if guess.decision else guess.role)}"


def _bins(column: Column) -> list[str]:
    """Bins for ages; for other numbers, and for dates, a suggestion."""
    if column.type == "date or time" and column.distinct > MANY_NUMBERS:
        return toml.commented(['bins = "year"'])
    if not is_all_numbers(column) or column.distinct <= MANY_NUMBERS or column.low is None or column.high is None:
        return []
    if "age" in words(column.name) and column.whole:
        return [f"bins = {{ width = 10 }}    # {column.distinct:,} exact ages would single people out"]
    step = round_width(column.low, column.high)
    if step is None or (column.whole and step < 2):
        return []
    return [
        toml.comment("Exact numbers single people out. Coarser, if they are amounts and not codes:"),
        *toml.commented([f"bins = {{ width = {toml.number(step)} }}"]),
    ]


def _missing(column: Column) -> list[str]:
    lines = []
    if column.missing_texts:
        texts = ", ".join(map(toml.quote, column.missing_texts))
        lines = [toml.comment(f"{column.looks_missing:,} rows say {texts}: taken as a value, not as missing.")]
    if column.missing:
        lines.append(
            f'missing = "category"    # missing in {column.missing:,} rows: stays so; "drop" leaves these rows out'
        )
    return lines


def _breaks(source: Source, column: Column) -> tuple[float, ...]:
    """Return round breaks for a column with many numbers; none for other columns."""
    if not is_all_numbers(column) or (column.distinct <= MANY_NUMBERS and column.type != "numbers"):
        return ()
    batches = (batch.rows for batch in source.batches([column.name]))
    middle = rough_median(batches, source.column_type(column.name))
    if column.low is None or column.high is None or middle is None:
        return ()
    return tuple(round_breaks(column.low, middle, column.high))


def _needs_bins(column: Column) -> bool:
    """Numbers that are not whole need bins; quantities with many values too, lest nothing of them is retained."""
    return _is_fraction(column) or (_is_quantity(column) and column.distinct > MANY_NUMBERS)


def _is_quantity(column: Column) -> bool:
    """Whether numbers are more or less of something: whole ones may be codes, unless their name tells."""
    return is_all_numbers(column) and (_is_fraction(column) or bool(set(words(column.name)) & QUANTITY_WORDS))


def _is_fraction(column: Column) -> bool:
    return column.type == "numbers" or not column.whole


def _sensitive(guess: Guess, bins: Bins | None, breaks: tuple[float, ...], profile: Profile) -> list[str]:
    column, name = guess.column, f"[columns.{toml.key(guess.column.name)}]"
    lines = [toml.comment(f"{guess.reason.rstrip('.')}."), name, _role(guess)]
    if bins is not None:
        codes = "" if _is_quantity(column) else " IF THEY ARE CODES and not amounts, remove them: they have no order."
        lines += [
            toml.comment(
                f"Numbers are randomized in bins; these are round and mine: put yours. They are the domain.{codes}"
            ),
            f"bins = {{ breaks = {toml.numbers(bins.breaks)} }}",
            *_means(bins),
        ]
    else:
        lines += _domain(breaks, profile)
    return [*lines, *_missing(column), FROM_TABLE]


def _means(bins: Bins) -> list[str]:
    """Say that open bins have no mean; where they are evenly spaced, bins of one width are another choice."""
    no_mean = "The lowest and the highest bin have one end only: analysts get shares and quantiles, but no mean."
    steps = {round(high - low, 9) for low, high in pairwise(bins.breaks)}
    if len(steps) != 1:
        return [toml.comment(no_mean)]
    return [
        toml.comment(f"{no_mean} For means, in place of the line above (the domain is then read off the table):"),
        *toml.commented([f"bins = {{ width = {toml.number(steps.pop())} }}"]),
    ]


def _domain(breaks: tuple[float, ...], profile: Profile) -> list[str]:
    lines = ['domain = "observed"']
    rare = profile.rare()
    warning = "Observed: the release lists the values that occur, and so tells that they occur"
    if rare:
        shown = ", ".join(toml.quote(v) for v in rare[:5]) + (", ..." if len(rare) > 5 else "")
        warning += f" ({len(rare):,} of them in fewer than 5 rows: {shown})"
    lines.append(toml.comment(f"{warning}. A declared domain, with all values that could occur, does not."))
    values = [v for v in profile.domain.parts[0].values if v is not None]
    if len(values) <= LISTED:
        lines.append(toml.comment("In place of the line above, completed:"))
        lines += toml.commented([f"domain = [{', '.join(toml.value(v) for v in values)}]"])
    if breaks:
        names = ", ".join(method.name for method in METHODS if method.for_order)
        lines.append(
            toml.comment(
                "If these are amounts and not codes, bins retain more of each record, and methods for values in order "
                f"({names}) estimate shares and means better:"
            )
        )
        lines += toml.commented([f"bins = {{ breaks = {toml.numbers(breaks)} }}"])
    return lines


def _person(guesses: Sequence[Guess]) -> list[str]:
    repeated = [g.column.name for g in guesses if g.repeated_id]
    if not repeated:
        return []
    best = max(repeated, key=lambda name: any(word.startswith(tuple(PERSON_WORDS)) for word in words(name)))
    return [
        toml.comment(
            f"{toml.quote(best)} looks like the number of a person or a case, and it is repeated. The guarantee is for "
            'one row per person. DECIDE: "error" stops before anything is published; '
            f'"keep-one" publishes one row of each, drawn at random (only with {_keeping_one()}; for '
            'other methods keep one row of each in the table first); "per-row" publishes all, and what is '
            "learned of a person adds up. If it does not tell persons apart, remove this section."
        ),
        "[person]",
        f"column = {toml.quote(best)}",
        'repeated = "error"',
    ]


def _keeping_one() -> str:
    *names, last = (method.name for method in METHODS if not method.why_not_one)
    return f"{', '.join(names)} and {last}"


def _method(profile: Profile, choice: Choice, known: Sequence[str]) -> list[str]:
    eligible = profile.rows // int(profile.counts.max())
    return [
        *map(toml.comment, choice.about_method()),
        "[method]",
        f"name = {toml.quote(choice.method.name)}",
        *(line for why, lines in choice.alternatives() for line in (toml.comment(why), *toml.commented(lines))),
        toml.comment(
            "If values must stay true, records can be published in groups instead: who is in a group and which values "
            "it has, but not who has which. These take one sensitive column, and l or r in place of the requirement "
            "below; each has a page in docs/methods."
        ),
        *toml.commented(
            [
                f'name = "{"anatomy" if eligible > 1 else "suppression"}"    # with l = {max(2, min(eligible, 3))}',
                'name = "robust-anatomy"    # with r = 2, against those who know how the secret depends on these:',
                f"attribute_sets = [[{', '.join(map(toml.quote, known[:2] or ['NAME']))}]]",
            ]
        ),
    ]


def _requirement(choice: Choice) -> list[str]:
    lines = [*map(toml.comment, choice.about_requirement()), "[requirement]"]
    if choice.asked is None:
        advice = "rho1 = 0.1 and rho2 = 0.3 protect rare values only; or other breaks, or another column"
        lines += [f"rho1 = {toml.quote(f'{UNDECIDED}: {advice}')}", "rho2 = 0.3"]
    else:
        rho1, rho2 = (toml.number(float(rho)) for rho in choice.asked)
        lines += [f"rho1 = {rho1}", f"rho2 = {rho2}", FROM_TABLE]
    return [
        *lines,
        toml.comment("Instead of rho1 and rho2, one of these:"),
        "# epsilon = 1    # local differential privacy: odds change by at most e",
        "# gamma = 3      # odds change by at most 3",
        toml.comment(
            'or, with [method] name = "fine-grain", for each value at most three times its own share (the matrix then '
            "discloses the shares in this table; a table of public shares as rho1 does not):"
        ),
        "# tolerance = 3",
        '# rho1 = "observed"',
    ]


def _linking(guesses: Sequence[Guess], profile: Profile) -> list[str]:
    """Offer to blur the quasi-identifiers instead, if there are any."""
    names = ", ".join(map(toml.quote, _known(guesses)))
    if not names:
        return []
    _, limit = requirement(float(profile.frequency.max()))
    return [
        toml.comment(
            "Another way, in place of both sections above, if the danger is that rows are linked to people by "
            f"{names}: these are randomized instead, just so much that someone who sees the published "
            "quasi-identifiers believes no sensitive value of a row by more than risk_limit. The sensitive column "
            "is then published AS IT IS. For few quasi-identifiers with few values."
        ),
        *toml.commented(
            ["[method]", 'name = "randomized-response"', "[requirement]", f"risk_limit = {toml.number(float(limit))}"]
        ),
    ]


def _output(profile: Profile) -> list[str]:
    usual, *others = (f'"{name}"' for name in FORMATS)
    return [
        toml.comment(
            f'{profile.order.statement} Rows are published in a random order; "keep" leaves them as they are.'
        ),
        "[output]",
        f"format = {usual}    # or {' or '.join(others)}",
        'order = "shuffle"',
    ]
