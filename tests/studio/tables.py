"""Tables for the desk, and a browser before it."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sfumato.studio.desk.app import desk_app
from sfumato.studio.desk.desk import Desk, open_desk
from tests.studio.served import Answered, Served, served

HOSTILE = '<script>alert("1")</script>'
"""A name or a value that must stay text."""


def write_csv(path: Path, names: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *rows])
    return path


def patients(folder: Path, rows: int = 400, secret: str = "diagnosis") -> Path:
    """Write a table of people with a diagnosis: one value is rare, `ward` tells it, and persons have two rows each."""
    drawn = random.Random(1)
    kinds = ["flu", "asthma", "HIV", "diabetes"]
    lines = []
    for number in range(rows):
        kind = "scurvy" if number == 7 else drawn.choices(kinds, [4, 3, 1, 2])[0]
        lines.append([number // 2, drawn.randrange(18, 90), drawn.choice("FM"), f"ward {kind[0]}", kind])
    return write_csv(folder / "patients.csv", ["patient_id", "age", "sex", "ward", secret], lines)


@dataclass(frozen=True)
class At:
    """A desk, and a browser before it."""

    desk: Desk
    site: Served

    def get(self, path: str) -> str:
        """Return a page when the jobs that it starts have ended."""
        answer = self.site.get(path)
        assert answer.status == 200, answer
        while self.desk.jobs.is_running:
            self.desk.jobs.wait()
            answer = self.site.get(path)
        assert self.desk.jobs.last is None or self.desk.jobs.last.problem is None, self.desk.jobs.last
        return answer.text

    def send(self, path: str, *fields: tuple[str, str], **headers: str) -> Answered:
        """Send a form of a page that was loaded just now."""
        return self.site.post(path, [("seen", self.desk.workspace.name), *fields], **headers)

    def post(self, path: str, *fields: tuple[str, str]) -> Answered:
        """Send a form, and wait for the job that it begins."""
        answer = self.send(path, *fields)
        self.desk.jobs.wait()
        return answer


@contextmanager
def desk_at(table: Path | None, policy: str | None = None, folder: Path | None = None) -> Iterator[At]:
    """Open a desk, with a policy if one is given."""
    file = None
    if policy is not None and table is not None:
        file = table.with_name("given.toml")
        file.write_text(policy, encoding="utf-8")
    desk = open_desk(table, file, folder)
    with served(lambda csrf: desk_app(desk, csrf)) as site:
        yield At(desk, site)
