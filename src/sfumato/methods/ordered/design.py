"""Mechanisms for ordered values 0, ..., m-1, and their errors in distribution function and mean; MATRICES.md 6 and 8.

**Geometric** (6.2): neighbours' ratio is at most 1/alpha, and alpha^-d of values d steps apart.

    P[y,x] = (1-alpha)/(1+alpha) alpha^|x-y|, in the first and the last row divided by 1-alpha

    P^-1 is tridiagonal: (1+alpha^2)/(1-alpha)^2 and -alpha/(1-alpha)^2 in a column, in the first and the last
    column 1/(1-alpha) and -alpha/(1-alpha)

**Plateau** (6.3): the same, but no ratio above gamma: K = max(alpha^|d|, 1/gamma), c = K^-1 1, P = diag(c) K.
alpha = 0 is uniform, alpha = gamma^(-1/(m-1)) geometric.

**Ranges** (6.4): all windows of w neighbours, cut at the ends, m+w-1 of them. Every value lies in w, so that a window
with the truth may be gamma times as likely as one without:

    P[window, x] = (gamma if x in window else 1)/(gamma w + m - 1)

With a public coin, a share tau of the records publishes windows and the others one of all sets of k values (k = 1:
a value). At equal counts n0 the information J = sum_y P_y P_y^T/(P_y.n0) of the two parts adds up, and that of sets is
m/moment in all directions but (1, ..., 1), where both have m: the best k for counts is the best beside any windows.
With the eigenvectors v_j and eigenvalues mu_j of the windows' J, every error is a sum over j of
h_j/(tau mu_j + (1-tau) m/moment), convex in tau.

**Errors** (8): A = J^-1 P^T D^-1 with D = diag(P n0) is unbiased for every n0 > 0, and for a table with shares n

    N Cov(n_hat/N | table) = A diag(P n) A^T - diag(n)

from which N Var F(c), the mean over the m-1 thresholds c, and N Var(mean), the range scaled to one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.methods.subset.deck import MOST_BLOCKS, SMALL_LOSS, Deck, deck_power, make_deck
from sfumato.methods.subset.design import Subset, best_subset
from sfumato.values.arrays import BoolArray, FloatArray, IntArray
from sfumato.values.matrix.dense import MOST_ENTRIES
from sfumato.values.matrix.windows import cards_held, windows_held

_GOLDEN = (math.sqrt(5) - 1) / 2
_ALL_WIDTHS = 40  # up to so many values all widths are tried
_SCALED_FROM = 400  # the widths of larger domains are guessed by those of smaller ones


@dataclass(frozen=True)
class OrderedErrors:
    """What a mechanism costs those who count up to a threshold, and those who average."""

    distribution: float  # N times the mean of Var F(c | table)
    mean: float  # N Var(mean | table), the range scaled to one


@dataclass(frozen=True, eq=False)
class SetMechanism:
    """A mechanism that publishes sets of values."""

    chances: FloatArray  # P[output, x]
    held: BoolArray  # [output, x]: whether the output, a set, holds x

    def members(self, output: int) -> IntArray:
        """Return the values that an output holds."""
        return np.flatnonzero(self.held[output]).astype(np.int64)


@dataclass(frozen=True)
class Ranges:
    """A share of windows of one width, the rest sets of one size: the best found for the distribution function."""

    gamma: float
    values: int  # m
    width: int  # w
    share: float  # tau
    members: int  # k; 1: single values
    errors: OrderedErrors  # at equal counts, with all sets of k values

    @cached_property
    def deck(self) -> Deck:
        """Return the sets as cards of a deck, of as many blocks as a dense matrix has room for: m outputs for each."""
        outputs = MOST_ENTRIES // self.values - (self.values + self.width - 1)
        return make_deck(self.values, self.members, min(MOST_BLOCKS, max(1, outputs // self.values)))

    def information(self) -> FloatArray:
        """Return J at equal counts of the windows and the deck."""
        of_windows = _information_of_windows(self.values, self.width, self.gamma)
        return self.share * of_windows + (1 - self.share) * _information_of_cards(self.deck, self.gamma)

    def mechanism(self) -> SetMechanism:
        """Return the mechanism of the windows and the deck."""
        m, gamma = self.values, self.gamma
        return mixed([windows(m, self.width, gamma), cards(self.deck, gamma)], [self.share, 1 - self.share])


# --- matrices that publish a value ----------------------------------------------------------------------------------


def geometric(m: int, alpha: float) -> FloatArray:
    """Return the truncated geometric matrix P[y, x], 0 <= alpha < 1.

    >>> geometric(3, 0.5).round(3).tolist()
    [[0.667, 0.333, 0.167], [0.167, 0.333, 0.167], [0.167, 0.333, 0.667]]
    """
    rows = np.full(m, (1 - alpha) / (1 + alpha))
    rows[[0, -1]] = 1 / (1 + alpha)
    return np.asarray(rows[:, None] * _powers(m, alpha))


def plateau(m: int, alpha: float, gamma: float) -> FloatArray:
    """Return the plateau matrix P[y, x], whose ratios are at most min(alpha^-d, gamma).

    >>> plateau(3, 0.5, 3.0).round(3).tolist()
    [[0.6, 0.3, 0.2], [0.2, 0.4, 0.2], [0.2, 0.3, 0.6]]
    """
    kernel = np.maximum(_powers(m, alpha), 1 / gamma)
    rows = np.linalg.solve(kernel, np.ones(m))
    if not rows.min() > 0:
        raise ValueError(f"there is no plateau matrix for {m} values, alpha = {alpha} and gamma = {gamma}")
    return np.asarray(rows[:, None] * kernel)


def best_plateau(m: int, gamma: float) -> tuple[float, OrderedErrors]:
    """Return the alpha of the plateau with the least error of the distribution function, and its errors."""
    largest = gamma ** (-1 / (m - 1))
    kinks = gamma ** (-1 / np.arange(1.0, m))  # where one more diagonal rises above 1/gamma
    alphas = np.unique(np.concatenate((np.linspace(0, largest, 20), kinks[:20]))).clip(0, largest)

    def error(alpha: float) -> float:
        return errors_of(plateau(m, alpha, gamma)).distribution

    best = int(np.argmin([error(float(alpha)) for alpha in alphas]))
    ends = float(alphas[max(best - 1, 0)]), float(alphas[min(best + 1, alphas.size - 1)])
    alpha = min((_least(error, *ends, steps=20), float(alphas[best])), key=error)
    return alpha, errors_of(plateau(m, alpha, gamma))


def _powers(m: int, alpha: float) -> FloatArray:
    """alpha^|x-y|."""
    steps = np.abs(np.arange(m)[:, None] - np.arange(m))
    return np.asarray((alpha ** np.arange(float(m)))[steps])


# --- mechanisms that publish sets -----------------------------------------------------------------------------------


def windows(m: int, width: int, gamma: float) -> SetMechanism:
    """Return all windows of a width, cut at the ends; those of width 1 are single values: uniform.

    >>> windows(3, 2, 4.0).held.astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1], [0, 0, 1]]
    """
    if not 1 <= width <= m:
        raise ValueError(f"a window has 1 to {m} values, not {width}")
    return _favouring(windows_held(m, width), gamma)


def cards(deck: Deck, gamma: float) -> SetMechanism:
    """Return the cards of a deck, in the order of their numbers.

    F(c) leans on the lowest frequencies, where the power of a deck may lie some percent below its mean: alone, a deck
    of little loss for counts can cost more than that for F. Beside windows, which are strong there, it does not.
    """
    return _favouring(cards_held(deck.values, deck.blocks), gamma)


def _favouring(held: BoolArray, gamma: float) -> SetMechanism:
    """Return the mechanism whose sets are gamma times as likely with the truth, for sets that hold all values alike."""
    weights = np.where(held, 1.0, 1 / gamma)
    return SetMechanism(weights / weights[:, :1].sum(), held)


def mixed(parts: Sequence[SetMechanism], shares: Sequence[float]) -> SetMechanism:
    """Return the mechanism that first draws which part to use, by a public coin; a part without share is left out."""
    used = [(part, share) for part, share in zip(parts, shares, strict=True) if share > 0]
    chances = np.concatenate([share * part.chances for part, share in used])
    return SetMechanism(chances, np.concatenate([part.held for part, _ in used]))


# --- errors ---------------------------------------------------------------------------------------------------------


def estimator(chances: FloatArray, assumed: FloatArray | None = None) -> FloatArray:
    """Return A[x, output] with A P = I: n_hat = A o is unbiased whatever the assumed shares, best if they are right."""
    if len(chances) == chances.shape[1]:
        return np.asarray(np.linalg.inv(chances))  # there is no other
    n0 = np.full(chances.shape[1], 1 / chances.shape[1]) if assumed is None else assumed
    scaled = chances / (chances @ n0)[:, None]
    return np.asarray(np.linalg.solve(chances.T @ scaled, scaled.T))


def errors_of(chances: FloatArray, shares: FloatArray | None = None) -> OrderedErrors:
    """Return the errors of any P[output, x] for a table's shares, equal ones if there are none.

    >>> uniform = errors_of(windows(16, 1, 4.0).chances)
    >>> round(uniform.distribution, 2), round(uniform.mean, 2)
    (6.93, 3.69)
    """
    m = chances.shape[1]
    n = np.full(m, 1 / m) if shares is None else shares
    a = estimator(chances)
    published = chances @ n
    up_to = np.cumsum(a, axis=0)[:-1]  # what each output adds to F(c)
    score = np.arange(m) / (m - 1)
    distribution = ((up_to**2 @ published) - np.cumsum(n)[:-1]).mean()
    return OrderedErrors(float(distribution), float((score @ a) ** 2 @ published - score**2 @ n))


def errors_by_information(information: FloatArray) -> OrderedErrors:
    """Return the errors at equal counts of any mechanism with this J: Cov = J^-1 - diag(n)."""
    m = len(information)
    inverse, score = np.linalg.inv(information), np.arange(m) / (m - 1)
    up_to = np.cumsum(np.cumsum(inverse, axis=0), axis=1).diagonal()[:-1]
    return OrderedErrors(
        float((up_to - np.arange(1, m) / m).mean()), float(score @ inverse @ score - score @ score / m)
    )


def errors_of_sets(sets: Subset, shares: FloatArray | None = None) -> OrderedErrors:
    """Return the errors of all sets of a size, which a deck stands for, from their covariances.

    >>> round(errors_of_sets(best_subset(4.0, 16)).distribution, 2)
    4.55
    """
    m = sets.values
    n = np.full(m, 1 / m) if shares is None else shares
    covariance = sets.covariance(n[:, None], n, 1.0)
    np.fill_diagonal(covariance, sets.variance(n))
    score = np.arange(m) / (m - 1)
    up_to = covariance.cumsum(axis=0).cumsum(axis=1).diagonal()[:-1]
    return OrderedErrors(float(up_to.mean()), float(score @ covariance @ score))


# --- the best ranges ------------------------------------------------------------------------------------------------


def best_ranges(m: int, gamma: float, sets: bool = False) -> Ranges:
    """Return the width and share of windows with the least error of the distribution function, at equal counts.

    The other records publish single values, or `sets` of the size that is best for counts.

    >>> found = best_ranges(16, 4.0)
    >>> found.width, round(found.share, 2), round(found.errors.distribution, 2)
    (4, 0.65, 3.01)
    """
    others = best_subset(gamma, m) if sets else Subset(gamma, m, 1)
    tried: dict[int, tuple[float, float, _Spectrum]] = {}

    def error(width: int) -> float:
        if width not in tried:
            spectrum = _Spectrum.of_windows(m, width, others)
            share = _least(spectrum.distribution, 0.0, 1.0, steps=40)
            tried[width] = (spectrum.distribution(share), share, spectrum)
        return tried[width][0]

    width = _best_width(error, _first_widths(m, gamma, sets), m)
    _, share, spectrum = tried[width]
    if width == others.members == 1:
        share = 1.0  # both parts are single values
    errors = OrderedErrors(spectrum.distribution(share), spectrum.mean(share))
    return Ranges(gamma, m, width, share, others.members, errors)


def best_mixture(m: int, gamma: float) -> Ranges:
    """Return the best windows with sets, whose k is best for counts; with single values where these are better.

    With all sets of k values they never are. A deck of few blocks, as very large domains have, may lose more than k
    gains.

    >>> found = best_mixture(32, 4.0)
    >>> found.members, found.width, round(found.errors.distribution, 2)
    (6, 9, 3.73)
    """
    sets = best_ranges(m, gamma, sets=True)
    if sets.deck.loss <= SMALL_LOSS:
        return sets
    return min((best_ranges(m, gamma), sets), key=lambda found: errors_by_information(found.information()).distribution)


def _first_widths(m: int, gamma: float, sets: bool) -> list[int]:
    """Return widths to start with: all of a small domain; else of the order of m/(gamma+1); else what scaling says."""
    if m <= _ALL_WIDTHS:
        return list(range(1, m + 1))
    if m <= _SCALED_FROM:
        found = m / (gamma + 1) * np.geomspace(0.25, 4, 9)
    else:
        small, double = (best_ranges(part, gamma, sets).width for part in (_SCALED_FROM // 4, _SCALED_FROM // 2))
        found = np.array([double * (double / small) ** math.log2(m / (_SCALED_FROM // 2))])
    return sorted({int(width) for width in found.round().clip(2, m)})


def _best_width(error: Callable[[int], float], widths: list[int], m: int) -> int:
    """Return the best of these widths and of those that lie between the best and its neighbours."""
    best = min(widths, key=error)
    step = max(1, best // 4) if len(widths) < m else 0
    while step > best // 20:  # the valley is flat
        best = min((width for width in (best, best - step, best + step) if 1 <= width <= m), key=error)
        step //= 2
    return best


@dataclass(frozen=True, eq=False)
class _Spectrum:
    """The eigenvalues of the windows' information, and how much of each error lies along each eigenvector."""

    eigenvalues: FloatArray  # mu, but for (1, ..., 1)
    of_distribution: FloatArray  # h
    of_mean: FloatArray
    rest: OrderedErrors  # of the direction (1, ..., 1), less what the table itself has
    of_others: float  # m/moment

    @classmethod
    def of_windows(cls, m: int, width: int, others: Subset) -> _Spectrum:
        eigenvalues, vectors = _eigenvectors(_information_of_windows(m, width, others.gamma))
        score, even = np.arange(m) / (m - 1), np.full(m, 1 / m)
        thresholds = m - 1
        rest = OrderedErrors(
            float((np.cumsum(even)[:-1] ** 2 - np.cumsum(even)[:-1]).mean()),
            float((score @ even) ** 2 - score**2 @ even),
        )
        of_distribution = (np.cumsum(vectors, axis=0)[:-1] ** 2).sum(axis=0) / thresholds
        return cls(eigenvalues, of_distribution, (score @ vectors) ** 2, rest, m / others.moment)

    def distribution(self, share: float) -> float:
        return float((self.of_distribution / self._information(share)).sum()) + self.rest.distribution

    def mean(self, share: float) -> float:
        return float((self.of_mean / self._information(share)).sum()) + self.rest.mean

    def _information(self, share: float) -> FloatArray:
        return np.maximum(share * self.eigenvalues + (1 - share) * self.of_others, 1e-300)


