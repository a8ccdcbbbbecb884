"""The families: mean, residuals and weights of each, for linear predictors eta.

    logistic      mu = 1/(1 + e^-eta)       h = v v' mu (1 - mu)
    poisson       mu = e^eta                h = v v' mu
    linear        mu = eta                  h = v v'
    multinomial   mu_j = e^eta_j/(1 + sum_l e^eta_l), j = 1..J-1; class 0 is the base
                  psi = [v (1{Y = j} - mu_j)]_j        h = (diag(mu) - mu mu') (x) v v'

All have psi = residual (x) v and h = weight (x) v v' = -d psi/d beta'. A family has one linear predictor, the
multinomial J - 1; coefficients are ordered by class and within a class by column of the design.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.values.arrays import FloatArray

LARGEST = 700.0
"""e to this is still a number."""


class Family(ABC):
    """A family; eta and means are (..., equations), outcomes (...)."""

    name: ClassVar[str]
    curved: ClassVar[bool] = True
    """Whether h depends on the coefficients: else Newton needs one step, and no coefficient runs off."""

    @property
    def equations(self) -> int:
        """How many linear predictors there are."""
        return 1

    @abstractmethod
    def mean(self, eta: FloatArray) -> FloatArray:
        """Return mu."""

    @abstractmethod
    def weight(self, mu: FloatArray) -> FloatArray:
        """Return -d residual/d eta, (..., equations, equations)."""

    @abstractmethod
    def cumulant(self, eta: FloatArray) -> FloatArray:
        """Return A, (...), with log p(Y | eta) = Y eta - A(eta) + `base(Y)`."""

    def base(self, outcome: FloatArray) -> FloatArray:
        """Return what log p has beside, (...), which no coefficient depends on."""
        return np.zeros_like(outcome)

    def log_density(self, outcome: FloatArray, eta: FloatArray) -> FloatArray:
        """Return log p(Y | eta), (...)."""
        return np.asarray((self.indicated(outcome) * eta).sum(axis=-1) - self.cumulant(eta) + self.base(outcome))

    def indicated(self, outcome: FloatArray) -> FloatArray:
        """Return what the mean is the mean of, (..., equations)."""
        return outcome[..., None]


@dataclass(frozen=True)
class Logistic(Family):
    """A yes or no."""

    name: ClassVar[str] = "logistic"

    def mean(self, eta: FloatArray) -> FloatArray:
        """Return 1/(1 + e^-eta)."""
        with np.errstate(over="ignore"):  # e^-eta may be infinite: then this is 0
            odds_against = np.exp(-eta)
        odds_against += 1
        return np.reciprocal(odds_against, out=odds_against)

    def weight(self, mu: FloatArray) -> FloatArray:
        """Return mu (1 - mu)."""
        return (mu * (1 - mu))[..., None]

    def cumulant(self, eta: FloatArray) -> FloatArray:
        """Return log(1 + e^eta)."""
        return np.asarray(np.logaddexp(0, eta[..., 0]))


@dataclass(frozen=True)
class Poisson(Family):
    """A count."""

    name: ClassVar[str] = "poisson"

    def mean(self, eta: FloatArray) -> FloatArray:
        """Return e^eta."""
        return np.exp(np.minimum(eta, LARGEST))

    def weight(self, mu: FloatArray) -> FloatArray:
        """Return mu."""
        return mu[..., None]

    def cumulant(self, eta: FloatArray) -> FloatArray:
        """Return e^eta."""
        return self.mean(eta[..., 0])

    def base(self, outcome: FloatArray) -> FloatArray:
        """Return -log Y!."""
        from scipy.special import gammaln  # a second that only counts need

        return np.asarray(-gammaln(outcome + 1))


@dataclass(frozen=True)
class Linear(Family):
    """A number; the density has variance 1, which no coefficient depends on."""

    name: ClassVar[str] = "linear"
    curved: ClassVar[bool] = False

    def mean(self, eta: FloatArray) -> FloatArray:
        """Return eta."""
        return eta

    def weight(self, mu: FloatArray) -> FloatArray:
        """Return 1."""
        return np.ones_like(mu)[..., None]

    def cumulant(self, eta: FloatArray) -> FloatArray:
        """Return eta^2/2."""
        return np.asarray(eta[..., 0] ** 2 / 2)

    def base(self, outcome: FloatArray) -> FloatArray:
        """Return -Y^2/2."""
        return np.asarray(-(outcome**2) / 2)


@dataclass(frozen=True)
class Multinomial(Family):
    """One of J classes; the first is the base."""

    classes: tuple[str, ...]
    name: ClassVar[str] = "multinomial"

    @property
    def equations(self) -> int:
        """J - 1."""
        return len(self.classes) - 1

    def mean(self, eta: FloatArray) -> FloatArray:
        """Return the chances of the classes after the first."""
        top = np.maximum(eta.max(axis=-1, keepdims=True), 0)
        odds = np.exp(eta - top)
        return np.asarray(odds / (np.exp(-top) + odds.sum(axis=-1, keepdims=True)))

    def weight(self, mu: FloatArray) -> FloatArray:
        """Return diag(mu) - mu mu'."""
        return np.asarray(mu[..., None] * np.eye(self.equations) - mu[..., :, None] * mu[..., None, :])

    def cumulant(self, eta: FloatArray) -> FloatArray:
        """Return log(1 + sum_j e^eta_j)."""
        top = np.maximum(eta.max(axis=-1), 0)
        return np.asarray(top + np.log(np.exp(-top) + np.exp(eta - top[..., None]).sum(axis=-1)))

    def indicated(self, outcome: FloatArray) -> FloatArray:
        """Return 1 for the class that it is, and 0 for the others."""
        return np.asarray(outcome[..., None] == np.arange(1, len(self.classes)), dtype=np.float64)
