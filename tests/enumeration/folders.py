"""What the real program publishes of a tiny table, and how it is told from chance."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import lcm
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import chi2, ncx2

import sfumato as sf
from sfumato.publisher.policy import Policy
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy
from tests.statistical.whole_release.observing import leaves
from tests.statistical.whole_release.publishing import memory

DRAWN = re.compile(r"release_id|created|sha256|groups\.lines|parts")
"""Leaves of a manifest that are names, dates and checksums, or that the data tell besides."""

ALARM = 1e-6
"""The chance of a false alarm of each test against chance."""


def table(values: Sequence[Any], **columns: Sequence[Any]) -> pa.Table:
    """Return a table of records that `who` tells apart."""
    n = len(values)
    return pa.table({"who": [f"w{k:02}" for k in range(n)], **columns, "disease": list(values)})


def policy(
    requirement: str,
    domain: Sequence[Any] | None,
    method: str,
    options: str = "",
    known: Sequence[str] = (),
    ordered: bool = False,
) -> Policy:
    """Return a policy for such a table; `known` are further columns, `ordered` says that the domain is in order."""
    declared = (f"; domain = {list(domain)}" if domain else "") + ("; ordered = true" if ordered else "")
    roles = {"who": "other", **dict.fromkeys(known, "other"), "disease": f"sensitive{declared}"}
    return make_policy(roles, requirement, method, options=options)


def planned(content: pa.Table, policy: Policy, key: SecretKey | None = None) -> Any:
    """Count and plan as a publisher would."""
    return sf.plan(sf.profile(sf.scan(content, policy)), policy.method, policy.requirement, key=key)


def published(content: pa.Table, policy: Policy, plan: Any, key: SecretKey | None = None) -> tuple[Any, str, Any]:
    """Publish; return the manifest, the README, and the rows (and the values of groups) as lists."""
    with tempfile.TemporaryDirectory(dir=memory()) as folder:
        release = sf.publish(sf.scan(content, policy), plan, Path(folder) / "r", key=key or SecretKey.from_seed(1))
        manifest = json.loads((release.folder / "manifest.json").read_text())
        readme = (release.folder / "README.md").read_text()
        tables = [release.to_arrow().to_pylist()]
        if manifest["groups"]:
            tables.append(release.groups_to_arrow().to_pylist())
        return manifest, readme, tables


def stated(content: pa.Table, policy: Policy) -> Hashable:
    """Return all that a release of the table says besides its data: manifest and README without names and checksums."""
    try:
        manifest, readme, _ = published(content, policy, planned(content, policy, SecretKey.from_seed(1)))
    except sf.SfumatoError as problem:
        return f"{type(problem).__name__}: {problem}"
    said = tuple((path, leaf) for path, leaf in leaves(manifest) if not DRAWN.search(path))
    return said, re.sub(r"[0-9a-f]{16,}|\d{4}-\d\d-\d\d", "#", readme)


def columns(manifest: Mapping[str, Any], mechanism: int = 0, sub_table: int = 0) -> list[list[Fraction]]:
    """Return P[y][x] of the values of a sub-table, as the manifest tells it: integers over 2^64."""
    part = manifest["mechanisms"][mechanism]["sub_tables"][sub_table]
    if "columns" in part:
        return [[Fraction(int(entry), 2**64) for entry in row] for row in zip(*part["columns"], strict=True)]
    if "blocks" in part:
        return _by_classes(**part["blocks"])
    if "deck" in part:
        return _of_cards(**part["deck"])
    if "graded" in part:
        return _of_graded(**part["graded"])
    if "windows" in part:
        return [row for _, row in _of_windows(**part["windows"])]
    noise = part["noise"]
    size, weights = noise["size"], [int(weight) for weight in noise["weights"]]
    weights = weights * size if len(weights) == 1 else weights
    stays = [2**64 - (size - 1) * weight for weight in weights]
    return [[Fraction(stays[x] if x == y else weights[x], 2**64) for x in range(size)] for y in range(size)]


def _by_classes(classes: Sequence[int], weights: Sequence[Sequence[str]]) -> list[list[Fraction]]:
    """A value of class a becomes each value of class b with weights[b][a]; otherwise it stays."""
    spread = [[Fraction(int(weights[b][a]), 2**64) for a in classes] for b in classes]
    stays = [1 - sum(row[x] for row in spread) for x in range(len(classes))]
    return [[p + (stays[x] if x == y else 0) for x, p in enumerate(row)] for y, row in enumerate(spread)]


def _of_cards(values: int, blocks: Sequence[Sequence[int]], inside: str, outside: str) -> list[list[Fraction]]:
    """Card b m + s holds block b shifted by s; words that are left go to the first cards without the value."""
    p = [[Fraction(0)] * values for _ in range(len(blocks) * values)]
    for x in range(values):
        held = {(b, (x - d) % values) for b, block in enumerate(blocks) for d in block}
        lacking = [(b, (x - d) % values) for b, block in enumerate(blocks) for d in range(values) if d not in block]
        left = 2**64 - len(held) * int(inside) - len(lacking) * int(outside)
        for b, s in held:
            p[b * values + s][x] = Fraction(int(inside), 2**64)
        for k, (b, s) in enumerate(lacking):
            p[b * values + s][x] = Fraction(int(outside) + (k < left), 2**64)
    return p


def graded_cards(
    classes: Sequence[int], rings: Sequence[int], orbits: Sequence[Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any], int, int, list[int]]]:
    """Return the orbit, the block, the turn and the values of every card of a graded deck."""
    members = [[code for code, own in enumerate(classes) if own == a] for a in range(len(rings))]
    found = []
    for orbit in orbits:
        turned = [ring for ring, blocks in zip(rings, orbit["blocks"], strict=True) if blocks and blocks[0]]
        number = max((len(blocks) for blocks in orbit["blocks"] if blocks is not None), default=1)
        for block, turn in product(range(number), range(lcm(*turned))):
            held = []
            for values, ring, blocks in zip(members, rings, orbit["blocks"], strict=True):
                places = range(ring) if blocks is None else [(d + turn) % ring for d in blocks[block]]
                held += [values[place] for place in places if place < len(values)]
            found.append((orbit, block, turn, sorted(held)))
    return found


def _of_graded(
    classes: Sequence[int], rings: Sequence[int], orbits: Sequence[Mapping[str, Any]]
) -> list[list[Fraction]]:
    """A card has inside or outside of its orbit and the value's class, and the first that lack it a unit more.

    First: by orbit, block, the place of the block that the value would be on, and turn.
    """
    cards = graded_cards(classes, rings, orbits)
    found = [[Fraction(0)] * len(classes) for _ in cards]
    for x, a in enumerate(classes):
        place = list(classes[:x]).count(a)
        words = [int(orbit["inside" if x in held else "outside"][a]) for orbit, _, _, held in cards]
        lacking = []
        for y, (orbit, block, turn, held) in enumerate(cards):
            is_split = bool(orbit["blocks"][a] and orbit["blocks"][a][0])
            if x not in held:
                own = next(number for number, each in enumerate(orbits) if each is orbit)
                lacking.append((own, block, (place - turn) % rings[a] if is_split else 0, turn, y))
        for *_, y in sorted(lacking)[: 2**64 - sum(words)]:
            words[y] += 1
        for y, count in enumerate(words):
            found[y][x] = Fraction(count, 2**64)
    return found


def _of_windows(
    order: Sequence[int], width: int, blocks: Sequence[Sequence[int]], inside: Sequence[str], outside: Sequence[str]
) -> list[tuple[list[int], list[Fraction]]]:
    """Return each card with the chances of its sets: of all windows, and of all shifts of blocks, that hold the same.

    The first outputs that lack a value get a unit more of it; cards are in the order of the places that they hold.
    """
    m = len(order)
    sets = [(0, [p for p in range(first, first + width) if 0 <= p < m]) for first in range(1 - width, m)]
    sets += [(1, sorted((d + s) % m for d in block)) for block in blocks for s in range(m)]
    words = [[int((inside if p in held else outside)[part]) for p in range(m)] for part, held in sets]
    for p in range(m):
        lacking = [y for y, (_, held) in enumerate(sets) if p not in held]
        for y in lacking[: 2**64 - sum(row[p] for row in words)]:
            words[y][p] += 1
    cards: dict[tuple[int, ...], list[int]] = {}
    for (_, held), row in zip(sets, words, strict=True):
        cards[tuple(held)] = [a + b for a, b in zip(cards.get(tuple(held), [0] * m), row, strict=True)]
    place = {code: p for p, code in enumerate(order)}
    return [
        (sorted(order[p] for p in held), [Fraction(cards[held][place[code]], 2**64) for code in range(m)])
        for held in sorted(cards, key=lambda held: [p not in held for p in range(m)])
    ]


def shown(manifest: Mapping[str, Any]) -> list[Any]:
    """Return what a record shows for each row of the matrix: a value, the values of a card, or its number."""
    mechanism = manifest["mechanisms"][0]
    values, part = mechanism["domain"][0]["values"], mechanism["sub_tables"][0]
    form = mechanism.get("form", "value")
    if form == "value":
        return list(values)
    if form == "card":
        return [f"card {number + 1}" for number in range(len(columns(manifest)))]
    if "cards" in part:
        return ["|".join(values[code] for code in card) for card in part["cards"]]
    if "graded" in part:
        return ["|".join(values[code] for code in held) for *_, held in graded_cards(**part["graded"])]
    if "windows" in part:
        return ["|".join(values[code] for code in held) for held, _ in _of_windows(**part["windows"])]
    m, blocks = part["deck"]["values"], part["deck"]["blocks"]
    return ["|".join(values[c] for c in sorted((d + s) % m for d in block)) for block in blocks for s in range(m)]


def chi_square(expected: np.ndarray[Any, Any], counted: np.ndarray[Any, Any], freedom: int) -> float:
    """Return the p-value of counts against their expectations."""
    seen = expected > 0
    assert not counted[~seen].any()
    return float(chi2.sf((((counted - expected) ** 2)[seen] / expected[seen]).sum(), freedom))


def chance_to_find(expected: np.ndarray[Any, Any], other: np.ndarray[Any, Any], freedom: int) -> float:
    """Return the power of the chi-square test at ALARM against other expectations."""
    seen = expected > 0
    distance = (((other - expected) ** 2)[seen] / expected[seen]).sum()
    return float(ncx2.sf(chi2.isf(ALARM, freedom), freedom, distance))
