"""Draw docs/methods/NAME.svg of methods that draw by one matrix. Run: uv run python docs/make_method_pictures.py

Left: what may be published of one record. Right: what an analyst is off by. Everything is computed, from plans for the
20,000 patients of `sfumato demo`, who do not exist; nothing is drawn by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

import sfumato as sf
from sfumato.cli.demo import clinic
from sfumato.methods import Method
from sfumato.methods.ordered.design import estimator
from sfumato.methods.perturbed import PerturbationFigures
from sfumato.show.layout import COLOURS
from sfumato.show.pictures import svg
from sfumato.show.plots import CONFIG
from sfumato.values.order import codes_in_order

FOLDER = Path(__file__).parent / "methods"
PAPER = "#fbf8f1"  # behind dark letters on pages of either kind
GREY = "#b9b2a4"
Z = 1.96
STEP = 19
BINS = {"diagnosis": "", "age": "bins = { width = 5 }\n"}
POLICY = '[columns.{name}]\nrole = "sensitive"\n{bins}[method]\nname = "uniform"\n[requirement]\ngamma = 3\n'


# --- what is shown ----------------------------------------------------------------------------------------------------


@cache
def profile(column: str) -> sf.Profile:
    """Count the diagnoses, or the ages in bins of five years."""
    policy = sf.Policy.parse(POLICY.format(name=column, bins=BINS[column]))
    return sf.profile(sf.scan(clinic().select([column]), policy))


def planned(column: str, method: Method, requirement: sf.Requirement) -> PerturbationFigures:
    """Return what a plan for the clinic has."""
    figures = sf.plan(profile(column), method, requirement).figures
    assert isinstance(figures, PerturbationFigures)
    return figures


def published(figures: PerturbationFigures, code: int) -> list[float]:
    """Return for each value the chance that what is published is it, or holds it, of a record with one value."""
    matrix = figures.matrix
    if matrix.publishes_values:
        return list(matrix.dense()[:, code])
    held = np.zeros(matrix.size)
    for number, chance in enumerate(matrix.dense()[:, code]):
        held[matrix.card(number)] += chance
    return held.tolist()


def share_errors(figures: PerturbationFigures) -> list[float]:
    """Return the standard error of the share of records up to each value but the highest."""
    order = codes_in_order(figures.domain.parts[0])
    chances, shares = figures.matrix.dense()[:, order], figures.counts[order] / figures.rows
    up_to = np.cumsum(estimator(chances), axis=0)[:-1]
    return np.sqrt((up_to**2 @ (chances @ shares) - np.cumsum(shares)[:-1]) / figures.rows).tolist()


# --- panels -----------------------------------------------------------------------------------------------------------


def chances_panel(title: list[str], labels: list[str], own: str, chances: Mapping[str, list[float]]) -> dict[str, Any]:
    """Bars for the first of two mechanisms, the record's own value dark; ticks for the other."""
    (name, first), *others = chances.items()
    rows = [
        {"value": label, "chance": round(chance, 3), "own": label == own, "told": f"{label}: {chance:.1%} ({name})"}
        for label, chance in zip(labels, first, strict=True)
    ]
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": rows},
            "mark": {"type": "bar", "height": 12},
            "encoding": {
                "x": {"field": "chance", "type": "quantitative", "axis": {"format": ".0%", "title": None}},
                "color": {"condition": {"test": "datum.own", "value": COLOURS[0]}, "value": GREY},
                "description": {"field": "told"},
            },
        }
    ]
    for other, numbers in others:
        marks = [
            {"value": label, "chance": round(chance, 3), "told": f"{label}: {chance:.1%} ({other})"}
            for label, chance in zip(labels, numbers, strict=True)
        ]
        layers.append(
            {
                "data": {"values": marks},
                "mark": {"type": "tick", "color": COLOURS[1], "thickness": 2, "size": 14},
                "encoding": {"x": {"field": "chance", "type": "quantitative"}, "description": {"field": "told"}},
            }
        )
    y = {"field": "value", "type": "nominal", "sort": labels, "axis": {"title": None, "ticks": False, "domain": False}}
    return {
        "title": {"text": title, "fontSize": 12, "offset": 8},
        "width": 200, "height": {"step": STEP}, "encoding": {"y": y}, "layer": layers,
    }  # fmt: skip


