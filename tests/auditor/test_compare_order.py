"""Comparisons of values in order: errors of shares and means, and every method says itself whether it applies."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.auditor.compare.figures import Outcome
from sfumato.auditor.compare.original import Original, kept
from sfumato.auditor.compare.record import MethodComparison
from tests.conftest import make_policy

INCOME = "sensitive; domain = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110]"
NO_ORDER = "'illness' holds texts such as 'flu', 'gout', which are in no order."
WEAKER = "It promises less, and only to someone who knows a value up to some steps already"


def people(rows: int = 3_000) -> pa.Table:
    rng = np.random.default_rng(9)
    return pa.table(
        {
            "sex": rng.choice(["F", "M"], rows),
            "income": rng.choice(np.arange(12) * 10, rows, p=np.arange(12, 0, -1) / 78),
            "illness": rng.choice(["flu", "gout", "HIV"], rows),
        }
    )


def opened(sensitive: str, method: str = "uniform", options: str = "") -> sf.Table:
    roles = {"sex": "quasi_identifier", "income": "drop", "illness": "drop"} | {
        "income": {"income": INCOME},
        "illness": {"illness": 'sensitive; domain = ["flu", "gout", "HIV"]'},
    }[sensitive]
    return sf.scan(people(), make_policy(roles, "gamma = 4", method, options=options))


def outcomes(compared: MethodComparison) -> dict[str, Outcome]:
    return {each.method: each for each in compared.methods}


def test_errors_of_shares_and_places_by_hand() -> None:
    """All of value 10 are taken for 0: the share up to 0 is off by theirs, and the mean by that over eleven steps."""
    original = Original.read(opened("income"))
    true = original.counts(("income",))
    tens, zeros = (original.labels("income").index(value) for value in ("10", "0"))
    estimated = true.copy()
    estimated[zeros], estimated[tens] = true[zeros] + true[tens], 0

    def estimates(names: tuple[str, ...]) -> np.ndarray:
        return estimated if names == ("income",) else original.counts(names)

    class NoCounts:
        asked = ()

        def errors(self, _: object) -> np.ndarray:
            return np.zeros(1)

    found = kept(original, NoCounts(), estimates)  # type: ignore[arg-type]
    assert found.share_error == pytest.approx(true[tens] / 3_000 / 11)
    assert found.place_error == pytest.approx(true[tens] / 3_000 / 11)


def test_values_in_order_have_errors_of_shares_and_of_the_mean() -> None:
    compared = sf.compare(opened("income"), repeat=3, seed=2)
    found = outcomes(compared)
    measured = {name: each.figures for name, each in found.items() if each.figures}
    assert {"uniform", "subset", "ranges", "plateau"} <= measured.keys()
    for name in ("uniform", "subset", "ranges", "plateau"):
        assert measured[name].share_error is not None
        assert measured[name].place_error is not None
    assert re.search(r"in pairs +up to +place", compared.explain(details=True))
    assert found["geometric"].reason.startswith(WEAKER)
    assert MethodComparison.from_dict(compared.to_dict()).methods == compared.methods


def test_geometric_noise_is_measured_where_the_policy_asks_for_it() -> None:
    own = outcomes(sf.compare(opened("income", "geometric", "steps = 3"), repeat=1, seed=2))["geometric"]
    assert own.own
    assert own.figures is not None


def test_methods_for_an_order_say_in_one_line_that_there_is_none() -> None:
    compared = sf.compare(opened("illness"), repeat=1, seed=2)
    found = outcomes(compared)
    for name in ("ranges", "plateau", "geometric"):
        assert (found[name].figures, found[name].reason) == (None, NO_ORDER)
    figures = found["uniform"].figures
    assert figures is not None
    assert (figures.share_error, figures.place_error) == (None, None)
    told = " ".join(compared.explain(details=True).split())
    assert f"ranges (gamma = 4), plateau (gamma = 4), geometric (gamma = 4): {NO_ORDER}" in told
    assert "up to:" not in told
