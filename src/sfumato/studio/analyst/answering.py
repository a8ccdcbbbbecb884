"""Answers to questions, the last of which are kept: to load a page again, or to fetch its file, asks nothing anew."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from sfumato.analyst.answer import Answer
from sfumato.analyst.associations import Comparison
from sfumato.analyst.release import Release
from sfumato.show.files import answer_bytes, formulas_in
from sfumato.studio.analyst.calls import Call
from sfumato.studio.analyst.telling import Told, beside_of, told_answer, told_comparison, told_power

MOST_KEPT, MOST_ROWS = 32, 20_000
"""Answers that are kept, and the lines of one of them at most."""
FILE = Path("answer.csv")


@dataclass(frozen=True)
class Answered:
    """An answer of the library, and as it is shown."""

    answer: Any
    told: Told

    def csv(self, escape_formulas: bool = False) -> bytes:
        """Return the file that `sfumato estimate -o` writes; of other questions a line for each of their figures."""
        about = self.answer.about() if isinstance(self.answer, Answer) else {}
        return answer_bytes(self.answer.to_arrow(), FILE, about, escape_formulas)

    @property
    def with_formulas(self) -> list[str]:
        """The columns of the file whose text a spreadsheet program would calculate."""
        return formulas_in(self.answer.to_arrow(), FILE)


class Answers:
    """The answers of a release. Many threads may ask at a time; none waits for another's question."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self._kept: OrderedDict[Call, Answered] = OrderedDict()
        self._lock = Lock()

    def ask(self, call: Call) -> Answered:
        """Return the answer to a question."""
        with self._lock:
            if call in self._kept:
                self._kept.move_to_end(call)
                return self._kept[call]
        found = self._asked(call)
        if found.told.total <= MOST_ROWS:
            with self._lock:
                self._kept[call] = found
                while len(self._kept) > MOST_KEPT:
                    self._kept.popitem(last=False)
        return found

    def _asked(self, call: Call) -> Answered:
        answer = call.asked(self.release)
        if isinstance(answer, Answer):
            return Answered(answer, told_answer(answer, beside_of(self.release, call, answer)))
        return Answered(answer, told_comparison(answer) if isinstance(answer, Comparison) else told_power(answer))
