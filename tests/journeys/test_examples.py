"""The notebooks in examples/ run from the first cell to the last, and show what they say: tables and pictures.

Only their code is kept, never their results: these would be of somebody's table, and of an older version.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sfumato.show.pictures import Picture

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = {"publisher": (3, 2), "analyst": (4, 3), "auditor": (3, 1)}
"""Tables and pictures that each shows."""


def cells(notebook: str, kind: str) -> list[str]:
    raw = json.loads((EXAMPLES / f"{notebook}.ipynb").read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in raw["cells"] if cell["cell_type"] == kind]


def shown(code: list[str]) -> Iterator[Any]:
    """Run cells one after another as a notebook does; yield the value of each cell's last expression."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, text in enumerate(code, 1):
        tree, last = ast.parse(text), None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
        exec(compile(tree, f"cell {number}", "exec"), names)
        if last is not None:
            yield eval(compile(last, f"cell {number}", "eval"), names)


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_a_notebook_runs_and_shows_tables_and_pictures(
    notebook: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    results = [result for result in shown(cells(notebook, "code")) if result is not None]
    pictures = [result for result in results if isinstance(result, Picture)]
    pages = [result._repr_html_() for result in results if hasattr(result, "_repr_html_")]
    tables = [page for page in pages if "<table" in page]  # what is private shows a line alone
    assert (len(tables), len(pictures)) == NOTEBOOKS[notebook]
    for picture in pictures:
        title = " ".join(picture.specification["title"]["text"])
        assert len(title.split()) >= 4
        assert not re.search(r"[()_]", title), "a title is in words"
        assert "<svg" in picture._repr_svg_()


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_a_notebook_is_short_and_holds_no_results(notebook: str) -> None:
    raw = json.loads((EXAMPLES / f"{notebook}.ipynb").read_text(encoding="utf-8"))
    assert (raw["nbformat"], raw["nbformat_minor"]) == (4, 5)
    assert 8 <= len(raw["cells"]) <= 15
    assert len({cell["id"] for cell in raw["cells"]}) == len(raw["cells"])
    for cell in raw["cells"]:
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == ([], None)


def test_every_notebook_is_run() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.ipynb")) == sorted(NOTEBOOKS)


def test_a_cell_that_fails_is_found() -> None:
    assert list(shown(["a = 1", "a + 1", "print(end='')"])) == [2, None]
    with pytest.raises(ZeroDivisionError):
        list(shown(["a = 0", "1 / a"]))
