"""The README of a release: how to use it and what is guaranteed, for the analyst.

Names and values come from tables and policies: they are told as they are, and are no Markdown, HTML, shell or Python
of their own (`_prose`, `_code`, `_argument`, `_literal`). Plain ones stay as they are, to the byte: `verify` writes the
README of an older release again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from sfumato.release.manifest import Column, DataFile, DomainPart, GroupsPart, Manifest, MechanismPart, SubTablePart
from sfumato.show.terminal import printable
from sfumato.show.words import share
from sfumato.values.attributes import MISSING_LABEL, Domain
from sfumato.values.computed import listed

SHOWN_VALUES = 40

TREATMENTS = {
    "randomized": "randomized; estimate counts, do not count rows",
    "binned": "binned, otherwise as collected",
    "merged": "some values merged (`merged` in manifest.json tells which), otherwise as collected",
    "untouched": "as collected",
    "sub-table": "tells which values and which matrix the record was randomized with",
    "group": "number of the record's group",
}
HOLDING = {None: "", "integer": ", whole numbers", "decimal": ", numbers"}
"""What is said of a column of text that holds numbers."""
_READ_AS_MARKDOWN = re.compile(
    r"""[*~`|]                                 # emphasis, code, the next cell
    | \\(?=[!-/:-@\[-`{-~]|$)                  # takes its meaning from the sign after it
    | (?<!\w)_++ | _++(?![^\W_])               # emphasis: not within a word
    | (?<=\])[(\[]                             # a link
    """,
    re.VERBOSE,
)
_READ_AS_HTML = re.compile(r"<(?=[A-Za-z/!?])|&(?=#?\w+;)")
_PLAIN_WORD = re.compile(r"[\w.-]+")
"""Of a shell, in any alphabet: `shlex.quote` would quote what is not ASCII."""


def readme(manifest: Manifest) -> str:
    """Return the text."""
    files = _codes((*map(_file, manifest.tables), "manifest.json"))
    stated = manifest.guarantee
    return "\n".join(
        [
            f"# Release {manifest.release_id}",
            "",
            *_warning(manifest),
            f"{manifest.data.rows:,} records, published {manifest.created} with {manifest.software}, method "
            f"`{manifest.method}`, assurance `{manifest.assurance}`. Files: {files}.",
            "",
            "## How to use it",
            "",
            *(_use_of_buckets(manifest, manifest.buckets) if manifest.in_buckets else _randomized_use(manifest)),
            "",
            *_in_parts(manifest),
            *_formulas(manifest),
            *_untouched(manifest),
            "## What is promised",
            "",
            *(f"- **{label}**: {_prose(text)}" for label, text in manifest.card.rows),
            "",
            "### In exact terms",
            "",
            _prose(stated.sentence),
            "",
            f"- Attacker: {_prose(stated.adversary)}",
            f"- Belief beforehand: {_prose(stated.prior)}",
            f"- Holds for: {stated.scope}; directions: {', '.join(stated.directions)}.",
            *(f"- Not covered: {_prose(limit)}" for limit in stated.limits),
            f"- A second release: {_prose(manifest.second_release)}",
            *_disclosures(manifest),
            "",
            manifest.claim.rechecked,
            "",
            "## Codebook",
            "",
            "| column | type | treatment |",
            "|---|---|---|",
            *(_row(column) for column in manifest.columns),
            *(_row_apart(manifest, part) for part in manifest.only_in_buckets),
            "",
            *(line for part in manifest.domain.parts for line in _values(part)),
            "",
        ]
    )


def _randomized_use(manifest: Manifest) -> list[str]:
    other = any(table.noise is None for mechanism in manifest.mechanisms for table in mechanism.sub_tables)
    biased = "biased" if other else "biased towards equal shares"
    valued = [part.name for mechanism in manifest.mechanisms if mechanism.form == "value" for part in mechanism.domain]
    told = [text for mechanism in manifest.mechanisms if mechanism.form != "value" for text in _cards(mechanism)]
    if valued:
        told.append(
            f"{_named(valued)} **randomized**: each record kept its value with a known probability and otherwise got a "
            "random one."
        )
    return [
        f"{' '.join(told)} Do not trust a single row. Counts and shares can be estimated, with error bars:",
        "",
        *_example(manifest),
        "",
        f"Counting published rows of a randomized value directly is {biased}.",
    ]


def _cards(mechanism: MechanismPart) -> Iterator[str]:
    """Say what a card stands for, and that the truth may lie outside."""
    name, matrix = mechanism.domain[0].name, mechanism.value.matrix
    fewest, most_of = matrix.card_sizes
    values = f"{fewest} of" if fewest == most_of else f"{fewest} to {most_of} of"
    least, most = (share(part) for part in (matrix.holds_truth.min(), matrix.holds_truth.max()))
    chance = least if least == most else f"{least} to {most}"
    what = "a set of values" if mechanism.form == "set" else "the number of a card, which stands for a set of values"
    yield (
        f"{_code(name)} is **randomized**: each record shows {what}, {values} the {matrix.size:,} that there are. The "
        f"set holds the record's own value with a probability of {chance}: **the truth may lie outside it**, and "
        "nothing says which of its values it is. A set is not a range or a group that the record is known to be in."
    )
    if mechanism.form == "card":
        yield f"The deck is in manifest.json: {_numbering(mechanism.sub_tables[0])}"


def _numbering(table: SubTablePart) -> str:
    if table.deck:
        return "card b m + s + 1 holds the values number (d + s) mod m, for every d of block b, all counted from 0."
    if table.graded:
        return (
            "the cards of an orbit of `graded` are its blocks, turned by s = 0, 1 and so on; a card holds, of each "
            "class, the values on the places (d + s) mod ring for all d of the block."
        )
    if table.windows:
        return (
            "the cards are all windows of `width` neighbouring values, cut at both ends of the `order`, and all shifts "
            "(d + s) mod m of the `blocks`, each set once. Of two sets, the one that alone holds the lowest value in "
            "which they differ has the smaller number."
        )
    return "the values of card 1, card 2 and so on are in `cards`."


def _use_of_buckets(manifest: Manifest, groups: GroupsPart) -> list[str]:
    values = _codes(manifest.domain.names)
    group, count = _code(groups.group_column), _code(groups.count_column)
    return [
        f"All published values are true. But {_hidden(manifest)} published **by groups**, apart from the other "
        f"columns. There are {groups.number:,} groups:",
        "",
        f"- {_code(_file(manifest.data))} has a line for each record: the other columns, and its group ({group}).",
        f"- {_code(_file(groups))} has the values of each group: {group}, {values}, and how many records of the group "
        f"have them ({count}).",
        "",
        f"Which record of a group has which value is not published. **Do not join the files on {group}**: that pairs "
        "each record with all values of its group, and what is counted then is biased towards no association. Counts "
        "from one file alone are exact. Counts that need both can be estimated, with error bars:",
        "",
        *_example(manifest),
        "",
        *_chance(groups),
    ]


def _chance(groups: GroupsPart) -> list[str]:
    among = f" among those that agree in {_prose(', '.join(groups.dealt_within))}" if groups.dealt_within else ""
    lines = [f"Error bars rest on chance: records were dealt to groups at random{among}."]
    if groups.withheld:
        lines.append(
            f"{groups.withheld:,} records of the table are withheld. All answers are about the published ones, among "
            "which frequent values are rarer than in the table."
        )
    return lines


def _example(manifest: Manifest) -> list[str]:
    """Return two blocks of code: no line of them begins with a name, which could end its block."""
    name = manifest.domain.names[0]
    return [
        "```",
        " ".join(["sfumato estimate . --by", _argument(name), *_example_condition(manifest)]),
        "```",
        "```python",
        "import sfumato as sf",
        "",
        'release = sf.open_release(".")',
        f"print(release.count(by={_literal(name)}))",
        "```",
    ]


def _file(stated: DataFile | GroupsPart) -> str:
    """Return the name of a table's file, or of its folder."""
    return stated.file if stated.parts is None else f"{stated.file}/"


def _in_parts(manifest: Manifest) -> list[str]:
    """Say how a table of many files is read."""
    lines = [
        f"`{table.file}/` is one table in {len(table.parts):,} Parquet files, `{table.parts[0].file}` and so on: its "
        "rows are theirs, in the order of the numbers. sfumato reads them as one. Other programs read the folder, for "
        f"example DuckDB: `SELECT * FROM '{table.file}/*.parquet'`."
        for table in manifest.tables
        if table.parts is not None
    ]
    return [text for line in lines for text in (line, "")]


def _formulas(manifest: Manifest) -> list[str]:
    """Say what a spreadsheet program makes of the files, or how an apostrophe keeps it from that."""
    if manifest.data.escaped:
        return [
            "Text that a spreadsheet program would take for a formula has an apostrophe before it, and so has text "
            "that begins with one. sfumato reads it without. In other programs take the first apostrophe of a text "
            "away.",
            "",
        ]
    if not manifest.with_formulas:
        return []
    names = _codes(manifest.with_formulas)
    return [
        f"**Do not open the CSV files in a spreadsheet program**: text of {names} begins like a formula, and would be "
        "calculated.",
        "",
    ]


def _untouched(manifest: Manifest) -> list[str]:
    """Say it where the sensitive columns themselves are published as they are."""
    if set(manifest.sensitive) <= set(manifest.domain.names):
        return []
    names = _codes(manifest.sensitive)
    return [
        f"{names}, the sensitive column(s), are **not randomized**: every row shows the true value. What is randomized "
        "are the quasi-identifiers beside it.",
        "",
    ]


def _warning(manifest: Manifest) -> list[str]:
    if manifest.status == "release":
        return []
    undone = manifest.claim.undone_by_seed
    return [f"**Not for release: drawn from a test seed, which anyone can repeat to {undone}.**", ""]


def _hidden(manifest: Manifest) -> str:
    return _named(manifest.domain.names)


def _named(names: Sequence[str]) -> str:
    return f"{_codes(names)} {'is' if len(names) == 1 else 'are'}"


def _example_condition(manifest: Manifest) -> list[str]:
    plain = next((c for c in manifest.columns if c.treatment not in ("randomized", "group")), None)
    return [f'--where "{plain.name} IS NOT NULL"'] if plain and plain.name.isidentifier() else []


def _disclosures(manifest: Manifest) -> list[str]:
    return [f"- {_prose(listed(manifest.computed_from_table))}"] if manifest.computed_from_table else []


def _row(column: Column) -> str:
    return f"| {_prose(column.name)} | {column.type}{HOLDING[column.holds]} | {TREATMENTS[column.treatment]} |"


def _row_apart(manifest: Manifest, part: DomainPart) -> str:
    file = _code(_file(manifest.buckets))
    return f"| {_prose(part.name)} | {_kind(part)}{HOLDING[part.holds]} | by groups: in {file} only |"


def _kind(part: DomainPart) -> str:
    kinds = {type(value) for value in part.values if value is not None}
    return "bool" if kinds == {bool} else "integer" if kinds == {int} else "string"


def _values(part: Domain) -> list[str]:
    shown = [_prose(MISSING_LABEL if v is None else str(v)) for v in part.values[:SHOWN_VALUES]]
    more = len(part.values) - len(shown)
    tail = f", and {more:,} more in the manifest" if more else ""
    return [f"Values of {_code(part.name)} ({len(part.values):,}): {', '.join(shown)}{tail}.", ""]


# --- names and values, as Markdown, a shell and Python read them ------------------------------------------------------


def _prose(text: str) -> str:
    """Return a text that Markdown reads as it is, also in a cell: with signs escaped where they would mean something.

    >>> print(_prose("<b>*x*</b> < 20"), _prose("marital_status"))
    &lt;b>\\*x\\*&lt;/b> < 20 marital_status
    """
    escaped = _READ_AS_MARKDOWN.sub(lambda found: "".join(f"\\{sign}" for sign in found[0]), _one_line(text))
    return _READ_AS_HTML.sub(lambda found: "&lt;" if found[0] == "<" else "&amp;", escaped)


def _code(text: str) -> str:
    """Return a text as inline code, between more backticks than it has one after another.

    >>> _code("age"), _code("a``b")
    ('`age`', '```a``b```')
    """
    shown = _one_line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    ends = shown[:1] + shown[-1:]
    pad = " " if "`" in ends or ends == "  " else ""  # which Markdown takes away
    return f"{fence}{pad}{shown}{pad}{fence}"


def _codes(texts: Sequence[str]) -> str:
    return ", ".join(map(_code, texts))


def _argument(text: str) -> str:
    """Return a text as one word of a shell's command; a shell reads codes of control characters within $'...'.

    >>> print(_argument("age"), _argument("$(id)"), _argument("a\\tb"))
    age '$(id)' $'a\\011b'
    """
    if _PLAIN_WORD.fullmatch(text):
        return text
    return shlex.quote(text) if _one_line(text) == text else f"$'{''.join(map(_coded, text))}'"


def _coded(sign: str) -> str:
    """Return a character as it stands within $'...': control characters by their bytes, whatever the language is."""
    if _one_line(sign) == sign:
        return f"\\{sign}" if sign in "\\'" else sign
    return "".join(f"\\{byte:03o}" for byte in sign.encode("utf-8", "surrogatepass"))


def _literal(text: str) -> str:
    """Return a text as Python writes it, between double quotes where it has none.

    >>> print(_literal("age"), _literal('the "age"'))
    "age" 'the "age"'
    """
    written = repr(text)
    return written if '"' in text or written.startswith('"') else f'"{written[1:-1]}"'


def _one_line(text: str) -> str:
    """Return a text with codes in place of control characters, tabs and ends of lines too."""
    return text if text.isprintable() else printable(text).replace("\n", "\\n").replace("\t", "\\t")