def counts_panel(labels: list[str], counts: list[int], errors: Mapping[str, list[float]]) -> dict[str, Any]:
    """Grey bars for true counts, and for each mechanism the interval in which an estimate lies 95 times of 100."""
    bars = [{"value": label, "count": n, "told": f"{label}: {n:,}"} for label, n in zip(labels, counts, strict=True)]
    whiskers = [
        {
            "value": label, "mechanism": name, "low": round(n - Z * error), "high": round(n + Z * error),
            "told": f"{label}: {n:,} plus or minus {Z * error:,.0f} ({name})",
        }
        for name, of_values in errors.items()
        for label, n, error in zip(labels, counts, of_values, strict=True)
    ]  # fmt: skip
    y = {"field": "value", "type": "nominal", "sort": labels, "axis": {"labels": False, "title": None, "ticks": False}}
    x = {"type": "quantitative", "axis": {"title": None, "format": ",d", "tickCount": 5}}
    rules = [
        {"data": {"values": [row for row in whiskers if row["mechanism"] == name]},
         "mark": {"type": "rule", "strokeWidth": 2.5, "yOffset": 6 * place - 3},
         "encoding": {"y": y, "x": {"field": "low", **x}, "x2": {"field": "high"}, "color": coloured(errors),
                      "description": {"field": "told"}}}
        for place, name in enumerate(errors)
    ]  # fmt: skip
    return {
        "title": {"text": ["True counts (bars), and where 95 of 100", "estimates lie (lines)"], "fontSize": 12,
                  "offset": 8},
        "width": 260, "height": {"step": STEP},
        "layer": [
            {"data": {"values": bars}, "mark": {"type": "bar", "color": GREY, "opacity": 0.6, "height": 12},
             "encoding": {"y": y, "x": {"field": "count", **x}, "description": {"field": "told"}}},
            *rules,
        ],
    }  # fmt: skip


def shares_panel(labels: list[str], errors: Mapping[str, list[float]]) -> dict[str, Any]:
    """Lines for each mechanism: half of the 95% interval of the share of records up to each value."""
    rows = [
        {
            "value": label, "place": place, "mechanism": name, "off": round(Z * error, 5),
            "told": f"up to {label}: plus or minus {Z * error:.2%} ({name})",
        }
        for name, of_values in errors.items()
        for place, (label, error) in enumerate(zip(labels[:-1], of_values, strict=True))
    ]  # fmt: skip
    y = {"field": "value", "type": "nominal", "sort": labels, "axis": {"labels": False, "title": None, "ticks": False}}
    x = {"field": "off", "type": "quantitative", "axis": {"title": None, "format": ".1%", "tickCount": 5}}
    point = {"type": "line", "point": {"size": 30, "filled": True}, "strokeWidth": 1.5}
    return {
        "title": {"text": ["By how much at most 95 of 100 estimates of the", "share of patients up to an age are off"],
                  "fontSize": 12, "offset": 8},
        "width": 260, "height": {"step": STEP}, "data": {"values": rows}, "mark": point,
        "encoding": {"y": y, "x": {**x, "scale": {"zero": True}}, "color": coloured(errors),
                     "order": {"field": "place"}, "description": {"field": "told"}},
    }  # fmt: skip


def coloured(errors: Mapping[str, Any]) -> dict[str, Any]:
    """The first mechanism blue, uniform (or the second) orange, as the ticks on the left."""
    legend = {"title": None, "orient": "bottom", "direction": "vertical", "labelLimit": 0}
    scale = {"domain": list(errors), "range": list(COLOURS[: len(errors)])}
    return {"field": "mechanism", "type": "nominal", "scale": scale, "legend": legend}


def side_by_side(told: str, *panels: dict[str, Any]) -> dict[str, Any]:
    """Return the picture, with what it shows in words for those who do not see it."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "description": told,
        "config": {**CONFIG, "background": PAPER},
        "spacing": 28,
        "hconcat": list(panels),
    }


# --- pictures ---------------------------------------------------------------------------------------------------------


def pictures() -> dict[str, dict[str, Any]]:
    """Return the specification of each picture, by the method's name."""
    return {
        "uniform": _uniform(), "subset": _subset(), "fine-grain": _fine_grain(),
        "ranges": _in_order("ranges", sf.Ranges(), "the published range holds an age"),
        "plateau": _in_order("plateau", sf.Plateau(), "an age is published"),
        "geometric": _in_order("geometric (weaker promise)", sf.Geometric(steps=2), "an age is published"),
    }  # fmt: skip


