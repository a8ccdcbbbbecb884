"""Pictures of answers: every number is drawn where it belongs, in the order of the answer, and printed beside it."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest
import vl_convert

from sfumato.errors import UsageError
from sfumato.show.layout import COLOURS
from sfumato.show.pictures import PICTURES, Picture
from sfumato.show.plots import SHAPES, error_bars, subtitle_of
from sfumato.show.terminal import printable

INF = math.inf
DIAGNOSES = [
    "asthma",
    "back pain",
    "COPD",
    "cancer",
    "diabetes",
    "epilepsy",
    "HIV",
    "flu",
    "gout",
    "mumps",
    "ulcer",
    "IBS",
]
SUBTITLE = "95% intervals for the table; method: inverse\nUnbiased; estimates of rare groups can be negative."


def answer(by: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Return a table of (groups..., estimate, lower, upper)."""
    *groups, estimate, lower, upper = ([row[k] for row in rows] for k in range(len(by) + 3))
    columns = dict(zip(by, map(pa.array, groups), strict=True))
    numbers = {"estimate": estimate, "standard_error": [None] * len(rows), "lower": lower, "upper": upper}
    return pa.table({**columns, **{name: pa.array(values, pa.float64()) for name, values in numbers.items()}})


def counts(by: Sequence[str], groups: Sequence[tuple[Any, ...]], start: float = 1000.0) -> pa.Table:
    return answer(
        by, [(*g, start + 37.5 * k, start + 37.5 * k - 90, start + 37.5 * k + 90) for k, g in enumerate(groups)]
    )


def drawn(table: pa.Table, by: Sequence[str], level: float = 0.95) -> dict[str, Any]:
    return error_bars(table, by, "Patients", SUBTITLE, level)


def data(panel: dict[str, Any]) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = panel["data"]["values"]
    return values


def places(panel: dict[str, Any]) -> dict[str, Any]:
    """Return the encoding of lines and colours."""
    return next(layer["encoding"] for layer in panel["layer"] if "layer" in layer)  # type: ignore[no-any-return]


def lines(panel: dict[str, Any]) -> list[str]:
    """Return the labels of the lines, from top to bottom."""
    return [" ".join(label) for label in labels(places(panel)["y"], "axis")]


def colours(panel: dict[str, Any]) -> list[str]:
    """Return the labels of the colours, in their order."""
    return labels(places(panel)["color"], "legend")


def labels(channel: dict[str, Any], guide: str) -> list[Any]:
    """Return the labels of a channel, which goes by their numbers."""
    found = json.loads(channel[guide]["labelExpr"].removesuffix("[datum.value]"))
    assert channel["scale"]["domain"] == list(range(len(found)))
    assert channel["sort"] is None
    return list(found)


def x_axis(panel: dict[str, Any]) -> dict[str, Any]:
    layers = next(layer["layer"] for layer in panel["layer"] if "layer" in layer)
    return layers[0]["encoding"]["x"]  # type: ignore[no-any-return]


def headings(panel: dict[str, Any]) -> list[str]:
    marks = [layer["mark"] for layer in panel["layer"] if "mark" in layer]
    return [" ".join(mark["text"]) for mark in marks if mark["type"] == "text"]


def texts(spec: dict[str, Any]) -> list[str]:
    """Return all texts of the drawing, as a reader sees them."""
    svg = ElementTree.fromstring(vl_convert.vegalite_to_svg(spec))
    found = ["".join(node.itertext()) for node in svg.iter("{http://www.w3.org/2000/svg}text")]
    return [text for text in found if text]


