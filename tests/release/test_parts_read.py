"""A document with very many mistakes is refused by the first, in little memory."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from sfumato.release.manifest import Manifest
from sfumato.release.parts import FilePart, first_mistake, read_part

MANY = range(10_000)


@pytest.mark.parametrize(
    "document",
    [
        {f"k{k}": 1 for k in MANY},
        {"columns": list(MANY)},
        {"columns": [{"odd": k} for k in MANY]},
        {"mechanisms": [{f"k{k}": 1 for k in MANY}]},
    ],
)
def test_mistakes_alike_are_found_once(document: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as found:
        read_part(Manifest, json.dumps(document))
    assert found.value.error_count() < 50


def test_mistakes_of_names_are_counted() -> None:
    with pytest.raises(ValidationError) as found:
        read_part(Manifest, json.dumps({"merged": {"age": {f"k{k}": 3 for k in MANY}}}))
    assert first_mistake(found.value).endswith(" mistakes")


def test_a_key_of_any_length_is_told_in_short() -> None:
    part = {"file": "part-00000.parquet", "rows": 1, "sha256": "0" * 64}
    with pytest.raises(ValidationError) as found:
        read_part(FilePart, json.dumps({**part, "x" * 1000: 1}))
    assert first_mistake(found.value) == f"the file: {'x' * 100!r} is no key of it"
