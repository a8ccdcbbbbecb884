"""Files of priors: how values are written in them, and what is said of files that are none."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sfumato.errors import PolicyError
from sfumato.methods import plan
from sfumato.methods.bucketed import BucketFigures
from sfumato.publisher.table import profile, scan
from tests.conftest import make_policy
from tests.methods.test_group_plan import clinic, from_file, with_prior


def test_truth_values_missing_ones_and_an_empty_line_in_a_file(tmp_path: Path) -> None:
    rows = [(True, "x"), (True, None), (False, "x"), (False, None), (None, "x"), (None, None)] * 3
    table = pa.table({"smokes": [s for s, _ in rows], "disease": [d for _, d in rows]})
    lines = [f"{s},{d},1/2" for s in ("True", "False", "(missing)") for d in ("x", "(missing)")]
    (tmp_path / "p.csv").write_text("\n".join(["smokes,value,probability", *lines, "", ""]))
    roles = {"smokes": "quasi_identifier; missing = 'category'", "disease": "sensitive; missing = 'category'"}
    asked = make_policy(roles, "r = 2", "robust-anatomy", options='attribute_sets = [["smokes"]]')
    made = plan(profile(scan(table, asked)), with_prior(asked, tmp_path / "p.csv"), asked.requirement)
    assert isinstance(made.figures, BucketFigures)
    assert made.figures.priors[0].weights.tolist() == [[1, 1]] * 3


def test_files_of_priors_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("")
    with pytest.raises(PolicyError) as caught:
        from_file(tmp_path / "p.csv")
    assert caught.value.message.endswith("p.csv is empty.")
    assert caught.value.hint == "Begin it with the line sex,value,probability."
    table = clinic().rename_columns(["value", "age", "disease"])
    roles = {"value": "quasi_identifier", "age": "other", "disease": "sensitive"}
    asked = make_policy(roles, "r = 2", "robust-anatomy", options='attribute_sets = [["value"]]')
    with pytest.raises(PolicyError, match="The attribute set has a column 'value', and files of priors have one"):
        plan(profile(scan(table, asked)), with_prior(asked, tmp_path / "p.csv"), asked.requirement)
