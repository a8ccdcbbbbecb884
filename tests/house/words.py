"""How a page reads: its sentences, how long they are, and words that are never used."""

from __future__ import annotations

import re

NEVER = re.compile(
    r"\b(one who|is not to be had|not to be had|for who|safe|safely|safety|anonym\w*)\b|"
    r"\b(he|him|his|himself)\b|, of which\b",
    re.IGNORECASE,
)
"""Words of no page: write "someone who", "they", "is not available"; and say a bound, not an adjective."""
NAMES = ("safe-d", "Safe D-suppression", "Safe D", "Protection on Anonymized Data")
"""Names that contain one."""
LONGEST_AVERAGE = 20


def prose(text: str) -> str:
    """Return the running text of a page: without code, tables, pictures, headings and addresses.

    >>> prose("# Title\\n\\nSee [the plan](plan.md) of `x`.\\n\\n| a | b |\\n")
    'See the plan of x.'
    """
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^(\||#|    |!\[).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"[`*>]", "", text).strip()


def sentences(text: str) -> list[str]:
    """Return the sentences of running text; each point of a list ends one.

    >>> sentences("One fact. Another fact: two.\\n\\n- a point\\n- b")
    ['One fact.', 'Another fact: two.', 'a point', 'b']
    """
    found = []
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)", prose(text)):
        part = re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "", " ".join(part.split()))
        found += [s for s in re.split(r"(?<=[.!?])\s+(?=[A-Z0-9\"(])", part) if s]
    return found


def words(sentence: str) -> int:
    """Return how many words a sentence has."""
    return len(re.findall(r"[\w'-]+", sentence))


def average(text: str) -> float:
    """Return the mean number of words of a page's sentences."""
    counts = [n for n in map(words, sentences(text)) if n]
    return sum(counts) / max(len(counts), 1)


def never(text: str) -> list[str]:
    """Return the words of a text that are never used.

    >>> never("One who sees it; safe-d is a name")
    ['One who']
    """
    for name in NAMES:
        text = text.replace(name, "")
    return [found[0] for found in NEVER.finditer(text)]
