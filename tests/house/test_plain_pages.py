"""Plain words: short sentences on task pages, and no word that states a result without its bound, anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.words import LONGEST_AVERAGE, average, never, sentences

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TASK_PAGES = [
    ROOT / "README.md",
    DOCS / "faq.md",
    *(page for folder in ("start", "publish", "analyse", "review") for page in sorted((DOCS / folder).glob("*.md"))),
]
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md"))]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", TASK_PAGES, ids=name)
def test_sentences_of_task_pages_are_short(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    longest = max(sentences(text), key=len, default="")
    assert average(text) <= LONGEST_AVERAGE, f"{average(text):.1f} words on average; the longest: {longest}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_pages_use_plain_words(page: Path) -> None:
    assert never("".join(written(page))) == []


def written(page: Path) -> list[str]:
    """Return the lines of a page that people write: promises of methods are the program's words."""
    if page == DOCS / "methods" / "index.md":
        return []
    return [line for line in page.read_text(encoding="utf-8").splitlines(True) if not line.startswith("| promise |")]


def test_the_scan_finds_what_it_looks_for() -> None:
    assert never("One who knows; he sees; it is safe, anonymised") == ["One who", "he", "safe", "anonymised"]
    assert never("someone who knows what they see: the safe-d variant, unsafe") == []
    assert average("One two three. Four five.\n\n```\nnot counted at all, whatever it is\n```\n") == 2.5