def _information_of_windows(m: int, width: int, gamma: float) -> FloatArray:
    """J = sum_W P_W P_W^T/(P_W.n0) at equal counts, in O(m^2): sums over windows that hold one or two values."""
    first = np.arange(1 - width, m)
    size = np.minimum(first + width, m) - np.maximum(first, 0)
    low, excess = 1 / gamma, 1 - 1 / gamma  # P_W is in proportion to low + excess 1_W
    weights = m / ((width + (m - 1) * low) * (m * low + excess * size))
    up_to = np.concatenate((np.zeros(width), np.cumsum(weights)))  # [i]: of windows that start before i + 1 - 2 width
    x = np.arange(m)
    smaller, larger = np.minimum(x[:, None], x), np.maximum(x[:, None], x)
    both = up_to[smaller + 2 * width - 1] - up_to[np.minimum(larger, smaller + width) + width - 1]
    one = both.diagonal()
    return np.asarray(low**2 * weights.sum() + low * excess * (one[:, None] + one) + excess**2 * both)


def _information_of_cards(deck: Deck, gamma: float) -> FloatArray:
    """J of a deck at equal counts, in O(m^2): how many cards hold two values depends on their distance alone."""
    m, low, excess = deck.values, 1 / gamma, 1 - 1 / gamma
    power = np.concatenate(([len(deck.blocks) * deck.members**2], deck_power(m, deck.blocks)))
    x = np.arange(m)
    both = np.fft.ifft(power).real[(x[:, None] - x) % m]
    squares = low * (low * deck.cards + 2 * excess * len(deck.blocks) * deck.members) + excess**2 * both
    return np.asarray(squares * m / len(deck.blocks) / (deck.members + (m - deck.members) * low) ** 2)


