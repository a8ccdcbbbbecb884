"""The page of an answer offers a file without formulas where the usual one has some."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sfumato.studio.analyst.app import analyst_app
from tests.conftest import make_policy
from tests.engines.tools import released
from tests.studio.served import served

ASKED = "figure=count&by=note&by=s"


@pytest.mark.parametrize(("value", "is_formula"), [("=1+1", True), ("-5 or so", True), ("-5", False)])
def test_a_file_without_formulas_is_offered(value: str, is_formula: bool, tmp_path: Path) -> None:
    table = pa.table({"note": [value, "x"] * 60, "s": ["a", "b", "c"] * 40})
    release = released(table, make_policy({"note": "other", "s": "sensitive"}), folder=tmp_path / "r")
    with served(lambda csrf: analyst_app(release.folder, csrf)) as page:
        shown = page.get(f"/ask?{ASKED}").text
        usual, escaped = (page.get(f"/ask{kind}.csv?{ASKED}").text for kind in ("", ".escaped"))
    assert ("/ask.escaped.csv?" in shown) == is_formula
    assert escaped == usual.replace(value, f"'{value}" if is_formula else value)
    assert value in usual
