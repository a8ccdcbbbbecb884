"""The command regress: its screen, its files, and how wrong use is told."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.analyst.regression.releases import DIAGNOSES, people, release_of
from tests.cli.test_commands import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release_of("uniform", tmp_path_factory.mktemp("regress"), people(600)).folder


def test_the_screen(folder: Path) -> None:
    code, out, _ = run("regress", str(folder), "diagnosis == 'flu' ~ age + C(region) * sex")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "Logistic model of diagnosis == 'flu' ~ age + C(region) * sex: 600 rows."
    assert lines[2].split()[:5] == ["term", "odds", "ratio", "95%", "interval"]
    assert len(lines) <= 25


def test_levels_are_shown_with_what_they_are_compared_with(folder: Path) -> None:
    """On the screen alone: in files a term has the name that it can be asked by."""
    out = run("regress", str(folder), "diagnosis == 'flu' ~ age + C(region) * sex")[1]
    assert "\nregion S (against N) " in out
    assert "\nsex M (against F) " in out
    assert "\nregion S : sex M  " in out  # against all that is neither: no word for it
    long = run(
        "regress",
        str(folder),
        "diagnosis == 'flu' ~ C(CASE WHEN region = 'N' THEN 'the north' ELSE 'another part of it' END)",
    )[1]
    assert "(against" not in long


def test_a_factor_of_two_levels_without_events_is_told_as_that(folder: Path) -> None:
    """No third level could be merged with it, or be the reference: whichever of the two has no events left."""
    either = ("sex", "C(sex, reference='M')")
    told = [run("regress", str(folder), f"diagnosis == '{value}' ~ {by}") for value in DIAGNOSES for by in either]
    texts = [" ".join((out + err).split()) for _, out, err in told]
    assert not [text for text in texts if "Merge this level" in text or "Take another level" in text]
    advice = "Ask `sfumato power` what can be told from 0, or take a more frequent outcome."
    notes, refused = (
        [text for text, (ended, *_) in zip(texts, told, strict=True) if ended == code and advice in text]
        for code in (0, 1)
    )
    assert notes
    assert refused
    assert any("among sex F cannot be told from 0" in text for text in refused)


def test_files_and_json(folder: Path, tmp_path: Path) -> None:
    file, picture = tmp_path / "model.parquet", tmp_path / "model.svg"
    words = (
        "stay ~ age + sex",
        "--family",
        "poisson",
        "--weights",
        "weight",
        "--where",
        "age > 30",
        "--target",
        "population",
    )
    asked = ("--interval", "wald", "--level", "0.9", "-o", str(file), "--plot", str(picture), "--json")
    code, out, _ = run("regress", str(folder), *words, *asked)
    assert code == 0
    found = json.loads(out)
    assert [row["term"] for row in found["coefficients"]] == ["intercept", "age", "sex M"]
    assert (found["target"], found["intervals"], found["level"]) == ("population", "wald", 0.9)
    assert "rate_ratio" in pq.read_table(file).column_names
    assert picture.read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("diagnosis ~ age", "needs a yes or no"),
        ("diagnosis ~ age", "--family multinomial"),
        ("diagnosis == 'flu' ~ ages", "Did you mean 'age'?"),
        ("diagnosis == 'flu'", "one ~"),
        ("diagnosis == 'flu' ~ C(diagnosis)", "follows from"),
    ],
)
def test_wrong_use_is_told(folder: Path, formula: str, said: str) -> None:
    code, _, told = run("regress", str(folder), formula)
    assert code == 2
    assert said in told
