"""review/threat-model: every attacker by every method, as each says it itself of a release of that method.

A small release is made by every method, of some patients of the demo. `Role.public` then tells from the manifest
whether the guarantee is about an attacker: it is what public reports use.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import pyarrow as pa

import sfumato as sf
from docs.generate.markdown import page as whole
from docs.generate.markdown import sentence, table
from sfumato.auditor.attacker import Role
from sfumato.auditor.attackers import ATTACKERS
from sfumato.cli.demo import clinic
from sfumato.methods import METHODS
from sfumato.methods.small_domain.method import SmallDomain
from sfumato.release.manifest import Manifest

INTRODUCTION = """\
A promise is about some attackers and not about others. This page says which, for every method.

- **✓ covered**: the promise is about this attacker. An [audit](audit.md) measures whether it was kept.
- **○ not covered**: the promise says nothing about this attacker. An audit measures what they reach, and you decide.
- **–**: there is nothing of this kind to attack in such a release.

The table is read off releases that are made for it. Their domain is declared, their rows are shuffled, they have no
record key, and the assurance is `proved`. Other choices can cover less. Your own release says it of itself:
`sfumato report ... --public` lists its attackers.

**Read the ○ first.** They are what you accept when you sign."""

AFTER = """\
## What no method covers

- What somebody believed before. A bound limits the change, not the belief itself.
- Columns that are published untouched. People can be recognised by them.
- Records that depend on each other, such as relatives with the same illness.
- A publisher who did not draw the values as stated. An [audit](audit.md) by someone with the table finds that.

[Known breaks](limits.md) has a counter-example for each limit."""

COLUMNS = """\
[columns.name]
role = "identifier"
[columns.region]
role = "drop"
[columns.education]
role = "drop"
[columns.sex]
role = "quasi_identifier"
domain = ["F", "M"]
[columns.age]
role = "{age}"
bins = {{ width = 20 }}
domain = ["[0, 20)", "[20, 40)", "[40, 60)", "[60, 80)", "[80, 100)"]
[columns.diagnosis]
role = "{diagnosis}"
"""
DIAGNOSES = """\
domain = ["asthma", "back pain", "breast cancer", "COPD", "depression", "diabetes", "epilepsy", "HIV", "hypertension",
  "influenza", "migraine", "prostate cancer"]
"""
TOWNS = [f"town {number:02}" for number in range(60)]
BY_TOWN = f"""\
[columns.town]
role = "sensitive"
domain = {TOWNS}
"""
"""Many values, none of them frequent: a table that small domain randomization deals to sub-tables."""
ASKED = {
    "small-domain": "rho1 = 0.3\nrho2 = 0.7",
    "randomized-response": "l = 3",
    "anatomy": "l = 3",
    "suppression": "l = 5",  # hypertension has more than a fifth of the records: some are withheld
    "robust-anatomy": "r = 3",
}
"""The requirement of a method, if not gamma = 4."""
OPTIONS = {
    "robust-anatomy": 'attribute_sets = [["sex"]]',
    "geometric": "steps = 1",
    "small-domain": "minimum_sub_table = 100\ndelta = 0.1",
}
SEVERAL = """\
[columns.age.method]
name = "ranges"
[columns.age.requirement]
gamma = 4
[method]
name = "subset"
[requirement]
gamma = 3
"""
ROWS = 6_000
SYMBOLS = {True: "✓", False: "○", None: "–"}


def page() -> str:
    """Return the page."""
    return whole(
        "Threat model: who is covered, by which method", INTRODUCTION, cells(), "## The attackers", who(), AFTER
    )


def cells() -> str:
    """Return the table of all attackers and methods."""
    released = manifests()
    rows = []
    for name, same in roles().items():
        found = [verdict(same, manifest) for manifest in released.values()]
        if any(covered is not None for covered in found):
            rows.append((f"[{name}](#{name})", *(SYMBOLS[covered] for covered in found)))
    return table(("attacker", *(f"[{name}](../methods/{name}.md)" for name in released)), rows)


def verdict(same: list[Role], manifest: Manifest) -> bool | None:
    """Return whether the promise of a release is about an attacker; None if it has nothing to attack there."""
    lines = [line for role in same if (line := role.public(manifest)) is not None]
    return lines[0].covered if lines else None


def who() -> str:
    """Return what each attacker knows or does, and why a promise may not be about it."""
    parts = []
    for name, same in roles().items():
        found = {verdict(same, manifest) for manifest in manifests().values()}
        text = " Or: ".join(dict.fromkeys(sentence(role.knows) for role in same))
        if False in found:
            text += f" Where not covered: {same[-1].why_not_covered}"
        if found == {None}:
            text += " None of the releases of the table above has something for this attacker to work on."
        parts.append(f"### {name}\n\n{text}")
    return "\n\n".join(parts)


def roles() -> dict[str, list[Role]]:
    """Return every name that findings go by, in the order of an audit; releases of different kinds may share one."""
    found: dict[str, list[Role]] = {}
    for attacker in ATTACKERS:
        for role in attacker.roles or (attacker,):
            found.setdefault(role.name, []).append(role)
    return found


@cache
def manifests() -> dict[str, Manifest]:
    """Return the manifest of a small release by every method, and by several methods at once."""
    policies = {method.name: policy(method.name, method.for_order) for method in METHODS}
    policies["several"] = COLUMNS.format(age="sensitive", diagnosis="sensitive") + DIAGNOSES + SEVERAL
    return {name: released(text) for name, text in policies.items()}


def policy(method: str, ordered: bool) -> str:
    """Return a policy for the demo's patients: ages are secret where an order is needed, else diagnoses."""
    columns = COLUMNS.format(age="quasi_identifier", diagnosis="sensitive") + DIAGNOSES
    if ordered:
        columns = COLUMNS.format(age="sensitive", diagnosis="drop")
    if method == SmallDomain.name:
        columns = COLUMNS.format(age="quasi_identifier", diagnosis="drop") + BY_TOWN
    asked = ASKED.get(method, "gamma = 4")
    return f'{columns}[method]\nname = "{method}"\n{OPTIONS.get(method, "")}\n[requirement]\n{asked}\n'


def towns() -> pa.Array:
    """Return a town for each patient, the first ones with the most patients."""
    size = len(TOWNS)
    return pa.array([TOWNS[int(size * ((row * 7919 % ROWS) / ROWS) ** 1.6)] for row in range(ROWS)])


def released(text: str) -> Manifest:
    """Publish some of the demo's patients under a policy, and return the manifest."""
    asked = sf.Policy.parse(text)
    patients = clinic().slice(0, ROWS)
    if "town" in asked.columns:
        patients = patients.append_column("town", towns())
    opened = sf.scan(patients, asked)
    plan = sf.plan(sf.profile(opened), asked.method, asked.requirement, key=sf.SecretKey.from_seed(1))
    with tempfile.TemporaryDirectory() as folder:
        return sf.publish(opened, plan, Path(folder) / "release", key=sf.SecretKey.from_seed(1)).manifest
