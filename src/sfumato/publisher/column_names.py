"""Whether a table has the columns that its policy names, and if not, what was meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sfumato.errors import PolicyError, TableError
from sfumato.values.text import nearest

DELIMITERS = {";": ";", "\t": "\\t", "|": "|"}
"""Marks that stand between names where no comma does, as TOML writes them."""
ROLES_HINT = "identifier or drop (both leave it out), quasi_identifier, sensitive or other (kept)"


def check_columns(stated: Sequence[str], present: Sequence[str]) -> None:
    """Raise unless the table has exactly the stated columns, each once."""
    twice = sorted({name for name in present if list(present).count(name) > 1})
    if twice:
        raise TableError(f"The table has a column more than once: {_quoted(twice)}.", "Rename or drop one.")
    if unnamed := [i for i, name in enumerate(present, start=1) if not name.strip()]:
        raise TableError(f"Column {unnamed[0]} of the table has no name.", "Name it in the first line of the file.")
    unstated = [name for name in present if name not in set(stated)]
    absent = [name for name in stated if name not in set(present)]
    if not unstated and not absent:
        return
    _check_header(present, unstated, absent)
    if pairs := {name: near for name in absent if (near := nearest(name, unstated))}:
        name, near = next(iter(pairs.items()))
        if near.strip() == name:
            raise TableError(
                f"The name of the column {near!r} has spaces around it.",
                "Remove the spaces beside the commas of the table: values would have them, too.",
            )
        raise PolicyError(
            f"The policy names the column {name!r}, which the table does not have; the table has {near!r}, which the "
            "policy does not name.",
            f"Did you mean {_section(near)}?",
        )
    if unstated:
        raise PolicyError(
            f"The policy states no role for {_quoted(unstated)}.",
            f"Add {_section(unstated[0])} with a role: {ROLES_HINT}."
            if len(unstated) == 1
            else f"Give each column a section, such as {_section(unstated[0])}, with a role: {ROLES_HINT}.",
        )
    raise TableError(
        f"The table has no column {_quoted(absent)}, which the policy names.",
        f"It has {_quoted(present)}. Take the section of {absent[0]!r} out of the policy, or give the table that the "
        "policy is for.",
    )


def _check_header(present: Sequence[str], unstated: Sequence[str], absent: Sequence[str]) -> None:
    """Raise if the first line was not taken apart, or holds no names."""
    mark = next((mark for mark in DELIMITERS if mark in present[0]), None) if len(present) == 1 else None
    if mark and unstated:
        raise TableError(
            f"The table has one column only, {present[0]!r}: its first line holds no comma.",
            f'Say in the policy what stands between values:\n[input]\ndelimiter = "{DELIMITERS[mark]}"',
        )
    if len(unstated) == len(present) and absent:
        raise TableError(
            f"The table has none of the columns that the policy names. Its first line is {_quoted(present)}.",
            "The first line of a file must hold the names of the columns: add it, or give the policy of this table.",
        )


def _section(name: str) -> str:
    """Return the heading of a column's section, as TOML needs it."""
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    if bare:
        return f"[columns.{name}]"
    quotable = "'" not in name and name.isprintable()
    return f"[columns.'{name}']" if '"' in name and quotable else f'[columns."{name}"]'


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)
