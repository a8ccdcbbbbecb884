"""Draw docs/methods/NAME.svg of methods that deal records, or blur several columns: the table beside its release.

    uv run python docs/make_release_pictures.py

Every picture is of a real release of patients who do not exist, with a fixed key, so that it comes out the same again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from fractions import Fraction
from html import escape
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import sfumato as sf
from sfumato.cli.demo import clinic
from sfumato.show.layout import COLOURS

FOLDER = Path(__file__).parent / "methods"
PAPER, INK, GREY, LINE = "#fbf8f1", "#2b2b2b", "#8a8272", "#d8d1c1"
HIGH, WIDE, GAP, MARGIN = 22, 84, 44, 24
FONT = "font-family='sans-serif' font-size='12'"

PATIENTS = pa.table(
    {
        "age": ["41", "29", "35", "62", "58", "33", "47", "25", "51", "38", "66", "44"],
        "sex": ["F", "M", "M", "F", "F", "M", "F", "M", "M", "F", "F", "M"],
        "illness": ["flu", "HIV", "cold", "flu", "gout", "flu", "flu", "flu", "gout", "cold", "flu", "cold"],
    }
)
COLUMNS = """\
[columns.age]
role = "{age}"
{bins}
[columns.sex]
role = "quasi_identifier"
[columns.illness]
role = "sensitive"
"""
PATIENTS_OF_DEMO = """\
[columns.age]
role = "quasi_identifier"
bins = { width = 20 }
[columns.sex]
role = "quasi_identifier"
[columns.diagnosis]
role = "sensitive"
"""


class Grid:
    """A table of a picture: a title, a header and rows; marked cells are in colour, struck rows are crossed out."""

    def __init__(self, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.title, self.header, self.rows = title, header, [[str(cell) for cell in row] for row in rows]
        self.marked: set[tuple[int, int]] = set()
        self.struck: set[int] = set()

    @property
    def width(self) -> int:
        return WIDE * len(self.header)

    @property
    def height(self) -> int:
        return HIGH * (len(self.rows) + 2)

    def drawn(self, left: int, top: int) -> list[str]:
        """Return its parts, with its corner at a place."""
        parts = [text(left, top, self.title, weight="bold")]
        parts += [text(left + WIDE * i, top + HIGH, name, colour=GREY) for i, name in enumerate(self.header)]
        for r, row in enumerate(self.rows):
            y = top + HIGH * (r + 2)
            parts.append(
                f"<line x1='{left}' x2='{left + self.width - 12}' y1='{y - 15}' y2='{y - 15}' stroke='{LINE}'/>"
            )
            for c, cell in enumerate(row):
                colour = COLOURS[1] if (r, c) in self.marked else GREY if r in self.struck else INK
                parts.append(text(left + WIDE * c, y, cell, colour=colour, struck=r in self.struck))
        return parts


def text(x: int, y: int, words: str, *, colour: str = INK, weight: str = "normal", struck: bool = False) -> str:
    line = " text-decoration='line-through'" if struck else ""
    return f"<text x='{x}' y='{y}' {FONT} fill='{colour}' font-weight='{weight}'{line}>{escape(words)}</text>"


def picture(grids: Sequence[Grid], note: str) -> str:
    """Return tables side by side, with a line of words below them."""
    width = sum(grid.width for grid in grids) + GAP * (len(grids) - 1) + 2 * MARGIN
    height = max(grid.height for grid in grids) + HIGH + 2 * MARGIN
    parts, left = [], MARGIN
    for grid in grids:
        parts += grid.drawn(left, MARGIN + 10)
        left += grid.width + GAP
    parts.append(text(MARGIN, height - MARGIN, note, colour=GREY))
    said = ". ".join(f"{grid.title}: " + "; ".join(" ".join(row) for row in grid.rows) for grid in grids)
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}' "
        f"role='img'><desc>{escape(said)}</desc><rect width='100%' height='100%' fill='{PAPER}'/>"
        f"{''.join(parts)}</svg>\n"
    )


# --- releases ---------------------------------------------------------------------------------------------------------


def published(table: pa.Table, policy: str, seed: int = 1) -> tuple[pa.Table, pa.Table | None, sf.Plan]:
    """Publish a table with a fixed key; return its rows, its groups if it has them, and the plan."""
    asked, key = sf.Policy.parse(policy), sf.SecretKey.from_seed(seed)
    opened = sf.scan(table, asked)
    plan = sf.plan(sf.profile(opened), asked.method, asked.requirement, key=key)
    with tempfile.TemporaryDirectory() as folder:
        sf.publish(opened, plan, Path(folder) / "release", key=key)
        files = {path.stem: pq.read_table(path) for path in sorted((Path(folder) / "release").glob("*.parquet"))}
    return files["data"], files.get("groups"), plan


def rows(table: pa.Table, names: Sequence[str]) -> list[list[str]]:
    return [[str(row[name]) for name in names] for row in table.to_pylist()]


def original() -> Grid:
    return Grid("Table (private)", ("age", "sex", "illness"), rows(PATIENTS, ("age", "sex", "illness")))


def policy(method: str, requirement: str, age: str = "quasi_identifier", bins: str = "") -> str:
    return f"{COLUMNS.format(age=age, bins=bins)}[method]\n{method}\n[requirement]\n{requirement}\n"


def in_groups(method: str, requirement: str, note: str) -> str:
    """Draw a release by groups beside its table; withheld records are crossed out in the table."""
    data, groups, _ = published(PATIENTS, policy(method, requirement))
    assert groups is not None
    people = sorted(rows(data, ("group", "age", "sex")), key=lambda row: (int(row[0]), row[1]))
    table, kept = original(), {(age, sex) for _, age, sex in people}
    table.struck = {r for r, (age, sex, _) in enumerate(table.rows) if (age, sex) not in kept}
    listed = sorted(rows(groups, ("group", "illness", "count")), key=lambda row: (int(row[0]), row[1]))
    return picture(
        [table, Grid("Released rows", ("group", "age", "sex"), people),
         Grid("Released groups", ("group", "illness", "count"), listed)],
        note,
    )  # fmt: skip


def anatomy() -> str:
    return in_groups('name = "anatomy"', "l = 2", "Who of a group has which illness is hidden. All values are true.")


def suppression() -> str:
    return in_groups(
        'name = "suppression"', "l = 3", "Crossed out: withheld, so that no illness has more than a third of the rows."
    )


def robust_anatomy() -> str:
    return in_groups(
        'name = "robust-anatomy"\nattribute_sets = [["sex"]]', "r = 2",
        "Groups are of one sex: what depends on sex tells nothing inside them. Crossed out: withheld.",
    )  # fmt: skip


def randomized_response() -> str:
    """Draw the first patients of the demo beside the first released rows: ages and sexes were randomized."""
    names = ("age", "sex", "diagnosis")
    patients = clinic().select(list(names))
    asked = PATIENTS_OF_DEMO + '[method]\nname = "randomized-response"\n[requirement]\nl = 3\n'
    data, _, _ = published(patients, asked)
    before = Grid(
        "Table (private)", names, [[decade(age), sex, ill] for age, sex, ill in rows(patients.slice(0, 12), names)]
    )
    after = Grid("Released rows", names, rows(data.slice(0, 12), names))
    after.marked = {(r, c) for r in range(12) for c in (0, 1)}
    note = "Coloured: randomized. Diagnoses are true. Rows are in a new order."
    return picture([before, after], note)


def decade(age: str) -> str:
    low = int(age) // 20 * 20
    return f"[{low}, {low + 20})"


def small_domain() -> str:
    """Draw how the ages of the demo's patients are dealt: the real plan's sub-tables."""
    ages = clinic().select(["age"])
    asked = (
        '[columns.age]\nrole = "sensitive"\n[method]\nname = "small-domain"\n[requirement]\nrho1 = 0.05\nrho2 = 0.25\n'
    )
    stated = published(ages, asked)[2].to_dict()
    lines = []
    for number, (block, quota) in enumerate(zip(stated["sub_tables"], stated["quotas"], strict=True), 1):
        gamma, size = Fraction(block["bounds"][0]["gamma"]), len(block["values"])
        kept = (gamma - 1) / (size - 1 + gamma)
        lines.append([str(number), f"{sum(quota):,}", str(size), f"{float(100 * kept):.0f} of 100"])
    whole = stated["partition"]["uniform_retention"]
    first = Grid("One table", ("", "records", "values", "kept"), [["", "20,000", "100", f"{100 * whole:.0f} of 100"]])
    return picture(
        [first, Grid("Sub-tables", ("number", "records", "values", "kept"), lines)],
        "Kept: retention, the share of records that are not drawn anew. Fewer values in a sub-table keep more.",
    )


def several() -> str:
    """Draw sets of illnesses beside ranges of ages."""
    own = '[columns.age.method]\nname = "ranges"\n[columns.age.requirement]\ngamma = 4\n'
    ordered = "bins = { breaks = [30, 40, 50, 60] }\n" + own
    sets = '[method]\nname = "subset"\nmembers = 2\n[requirement]\ngamma = 3\n'
    data, _, _ = published(PATIENTS, COLUMNS.format(age="sensitive", bins=ordered) + sets)
    shown = [[row["sex"], wide(row["age"]), wide(row["illness"])] for row in data.to_pylist()]
    after = Grid("Released rows", ("sex", "age", "", "illness", ""), [[s, a, "", i, ""] for s, a, i in shown])
    after.marked = {(r, c) for r in range(len(shown)) for c in (1, 3)}
    return picture(
        [original(), after], "Coloured: each column is drawn by itself. The truth may lie outside of a set or a range."
    )


def wide(shown: object) -> str:
    return " or ".join(map(str, shown)) if isinstance(shown, list) else str(shown)


PICTURES: dict[str, Callable[[], str]] = {
    "anatomy": anatomy,
    "suppression": suppression,
    "robust-anatomy": robust_anatomy,
    "randomized-response": randomized_response,
    "small-domain": small_domain,
    "several": several,
}
"""What draws the picture of each method."""

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw(), encoding="utf-8")
