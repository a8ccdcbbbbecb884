"""Decks for graded subsets: a small public family of sets for each orbit, so that records publish numbers of cards.

An orbit of `graded` is all sets with k_l members of class l. A deck takes B blocks of them, and all turns of the rings
of classes (`values.matrix.graded`), so that every value of a class is on as many cards as before: the chances, and what
they promise, are those of the orbit. The error is, too, if all pairs of values are covered as evenly; that is, with the
L x L matrices K of the angles, and shares that are equal,

    L2 + 1 = sum over the angles of tr K^-1 / m

is least. **Search.** Blocks start scattered; then members of one class are exchanged that lower the sum most, to first
order: the slope in a value's indicator is the inverse transform of -(K^-2 z), z the block's row of transforms. Blocks
are doubled until the loss is small. Nothing depends on anything but the classes: a deck is public.

**Rings.** The turns of two classes together are as many as the least common multiple of their rings. Where that is too
many, rings get some empty places: M_l is the next multiple of a common unit.

**Many values.** Three large classes have too many orbits to look at; those of a smaller copy, in which classes have
the same parts, are taken, with their k_l in proportion, and weighed again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sfumato.claims.claim import BOTH
from sfumato.claims.odds import violations
from sfumato.errors import Infeasible
from sfumato.methods.least_error import MORE_NOISE
from sfumato.methods.staircase import effective
from sfumato.methods.subset.deck import MOST_BLOCKS, REAL_GAIN, exchanged, scattered
from sfumato.methods.subset.graded import Orbit, graded_subsets, reweighed
from sfumato.values.arrays import CodeArray, FloatArray, IntArray
from sfumato.values.matrix.deck import MOST_CARDS
from sfumato.values.matrix.dense import ascends
from sfumato.values.matrix.graded import GradedMatrix
from sfumato.values.matrix.orbits import Complex, shared_angles
from sfumato.values.mechanism import Bound

MOST_CLASSES = 3
SMALL_LOSS = 0.003
"""A deck that costs no more than this is good enough."""

GAP = 1e-3
"""Of the optimum: what is nearer to it needs more orbits, and more cards."""

COPY = 60
"""Values of the smaller copy."""

_MOST_PAIRS = 10_000  # of members of all classes but the largest, beyond which a smaller copy is looked at
_RIDGE = 1e-6
_FEW_TURNS = 1  # times the values: more are taken where there is no room for empty places
_LARGE = 200  # values, beyond which a member more or less does not matter
_FEWEST = 30  # members of a class on a card, or off it, where its ring has empty places: then none has fewer than two


@dataclass(frozen=True, eq=False)
class GradedDeck:
    """Cards for classes of gammas, and what their counts cost at equal shares."""

    matrix: GradedMatrix
    gammas: tuple[float, ...]  # of each class, ascending: never above what was asked for
    asked: int  # how many gammas were in force before classes were joined
    error: float  # L2
    best: float  # that of all sets, of which the cards are some

    @property
    def loss(self) -> float:
        """By how much its error exceeds that of all sets."""
        return self.error / self.best - 1


@lru_cache(maxsize=4)
def make_graded_deck(bounds: tuple[Bound, ...]) -> GradedDeck | None:
    """Return the cards for these bounds, always the same ones; None if one gamma is in force, or no deck is best."""
    asked = effective(np.array([math.inf if b.gamma is None else float(b.gamma) for b in bounds]))
    gamma = best_classes(asked)
    levels, classes = np.unique(gamma, return_inverse=True)
    if levels.size == 1:
        return None
    codes = classes.astype(np.int32)
    found = _orbits(np.bincount(classes).tolist(), levels.tolist())
    matrix = _drawn(codes, found, bounds)
    if matrix is None:
        return None
    shares = np.full(codes.size, 1 / codes.size)
    error = float((matrix.inverse_squared_apply(matrix.apply(shares)) - shares).sum())
    return GradedDeck(matrix, tuple(levels.tolist()), np.unique(asked).size, error, found.error)


# --- classes --------------------------------------------------------------------------------------------------------


def best_classes(gammas: FloatArray, most: int = MOST_CLASSES) -> FloatArray:
    """Return effective gammas, lowered to at most three different ones: those of least error that the search finds.

    Cuts between classes move by steps that are halved, while the error falls; a smaller copy of the values is looked
    at.

    >>> best_classes(np.array([2.0, 2.1, 2.2, 4.0, 4.0, 4.0])).tolist()
    [2.0, 2.1, 2.1, 4.0, 4.0, 4.0]
    """
    levels, position, counts = np.unique(gammas, return_inverse=True, return_counts=True)
    if levels.size <= most:
        return gammas.copy()
    ends = counts.cumsum()
    errors: dict[tuple[int, ...], float] = {}

    def error(cuts: tuple[int, ...]) -> float:
        if cuts not in errors:
            starts = (0, *cuts)
            sizes = np.diff([0, *(int(ends[cut - 1]) for cut in cuts), gammas.size]).tolist()
            errors[cuts] = graded_subsets(_copied(sizes), levels[list(starts)].tolist(), gap=GAP).error
        return errors[cuts]

    cuts = tuple(levels.size * (c + 1) // most for c in range(most - 1))
    step = max(levels.size // 4, 1)
    while step:
        moves = (tuple(c + step * d for c, d in zip(cuts, move, strict=True)) for move in _moves(most - 1))
        allowed = (near for near in moves if near[0] > 0 and near[-1] < levels.size and ascends(near))
        better = next((near for near in allowed if error(near) < error(cuts) * (1 - REAL_GAIN)), None)
        if better is None:
            step //= 2
        else:
            cuts = better
    starts = np.array((0, *cuts))
    return np.asarray(levels[starts[np.searchsorted(starts, position, side="right") - 1]])


def _moves(cuts: int) -> list[tuple[int, ...]]:
    """One cut to either side, or all of them together."""
    single = [tuple(way if c == moved else 0 for c in range(cuts)) for moved in range(cuts) for way in (1, -1)]
    return [*single, (1,) * cuts, (-1,) * cuts]


def _copied(sizes: Sequence[int]) -> list[int]:
    """Return the sizes of classes of a copy of the values that is small enough."""
    total = sum(sizes)
    return [*sizes] if total <= COPY else [max(1, round(size * COPY / total)) for size in sizes]


# --- orbits ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Orbits:
    """What is drawn: rings, and orbits with k_l places of them."""

    error: float  # L2 of all sets of the orbits
    rings: tuple[int, ...]
    members: tuple[tuple[int, ...], ...]  # [orbit][class]
    weight: FloatArray  # c_o
    inside: FloatArray  # hi, [orbit, class]
    outside: FloatArray  # lo


def _orbits(sizes: list[int], gammas: list[float]) -> _Orbits:
    small = _copied(sizes) if math.prod(sorted(sizes)[:-1]) > _MOST_PAIRS else sizes
    optimum = graded_subsets(small, gammas, gap=GAP)
    orbits = optimum.orbits if sum(sizes) <= _LARGE else _alike_joined(optimum.orbits, small)
    parts = np.array([orbit.members for orbit in orbits]) / np.array(small)
    rings = best_rings(sizes, parts)
    members = np.rint(parts * rings).astype(np.int64)
    split = (parts > 0) & (parts < 1)
    members = np.where(split, members.clip(1, np.array(rings) - 1), members)
    inside, outside = (np.array([getattr(orbit, kind) for orbit in orbits]) for kind in ("inside", "outside"))
    inside = np.where(members.any(axis=1, keepdims=True), inside, outside)  # where a card without any gets a name
    weight, error = np.array([orbit.weight for orbit in orbits]), optimum.error
    if sum(sizes) > _LARGE or tuple(sizes) != rings:
        weight, error = reweighed(optimum, sizes, [orbit.level for orbit in orbits], members / rings, weight)
    chosen = [_named(tuple(row), rings, low) for row, low in zip(members.tolist(), outside, strict=True)]
    return _Orbits(error, rings, tuple(chosen), weight, inside, outside)


def _alike_joined(orbits: tuple[Orbit, ...], sizes: Sequence[int]) -> list[Orbit]:
    """Join orbits of a level whose members hardly differ: in large classes there are numbers between."""
    joined: list[Orbit] = []
    for orbit in orbits:
        for place, other in enumerate(joined):
            near = all(
                abs(a - b) <= max(2, size / 50) for a, b, size in zip(orbit.members, other.members, sizes, strict=True)
            )
            if other.level == orbit.level and near:
                total = orbit.weight + other.weight
                between = tuple(
                    (a * orbit.weight + b * other.weight) / total
                    for a, b in zip(orbit.members, other.members, strict=True)
                )
                joined[place] = Orbit(orbit.level, between, total, orbit.inside, orbit.outside)  # type: ignore[arg-type]
                break
        else:
            joined.append(orbit)
    return joined


def _named(members: tuple[int, ...], rings: tuple[int, ...], weights: FloatArray) -> tuple[int, ...]:
    """Return the members; of a row that has none, the classes whose entries are largest: a card holds something."""
    if any(members):
        return members
    return tuple(ring if weight == weights.max() else 0 for ring, weight in zip(rings, weights.tolist(), strict=True))


def best_rings(sizes: Sequence[int], parts: FloatArray) -> tuple[int, ...]:
    """Return the rings of the classes: as they are if their turns are few, else with the fewest empty places.

    parts: of each class on the cards of each orbit. Multiples of a unit are tried, which is 1 for no empty places.
    """
    most = MOST_CARDS // (2 * len(parts))
    for turns in (min(_FEW_TURNS * sum(sizes), most), most):
        if (found := _rings_within(turns, sizes, parts)) is not None:
            return found
    raise Infeasible(
        f"Classes of {', '.join(f'{size:,}' for size in sizes)} values have no graded deck of {MOST_CARDS:,} cards.",
        "Leave graded out, or require the same of more values.",
    )


def _rings_within(most: int, sizes: Sequence[int], parts: FloatArray) -> tuple[int, ...] | None:
    """Return the rings with the fewest empty places whose turns are at most so many; None if there are none."""
    split = (parts > 0) & (parts < 1)
    fewest = np.where(split, np.minimum(parts, 1 - parts), 1).min(axis=0) * sizes
    best: tuple[float, tuple[int, ...]] | None = None
    for unit in range(1, max(sizes) + 1):
        rings = tuple(math.ceil(size / unit) * unit for size in sizes)
        empty = max(ring / size - 1 for ring, size in zip(rings, sizes, strict=True))
        if best is not None and empty >= best[0]:
            continue
        has_room = all(
            ring == size or least >= _FEWEST for ring, size, least in zip(rings, sizes, fewest.tolist(), strict=True)
        )
        turns = max(math.lcm(*(ring for ring, own in zip(rings, row, strict=True) if own)) for row in split.tolist())
        if has_room and turns <= most:
            best = empty, rings
    return None if best is None else best[1]


# --- blocks ---------------------------------------------------------------------------------------------------------


class _Search:
    """Blocks of all orbits, as 0 and 1, and the sums that an exchange of members changes."""

    def __init__(self, orbits: _Orbits, sizes: IntArray) -> None:
        self.orbits = orbits
        rings = np.array(orbits.rings)
        members = np.array(orbits.members)
        self.split = (members > 0) & (members < rings)
        self.period = [math.lcm(*rings[row].tolist()) for row in self.split]
        mean = orbits.outside + (orbits.inside - orbits.outside) * members / rings
        self._mean, self._sizes = mean, sizes
        self._expected = mean @ sizes  # of a card, up to its share of the orbit's weight
        self._gain = (orbits.inside - orbits.outside) / np.sqrt(rings)
        self.angles = shared_angles(orbits.rings)
        self.count = max(int(each.max()) for each in self.angles) + 1
        self.chosen: list[list[FloatArray]] = [[np.zeros((0, ring)) for ring in orbits.rings] for _ in orbits.members]
        self.rows: list[Complex] = [np.zeros((0, self.count, rings.size), dtype=np.complex128) for _ in orbits.members]

    def grow(self, cards: int) -> None:
        """Add scattered blocks until every orbit has so many cards, if its blocks may be so many."""
        for o, members in enumerate(self.orbits.members):
            have = len(self.rows[o])
            end = min(max(1, math.ceil(cards / self.period[o])), MOST_BLOCKS) if self.split[o].any() else 1
            if end <= have:
                continue
            for a, (ring, k) in enumerate(zip(self.orbits.rings, members, strict=True)):
                first = (o * 8 + a) * MOST_BLOCKS
                new = (
                    scattered(ring, k, first + have, first + end) if self.split[o, a] else np.zeros((end - have, ring))
                )
                self.chosen[o][a] = np.vstack((self.chosen[o][a], new))
            fresh = np.stack([self._row(o, b) for b in range(have, end)])
            self.rows[o] = np.concatenate((self.rows[o], fresh))
        self._sum_up()

    @property
    def cards(self) -> int:
        return sum(len(rows) * period for rows, period in zip(self.rows, self.period, strict=True))

    def _row(self, o: int, b: int) -> Complex:
        """z: the transforms of a block, angle by angle; 0 for angle 0, which no exchange changes."""
        row = np.zeros((self.count, len(self.orbits.rings)), dtype=np.complex128)
        for a in np.flatnonzero(self.split[o]).tolist():
            row[self.angles[a], a] = self._gain[o, a] * np.fft.rfft(self.chosen[o][a][b])
        row[0] = 0
        return row

    def _scale(self, o: int) -> float:
        """T/D of a card whose entries are c_o/(B T) times those of the row."""
        return float(self.orbits.weight[o] / (len(self.rows[o]) * self._expected[o]))

    def _sum_up(self) -> None:
        rings = len(self.orbits.rings)
        self.information: Complex = np.zeros((self.count, rings, rings), dtype=np.complex128)
        for o, rows in enumerate(self.rows):
            self.information += self._scale(o) * np.einsum("bfi,bfj->fij", rows, rows.conj())
        mean = float(np.einsum("fii->", self.information).real) / sum(each.size for each in self.angles)
        present = np.zeros((self.count, rings), dtype=np.bool_)
        self.weight: FloatArray = np.full(self.count, 2.0)
        self.weight[0] = 0.0
        for a, (angles, ring) in enumerate(zip(self.angles, self.orbits.rings, strict=True)):
            present[angles, a] = True
            if ring % 2 == 0:
                self.weight[angles[-1]] = 1.0
        present[0] = False
        self.present = present
        self.information[*np.nonzero(~present), np.nonzero(~present)[1]] = mean
        self.information += np.eye(rings) * (mean * _RIDGE)
        self.traces = self._traces(np.arange(self.count))

    def _traces(self, angles: IntArray, information: Complex | None = None) -> FloatArray:
        """Return the trace of K^-1 at some angles, of the classes that have the angle."""
        inverse = np.linalg.inv(self.information[angles] if information is None else information)
        own = np.where(self.present[angles], np.einsum("fii->fi", inverse).real, 0.0)
        return np.asarray(own.sum(axis=1) * self.weight[angles])

    @property
    def error(self) -> float:
        """L2, beside which the angle 0 adds what no blocks change."""
        root = np.sqrt(np.array(self.orbits.rings, dtype=np.float64))
        z = self._mean * root
        between = (z * (self.orbits.weight / self._expected)[:, None]).T @ z
        total = float(self.traces.sum()) + float(np.trace(np.linalg.inv(between)))
        return total / sum(self.orbits.rings) - 1

    def improve(self, tries: int) -> None:
        """Exchange members of one class of one block after the other, the newest first, while it helps."""
        places = [
            (o, b, a)
            for o, rows in enumerate(self.rows)
            for b in reversed(range(len(rows)))
            for a in np.flatnonzero(self.split[o]).tolist()
        ]
        most = {place: max(1, min(self._sides(*place)) // 8) for place in places}
        tries *= len(places)
        failed = turn = 0
        while tries > 0 and failed < len(places):
            place = places[turn % len(places)]
            made, tried = self._exchange(*place, most[place])
            most[place] = max(made, 1)
            failed = 0 if made else failed + 1
            tries -= tried
            turn += 1

    def _sides(self, o: int, b: int, a: int) -> tuple[int, int]:
        members = int(self.chosen[o][a][b].sum())
        return members, self.orbits.rings[a] - members

    def _exchange(self, o: int, b: int, a: int, at_most: int) -> tuple[int, int]:
        """Exchange as many members of a class of a block as help; return how many, and how many tries it took."""
        angles, ring, scale = self.angles[a], self.orbits.rings[a], self._scale(o)
        row, chosen = self.rows[o][b][angles], self.chosen[o][a][b]
        rest = self.information[angles] - scale * row[:, :, None] * row[:, None, :].conj()
        inverse = np.linalg.inv(self.information[angles])
        slope = -np.einsum("fi,fij,fj->f", inverse[:, a, :], inverse, row)
        slope[0] = 0
        leave, come = exchanged(np.fft.irfft(slope, ring), chosen != 0, at_most)
        before, tried = float(self.traces[angles].sum()), 0
        while at_most:
            tried += 1
            changed = chosen.copy()
            changed[leave[:at_most]], changed[come[:at_most]] = 0.0, 1.0
            new = row.copy()
            new[:, a] = self._gain[o, a] * np.fft.rfft(changed)
            new[0] = 0
            information = rest + scale * new[:, :, None] * new[:, None, :].conj()
            traces = self._traces(angles, information)
            if float(traces.sum()) < before * (1 - REAL_GAIN):
                self.chosen[o][a][b], self.rows[o][b, angles] = changed, new
                self.information[angles], self.traces[angles] = information, traces
                return at_most, tried
            at_most //= 2
        return 0, tried


def _searched(orbits: _Orbits, sizes: IntArray) -> list[list[FloatArray]]:
    """Return blocks, [orbit][class], as 0 and 1: doubled, and improved, until their loss is small."""
    m = int(sizes.sum())
    search, cards = _Search(orbits, sizes), m if m <= _LARGE else min(4 * m, MOST_CARDS // 2)
    found: list[tuple[float, list[list[FloatArray]]]] = []
    while cards <= MOST_CARDS:
        before = search.cards
        search.grow(cards)
        cards *= 2
        if search.cards == before:
            continue
        if found and search.cards > max(MOST_CARDS // 8, 32 * m):
            break
        search.improve(min(max(40_000 // m, 3), 20))
        found.append((search.error, [[blocks.copy() for blocks in classes] for classes in search.chosen]))
        if search.error <= orbits.error * (1 + SMALL_LOSS):
            break
    return min(found, key=lambda pair: pair[0])[1]


def _drawn(classes: CodeArray, orbits: _Orbits, bounds: Sequence[Bound]) -> GradedMatrix | None:
    """Return the integers that keep every bound exactly: with the least noise that passes the check.

    None if a card would hold no value: the best mechanism for so few values is no deck.
    """
    sizes = np.bincount(classes)
    # a class that is on every card tells as little as one that is on none, and leaves no card for words that are left
    listed = [any(members[a] < ring for members in orbits.members) for a, ring in enumerate(orbits.rings)]
    blocks = [
        tuple(
            _places(chosen, k) if k < ring else None if is_listed else np.empty((len(chosen), 0), dtype=np.int32)
            for chosen, k, ring, is_listed in zip(of_orbit, members, orbits.rings, listed, strict=True)
        )
        for of_orbit, members in zip(_searched(orbits, sizes), orbits.members, strict=True)
    ]
    if any(all(each is not None and not each.size for each in of_classes) for of_classes in blocks):
        return None
    weights = []
    for o, of_classes in enumerate(blocks):
        number = max((len(each) for each in of_classes if each is not None), default=1)
        split = [
            ring for ring, each in zip(orbits.rings, of_classes, strict=True) if each is not None and each.shape[1]
        ]
        share = orbits.weight[o] / (number * math.lcm(*split))
        whole = np.array([k == ring for k, ring in zip(orbits.members[o], orbits.rings, strict=True)])
        none = np.array([not k for k in orbits.members[o]])
        low = np.where(whole & (orbits.inside[o] != orbits.outside[o]), orbits.inside[o], orbits.outside[o])
        weights.append((share * np.where(none, orbits.outside[o], orbits.inside[o]), share * low))
    for noise in (0.0, *(2.0**-bits for bits in MORE_NOISE)):
        matrix = GradedMatrix.from_floats(classes, orbits.rings, blocks, weights, noise)
        if next(violations(matrix, bounds, BOTH), None) is None:
            return matrix
    raise Infeasible(
        "A gamma is so close to 1 that 64-bit sampling cannot keep it.",
        "Ask for a gamma that is larger by a millionth.",
    )


def _places(chosen: FloatArray, k: int) -> npt.NDArray[np.int32]:
    return np.nonzero(chosen)[1].reshape(len(chosen), k).astype(np.int32)
