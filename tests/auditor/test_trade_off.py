"""The picture of a comparison: every method named, names apart, what is far off told."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.auditor.report.trade_off import HEIGHT, LINE, Panel, Placed, spread_out, trade_off_plot
from sfumato.show.pictures import Picture

POINTS = (
    Placed("uniform", 0.30, 0.2, 0.18, 0.22),
    Placed("fine-grain", 0.30, 0.2, 0.18, 0.22),
    Placed("anatomy", 0.31, 0.05, 0.05, 0.06, "own"),
    Placed("hopeless", 0.2, 75.0, 70.0, 80.0),
    Placed("(independence table)", 0.13, 0.4, 0.4, 0.4, "reference"),
    Placed("(the table itself)", 0.32, 0.0, 0.0, 0.0, "reference"),
)


def texts(spec: dict[str, Any], panel: int) -> list[dict[str, Any]]:
    layers = spec["hconcat"][panel]["layer"]
    return [line for layer in layers if layer["mark"]["type"] == "text" for line in layer["data"]["values"]]


def test_every_method_has_its_name_in_every_panel() -> None:
    spec = trade_off_plot("title", "subtitle", [Panel("a", POINTS), Panel("b", POINTS[2:])])
    assert {line["text"] for line in texts(spec, 0)} == {
        "uniform", "fine-grain", "anatomy", "hopeless (7,500%)", "(independence table)", "(the table itself)",
    }  # fmt: skip
    assert len(texts(spec, 1)) == 4
    for side in ("left", "right"):
        heights = sorted(line["name_y"] for line in texts(spec, 0) if line["align"] == side)
        assert all(after - before >= LINE - 1e-9 for before, after in pairwise(heights))
        assert all(0 <= height <= HEIGHT for height in heights)


def test_one_far_point_does_not_flatten_the_others() -> None:
    spec = trade_off_plot("title", "subtitle", [Panel("a", POINTS)])
    y = spec["hconcat"][0]["layer"][1]["encoding"]["y"]
    assert y["scale"]["domain"][1] == pytest.approx(0.8 * 1.08)


@pytest.mark.parametrize("suffix", [".svg", ".png", ".vl.json"])
def test_it_is_drawn(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"plot{suffix}"
    Picture(trade_off_plot("title", "subtitle", [Panel("a", POINTS), Panel("b", POINTS)])).save(path)
    assert path.stat().st_size > 1000
    if suffix == ".svg":
        assert "anatomy" in path.read_text()


@given(st.lists(st.floats(0, 300), max_size=12).map(sorted))
def test_places_are_apart_and_in_order(places: list[float]) -> None:
    found = spread_out(places, 14, 300)
    assert len(found) == len(places)
    assert all(after - before >= 14 - 1e-6 for before, after in pairwise(found))
    assert all(place <= 300 + 1e-6 for place in found)


def test_places_that_are_apart_stay() -> None:
    assert spread_out([0, 50, 100], 14, 300) == [0, 50, 100]