def marks(spec: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return the drawn marks of a kind ("symbol", "rule", ...) with their pixels inside their panel."""

    def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for child in node.get("items", ()):
            if node.get("marktype") == kind and node.get("role") == "mark":
                yield child
            yield from walk(child)

    return list(walk(vl_convert.vegalite_to_scenegraph(spec)["scenegraph"]))


def pixel(panel: dict[str, Any], value: float) -> float:
    low, high = x_axis(panel)["scale"]["domain"]
    return float((value - low) / (high - low) * panel["width"])


# --- one column of groups ---------------------------------------------------------------------------------------------


def test_two_groups_by_hand() -> None:
    table = answer(["sex"], [("F", 1400.4, 900.5, 1900.2), (None, -38.6, -389.9, 312.8)])
    spec = drawn(table, ["sex"])
    assert spec["title"] == {"text": ["Patients"], "subtitle": SUBTITLE.split("\n")}
    [panel] = spec["concat"]
    assert lines(panel) == ["F", "(missing)"]
    assert [(d["line"], d["estimate"], d["lower"], d["upper"], d["description"]) for d in data(panel)] == [
        (0, 1400.4, 900.5, 1900.2, "F: 1,400 (900 to 1,900)"),
        (1, -38.6, -389.9, 312.8, "(missing): −39 (−390 to 313)"),
    ]
    assert x_axis(panel)["axis"]["title"] == "estimate (95% interval)"
    assert x_axis(panel)["axis"]["values"] == [0.0, 500.0, 1000.0, 1500.0]
    assert x_axis(panel)["scale"]["domain"] == pytest.approx([-389.9 - 0.03 * 2290.1, 1900.2 + 0.03 * 2290.1])
    shown = texts(spec)
    for text in ("Patients", "sex", "F", "(missing)", "1,400 (900 to 1,900)", "−39 (−390 to 313)", "1,500"):
        assert text in shown, text


def test_lines_are_in_the_order_of_the_answer_and_numbers_where_they_belong() -> None:
    shuffled = [(name,) for name in reversed(DIAGNOSES)]
    spec = drawn(counts(["diagnosis"], shuffled), ["diagnosis"])
    [panel] = spec["concat"]
    assert lines(panel) == [name for (name,) in shuffled]
    points = marks(spec, "symbol")
    assert [p["x"] for p in points] == pytest.approx([pixel(panel, d["estimate"]) for d in data(panel)], abs=1e-6)
    assert [p["y"] for p in points] == pytest.approx([(k + 0.5) * panel["height"] / 12 for k in range(12)])
    bars = [rule for rule in marks(spec, "rule") if abs(rule.get("x2", rule["x"]) - rule["x"]) > 1]
    ends = [sorted((rule["x"], rule["x2"])) for rule in bars]
    assert ends == [pytest.approx([pixel(panel, d["lower"]), pixel(panel, d["upper"])]) for d in data(panel)]
    shown = texts(spec)
    assert [text for text in shown if text in DIAGNOSES] == [name for (name,) in shuffled]


def test_a_line_at_zero_only_where_the_axis_goes_below() -> None:
    def has_line(*ends: tuple[float, float, float]) -> bool:
        [panel] = drawn(answer(["g"], [(str(k), *e) for k, e in enumerate(ends)]), ["g"])["concat"]
        return {"datum": 0} in [layer["encoding"].get("x") for layer in panel["layer"]]

    assert has_line((-3, -5, -1), (10, 8, 12))
    assert has_line((5, -1, 11))
    assert has_line((-30, -40, -20))  # 0 is near, and therefore on the axis
    assert not has_line((5, 1, 9))
    assert not has_line((-3000, -3010, -2990))  # 0 is far away, and not on the axis


def test_an_axis_holds_zero_only_where_it_is_near() -> None:
    def ends(*numbers: float) -> list[float]:
        rows = [(str(k), v, v - 1, v + 1) for k, v in enumerate(numbers)]
        return x_axis(drawn(answer(["g"], rows), ["g"])["concat"][0])["scale"]["domain"]  # type: ignore[no-any-return]

    assert ends(5.0, 9.0)[0] == 0
    assert ends(5000.0, 5009.0)[0] > 4990
    assert ends(-5.0, -9.0)[1] == 0
    assert ends(-5000.0, -5009.0)[1] < -4990


# --- several columns of groups ----------------------------------------------------------------------------------------


def crossed(*values: Sequence[Any]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = [()]
    for column in values:
        rows = [(*row, value) for row in rows for value in column]
    return rows


@pytest.mark.parametrize("by", [["diagnosis", "sex"], ["sex", "diagnosis"]])
def test_the_column_with_few_values_gives_the_colours(by: list[str]) -> None:
    values = {"diagnosis": DIAGNOSES, "sex": ["M", "F"]}
    spec = drawn(counts(by, crossed(*(values[name] for name in by))), by)
    [panel] = spec["concat"]
    encoding = places(panel)
    assert encoding["y"]["axis"]["title"] == "diagnosis"
    assert encoding["color"]["legend"]["title"] == "sex"
    assert (lines(panel), colours(panel)) == (DIAGNOSES, ["M", "F"])
    assert {d["description"].partition(":")[0] for d in data(panel)} == {f"{a}, {b}" for a in DIAGNOSES for b in "MF"}
    points = marks(spec, "symbol")
    assert len({p["y"] for p in points}) == 24
    assert min(np.diff(sorted(p["y"] for p in points))) >= 14  # a line of text fits, and bars do not overlap
    for point in points:
        assert (point["fill"], point.get("shape", "circle")) in [*zip(COLOURS, SHAPES, strict=True)][:2]


@pytest.mark.parametrize(("size", "coloured"), [(2, True), (8, True), (9, False)])
def test_at_most_eight_colours(size: int, coloured: bool) -> None:
    spec = drawn(counts(["a", "b"], crossed([f"a{k}" for k in range(9)], range(size))), ["a", "b"])
    if coloured:
        [panel] = spec["concat"]
        assert colours(panel) == [str(k) for k in range(size)]
        assert len({(p["fill"], p.get("shape")) for p in marks(spec, "symbol")}) == size
    else:
        assert [headings(panel)[-1] for panel in spec["concat"]] == [f"a: a{k}" for k in range(9)]
        assert lines(spec["concat"][0]) == [str(k) for k in range(9)]
        assert {p["fill"] for p in marks(spec, "symbol")} == {COLOURS[0]}


def test_a_third_column_gives_panels_with_one_scale() -> None:
    by = ["diagnosis", "sex", "region"]
    spec = drawn(counts(by, crossed(DIAGNOSES[:4], ["F", "M"], ["North", "South", None])), by)
    assert [headings(panel)[-1] for panel in spec["concat"]] == ["region: North", "region: South", "region: (missing)"]
    assert spec["columns"] == 1
    assert len({json.dumps(x_axis(panel)["scale"]) for panel in spec["concat"]}) == 1
    assert [len(data(panel)) for panel in spec["concat"]] == [8, 8, 8]
    assert [x_axis(panel)["axis"]["title"] for panel in spec["concat"]] == [None, None, "estimate (95% interval)"]
    assert len(marks(spec, "symbol")) == 24


def test_columns_are_joined_where_panels_would_have_one_line() -> None:
    by = ["region", "diagnosis", "year"]
    spec = drawn(counts(by, [(f"r{k}", f"d{k}", 2000 + k) for k in range(20)]), by)
    [panel] = spec["concat"]
    assert places(panel)["y"]["axis"]["title"] == "region, diagnosis, year"
    assert lines(panel)[3] == "r3, d3, 2003"


def test_subtotals_of_a_cube() -> None:
    groups = [("F", "North"), ("F", "South"), ("F", "(all)"), ("(all)", "(all)")]
    spec = drawn(counts(["sex", "region"], groups), ["sex", "region"])
    assert colours(spec["concat"][0]) == ["North", "South", "(all)"]
    assert {"F", "(all)"} <= set(texts(spec))


def test_no_column_of_groups() -> None:
    spec = drawn(counts([], [()]), [])
    assert "all" in texts(spec)
    assert "1,000.0 (910.0 to 1,090.0)" not in texts(spec)
    assert "1,000 (910 to 1,090)" in texts(spec)


# --- several figures --------------------------------------------------------------------------------------------------


def with_figures(by: list[str], tables: dict[str, pa.Table]) -> pa.Table:
    parts = [t.add_column(len(by), "figure", pa.array([name] * t.num_rows)) for name, t in tables.items()]
    return pa.concat_tables(parts)


def test_each_figure_has_a_panel_and_a_scale() -> None:
    groups = crossed(["North", "South"], DIAGNOSES[:3], ["F", "M"])
    by = ["region", "diagnosis", "sex"]
    ages = answer(by, [(*g, 40 + k / 3, 39 + k / 3, 41 + k / 3) for k, g in enumerate(groups)])
    spec = drawn(with_figures(by, {"count": counts(by, groups), "average of age": ages.slice(0, 11)}), by)
    assert spec["columns"] == 2
    first, second = spec["concat"][:2]
    assert headings(first)[-1] == "sex: F, count"
    assert headings(second)[-1] == "sex: F, average of age"
    assert x_axis(first)["scale"]["domain"][0] > 800
    assert 35 < x_axis(second)["scale"]["domain"][0] < 39
    assert x_axis(spec["concat"][-1])["axis"]["title"] == "average of age (95% interval)"
    assert [panel["height"] for panel in spec["concat"]] == [first["height"]] * 4
    assert places(first)["y"]["axis"]["labels"] is True
    assert places(second)["y"]["axis"]["labels"] is False
    assert sum(len(data(panel)) for panel in spec["concat"]) == 23
    assert "40.33 (39.33 to 41.33)" not in texts(spec)
    assert "40.3 (39.3 to 41.3)" in texts(spec)


def test_more_than_three_figures_are_put_below_each_other() -> None:
    table = with_figures(["g"], {f"f{k}": counts(["g"], [("x",), ("y",)], 10.0**k) for k in range(4)})
    spec = drawn(table, ["g"])
    assert spec["columns"] == 1
    assert [headings(panel)[-1] for panel in spec["concat"]] == ["f0", "f1", "f2", "f3"]


# --- numbers that are not there, or not finite ------------------------------------------------------------------------


def test_infinite_ends_are_arrows_at_the_ends_of_the_axis() -> None:
    rows = [("a", 5.0, -INF, 9.0), ("b", 6.0, 4.0, INF), ("c", 7.0, -INF, INF), ("d", 5.0, 3.0, 7.0)]
    spec = drawn(answer(["g"], rows), ["g"])
    [panel] = spec["concat"]
    symbols = [(s.get("shape", "circle"), round(s["x"])) for s in marks(spec, "symbol")]
    assert [s for s in symbols if s[0] == "triangle-left"] == [("triangle-left", 0)] * 2
    assert [s for s in symbols if s[0] == "triangle-right"] == [("triangle-right", panel["width"])] * 2
    assert sum(shape == "circle" for shape, _ in symbols) == 4
    low, high = x_axis(panel)["scale"]["domain"]
    assert low < 0 < 9 < high
    shown = texts(spec)
    for text in ("5.0 (−∞ to 9.0)", "6.0 (4.0 to ∞)", "7.0 (−∞ to ∞)"):
        assert text.replace(".0", "") in shown
    assert any("arrow" in text for text in shown)
    json.dumps(spec, allow_nan=False)


def test_a_bar_far_longer_than_the_others_does_not_squeeze_them() -> None:
    rows = [(str(k), 50.0 + k, 45.0 + k, 55.0 + k) for k in range(9)]
    spec = drawn(answer(["g"], [*rows, ("wild", -20.0, -4000.0, 3960.0)]), ["g"])
    [panel] = spec["concat"]
    low, high = x_axis(panel)["scale"]["domain"]
    assert -50 < low < -20
    assert 63 < high < 80
    assert (data(panel)[-1]["goes_below"], data(panel)[-1]["goes_above"]) == (True, True)
    assert "−20 (−4,000 to 3,960)" in texts(spec)
    assert any("arrow" in text for text in texts(spec))


def test_missing_numbers_are_told() -> None:
    rows = [("a", None, None, None), ("b", 3.25, None, None), ("c", 4.5, 4.0, 5.0), ("d", math.nan, None, 3.0)]
    spec = drawn(answer(["g"], rows), ["g"])
    shown = texts(spec)
    assert shown.count("no estimate") == 2
    assert "3.25 (no interval)" in shown
    assert len(marks(spec, "symbol")) == 2
    assert not any("arrow" in text for text in shown)
    json.dumps(spec, allow_nan=False)


def test_without_any_interval_none_is_promised() -> None:
    table = pa.Table.from_pylist([{"g": "a", "estimate": 3.0, "standard_error": None, "lower": None, "upper": None}])
    shown = texts(drawn(table, ["g"]))
    assert "estimate" in shown
    assert "estimate (95% interval)" not in shown


def test_exact_numbers_need_no_decimals_even_if_rounding_left_some() -> None:
    spec = drawn(answer(["g"], [("a", 2871.0, 2870.9999987, 2871.0000013), ("b", 9227.0, 9227.0, 9227.0)]), ["g"])
    assert "2,871 (2,871 to 2,871)" in texts(spec)
    assert "3 (3 to 3)" in texts(drawn(answer(["g"], [("a", 3.0, 2.9999999, 3.0000001)]), ["g"]))


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_the_level_is_named(level: float) -> None:
    shown = texts(drawn(counts(["g"], [("a",)]), ["g"], level))
    assert f"estimate ({level * 100:g}% interval)" in shown


# --- labels -----------------------------------------------------------------------------------------------------------


def test_values_that_look_alike_keep_their_own_lines() -> None:
    values = [None, "(missing)", "", " x", "x", "a\nb", '</script><b>&"\\', "__proto__", "😀", "null"]
    spec = drawn(counts(["g"], [(v,) for v in values]), ["g"])
    shown = [line.rstrip() for line in lines(spec["concat"][0])]
    assert len(set(shown)) == len(values)
    assert shown[:4] == ["(missing)", '"(missing)"', '""', '" x"']
    assert set(shown) <= {text.rstrip() for text in texts(spec)}
    assert len({point["y"] for point in marks(spec, "symbol")}) == len(values)


@pytest.mark.parametrize("name", ["a.b[0]", "<i>", "line", "datum", 'x"y', "'", "constructor", "toString", "__proto__"])
def test_anything_may_have_any_name(name: str) -> None:
    def shown(spec: dict[str, Any]) -> set[str]:
        return {text.rstrip() for text in texts(spec)}

    by = ["b", name, "c"]
    table = with_figures(by, {name: counts(by, crossed([name, "x", "y"], [name, "F"], [name, "d"]))})
    assert {name, f"c: {name}, {name}"} <= shown(error_bars(table, by, name, name, 0.95))
    without = answer([name], [(name, 1.0, None, None), ("x", 2.0, None, None)])
    assert name in shown(drawn(with_figures([name], {name: without}), [name]))


UNSEEN = ["\x00", "\x1b]0;title\x07", "\x9b31m", "\u2028", "\u202e", "\ufffe", "\uffff"]


@pytest.mark.parametrize("unseen", UNSEEN)
def test_what_no_drawing_can_hold_is_drawn_as_a_code(unseen: str) -> None:
    """The library ends the process where a text holds what XML cannot: lines, colours, panels and titles have texts."""
    name = f"a{unseen}b"
    by = ["b", name, "c"]
    table = with_figures(by, {name: counts(by, crossed([name, "x", "y"], [name, "F"], [name, "d"]))})
    spec = error_bars(table, by, name, name, 0.95)
    drawing = PICTURES[".svg"](spec).decode()
    ElementTree.fromstring(drawing)
    assert unseen not in drawing
    assert f"a{printable(unseen)[:3]}" in drawing


def test_long_labels_are_broken_and_centred_on_their_line() -> None:
    long = "Other and unspecified disorders of the circulatory system, not elsewhere classified"
    spec = drawn(counts(["diagnosis"], [("flu",), (long,)]), ["diagnosis"])
    svg = ElementTree.fromstring(vl_convert.vegalite_to_svg(spec))
    [node] = [n for n in svg.iter("{http://www.w3.org/2000/svg}text") if "".join(n.itertext()).startswith("Other")]
    lines = ["".join(part.itertext()) for part in node]
    assert " ".join(lines) == long
    assert max(map(len, lines)) <= 44
    assert spec["concat"][0]["height"] >= 2 * 13 * len(lines)
    offset = float(str(node.get("transform")).split(",")[1].rstrip(")"))
    middle = 0.75 * spec["concat"][0]["height"]
    assert offset + 13 * (len(lines) - 1) / 2 == pytest.approx(middle + 3, abs=2)  # 3: from baseline to middle


def test_endless_labels_end_in_dots_but_stay_apart() -> None:
    spec = drawn(counts(["g"], [("word " * 200 + end,) for end in "ab"]), ["g"])
    assert sum(text.endswith("…") for text in texts(spec)) == 2
    assert len({point["y"] for point in marks(spec, "symbol")}) == 2


def test_a_long_title_is_broken() -> None:
    spec = error_bars(counts(["g"], [("a",)]), ["g"], "word " * 60, "note " * 100 + "\nlast", 0.95)
    assert len(spec["title"]["text"]) > 2
    assert len(spec["title"]["subtitle"]) > 3
    assert spec["title"]["subtitle"][-1] == "last"


def test_the_subtitle_names_level_target_method_and_notes() -> None:
    about = {"method": "em", "target": "population", "level": 0.9, "notes": ("First.", "Second.")}
    assert subtitle_of(about) == "90% intervals for the population; method: em\nFirst.\nSecond."


# --- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2, 60, 200])
def test_any_number_of_lines_up_to_two_hundred(rows: int) -> None:
    spec = drawn(counts(["age"], [(k,) for k in range(rows)]), ["age"])
    assert len(marks(spec, "symbol")) == rows
    assert spec["concat"][0]["height"] == 19 * rows


def test_more_lines_are_refused() -> None:
    with pytest.raises(UsageError, match=r"201 estimates .* holds 200\.\nAdd LIMIT .* fewer columns"):
        drawn(counts(["age"], [(k,) for k in range(201)]), ["age"])


def test_an_answer_without_rows_is_refused() -> None:
    with pytest.raises(UsageError, match="no estimate to draw"):
        drawn(counts(["age"], [(1,)]).slice(0, 0), ["age"])


def test_random_answers_are_drawn_in_full() -> None:
    """Every estimate is on the axis, ticks are few and inside, and printed numbers are those of the table."""
    rng = np.random.default_rng(7)
    for _ in range(300):
        size = int(rng.integers(1, 30))
        unit = 10.0 ** rng.integers(-6, 12)
        centre = (rng.normal() * 20 + rng.normal(size=size) * rng.choice([0.01, 1, 10])) * unit
        half = rng.exponential(size=size) * rng.choice([0, 0.01, 1], size=size) * unit
        low, high = (np.where(rng.random(size) < 0.05, s * INF, centre + s * half) for s in (-1, 1))
        table = answer(["g"], list(zip(map(str, range(size)), centre, low, high, strict=True)))
        [panel] = drawn(table, ["g"])["concat"]
        start, end = x_axis(panel)["scale"]["domain"]
        ticks = x_axis(panel)["axis"]["values"]
        assert start <= centre.min() <= centre.max() <= end
        assert 2 <= len(ticks) <= 9
        assert start <= ticks[0] < ticks[-1] <= end
        for row, d in zip(table.to_pylist(), data(panel), strict=True):
            texts = re.fullmatch(r"(\S+) \((\S+) to (\S+)\)", d["numbers"])
            assert texts is not None
            for text, name in zip(texts.groups(), ("estimate", "lower", "upper"), strict=True):
                number = float(text.replace("−", "-").replace(",", "").replace("∞", "inf"))
                decimals = len(text.partition(".")[2])
                assert number == row[name] or abs(number - row[name]) <= 0.5000001 * 10.0**-decimals
            assert d["goes_below"] == (row["lower"] < start)
            assert d["goes_above"] == (row["upper"] > end)


# --- files ------------------------------------------------------------------------------------------------------------

STARTS = {".svg": b"<svg ", ".png": b"\x89PNG\r\n", ".pdf": b"%PDF-", ".html": b"<!DOCTYPE html>", ".vl.json": b"{\n"}


@pytest.fixture(scope="module")
def picture() -> dict[str, Any]:
    return drawn(counts(["diagnosis", "sex"], crossed(DIAGNOSES, ["F", "M"])), ["diagnosis", "sex"])


@pytest.mark.parametrize("suffix", PICTURES)
def test_every_suffix_the_same_bytes_each_time(tmp_path: Path, picture: dict[str, Any], suffix: str) -> None:
    for k in range(4):
        again = drawn(counts(["diagnosis", "sex"], crossed(DIAGNOSES, ["F", "M"])), ["diagnosis", "sex"])
        assert again == picture
        Picture(again).save(tmp_path / f"{k}{suffix}")
    contents = {(tmp_path / f"{k}{suffix}").read_bytes() for k in range(4)}
    assert len(contents) == 1
    assert contents.pop().startswith(STARTS[suffix])
    assert len(list(tmp_path.iterdir())) == 4


def test_a_specification_is_the_callers_own() -> None:
    first, second = (drawn(counts(["g"], [("a",)]), ["g"]) for _ in range(2))
    first["config"]["title"]["fontSize"] = 99
    assert second["config"]["title"]["fontSize"] == 15


def test_the_specification_is_written_as_it_is(tmp_path: Path, picture: dict[str, Any]) -> None:
    Picture(picture).save(tmp_path / "a.vl.json")
    assert json.loads((tmp_path / "a.vl.json").read_text()) == picture


def test_a_page_loads_and_runs_nothing(tmp_path: Path) -> None:
    evil = '</script></svg><script>alert(1)</script><img src="http://example.org/x.png" onerror="alert(1)">'
    table = counts([evil, "b"], [(evil, evil), ("y", "z")])
    spec = error_bars(table, [evil, "b"], f"Title {evil}", f"Note {evil}", 0.95)
    for suffix in (".svg", ".html"):
        Picture(spec).save(tmp_path / f"a{suffix}")
        page = (tmp_path / f"a{suffix}").read_text(encoding="utf-8")
        start = page.index("<svg ")
        tree = ElementTree.fromstring(page[start : page.index("</svg>") + len("</svg>")])
        assert {node.tag.partition("}")[2] for node in tree.iter()} <= {
            "svg",
            "g",
            "path",
            "rect",
            "text",
            "tspan",
            "line",
        }
        assert not any(re.search("href|src|^on", key) for node in tree.iter() for key in node.attrib)
        assert set(re.findall(r"<(\w+)", page[:start])) <= {"html", "head", "meta", "title", "body"}
        assert "<script" not in page


def test_nothing_is_fetched(tmp_path: Path, picture: dict[str, Any]) -> None:
    point = {"mark": "point", "encoding": {"x": {"field": "a"}}}
    for address in ("http://127.0.0.1:9/x.json", "https://example.org/x.csv", "x.json"):
        with pytest.raises(ValueError, match="not allowed"):
            Picture({**picture, "concat": [{**point, "data": {"url": address}}]}).save(tmp_path / "a.svg")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", PICTURES)
def test_an_existing_picture_is_refused_and_kept(tmp_path: Path, picture: dict[str, Any], suffix: str) -> None:
    file = tmp_path / f"a{suffix}"
    file.write_text("mine")
    with pytest.raises(UsageError, match=r"exists already\.\nChoose another name, or remove it\."):
        Picture(picture).save(file)
    assert file.read_text() == "mine"


@pytest.mark.parametrize("name", ["a.jpg", "a.json", "svg"])
def test_an_unknown_suffix_is_refused_with_the_known_ones(tmp_path: Path, picture: dict[str, Any], name: str) -> None:
    with pytest.raises(UsageError, match=r"Known are \.svg, \.png, \.pdf, \.html, \.vl\.json\."):
        Picture(picture).save(tmp_path / name)


def test_nothing_stays_of_a_picture_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, picture: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="Vega"):
        Picture({**picture, "concat": [{"mark": "no such mark"}]}).save(tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(UsageError, match=r"needs the package vl-convert-python\.\n.*\.vl\.json"):
        Picture(picture).save(tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []
    Picture(picture).save(tmp_path / "a.vl.json")
