"""The public surface, exactly: a name that appears or vanishes is a decision, not an accident."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import sfumato as sf
import sfumato.sklearn

NAMES = [
    "Amplification",
    "Anatomy",
    "Answer",
    "Audit",
    "CannotMeet",
    "Comparison",
    "Diversity",
    "FineGrain",
    "FineGrainPrivacy",
    "Geometric",
    "GroupLimit",
    "JointTable",
    "LocalPrivacy",
    "MethodComparison",
    "PerturbationMatrix",
    "Plan",
    "Plateau",
    "Policy",
    "Power",
    "Profile",
    "RandomizedResponse",
    "Ranges",
    "Release",
    "RhoPrivacy",
    "RiskLimit",
    "RobustAnatomy",
    "Robustness",
    "SampledRisks",
    "SecretKey",
    "SetRequirement",
    "SfumatoError",
    "SigningKey",
    "SmallDomain",
    "Subset",
    "Suppression",
    "Table",
    "Tolerance",
    "Uniform",
    "UsageError",
    "ValueRequirement",
    "Verification",
    "audit",
    "compare",
    "estimate_risk",
    "load_plan",
    "open_release",
    "plan",
    "profile",
    "publish",
    "rehearse",
    "report",
    "scan",
    "tolerance",
]


FOR_SCIKIT_LEARN = [
    "Calibration",
    "CorrectedScore",
    "LabelChannel",
    "PseudoLabelClassifier",
    "PseudoLabelRegressor",
    "Score",
    "TrainingData",
    "UnmixedClassifier",
    "corrected_auc",
    "corrected_calibration",
    "corrected_score",
    "training_data",
]


def test_the_public_names_are_exactly_these() -> None:
    assert sf.__all__ == NAMES
    assert dir(sf) == NAMES
    assert sfumato.sklearn.__all__ == FOR_SCIKIT_LEARN
    assert all(getattr(sfumato.sklearn, name).__doc__ for name in FOR_SCIKIT_LEARN)


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_there_and_documented(name: str) -> None:
    value = getattr(sf, name)
    assert value.__module__.startswith("sfumato")
    assert value.__doc__


@pytest.mark.parametrize("name", ["audit", "report"])
def test_packages_do_not_take_the_names_of_functions(name: str) -> None:
    code = f"import sfumato as sf, sfumato.auditor.finding, sfumato.show.files; print(sf.{name}.__name__)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == f"{name}\n"


def test_the_version_is_that_of_the_distribution() -> None:
    assert sf.__version__ == version("sfumato")


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'anonymize'"):
        sf.anonymize  # noqa: B018


@pytest.mark.parametrize("module", ["sfumato", "sfumato.cli.main"])  # the second is all that --help needs
def test_importing_the_package_loads_nothing_heavy(module: str) -> None:
    heavy = ("numpy", "pyarrow", "duckdb", "pydantic", "scipy")
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_publishing_imports_no_pandas(tmp_path: Path) -> None:
    """Arrow's own ways to numpy import it where it is installed, which takes most of a second."""
    rows = [f"2019-01-{1 + k % 20:02},{k % 10},{'ab'[k % 2]}" for k in range(100)]
    (tmp_path / "t.csv").write_text("\n".join(["day,n,s", *rows]) + "\n")
    policy = """
        columns = { day = { role = "other" }, n = { role = "quasi_identifier" }, s = { role = "sensitive" } }
        method = { name = "uniform" }
        requirement = { gamma = 3 }
    """
    code = (
        "import sys, sfumato as sf\n"
        f"policy = sf.Policy.parse({policy!r})\n"
        "table = sf.scan('t.csv', policy)\n"
        "sf.publish(table, sf.plan(sf.profile(table), policy.method, policy.requirement), 'r')\n"
        "print('pandas' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert found.stdout == "False\n"
