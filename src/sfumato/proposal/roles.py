"""What a column probably is, by its name and its counts, with the reason in words.

A guess that could do harm goes to the cautious side: what may tell who a person is, or is a second secret, is
dropped; what is left is taken as known to the attacker.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sfumato.attributes import Role
from sfumato.errors import TableError
from sfumato.survey.model import Column

NEARLY_UNIQUE = 0.9
ENOUGH_ROWS = 30
"""In a smaller table that all values differ means nothing."""
MOST_CATEGORIES = 100
MANY_NUMBERS = 30
PLAIN_TYPES = ("text", "text (whole numbers)", "text (numbers)", "whole numbers", "numbers", "true/false")


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


PERSON_WORDS = _listed(
    "patient person subject member client customer user employee case report respondent participant individual student"
)
HOUSEHOLD_WORDS = _listed("household family hid hhid")
ID_ENDINGS = _listed("id ids nr no nbr key uuid guid hid hhid pid")
NUMBER_ENDINGS = _listed("number num code")
JOINED_ID = re.compile(rf"({'|'.join(sorted(PERSON_WORDS | HOUSEHOLD_WORDS))})(id|nr|no|nbr|num|number|key)")
PERSONAL_WORDS = _listed(
    "surname firstname lastname fullname forename username ssn nin email mail phone telephone mobile fax address "
    "street passport iban mrn login url ip latitude longitude"
)
NAME_OWNERS = PERSON_WORDS | _listed("first last full given family sur middle maiden")
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
    _listed("income salary wage wages earnings savings debt wealth credit"),
    _listed("drug drugs medication medications medicine treatment therapy prescription"),
)
AMOUNT_WORDS = SENSITIVE_WORDS[3]
COUNT_WORDS = _listed("number num count n")


@dataclass(frozen=True)
class Guess:
    """The proposed role of a column, and why."""

    column: Column
    role: Role
    reason: str
    rank: int | None = None  # of a column that looks sensitive, 0 the most
    repeated_id: bool = False  # tells persons or cases apart, and some have several rows
    unique_id: bool = False  # tells every row apart
    unpublishable: bool = False  # by its name


def words(name: str) -> list[str]:
    """Return the words of a column name, without numbers at their ends.

    >>> words("diag_1"), words("ICD10 code"), words("maritalStatus"), words("NET.PROFIT")
    (['diag'], ['icd', 'code'], ['marital', 'status'], ['net', 'profit'])
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower()
    stems = [re.sub(r"\d+$", "", word) for word in re.split(r"[\W_]+", spaced)]
    return [stem for stem in stems if stem]


def guess_roles(columns: Sequence[Column], rows: int) -> list[Guess]:
    """Return a guess for every column, exactly one of them sensitive."""
    guesses = [_guess_name(column, columns[:k]) or _guess(column, rows) for k, column in enumerate(columns)]
    candidates = [g for g in guesses if g.rank is not None]
    if candidates:
        chosen = min(candidates, key=lambda g: g.rank or 0)
        return [_settled(g, chosen) for g in guesses]
    placeholder = _placeholder(guesses)
    reason = (
        f"{_counted(placeholder.column, rows)}. NO COLUMN LOOKS SENSITIVE: this one is only a placeholder. "
        "Choose yourself which column is the secret, and what this one is."
    )
    return [replace(g, role="sensitive", reason=reason) if g is placeholder else g for g in guesses]


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


def _counted(column: Column, rows: int) -> str:
    kind = "" if column.type == "text" else f", {column.type}"
    plural = "" if column.distinct == 1 else "s"
    return f"{column.distinct:,} different value{plural} in {rows:,} rows{kind}"


def _guess_name(column: Column, before: Sequence[Column]) -> Guess | None:
    """Return the guess for a column whose name cannot be published."""
    twin = next((c.name for c in before if c.name.lower() == column.name.lower()), None)
    if twin is not None:
        why = f'Differs from "{twin}" in case only'
    elif not column.name.isprintable():
        why = "Its name holds a character that cannot be seen"
    else:
        return None
    return Guess(column, "identifier", f"{why}: it will be dropped. RENAME IT to publish it", unpublishable=True)


