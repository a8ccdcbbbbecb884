"""What a column probably is, by its name and its counts, with the reason in words.

A guess that could do harm goes to the cautious side: what may tell who a person is, or is a second secret, is
dropped; what is left is taken as known to the attacker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sfumato.errors import TableError, UsageError
from sfumato.publisher.survey.found import PLAIN_TYPES, Column
from sfumato.values.attributes import LEFT_OUT_ROLES, Role
from sfumato.values.looks import HOUSEHOLD_WORDS, Look, is_id, words
from sfumato.values.text import meant

MOST_CATEGORIES = 100
MANY_NUMBERS = 30


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


KNOWN_WORDS = _listed(
    "age birth birthday birthdate birthyear dob yob sex gender race ethnicity ethnic hispanic region zip zipcode "
    "postcode postal state county city town municipality district province area urban rural education school degree "
    "marital civil relationship occupation job profession employer workclass work nationality country citizenship "
    "citizen native language height weight household children siblings"
)
SENSITIVE_WORDS = (  # the most sensitive first
    _listed("disease diseases diagnosis diagnoses diag diagnose icd illness disorder condition hiv aids cancer"),
    _listed("reaction reactions symptom symptoms"),
    _listed("religion religious orientation party vote crime offence offense conviction"),
    _listed("income salary wage wages wagp pincp earnings savings debt wealth credit"),
    _listed("drug drugs medication medications medicine treatment therapy prescription"),
)
AMOUNT_WORDS = SENSITIVE_WORDS[3]
QUANTITY_WORDS = AMOUNT_WORDS | _listed(
    "age hours days weeks months years duration weight height bmi dose score amount cost costs price expense expend "
    "expenditure rent tax pressure cholesterol glucose"
)
"""Of numbers that are more or less of something, rather than codes."""
COUNT_WORDS = _listed("number num count n")


@dataclass(frozen=True)
class Guess:
    """The proposed role of a column, and why. `decision`: what the publisher must choose from, "" if nothing."""

    column: Column
    role: Role
    reason: str
    decision: str = ""
    rank: int | None = None  # of a column that looks sensitive, 0 the most
    repeated_id: bool = False  # tells persons or cases apart, and some have several rows
    unique_id: bool = False  # tells every row apart
    unpublishable: bool = False  # by its name


def guess_roles(
    columns: Sequence[Column], rows: int, looks: Mapping[str, Look | None], sensitive: str | None = None
) -> list[Guess]:
    """Return a guess for every column, exactly one of them sensitive: the one that is stated, if one is."""
    first = {column.name.lower(): column.name for column in reversed(columns)}
    guesses = [
        _guess_name(column, first[column.name.lower()]) or _guess(column, rows, looks[column.name])
        for column in columns
    ]
    if sensitive is not None:
        stated = _stated(guesses, rows, sensitive)
        return [_settled(stated if g.column is stated.column else g, stated) for g in guesses]
    candidates = [g for g in guesses if g.rank is not None]
    if candidates:
        chosen = min(candidates, key=lambda g: g.rank or 0)
        return [_settled(g, chosen) for g in guesses]
    placeholder = _placeholder(guesses)
    reason = (
        f"{_counted(placeholder.column, rows)}. No column looks sensitive, and this one stands for yours: choose which "
        "column is the secret, and what this one is"
    )
    choice = "sensitive, or quasi_identifier or drop once another column is sensitive"
    return [replace(g, role="sensitive", reason=reason, decision=choice) if g is placeholder else g for g in guesses]


def _stated(guesses: Sequence[Guess], rows: int, name: str) -> Guess:
    """Return the guess for the column that is said to be the secret."""
    names = [g.column.name for g in guesses]
    if name not in names:
        raise UsageError(f"The table has no column {name!r}.", meant(name, names, "Its columns are"))
    found = guesses[names.index(name)]
    if found.unpublishable or not is_usable(found.column):
        raise TableError(
            f"The column {name!r} cannot be randomized: {_counted(found.column, rows)}.",
            "A sensitive column has text, finite numbers or truth values, at least two of them, and a name of its own.",
        )
    return Guess(found.column, "sensitive", _counted(found.column, rows), rank=0)


def is_usable(column: Column) -> bool:
    """Whether a column can be randomized: plain, with at least two values, numbers finite."""
    if column.type not in PLAIN_TYPES or column.distinct < 2:
        return False
    return column.type != "numbers" or is_all_numbers(column)


def is_all_numbers(column: Column) -> bool:
    """Whether all values are numbers, or text that can be read as one."""
    return column.type in ("whole numbers", "numbers", "text (whole numbers)", "text (numbers)") and (
        column.numbers > 0 and column.low is not None and column.high is not None
    )


def is_category(column: Column) -> bool:
    """Whether a column is named like a secret of kinds, such as a diagnosis: its numbers are codes."""
    return _sensitive_rank(words(column.name)) is not None and not set(words(column.name)) & QUANTITY_WORDS


def _counted(column: Column, rows: int) -> str:
    kind = "" if column.type == "text" else f", {column.type}"
    plural = "" if column.distinct == 1 else "s"
    return f"{column.distinct:,} different value{plural} in {rows:,} rows{kind}"


def _guess_name(column: Column, twin: str) -> Guess | None:
    """Return the guess for a column whose name cannot be published; `twin`: the first one of the same letters."""
    if twin != column.name:
        why = f'Differs from "{twin}" in case only'
    elif not column.name.isprintable():
        why = "Its name holds a character that cannot be seen"
    else:
        return None
    return Guess(column, "drop", f"{why}, so it is left out. RENAME IT to publish it", unpublishable=True)


def _guess(column: Column, rows: int, look: Look | None) -> Guess:
    counted = _counted(column, rows)
    if column.distinct == 0:
        return Guess(column, "drop", "No value in any row: it is left out")
    if column.type not in (*PLAIN_TYPES, "date or time"):
        return Guess(column, "drop", f"Of type {column.type}, which is not published: it is left out")
    if look is not None and look.kind in ("identifier", "contact"):
        return _guess_id(column, rows, f"{counted}. It {look.brief}; it is left out")
    rank = _sensitive_rank(words(column.name))
    is_texts = column.type == "text" and look is not None
    if rank is not None and is_usable(column) and not is_texts:
        return Guess(column, "sensitive", counted, rank=rank)
    return _guess_known(column, counted) if look is None else _guess_telling(column, counted, look)


def _guess_known(column: Column, counted: str) -> Guess:
    if is_id(words(column.name)):
        why = "Named like an identifier, but with so few values it is a code; taken as known to others"
    elif set(words(column.name)) & KNOWN_WORDS:
        why = "Named like something that others know of a person"
    else:
        why = "Not recognized, so taken as known to others"
    return Guess(column, "quasi_identifier", f"{counted}. {why}")


def _guess_telling(column: Column, counted: str, look: Look) -> Guess:
    """Return the guess for a column that tells who people are by its contents."""
    reason = f"{counted}. It {look.brief}"
    if look.kind == "precise date":
        return Guess(column, "quasi_identifier", reason, 'drop, or quasi_identifier with bins = "year"')
    if look.kind == "nearly unique" and is_all_numbers(column):
        return Guess(column, "quasi_identifier", reason, "drop, or quasi_identifier with bins")
    return Guess(column, "drop", f"{reason}; it is left out")


def _guess_id(column: Column, rows: int, reason: str) -> Guess:
    found = words(column.name)
    if not is_id(found) or HOUSEHOLD_WORDS & set(found):
        return Guess(column, "identifier", reason)
    repeated = column.distinct < rows - column.missing
    return Guess(
        column,
        "identifier",
        reason,
        repeated_id=repeated and not column.missing,
        unique_id=not repeated and not column.missing,
    )


def _sensitive_rank(found: Sequence[str]) -> int | None:
    if set(found) & COUNT_WORDS:
        return None
    return next((rank for rank, group in enumerate(SENSITIVE_WORDS) if group & set(found)), None)


def _settled(guess: Guess, chosen: Guess) -> Guess:
    """Of several columns that look sensitive, one is; the others are dropped until the publisher decides."""
    if guess.rank is None:
        return guess
    if guess is chosen:
        named = (
            "Named like a secret" if _sensitive_rank(words(guess.column.name)) is not None else "Chosen as the secret"
        )
        reason = f"{guess.reason}. {named}; it will be randomized"
        return replace(guess, reason=reason)
    reason = f"{guess.reason}. LOOKS SENSITIVE TOO. Published as it is, it would tell the secret"
    return replace(guess, role="drop", reason=reason, decision="drop, sensitive or quasi_identifier")


def _placeholder(guesses: Sequence[Guess]) -> Guess:
    """Return the last categorical column, else the last that can be randomized at all."""
    usable = [g for g in guesses if is_usable(g.column) and not g.unpublishable]
    kept = [g for g in usable if g.role not in LEFT_OUT_ROLES]
    categorical = [g for g in kept if g.column.distinct <= MOST_CATEGORIES]
    if not usable:
        raise TableError(
            "No column can be randomized: each has one value only, or is of a type without a finite domain.",
            "A policy needs a sensitive column of text, numbers or truth values, with at least two values.",
        )
    return (categorical or kept or usable)[-1]
