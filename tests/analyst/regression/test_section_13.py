"""What cannot be said is refused, or told beside the answer: each refusal with its sentence, asked of real releases.

Refusals of likelihoods, clusters and survey strata are in `test_every`, beside what is answered.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError
from tests.analyst.regression.releases import people, release_of

SICK = "diagnosis == 'flu'"
ROWS = 300
Ask = tuple[str, str, str, dict[str, Any], str, str]
REFUSED: list[Ask] = [  # the release, formula, family, options; what is said, and what to do
    ("small-domain", "stay ~ C(sub_table)", "linear", {}, "tells the sub-table of a row", "Leave it out"),
    ("small-domain", "stay ~ age", "linear", {"weights": "sub_table"}, "tells the sub-table", "another column"),
    ("small-domain", "stay ~ age", "linear", {"cluster": "sub_table"}, "tells the sub-table", "another column"),
    ("small-domain", "stay ~ age", "linear", {"where": "sub_table = 1"}, "tells the sub-table", "Leave it out"),
    ("anatomy", 'stay ~ C("group")', "linear", {}, "numbers the groups that records were dealt to", "Leave it out"),
    ("anatomy", "stay ~ age", "linear", {"where": '"group" < 9'}, "numbers the groups", "Leave it out"),
    ("uniform", f"{SICK} ~ C(diagnosis)", "logistic", {}, "follows from", "other columns"),
    ("several", "stay ~ center(CAST(grade AS DOUBLE))", "linear", {}, "needs the mean of grade", "of your own"),
    ("uniform", "stay ~ age", "linear", {"weights": "diagnosis"}, "is not the record's own weight", "untouched"),
    ("uniform", "stay ~ age", "linear", {"cluster": "diagnosis"}, "is not the record's own cluster", "untouched"),
    ("uniform", "stay ~ age", "linear", {"survey_strata": "diagnosis"}, "is randomized", "untouched"),
    ("uniform", "stay ~ CASE WHEN diagnosis = 'flu' AND age > 40 THEN 1 ELSE 0 END", "linear", {}, "mixes", "own"),
    ("tiny", "stay > 3 ~ C(diagnosis) + age", "logistic", {}, "The release does not say", "Use|Take|merge"),
    ("pairs", "stay ~ C(diagnosis)", "linear", {}, "do not tell these values apart", "Merge them"),
]  # fmt: skip


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], sf.Release]:
    """Give a release by a method; `tiny` has 60 rows and much noise, of `pairs` each group has the same two values."""
    made: dict[str, sf.Release] = {}

    def give(kind: str) -> sf.Release:
        if kind not in made:
            folder: Path = tmp_path_factory.mktemp("refusals")
            if kind == "tiny":
                made[kind] = release_of("uniform", folder, people(60), requirement="gamma = 1.5")
            elif kind == "pairs":
                rows = people(ROWS)
                two = pa.array(np.resize(["flu", "HIV"], ROWS).tolist())
                place = rows.column_names.index("diagnosis")
                made[kind] = release_of("anatomy", folder, rows.set_column(place, "diagnosis", two))
            else:
                made[kind] = release_of(kind, folder, people(ROWS))
        return made[kind]

    return give


@pytest.mark.parametrize(("kind", "formula", "family", "more", "said", "remedy"), REFUSED)
def test_refusals(
    kind: str,
    formula: str,
    family: str,
    more: dict[str, Any],
    said: str,
    remedy: str,
    released: Callable[[str], sf.Release],
) -> None:
    with pytest.raises(SfumatoError, match=said) as told:
        released(kind).regress(formula, family, **more)
    assert re.search(remedy, told.value.hint)


def test_what_is_told_beside_the_answer(released: Callable[[str], sf.Release], tmp_path: Path) -> None:
    """Few rows for the noise, and few groups."""
    few = released("uniform").regress(f"{SICK} ~ age", interval="wald")
    assert any("The noise leaves as much as about" in note for note in few.notes)
    groups = release_of("anatomy", tmp_path, people(16)).regress("stay ~ age + C(diagnosis == 'flu')", "linear")
    assert any("There are only 8 buckets" in note for note in groups.notes)