def _guess(column: Column, rows: int) -> Guess:
    counted, found = _counted(column, rows), words(column.name)
    if column.distinct == 0:
        return Guess(column, "identifier", "No value in any row: it will be dropped")
    if column.type not in (*PLAIN_TYPES, "date or time"):
        return Guess(column, "identifier", f"Of type {column.type}, which is not published: it will be dropped")
    if _is_personal(found):
        text = f"{counted}. Named like something that tells who a person is; it will be dropped"
        return Guess(column, "identifier", text)
    if _is_id(found):
        return _guess_id(column, rows, counted)
    rank = _sensitive_rank(found)
    if rank is not None and is_usable(column) and not _is_free_text(column, rows):
        return Guess(column, "sensitive", counted, rank)
    if _is_nearly_unique(column, rows) and column.type not in ("numbers", "text (numbers)", "date or time"):
        or_amount = " (or a precise amount, which tells as much)" if is_all_numbers(column) else ""
        text = f"{counted}: looks like an identifier{or_amount}; it will be dropped"
        return Guess(column, "identifier", text)
    named = bool(set(found) & KNOWN_WORDS)
    why = (
        "Named like something that others know of a person" if named else "Not recognized, so taken as known to others"
    )
    alone = ". NEARLY UNIQUE: whoever knows it finds the record" if _is_nearly_unique(column, rows) else ""
    return Guess(column, "quasi_identifier", f"{counted}. {why}{alone}")


def _guess_id(column: Column, rows: int, counted: str) -> Guess:
    if column.distinct <= max(50, rows // 100):
        text = f"{counted}. Named like an identifier, but with so few values it is a code; taken as known"
        return Guess(column, "quasi_identifier", text)
    found = words(column.name)
    if HOUSEHOLD_WORDS & set(found):
        text = f"{counted}. Looks like the number of a household; it will be dropped"
        return Guess(column, "identifier", text)
    repeated = column.distinct < rows - column.missing
    return Guess(
        column,
        "identifier",
        f"{counted}. Named like an identifier; it will be dropped",
        repeated_id=repeated and not column.missing,
        unique_id=not repeated and not column.missing,
    )


def _is_personal(found: Sequence[str]) -> bool:
    if set(found) & PERSONAL_WORDS:
        return True
    return "name" in found and (len(found) == 1 or bool(set(found) & NAME_OWNERS))


def _is_id(found: Sequence[str]) -> bool:
    if not found:
        return False
    if found[-1] in ID_ENDINGS or any(JOINED_ID.fullmatch(word) for word in found):
        return True
    return found[-1] in NUMBER_ENDINGS and bool(set(found) & PERSON_WORDS)


def _sensitive_rank(found: Sequence[str]) -> int | None:
    if set(found) & COUNT_WORDS:
        return None
    return next((rank for rank, group in enumerate(SENSITIVE_WORDS) if group & set(found)), None)


def _is_nearly_unique(column: Column, rows: int) -> bool:
    return rows >= ENOUGH_ROWS and column.distinct >= NEARLY_UNIQUE * (rows - column.missing)


def _is_free_text(column: Column, rows: int) -> bool:
    return column.type == "text" and _is_nearly_unique(column, rows)


def _settled(guess: Guess, chosen: Guess) -> Guess:
    """Of several columns that look sensitive, one is; the others are dropped until the publisher decides."""
    if guess.rank is None:
        return guess
    if guess is chosen:
        reason = f"{guess.reason}. Named like a secret; it will be randomized"
        return replace(guess, reason=reason)
    reason = (
        f"{guess.reason}. LOOKS SENSITIVE TOO. Published as it is, it would tell the secret, so it is "
        "dropped until "
        'you decide: role = "sensitive" randomizes it together with the other (their values multiply), '
        '"quasi_identifier" publishes it'
    )
    return replace(guess, role="identifier", reason=reason)


def _placeholder(guesses: Sequence[Guess]) -> Guess:
    """Return the last categorical column, else the last that can be randomized at all."""
    usable = [g for g in guesses if is_usable(g.column) and not g.unpublishable]
    kept = [g for g in usable if g.role != "identifier"]
    categorical = [g for g in kept if g.column.distinct <= MOST_CATEGORIES]
    if not usable:
        raise TableError(
            "No column can be randomized: each has one value only, or is of a type without a finite domain.",
            "A policy needs a sensitive column of text, numbers or truth values, with at least two values.",
        )
    return (categorical or kept or usable)[-1]
