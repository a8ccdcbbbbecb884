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
    plan    = sf.plan(profile, method="fine-grain", requirement=sf.tolerance(3))
    release = sf.publish(table, plan, "release")
    print(sf.open_release("release").count(by="diagnosis", where="sex = 'F'"))

Names are loaded when they are first used, so that the command line starts quickly.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.audit.auditing import audit as audit
    from sfumato.audit.comparing.compare import compare as compare
    from sfumato.audit.comparing.record import MethodComparison as MethodComparison
    from sfumato.audit.record import Audit as Audit
    from sfumato.checks import Verification as Verification
    from sfumato.errors import CannotMeet as CannotMeet
    from sfumato.errors import SfumatoError as SfumatoError
    from sfumato.errors import UsageError as UsageError
    from sfumato.group_plan import GroupPlan as GroupPlan
    from sfumato.matrix import PerturbationMatrix as PerturbationMatrix
    from sfumato.methods import plan as plan
    from sfumato.methods.response.estimating import SampledRisks as SampledRisks
    from sfumato.methods.response.estimating import estimate_risk as estimate_risk
    from sfumato.plans import Plan as Plan
    from sfumato.plans import load_plan as load_plan
    from sfumato.policy import Policy as Policy
    from sfumato.profiles import Profile as Profile
    from sfumato.publishing import publish as publish
    from sfumato.publishing import rehearse as rehearse
    from sfumato.randomness import SecretKey as SecretKey
    from sfumato.reconstruct.answer import Answer as Answer
    from sfumato.reconstruct.comparing import Comparison as Comparison
    from sfumato.reconstruct.power import Power as Power
    from sfumato.reconstruct.tables import JointTable as JointTable
    from sfumato.release import Release as Release
    from sfumato.release import open_release as open_release
    from sfumato.reporting import report as report
    from sfumato.requirement import Amplification as Amplification
    from sfumato.requirement import Diversity as Diversity
    from sfumato.requirement import FineGrainPrivacy as FineGrainPrivacy
    from sfumato.requirement import GroupLimit as GroupLimit
    from sfumato.requirement import LocalPrivacy as LocalPrivacy
    from sfumato.requirement import RhoPrivacy as RhoPrivacy
    from sfumato.requirement import RiskLimit as RiskLimit
    from sfumato.requirement import Robustness as Robustness
    from sfumato.requirement import Tolerance as Tolerance
    from sfumato.requirement import ValueRequirement as ValueRequirement
    from sfumato.requirement import tolerance as tolerance
    from sfumato.response_plan import ResponsePlan as ResponsePlan
    from sfumato.table import Table as Table
    from sfumato.table import profile as profile
    from sfumato.table import scan as scan

_HOMES = {
    "Amplification": "requirement",
    "Answer": "reconstruct.answer",
    "Audit": "audit.record",
    "CannotMeet": "errors",
    "Comparison": "reconstruct.comparing",
    "Diversity": "requirement",
    "FineGrainPrivacy": "requirement",
    "GroupLimit": "requirement",
    "GroupPlan": "group_plan",
    "JointTable": "reconstruct.tables",
    "LocalPrivacy": "requirement",
    "MethodComparison": "audit.comparing.record",
    "PerturbationMatrix": "matrix",
    "Plan": "plans",
    "Policy": "policy",
    "Power": "reconstruct.power",
    "Profile": "profiles",
    "Release": "release",
    "ResponsePlan": "response_plan",
    "RhoPrivacy": "requirement",
    "RiskLimit": "requirement",
    "Robustness": "requirement",
    "SampledRisks": "methods.response.estimating",
    "SecretKey": "randomness",
    "SfumatoError": "errors",
    "Table": "table",
    "Tolerance": "requirement",
    "UsageError": "errors",
    "ValueRequirement": "requirement",
    "Verification": "checks",
    "audit": "audit.auditing",
    "compare": "audit.comparing.compare",
    "estimate_risk": "methods.response.estimating",
    "load_plan": "plans",
    "open_release": "release",
    "plan": "methods",
    "profile": "table",
    "publish": "publishing",
    "rehearse": "publishing",
    "report": "reporting",
    "scan": "table",
    "tolerance": "requirement",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
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
