"""Models on Spark: coefficients, errors, intervals, effects and refusals are the embedded engine's.

Cells are counted by the cluster, a few rows a task. Rows that are too many to count are read by the driver, in batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.analyst.counting import on_spark
from sfumato.analyst.grouped import dealt as reading
from sfumato.analyst.regression.answer import Regression
from sfumato.analyst.release import Release, open_release
from sfumato.errors import UsageError
from tests.analyst.regression.releases import people, release_of
from tests.constants import set_constants
from tests.spark.test_sql import in_parts

CLOSE = 1e-9
"""Sums of fractions are added in another order, and each solution has its own last digits."""
SICK = "diagnosis == 'flu' ~ I(age / 10) + C(region) + sex"
HIDDEN = "stay ~ C(diagnosis, sets={'lung': ['flu', 'cold']}, others='rest') * sex"
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "logistic": (SICK, "logistic", {}),
    "likelihood": (SICK, "logistic", {"method": "likelihood", "target": "population"}),
    "multinomial": ("C(diagnosis, sets={'lung': ['flu', 'cold']}, others='rest') ~ age", "multinomial", {}),
    "linear": (HIDDEN, "linear", {"weights": "weight", "target": "population"}),
    "Poisson": (HIDDEN, "poisson", {"offset": "log(weight)", "where": "age > 30 AND diagnosis <> 'gout'"}),
    "clusters": (SICK, "logistic", {"cluster": "person", "survey_strata": "region", "target": "population"}),
    "centred": ("grade == '3' ~ scale(age) + bins(stay, 2, 4) + C(diagnosis == 'flu')", "linear", {}),
    "refused": ("diagnosis == 'flu' ~ C(diagnosis)", "logistic", {}),
    "no such column": ("diagnosis == 'flu' ~ height", "logistic", {}),
    "not zero or one": ("stay ~ age", "logistic", {}),
}


@pytest.fixture(scope="module")
def releases(
    spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], tuple[Release, Release]]]:
    """Give a release for this machine, and the same one for Spark; in pieces of a few rows."""
    made: dict[str, Release] = {}

    def give(kind: str) -> tuple[Release, Release]:
        if kind not in made:
            rows = people(400, missing=kind == "uniform")
            made[kind] = in_parts(release_of(kind, tmp_path_factory.mktemp("models"), rows))
            assert len(on_spark.pieces_of(made[kind])) > 3
        return made[kind], open_release(made[kind].folder, spark)

    with pytest.MonkeyPatch.context() as patched:
        set_constants(patched, "sfumato.analyst", PIECE_BYTES=2000, ROWS_TOGETHER=60)
        yield give


def answer(ask: Callable[[Release], Regression], release: Release) -> Regression | tuple[Any, ...]:
    """Return the model, or how it is refused."""
    try:
        return ask(release)
    except UsageError as refused:
        return type(refused), str(refused), refused.hint


def assert_same(ask: Callable[[Release], Regression], releases: tuple[Release, Release]) -> None:
    here = answer(ask, releases[0])
    reading._read.cache_clear()  # Spark shall read the groups, too
    there = answer(ask, releases[1])
    if isinstance(here, tuple) or isinstance(there, tuple):
        assert here == there
        return
    assert here.terms == there.terms
    assert here.notes == there.notes
    for name in ("coefficients", "standard_errors", "ends", "p_values"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), CLOSE, CLOSE)


CASES = [
    *(("uniform", model) for model in MODELS),
    *((kind, model) for kind in ("small-domain", "subset", "several", "anatomy") for model in ("logistic", "linear")),
    ("anatomy", "clusters"),
]


@pytest.mark.parametrize(("kind", "model"), CASES)
def test_the_same_models(kind: str, model: str, releases: Callable[[str], tuple[Release, Release]]) -> None:
    formula, family, more = MODELS[model]
    assert_same(lambda release: release.regress(formula, family, **more), releases(kind))


@pytest.mark.parametrize("kind", ["uniform", "anatomy"])
def test_the_same_effects_and_tests(kind: str, releases: Callable[[str], tuple[Release, Release]]) -> None:
    here, there = (release.regress(SICK) for release in releases(kind))
    assert here.test("C(region)").p_value == pytest.approx(there.test("C(region)").p_value, rel=CLOSE)
    for mine, theirs in zip(here.effects().rows, there.effects().rows, strict=True):
        for name, value in theirs.items():
            is_number = isinstance(value, float)
            assert mine[name] == (pytest.approx(value, rel=CLOSE, nan_ok=True) if is_number else value)


def test_the_same_where_rows_are_streamed(
    releases: Callable[[str], tuple[Release, Release]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many different rows to count, and a batch of a few dozen."""
    formula, family, more = MODELS["linear"]
    ask: Callable[..., Regression] = partial(Release.regress, formula=formula, family=family, interval="wald", **more)
    set_constants(monkeypatch, "sfumato.analyst.regression", MOST_COUNTED=20, CELLS_AT_ONCE=70, NUMBERS_HELD=500)
    assert not ask(releases("several")[1]).fit.solution.equations.whole
    assert_same(ask, releases("several"))


def test_the_command(spark: Any, releases: Callable[[str], tuple[Release, Release]], tmp_path: Path) -> None:
    """`--engine spark` prints what is printed without it."""
    from typer.testing import CliRunner

    from sfumato.cli.main import app

    folder = str(releases("uniform")[0].folder)
    told = [CliRunner().invoke(app, ["regress", folder, SICK, *more]) for more in ((), ("--engine", "spark"))]
    assert [each.exit_code for each in told] == [0, 0]
    assert told[0].output == told[1].output
