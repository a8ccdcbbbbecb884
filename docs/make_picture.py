"""Draw docs/picture.svg: a table, its release and the estimate, side by side. Run: uv run python docs/make_picture.py

Everything in it is computed: the synthetic clinic and the policy of `sfumato demo`, published with a test seed, and
counted from the release.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import sfumato as sf
from sfumato.cli.demo import POLICY, clinic

TARGET = Path(__file__).parent / "picture.svg"
SEED = 5
SHOWN = 5

WIDTH, HEIGHT = 860, 500
PANELS = (24, 344, 594)  # left edges
RECORDS, CHART, ROW = 92, 236, 18.5
LABELS = 104  # room for the diagnoses' names, left of the first panel's bars
SCALE = 150 / 5500  # pixels per record
PAPER, INK, FAINT, LINE = "#fbf8f1", "#2d2a26", "#7d766b", "#ddd5c5"
TRUTH, BLUR, ESTIMATE = "#3f6f7f", "#b9a98d", "#b4542f"

QUESTION = ("How many women of 60 and", "more have hypertension?")
WHERE = "sex = 'F' AND age >= 60"


def picture() -> str:
    """Return the SVG."""
    patients = clinic()
    table = sf.scan(patients, sf.Policy.parse(POLICY))
    plan = sf.plan(sf.profile(table), table.policy.method, table.policy.requirement)
    with tempfile.TemporaryDirectory() as folder:
        release = sf.publish(table, plan, Path(folder) / "release", key=sf.SecretKey.from_seed(SEED))
        answer, asked = release.count(by="diagnosis"), release.count(by="diagnosis", where=WHERE)
        published = release.to_arrow()
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            'role="img" font-family="Helvetica, Arial, DejaVu Sans, sans-serif" font-size="12.5">',
            "<title>A table, its release, and what can be read from the release</title>",
            '<defs><filter id="blur" x="-10%" width="120%"><feGaussianBlur stdDeviation="2.2 0.4"/></filter></defs>',
            f'<rect width="{WIDTH}" height="{HEIGHT}" rx="12" fill="{PAPER}"/>',
            *_heads(),
            *_originals(patients),
            *_blurred(patients, published),
            *_question(patients, asked),
            *_charts(Counter(patients["diagnosis"].to_pylist()), Counter(published["diagnosis"].to_pylist()), answer),
            "</svg>\n",
        ]
    )


def _text(x: float, y: float, text: str, color: str = INK, **style: Any) -> str:
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{x:g}" y="{y:g}" fill="{color}"{attributes}>{escape(text)}</text>'


def _rect(x: float, y: float, width: float, height: float, color: str, more: str = "") -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:.1f}" height="{height:g}" rx="2" fill="{color}"{more}/>'


def _heads() -> Iterator[str]:
    heads = (
        ("The table", "private"),
        ("The release", "every diagnosis blurred"),
        ("The estimate", "from the release alone"),
    )
    for x, (head, sub) in zip(PANELS, heads, strict=True):
        yield _text(x, 40, head, font_size=19, font_weight="bold")
        yield _text(x, 59, sub, FAINT)
    for x in PANELS[1:]:
        yield f'<path d="M{x - 22} 24V{HEIGHT - 46}" stroke="{LINE}" fill="none"/>'


def _originals(patients: Any) -> Iterator[str]:
    for k, row in enumerate(patients.slice(0, SHOWN).to_pylist()):
        y = RECORDS + k * 20
        yield _text(PANELS[0], y, row["name"].rsplit(" ", 1)[0], FAINT)
        yield _text(PANELS[0] + 108, y, f"{row['age']}", text_anchor="end")
        yield _text(PANELS[0] + 122, y, row["sex"])
        yield _text(PANELS[0] + 144, y, row["diagnosis"], TRUTH, font_weight="bold")
    yield _text(PANELS[0], RECORDS + SHOWN * 20, f"... {patients.num_rows:,} records", FAINT)


def _blurred(patients: Any, published: Any) -> Iterator[str]:
    truth = patients["diagnosis"].to_pylist()
    for k, row in enumerate(published.slice(0, SHOWN).to_pylist()):
        y, kept = RECORDS + k * 20, row["diagnosis"] == truth[k]
        yield _text(PANELS[1] + 18, y, f"{row['age']}", text_anchor="end")
        yield _text(PANELS[1] + 32, y, row["sex"])
        yield _text(PANELS[1] + 54, y, row["diagnosis"], TRUTH if kept else "#8a7551", font_weight="bold")
    share = sum(a == b for a, b in zip(truth, published["diagnosis"].to_pylist(), strict=True)) / len(truth)
    yield _text(PANELS[1], RECORDS + SHOWN * 20, f"{share:.0%} happen to be true", FAINT)


def _question(patients: Any, asked: sf.Answer) -> Iterator[str]:
    row = next(r for r in asked.rows() if r["diagnosis"] == "hypertension")
    truth = sum(r["sex"] == "F" and r["age"] >= 60 and r["diagnosis"] == "hypertension" for r in patients.to_pylist())
    for k, line in enumerate(QUESTION):
        yield _text(PANELS[2], RECORDS + k * 19, line)
    half = (row["upper"] - row["lower"]) / 2
    yield _text(
        PANELS[2], RECORDS + 52, f"{row['estimate']:,.0f} ± {half:,.0f}", ESTIMATE, font_size=19, font_weight="bold"
    )
    yield _text(PANELS[2], RECORDS + 78, f"95% interval; the truth is {truth:,}", FAINT)


def _charts(truth: Counter[str], counted: Counter[str], answer: sf.Answer) -> Iterator[str]:
    bars = PANELS[0] + LABELS
    rows = {row["diagnosis"]: row for row in answer.rows()}
    for k, (name, records) in enumerate(truth.most_common()):
        y, middle = CHART + k * ROW, CHART + k * ROW + 6.5
        yield _text(bars - 8, y + 10.5, name, text_anchor="end")
        yield _rect(bars, y, records * SCALE, 13, TRUTH)
        yield _rect(PANELS[1], y, counted[name] * SCALE, 13, BLUR, ' filter="url(#blur)"')
        row = rows[name]
        yield _rect(PANELS[2], y, records * SCALE, 13, TRUTH, ' opacity="0.28"')
        # what lies below zero is cut off
        low, at, high = (PANELS[2] + max(0, row[key]) * SCALE for key in ("lower", "estimate", "upper"))
        ends = "".join(f"M{x:.1f} {middle - 3}v6" for x in (low, high))
        yield f'<path d="M{low:.1f} {middle}H{high:.1f}{ends}" stroke="{ESTIMATE}" stroke-width="1.6" fill="none"/>'
        yield f'<circle cx="{at:.1f}" cy="{middle}" r="3.4" fill="{ESTIMATE}"/>'
    foot = HEIGHT - 16
    yield _text(bars, foot, "true counts", FAINT)
    yield _text(PANELS[1], foot, "published rows, counted: nearly flat", FAINT)
    yield _text(PANELS[2], foot, "estimates, 95% intervals, truth behind", FAINT)
    for x in (bars, *PANELS[1:]):
        yield f'<path d="M{x} {CHART - 6}V{CHART + 12 * ROW}" stroke="{FAINT}" stroke-width="0.8" fill="none"/>'


if __name__ == "__main__":
    TARGET.write_text(picture(), encoding="utf-8")
    print(f"Wrote {TARGET.name}.")
