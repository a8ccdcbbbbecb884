"""The power of the whole-release test: a leak of each kind is planted, and found where it was planted.

Tables are published as always, and then one thing more is told of them. The chance to miss it is below 1e-6, by
`odds.power`, where what is told is certain.
"""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import Infeasible
from tests.statistical.whole_release.cases import BY_VALUE, CASES, GAMMA, SORTED, THREE, TWO
from tests.statistical.whole_release.observing import Features, observe, refused
from tests.statistical.whole_release.odds import Observed, leaks, observed, power, tells
from tests.statistical.whole_release.publishing import Format, Pair, Publisher, memory, planned, policy

RELEASES = 190
DIFFERENT = 2000
PAIR = CASES["uniform, the only one"][0]  # a, b, a, b, or the second has c


Truth = Mapping[str, str]
"""The true value of each person."""


def _in_manifest(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content, indent=2) + "\n")


# --- the leaks --------------------------------------------------------------------------------------------------------


def flag(true: Truth, folder: Path) -> None:
    """A permutation test on the secret decides, and the manifest tells: as order = "auto" did."""
    values = np.array(list(true.values())) == "a"
    orders = np.random.default_rng().permuted(np.tile(values, (8000, 1)), axis=1)
    as_sorted = (orders[:, 1:] == orders[:, :-1]).sum(axis=1) >= (values[1:] == values[:-1]).sum()
    _in_manifest(folder, lambda content: content["data"].update(shuffled=bool(as_sorted.mean() < 5e-4)))


def size(true: Truth, folder: Path) -> None:
    """Blanks at the end of the README, as many as different values."""
    with (folder / "README.md").open("a") as text:
        text.write(" " * len(set(true.values())) + "\n")


def order(true: Truth, folder: Path) -> None:
    """The rows are in the order of the true values."""
    path = folder / "data.csv"
    header, *rows = csv.reader(path.read_text().splitlines())
    rows.sort(key=lambda row: (true[row[header.index("who")]], row))
    path.write_text("".join(",".join(row) + "\n" for row in [header, *rows]))


def dictionary(true: Truth, folder: Path) -> None:
    """The dictionary lists the true values, in the order in which they come, before the published ones."""
    path = folder / "data.parquet"
    rows = pq.read_table(path)
    published = rows.column("disease").to_pylist()
    listed = list(dict.fromkeys([*true.values(), *published]))
    coded = pa.DictionaryArray.from_arrays(pa.array([listed.index(v) for v in published], pa.int32()), listed)
    pq.write_table(rows.set_column(rows.schema.get_field_index("disease"), "disease", coded), path, store_schema=False)


