"""Draw docs/start/choose.svg: the questions that lead to a method. Run: uv run python docs/make_flowchart.py"""

from __future__ import annotations

from html import escape
from pathlib import Path

FILE = Path(__file__).parent / "start" / "choose.svg"
PAPER, INK, LINE, ASK, TAKE = "#fbf8f1", "#2b2b2b", "#8a8272", "#f1e7d0", "#dfe9f2"
WIDE, HIGH, STEP, LEFT, RIGHT = 300, 46, 78, 24, 400

QUESTIONS = (
    ("Are totals all that you must release?", "differential privacy on the totals, not sfumato"),
    ("Must every published value be true?", "anatomy; suppression; robust-anatomy"),
    ("Is a recognised row the danger, not what it says?", "randomized-response"),
    ("Do several columns need different promises?", "a method for each column"),
    ("Do some values need far more protection?", "fine-grain; subset with graded = true"),
    ("Are the values in an order?", "ranges; plateau for one value in each row"),
    ("Must each row show one value?", "uniform"),
    ("Dozens of values, and is a weaker promise enough?", "small-domain"),
)
LAST = "subset"


def box(x: int, y: int, words: str, colour: str, width: int) -> str:
    return (
        f"<rect x='{x}' y='{y}' width='{width}' height='{HIGH}' rx='6' fill='{colour}' stroke='{LINE}'/>"
        f"<text x='{x + width // 2}' y='{y + 28}' text-anchor='middle' font-family='sans-serif' font-size='12' "
        f"fill='{INK}'>{escape(words)}</text>"
    )


def arrow(x1: int, y1: int, x2: int, y2: int, word: str) -> str:
    label = (x1 + 8, (y1 + y2) // 2 + 4) if x1 == x2 else ((x1 + x2) // 2 - 10, y1 - 5)
    return (
        f"<line x1='{x1}' y1='{y1}' x2='{x2}' y2='{y2}' stroke='{INK}' marker-end='url(#tip)'/>"
        f"<text x='{label[0]}' y='{label[1]}' font-family='sans-serif' font-size='11' fill='{LINE}'>{word}</text>"
    )


def flowchart() -> str:
    """Return the picture: each question leads right if yes, and down if no."""
    wide, parts = WIDE + 50, []
    for number, (question, method) in enumerate(QUESTIONS):
        y = 20 + STEP * number
        parts += [box(LEFT, y, question, ASK, wide), box(RIGHT + 40, y, method, TAKE, WIDE)]
        parts.append(arrow(LEFT + wide, y + HIGH // 2, RIGHT + 38, y + HIGH // 2, "yes"))
        parts.append(arrow(LEFT + wide // 2, y + HIGH, LEFT + wide // 2, y + STEP - 2, "no"))
    end = 20 + STEP * len(QUESTIONS)
    parts.append(box(LEFT, end, LAST, TAKE, wide))
    width, height = RIGHT + 40 + WIDE + 24, end + HIGH + 20
    said = " ".join(f"{question} If yes: {method}." for question, method in QUESTIONS) + f" Otherwise: {LAST}."
    tip = (
        "<defs><marker id='tip' markerWidth='8' markerHeight='8' refX='7' refY='4' orient='auto'>"
        f"<path d='M0,0 L8,4 L0,8 z' fill='{INK}'/></marker></defs>"
    )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}' "
        f"role='img'><desc>{escape(said)}</desc>{tip}<rect width='100%' height='100%' fill='{PAPER}'/>"
        f"{''.join(parts)}</svg>\n"
    )


if __name__ == "__main__":
    FILE.write_text(flowchart(), encoding="utf-8")