def _of_diagnoses(
    told: str, title: list[str], chances: Mapping[str, list[float]], errors: Mapping[str, PerturbationFigures], own: str
) -> dict[str, Any]:
    found = profile("diagnosis")
    order = np.argsort(-found.counts, kind="stable").tolist()
    labels = [found.domain.labels[code] for code in order]
    of_values = {name: [float(figures.standard_error[code]) for code in order] for name, figures in errors.items()}  # type: ignore[index]
    sorted_chances = {name: [numbers[code] for code in order] for name, numbers in chances.items()}
    return side_by_side(
        told,
        chances_panel(title, labels, own, sorted_chances),
        counts_panel(labels, [int(found.counts[code]) for code in order], of_values),
    )


def _uniform() -> dict[str, Any]:
    own = "diabetes"
    code = profile("diagnosis").domain.labels.index(own)
    strict, loose = (planned("diagnosis", sf.Uniform(), sf.Amplification(gamma)) for gamma in (3, 9))
    return _of_diagnoses(
        "Uniform perturbation of 12 diagnoses, gamma 3 and 9. Left: a record with diabetes is published as diabetes "
        "more often than as any other diagnosis, and as all others alike. Right: intervals of counts, wider for the "
        "smaller gamma.",
        ["Chance that a value is published,", f"if the true one is {own}"],
        {"gamma = 3": published(strict, code), "gamma = 9": published(loose, code)},
        {"gamma = 3": strict, "gamma = 9": loose},
        own,
    )


def _subset() -> dict[str, Any]:
    own = "diabetes"
    code = profile("diagnosis").domain.labels.index(own)
    sets, uniform = (planned("diagnosis", method, sf.Amplification(3)) for method in (sf.Subset(), sf.Uniform()))
    return _of_diagnoses(
        "Subset selection of 12 diagnoses beside uniform perturbation, both with gamma 3. Left: the set that is "
        "published of a record with diabetes holds diabetes half of the time, and each other diagnosis less often. "
        "Right: intervals of counts, narrower for subset selection.",
        ["Chance that the published set holds a value,", f"if the true one is {own}"],
        {"subset": published(sets, code), "uniform": published(uniform, code)},
        {"subset, gamma = 3": sets, "uniform, gamma = 3": uniform},
        own,
    )


def _fine_grain() -> dict[str, Any]:
    fine, uniform = (planned("diagnosis", method, sf.tolerance(5)) for method in (sf.FineGrain(), sf.Uniform()))
    return _of_diagnoses(
        "Fine-grain perturbation of 12 diagnoses at tolerance 5 beside uniform perturbation for the strictest of them. "
        "Left: each diagnosis keeps its value with a chance of its own, the frequent ones more often. Right: intervals "
        "of counts, narrower for fine-grain perturbation of the frequent ones.",
        ["Chance that a record is published", "with its own value"],
        {"fine-grain": fine.diagonal.tolist(), "uniform": uniform.diagonal.tolist()},
        {"fine-grain, tolerance = 5": fine, "uniform, the strictest gamma": uniform},
        "",
    )


def _in_order(name: str, method: Method, what: str) -> dict[str, Any]:
    requirement = sf.Amplification(4)
    own, uniform, sets = (planned("age", each, requirement) for each in (method, sf.Uniform(), sf.Subset()))
    order = codes_in_order(own.domain.parts[0])
    labels = [own.domain.labels[code] for code in order]
    middle = labels.index("[40, 45)")
    chances = {
        each: [numbers[code] for code in order]
        for each, numbers in ((name, published(own, order[middle])), ("uniform", published(uniform, order[middle])))
    }
    errors = {name: share_errors(own), "uniform": share_errors(uniform), "subset": share_errors(sets)}
    return side_by_side(
        f"{name} for {len(labels)} ages in bins of five years, gamma 4. Left: chances of what is published of a "
        "patient of 40 to 44, larger for near ages, beside those of uniform perturbation. Right: errors of the share "
        "of patients up to an age, beside those of uniform perturbation and subset selection.",
        chances_panel(
            [f"Chance that {what},", "if the true one is 40 to 44"],
            labels, labels[middle], chances,
        ),
        shares_panel(labels, errors),
    )  # fmt: skip


def drawn(specification: dict[str, Any]) -> str:
    """Return the SVG, with what it shows as its title."""
    head, rest = svg(specification).split(">", 1)
    return f"{head}><title>{escape(specification['description'])}</title>{rest}\n"


if __name__ == "__main__":
    for name, specification in pictures().items():
        (FOLDER / f"{name}.svg").write_text(drawn(specification), encoding="utf-8")
        print(f"Wrote {name}.svg.")