def metadata(true: Truth, folder: Path) -> None:
    """The file's own account has the largest true value."""
    path = folder / "data.parquet"
    rows = pq.read_table(path)
    with pq.ParquetWriter(path, rows.schema, store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({"max": max(true.values())})


def readme(true: Truth, folder: Path) -> None:
    """A sentence of the README."""
    path, rarest = folder / "README.md", min(Counter(true.values()).values())
    path.write_text(
        path.read_text().replace("## Codebook", f"Every value occurs {rarest} times at least.\n\n## Codebook")
    )


def extra_file(true: Truth, folder: Path) -> None:
    """A file that is only there if a value occurs once."""
    if 1 in Counter(true.values()).values():
        (folder / ".rare").touch()


def refusal(true: Truth, folder: Path) -> None:
    """Nothing is published if a value occurs once."""
    if 1 in Counter(true.values()).values():
        raise Infeasible("A value is too rare.")


def checksum(true: Truth, folder: Path) -> None:
    """A hash of the table."""
    digest = hashlib.sha256(repr(sorted(true.items())).encode()).hexdigest()
    _in_manifest(folder, lambda content: content.update(table_sha256=digest))


def true_values(true: Truth, folder: Path) -> None:
    """In nine of ten releases the values are put back."""
    path = folder / "data.csv"
    header, *rows = csv.reader(path.read_text().splitlines())
    place, who = header.index("disease"), header.index("who")
    if np.random.default_rng().random() < 0.9:
        rows = [[*row[:place], true[row[who]], *row[place + 1 :]] for row in rows]
    path.write_text("".join(",".join(row) + "\n" for row in [header, *rows]))


PLANTED: dict[str, tuple[Any, Format, str]] = {
    "size": (size, "csv", "README.md: size"),
    "order": (order, "csv", "data.csv: who of row"),
    "dictionary": (dictionary, "parquet", "data.parquet: dictionary of disease"),
    "metadata": (metadata, "parquet", "data.parquet: key-value metadata"),
    "readme": (readme, "csv", "README.md: line"),
    "extra file": (extra_file, "csv", "names"),
    "refusal": (refusal, "csv", "refused"),
    "checksum": (checksum, "csv", "manifest.json: table_sha256"),
    "true values": (true_values, "csv", "data.csv: who = B: disease"),
}


def test_certain_leaks_are_found() -> None:
    assert power(1, 0, GAMMA, RELEASES, DIFFERENT) > 1 - 1e-6
    assert power(0.95, 0.03, GAMMA, RELEASES, DIFFERENT) > 0.9


@pytest.fixture(scope="module")
def honest() -> Iterator[Callable[[Format], list[tuple[bool, Path]]]]:
    """Give many honest releases in a format: whether each is of T1, and its folder. They are made once."""
    with tempfile.TemporaryDirectory(dir=memory()) as folder:

        @cache
        def made(format: Format) -> list[tuple[bool, Path]]:
            coin, places = Random(), [Path(folder) / f"{format} {number}" for number in range(RELEASES)]
            firsts = [coin.random() < 0.5 for _ in places]
            for first, place in zip(firsts, places, strict=True):
                table = sf.scan(PAIR.table(first), PAIR.policy)
                sf.publish(table, planned(table), place, format=format)
            return list(zip(firsts, places, strict=True))

        yield made


def _planted(releases: list[tuple[bool, Path]], leak: Callable[[Truth, Path], None]) -> Observed:
    """Tell one thing more of each release, in a copy."""
    return Observed(
        [_with(leak, first, folder) for first, folder in releases], np.array([first for first, _ in releases])
    )


def _with(leak: Callable[[Truth, Path], None], first: bool, folder: Path) -> Features:
    with tempfile.TemporaryDirectory(dir=memory()) as copies:
        copy = Path(shutil.copytree(folder, Path(copies) / "copy"))
        try:
            leak(PAIR.truth(first), copy)
        except sf.SfumatoError as problem:
            return refused(problem)
        return observe(copy)


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_leak_is_found(kind: str, honest: Callable[[Format], list[tuple[bool, Path]]]) -> None:
    leak, format, where = PLANTED[kind]
    found = leaks(_planted(honest(format), leak), GAMMA)
    assert tells(found, where), found[:5]


def test_nothing_is_found_where_nothing_is_planted(honest: Callable[[Format], list[tuple[bool, Path]]]) -> None:
    assert not leaks(_planted(honest("csv"), lambda true, folder: None), GAMMA)


def test_a_flag_that_a_test_on_the_secret_decides_is_found() -> None:
    """As order = "auto" set it. Two values, gamma 3, fifteen known rows and one unknown."""
    pair, releases = Pair(policy("gamma = 3", TWO), Fraction(3), SORTED + "a", 15, "b"), 340
    assert power(0.96, 0.01, pair.gamma, releases, DIFFERENT) > 0.998
    found = leaks(observed(Publisher(pair, "parquet", flag), releases), pair.gamma)
    assert tells(found, "manifest.json: data.shuffled"), found[:5]


def test_a_matrix_from_the_table_is_found() -> None:
    """The best retentions for the table's own frequencies: the manifest then claims less (test_listed)."""
    pair = Pair(
        policy(BY_VALUE, THREE, "fine-grain", 'weights = "observed"\nobjective = "records"'), GAMMA, "aabc", 2, "c"
    )
    found = leaks(observed(Publisher(pair, "csv"), RELEASES), GAMMA)
    assert tells(found, "manifest.json: mechanisms.0.sub_tables.0.noise.weights"), found[:5]


def test_a_weaker_mechanism_is_found() -> None:
    """Drawn with gamma 50 where 3/2 is promised."""
    pair = replace(PAIR, policy=policy("gamma = 50", TWO), other="a")
    assert power(50 / 51, 1 / 51, GAMMA, RELEASES, DIFFERENT) > 0.99
    found = leaks(observed(Publisher(pair, "csv"), RELEASES), GAMMA)
    assert tells(found, "data.csv: who = B: disease"), found[:5]
