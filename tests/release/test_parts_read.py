"""A document with very many mistakes is refused by the first, in little memory."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from sfumato.release.folder import first_mistake, read_part
from sfumato.release.manifest import Manifest
from sfumato.release.parts import FilePart

MANY = range(10_000)


@pytest.mark.parametrize(
    "document",
    [
        {"columns": list(MANY)},
        {"columns": [{"odd": k} for k in MANY]},
    ],
)
def test_one_mistake_of_a_list_is_found(document: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as found:
        read_part(Manifest, json.dumps(document))
    assert found.value.error_count() < 50


@pytest.mark.parametrize("document", [{f"k{k}": 3 for k in MANY}, {"merged": {"age": {f"k{k}": 3 for k in MANY}}}])
def test_mistakes_of_names_are_counted(document: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as found:
        read_part(Manifest, json.dumps(document))
    assert first_mistake(found.value).endswith(" mistakes")


def test_a_key_of_any_length_is_told_in_short() -> None:
    part = {"file": "part-00000.parquet", "rows": 1, "sha256": "0" * 64}
    with pytest.raises(ValidationError) as found:
        read_part(FilePart, json.dumps({**part, "x" * 1000: 1}))
    assert first_mistake(found.value) == f"{'x' * 100}: Extra inputs are not permitted"
