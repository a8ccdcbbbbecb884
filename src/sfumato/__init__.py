"""sfumato: publish microdata under a stated privacy bound, and keep the picture.

    table --profile--> Profile --plan(requirement)--> Plan --publish--> Release        the publisher
                       (private)                     (private)          (public)
    Release --sql--> Answer: figures with standard errors and intervals                 the analyst
            --table, association, risks, power-->  JointTable, Comparison, Power
    Release --verify--> Verification: what the release alone proves
    table + Release --audit--> Audit: what attackers reach, beside what was promised   the auditor
    table --compare--> MethodComparison: every method at the policy's requirement
    Audit --report--> one HTML page

    import sfumato as sf

    table   = sf.scan("patients.parquet", sf.Policy.load("policy.toml"))
    profile = sf.profile(table)
    plan    = sf.plan(profile, sf.FineGrain(), sf.tolerance(3))
    release = sf.publish(table, plan, "release")
    print(sf.open_release("release").count(by="diagnosis", where="sex = 'F'"))

Names are loaded when they are first used, so that the command line starts quickly.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False  # as type checkers know it: `typing` takes longer to load than all else here
if TYPE_CHECKING:
    from typing import Any

    from sfumato.analyst.answer import Answer as Answer
    from sfumato.analyst.associations import Comparison as Comparison
    from sfumato.analyst.power import Power as Power
    from sfumato.analyst.release import Release as Release
    from sfumato.analyst.release import open_release as open_release
    from sfumato.analyst.tables import JointTable as JointTable
    from sfumato.auditor.audit import audit as audit
    from sfumato.auditor.compare.compare import compare as compare
    from sfumato.auditor.compare.record import MethodComparison as MethodComparison
    from sfumato.auditor.record import Audit as Audit
    from sfumato.auditor.report.reporting import report as report
    from sfumato.errors import CannotMeet as CannotMeet
    from sfumato.errors import SfumatoError as SfumatoError
    from sfumato.errors import UsageError as UsageError
    from sfumato.methods import load_plan as load_plan
    from sfumato.methods import plan as plan
    from sfumato.methods.anatomy import Anatomy as Anatomy
    from sfumato.methods.fine_grain import FineGrain as FineGrain
    from sfumato.methods.ordered.geometric import Geometric as Geometric
    from sfumato.methods.ordered.plateau import Plateau as Plateau
    from sfumato.methods.ordered.ranges import Ranges as Ranges
    from sfumato.methods.plan import Plan as Plan
    from sfumato.methods.response.estimating import SampledRisks as SampledRisks
    from sfumato.methods.response.estimating import estimate_risk as estimate_risk
    from sfumato.methods.response.method import RandomizedResponse as RandomizedResponse
    from sfumato.methods.robustness.method import RobustAnatomy as RobustAnatomy
    from sfumato.methods.small_domain.method import SmallDomain as SmallDomain
    from sfumato.methods.subset.method import Subset as Subset
    from sfumato.methods.suppression.method import Suppression as Suppression
    from sfumato.methods.uniform import Uniform as Uniform
    from sfumato.publisher.policy import Policy as Policy
    from sfumato.publisher.publish import publish as publish
    from sfumato.publisher.publish import rehearse as rehearse
    from sfumato.publisher.signing import SigningKey as SigningKey
    from sfumato.publisher.table import Table as Table
    from sfumato.publisher.table import profile as profile
    from sfumato.publisher.table import scan as scan
    from sfumato.release.verify.verification import Verification as Verification
    from sfumato.values.matrix.retention import PerturbationMatrix as PerturbationMatrix
    from sfumato.values.profile import Profile as Profile
    from sfumato.values.randomness import SecretKey as SecretKey
    from sfumato.values.requirement import Amplification as Amplification
    from sfumato.values.requirement import Diversity as Diversity
    from sfumato.values.requirement import FineGrainPrivacy as FineGrainPrivacy
    from sfumato.values.requirement import GroupLimit as GroupLimit
    from sfumato.values.requirement import LocalPrivacy as LocalPrivacy
    from sfumato.values.requirement import RhoPrivacy as RhoPrivacy
    from sfumato.values.requirement import RiskLimit as RiskLimit
    from sfumato.values.requirement import Robustness as Robustness
    from sfumato.values.requirement import SetRequirement as SetRequirement
    from sfumato.values.requirement import Tolerance as Tolerance
    from sfumato.values.requirement import ValueRequirement as ValueRequirement
    from sfumato.values.requirement import tolerance as tolerance

    __version__: str

_HOMES = {
    "Amplification": "values.requirement",
    "Anatomy": "methods.anatomy",
    "Answer": "analyst.answer",
    "Audit": "auditor.record",
    "CannotMeet": "errors",
    "Comparison": "analyst.associations",
    "Diversity": "values.requirement",
    "FineGrain": "methods.fine_grain",
    "FineGrainPrivacy": "values.requirement",
    "Geometric": "methods.ordered.geometric",
    "GroupLimit": "values.requirement",
    "JointTable": "analyst.tables",
    "LocalPrivacy": "values.requirement",
    "MethodComparison": "auditor.compare.record",
    "PerturbationMatrix": "values.matrix.retention",
    "Plan": "methods.plan",
    "Plateau": "methods.ordered.plateau",
    "Policy": "publisher.policy",
    "Power": "analyst.power",
    "Profile": "values.profile",
    "RandomizedResponse": "methods.response.method",
    "Ranges": "methods.ordered.ranges",
    "Release": "analyst.release",
    "RhoPrivacy": "values.requirement",
    "RiskLimit": "values.requirement",
    "RobustAnatomy": "methods.robustness.method",
    "Robustness": "values.requirement",
    "SampledRisks": "methods.response.estimating",
    "SecretKey": "values.randomness",
    "SetRequirement": "values.requirement",
    "SfumatoError": "errors",
    "SigningKey": "publisher.signing",
    "SmallDomain": "methods.small_domain.method",
    "Subset": "methods.subset.method",
    "Suppression": "methods.suppression.method",
    "Table": "publisher.table",
    "Tolerance": "values.requirement",
    "Uniform": "methods.uniform",
    "UsageError": "errors",
    "ValueRequirement": "values.requirement",
    "Verification": "release.verify.verification",
    "audit": "auditor.audit",
    "compare": "auditor.compare.compare",
    "estimate_risk": "methods.response.estimating",
    "load_plan": "methods",
    "open_release": "analyst.release",
    "plan": "methods",
    "profile": "publisher.table",
    "publish": "publisher.publish",
    "rehearse": "publisher.publish",
    "report": "auditor.report.reporting",
    "scan": "publisher.table",
    "tolerance": "values.requirement",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("sfumato")
    if name not in _HOMES:
        raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
    value = getattr(import_module(f"sfumato.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """Keeps the names of functions free: loading a package of the same name (audit, report) would take them."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return __all__
