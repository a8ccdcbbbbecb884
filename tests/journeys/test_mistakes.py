"""The usual mistakes of new users: each is met with a message that names the remedy; docs/troubleshooting.md has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journeys.desk import Printed
from tests.journeys.mistakes import MISTAKES, Mistake, answered, message, page

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Printed]:
    return answered(tmp_path_factory.mktemp("mistakes"))


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.words for mistake in MISTAKES])
def test_a_mistake_is_met_with_its_remedy(mistake: Mistake, answers: dict[str, Printed]) -> None:
    answer = answers[mistake.words + mistake.command]
    assert answer.code == mistake.code, answer
    assert "Traceback" not in answer.err
    assert mistake.remedy in message(mistake, answer)


def test_the_committed_page_is_the_generated_one(answers: dict[str, Printed]) -> None:
    assert PAGE.read_text(encoding="utf-8") == "\n".join(page(answers)), (
        "python -m tests.journeys.mistakes > docs/troubleshooting.md"
    )


def test_no_two_mistakes_are_the_same() -> None:
    assert len({mistake.words + mistake.command for mistake in MISTAKES}) == len(MISTAKES) >= 40