def _eigenvectors(information: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues and eigenvectors but that of (1, ..., 1), of a matrix that is the same from both ends.

    Its eigenvectors are even or odd: two problems of half the size. No eigenvalue is above m, so that (1, ..., 1)
    is the last of the even ones once m is added to its own.
    """
    m = len(information)
    half, middle = m // 2, m % 2
    corner, opposite = information[:half, :half], information[:half, ::-1][:, :half]
    even = np.empty((half + middle, half + middle))
    even[:half, :half] = corner + opposite
    if middle:
        even[half, :half] = even[:half, half] = math.sqrt(2) * information[half, :half]
        even[half, half] = information[half, half]
    ones = np.full(half + middle, math.sqrt(2))
    ones[half:] = 1.0
    even_values, even_vectors = np.linalg.eigh(even + np.outer(ones, ones))
    odd_values, odd_vectors = np.linalg.eigh(corner - opposite)
    vectors = np.zeros((m, m - 1))
    vectors[:half, : half + middle - 1] = even_vectors[:half, :-1] / math.sqrt(2)
    vectors[half : half + middle, : half + middle - 1] = even_vectors[half:, :-1]
    vectors[:half, half + middle - 1 :] = odd_vectors / math.sqrt(2)
    vectors[half + middle :, : half + middle - 1] = vectors[:half, : half + middle - 1][::-1]
    vectors[half + middle :, half + middle - 1 :] = -vectors[:half, half + middle - 1 :][::-1]
    return np.concatenate((even_values[:-1], odd_values)), vectors


def _least(function: Callable[[float], float], low: float, high: float, steps: int) -> float:
    """Return where a function with one valley is least, by golden sections."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(steps):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return left if at_left <= at_right else right
