"""reference/randomness-vectors.json: words, draws and orders that another implementation can check itself against."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.engines.base import RecordKey
from sfumato.engines.embedded.shuffle import shuffled
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.bound import NO_BOUND
from sfumato.values.matrix.dense import DenseMatrix
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.mechanism import Mechanism
from sfumato.values.randomness import SecretKey, Step

KEY = SecretKey(bytes(range(32)))
ABOUT = "Test vectors of docs/reference/randomness.md. Words are unsigned integers of 64 bits, as text in decimal."
PLACES = [(step, file, row) for step in Step for file, row in ((0, 0), (0, 1), (0, 2), (5, 7), (2**32 + 1, 2**40 + 1))]
LAST = (Step.PERTURB, 2**48 - 1, 2**64 - 1)
RECORDS = [b"", b"7", b"patient-0123456", b"patient-01234567", b"patient-0123456789-abcdefghijklmnop", b"\xc3\xa9"]
NOISE = (2**60 + 7, 2**58, 0)
COLUMNS = (
    (2**63, 2**62, 2**61, 2**61, 0),
    (1, 2**64 - 5, 1, 1, 2),
    (2**62, 0, 2**63, 0, 2**62),
    (2**61, 2**61, 2**61, 2**63 + 7, 2**61 - 7),
    (3 * 2**60, 3 * 2**60, 3 * 2**60, 3 * 2**60, 4 * 2**60),
)
SQUARE = ((2**63, 2**62, 2**62), (1, 2**64 - 2, 1), (2**62, 2**62, 2**63))
ROWS = 40


def text() -> str:
    """Return the file."""
    return json.dumps({"about": ABOUT, "key": KEY.secret.hex(), **_vectors()}, indent=1) + "\n"


def _vectors() -> dict[str, Any]:
    words = KEY.words(Step.PERTURB, 0, 0, ROWS)
    edges = np.array([0, 2**58 - 1, 2**61, 2**62, 2**63, 2**64 - 1, *words.tolist()], dtype=np.uint64)
    return {
        "seeds": [{"seed": seed, "key": SecretKey.from_seed(seed).secret.hex()} for seed in (0, 1, 123456789)],
        "words": [
            {"step": int(step), "file": file, "row": row, "word": str(KEY.words(step, file, row, 1)[0])}
            for step, file, row in (*PLACES, LAST)
        ],
        "keyed_words": [
            {"step": int(step), "message": record.hex(), "word": str(KEY.keyed_words(step, [record])[0])}
            for step in (Step.PERTURB, Step.PERSON, Step.HASH)
            for record in RECORDS
        ],
        "below": {
            "step": int(Step.SUPPRESS),
            "draws": [[below, _drawing(below)] for below in (1, 6, 10**9, 2**63 + 1, 2**64)],
        },
        "noise": _draws({"noise": list(map(str, NOISE))}, PerturbationMatrix(np.array(NOISE, np.uint64)), edges),
        "columns": _draws(
            {"columns": [list(map(str, column)) for column in COLUMNS]},
            DenseMatrix(np.array(COLUMNS, np.uint64)),
            edges,
        ),
        "records": _records(),
        "shuffle": {"rows": ROWS, "order": _order()},
    }


def _drawing(below: int) -> list[str]:
    draw = KEY.drawing(Step.SUPPRESS)
    return [str(draw(below)) for _ in range(6)]


def _draws(matrix: dict[str, Any], made: Any, words: Any) -> dict[str, Any]:
    """Return what each word publishes of each value."""
    sizes = range(len(next(iter(matrix.values()))))
    published = [made.sample(np.full(words.size, code, dtype=np.int32), words.copy()).tolist() for code in sizes]
    return {**matrix, "words": list(map(str, words.tolist())), "published": published}


def _records() -> dict[str, Any]:
    """Return contexts and draws of records that keep theirs."""
    domain = SensitiveDomain((Domain("diagnosis", ("flu", "Grippe é", None)),))
    series, persons = RecordKey("id", "clinic ß"), [b"Ada", b"Ada", b"\xc3\x89ve"]
    rows = pa.record_batch({"id": ["1", "2", "é3"]})
    stated: dict[str, Any] = {"series": series.series, "column": "diagnosis", "labels": list(domain.parts[0].labels)}
    for name, matrix in (
        ("noise", PerturbationMatrix(np.array(NOISE, np.uint64))),
        ("dense", DenseMatrix(np.array(SQUARE, np.uint64))),
    ):
        context = series.noise_context(Mechanism.single(domain, matrix, (NO_BOUND,) * domain.size))
        words = series.noise_words(KEY, context, rows, np.array([0, 1, 2], dtype=np.int32), 0)
        stated[name] = {"integers": matrix.integers.hex(), "context": context.hex(), "words": list(map(str, words))}
    kept = series.person_words(KEY, persons, rows, 0)
    return {
        **stated,
        "record_keys": rows.column(0).to_pylist(),
        "persons": [person.decode() for person in persons],
        "person_words": list(map(str, kept)),
    }


def _order() -> list[int]:
    """Return which row of a table of one part comes first, second and so on."""
    batch = pa.record_batch({"row": list(range(ROWS))})
    with TemporaryDirectory() as folder:
        return [row for part in shuffled([batch], ROWS, KEY, Path(folder)) for row in part.column(0).to_pylist()]
