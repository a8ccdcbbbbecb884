"""A plan: the mechanism, why it is what it is, and what it costs. Private to the publisher until it is carried out.

`Plan.explain()` says it in words; `Plan.to_json()` is what `publish --plan` takes back, bound to the table and the
policy by their hashes.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato import codec
from sfumato.attributes import SensitiveDomain
from sfumato.errors import PlanMismatch, UsageError
from sfumato.guarantee import Guarantee, violations
from sfumato.matrix import FloatArray, PerturbationMatrix
from sfumato.requirement import Bound

PLAN_VERSION = 1
TIGHT = 1e-9
"""A constraint binds when its factor is within this relative distance of gamma (the integers round below it)."""


@dataclass(frozen=True)
class Binding:
    """A constraint without slack: raising the retention of `value` or of `against` would break it."""

    value: str
    direction: str
    against: str
    gamma: float


@dataclass(frozen=True)
class Loosening:
    """What a gamma 10% larger for these values would buy."""

    values: tuple[str, ...]
    gamma: float
    loosened: float
    record_utility: float


@dataclass(frozen=True, eq=False)
class Plan:
    """The mechanism that will be applied, with what it was computed from."""

    method: str
    assurance: str
    domain: SensitiveDomain
    counts: npt.NDArray[np.int64]
    bounds: tuple[Bound, ...]
    matrix: PerturbationMatrix
    guarantee: Guarantee
    shuffle: bool
    notes: tuple[str, ...] = ()
    loosenings: tuple[Loosening, ...] = ()
    other_assurance: tuple[str, float] | None = None  # its name, and the record utility it would have given
    dropped: int = 0
    observed: tuple[str, ...] = ()
    discloses_frequencies: bool = False
    from_table: bool = False  # whether the matrix or the domain was computed from the table
    table_hash: str = ""
    policy_hash: str = ""

    @property
    def rows(self) -> int:
        """The number of records to publish."""
        return int(self.counts.sum())

    @property
    def frequency(self) -> FloatArray:
        """f_i."""
        return self.counts / max(1, self.rows)

    @property
    def gamma(self) -> list[float]:
        """gamma_i; infinite where nothing is required."""
        return [math.inf if b.gamma is None else float(b.gamma) for b in self.bounds]

    @property
    def record_utility(self) -> float:
        """The expected share of records whose value is unchanged: FG Def. 3."""
        return float(self.frequency @ self.matrix.diagonal)

    @cached_property
    def standard_error(self) -> FloatArray | None:
        """The expected standard error of each count's inverse estimate, for this table; None without an inverse.

        Var = (P^-1 o P^-1)(P x) - x        SOUNDNESS, AD; x = the counts
        """
        if not self.matrix.is_invertible:
            return None
        x = self.counts.astype(np.float64)
        return np.sqrt(np.maximum(0, self.matrix.inverse_squared_apply(self.matrix.apply(x)) - x))

    @property
    def total_variation(self) -> float | None:
        """Expected total variation between the true and the estimated distribution (normal approximation)."""
        if self.standard_error is None:
            return None
        return float(self.standard_error.sum() * math.sqrt(2 / math.pi) / 2 / max(1, self.rows))

    @property
    def aggregate_utility(self) -> float | None:
        """Expected 1 - (1/m) sum |f_i - f'_i| for the inverse estimate: FG Def. 2."""
        return None if self.total_variation is None else 1 - 2 * self.total_variation / self.domain.size

    @cached_property
    def bindings(self) -> tuple[Binding, ...]:
        """The constraints that hold with equality, up to the integers' rounding."""
        found = []
        factors = {"upward": self.matrix.upward, "downward": self.matrix.downward}
        for direction in self.guarantee.directions:
            for code, bound in enumerate(self.bounds):
                factor = factors[direction](code)
                if bound.gamma is not None and factor is not None and factor >= bound.gamma * (1 - TIGHT):
                    rival = self.domain.labels[self.matrix.quietest_except(code)]
                    found.append(Binding(self.domain.labels[code], direction, rival, float(bound.gamma)))
        return tuple(found)

    def bound_to(self, table_hash: str, policy_hash: str) -> Plan:
        """Return the plan, valid only for this table and policy."""
        return replace(self, table_hash=table_hash, policy_hash=policy_hash)

    def require(self, table_hash: str, policy_hash: str) -> None:
        """Raise unless table and policy are the ones that were signed off and the matrix keeps its bounds."""
        for what, signed, now in (
            ("policy", self.policy_hash, policy_hash),
            ("table", self.table_hash, table_hash),
        ):
            if signed != now:
                raise PlanMismatch(
                    f"The {what} is not the one that was planned: its hash is {now[:12]}, the plan's {signed[:12]}.",
                    f"Plan again with the {what} as it is now, and have the new plan signed off.",
                )
        if broken := next(violations(self.matrix, self.bounds, self.guarantee.directions), None):
            raise PlanMismatch(
                f"The plan's matrix does not keep its own bound for {self.domain.labels[broken.code]!r}.",
                "The plan file was changed after it was made: plan again.",
            )

    def explain(self) -> str:
        """Return, in plain words, what will happen to the table, why, and at what cost."""
        from sfumato.explain import explain_plan

        return explain_plan(self)

    # --- JSON ---------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready values; infinite numbers are null. Keys: docs/json.md."""
        matrix = self.matrix
        errors = self.standard_error
        content = {
            "plan_version": PLAN_VERSION,
            "method": self.method,
            "assurance": self.assurance,
            "sensitive": list(self.domain.names),
            "rows": self.rows,
            "dropped": self.dropped,
            "domain": [codec.value(v) for v in self.domain.values],
            "counts": self.counts.tolist(),
            "retention": matrix.retention.tolist(),
            "diagonal": matrix.diagonal.tolist(),
            "gamma": [codec.number(g) for g in self.gamma],
            "record_utility": self.record_utility,
            "aggregate_utility": self.aggregate_utility,
            "total_variation": self.total_variation,
            "standard_error": None if errors is None else errors.tolist(),
            "epsilon": codec.number(matrix.epsilon),
            "condition_number": codec.number(matrix.condition_number),
            "guarantee": codec.guarantee(self.guarantee),
            "binding": [vars(b) for b in self.bindings],
            "loosening": [{**vars(x), "values": list(x.values)} for x in self.loosenings],
            "other_assurance": None
            if self.other_assurance is None
            else {"assurance": self.other_assurance[0], "record_utility": self.other_assurance[1]},
            "shuffle": self.shuffle,
            "notes": list(self.notes),
            "observed": list(self.observed),
            "discloses_frequencies": self.discloses_frequencies,
            "from_table": self.from_table,
            "parts": codec.domains(self.domain),
            "bounds": [codec.bound(b) for b in self.bounds],
            "noise": codec.noise(matrix),
            "table_hash": self.table_hash,
            "policy_hash": self.policy_hash,
        }
        return content | {"plan_hash": _content_hash(content)}

    def to_json(self) -> str:
        """Return the plan as JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan that `to_json` wrote."""
        try:
            raw = json.loads(Path(path).read_text(encoding="utf-8"))
            if raw["plan_version"] != PLAN_VERSION:
                raise ValueError(f"it has version {raw['plan_version']}")
            if raw["plan_hash"] != _content_hash({k: v for k, v in raw.items() if k != "plan_hash"}):
                raise PlanMismatch(
                    f"The plan {str(path)!r} is not as it was made: its content does not fit its hash.",
                    "Plan again, and have the new plan signed off.",
                )
            other = raw["other_assurance"]
            return cls(
                method=raw["method"],
                assurance=raw["assurance"],
                domain=codec.read_domains(raw["parts"]),
                counts=np.array(raw["counts"], dtype=np.int64),
                bounds=tuple(codec.read_bound(b) for b in raw["bounds"]),
                matrix=codec.read_noise(raw["noise"]),
                guarantee=codec.read_guarantee(raw["guarantee"]),
                shuffle=raw["shuffle"],
                notes=tuple(raw["notes"]),
                loosenings=tuple(Loosening(**{**x, "values": tuple(x["values"])}) for x in raw["loosening"]),
                other_assurance=None if other is None else (other["assurance"], other["record_utility"]),
                dropped=raw["dropped"],
                observed=tuple(raw["observed"]),
                discloses_frequencies=raw["discloses_frequencies"],
                from_table=raw["from_table"],
                table_hash=raw["table_hash"],
                policy_hash=raw["policy_hash"],
            )
        except FileNotFoundError:
            raise UsageError(
                f"There is no plan file {str(path)!r}.", "Make one: sfumato plan ... -o plan.json"
            ) from None
        except (OSError, ValueError, KeyError, TypeError, UnicodeDecodeError) as problem:
            raise UsageError(f"{str(path)!r} is not a plan of this version of sfumato: {problem!r}.") from None


def _content_hash(content: dict[str, Any]) -> str:
    """Return the sha256 of a plan's content: what was signed off is what is published."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
