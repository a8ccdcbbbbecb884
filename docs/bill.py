"""The software bill of materials: what sfumato needs at run time, as CycloneDX JSON, read off what is installed.

    python -m docs.bill FILE                 what sfumato needs
    python -m docs.bill FILE studio spark    the same with these extras

Each package is named by its version, its licences and the checksum of the list of its files (RECORD), which has that of
every file; and by what it needs of the others. Two runs on one installation write the same bytes: there is no time and
no random number in it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import uuid
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = "sfumato"


def name_of(text: str) -> str:
    """Return the name of a package as all write it.

    >>> name_of("Typing_Extensions")
    'typing-extensions'
    """
    return re.sub(r"[-_.]+", "-", text).lower()


def needed(package: Distribution, extras: Sequence[str]) -> Iterator[Requirement]:
    """Give what a package needs here, with these extras."""
    for text in package.requires or ():
        asked = Requirement(text)
        if asked.marker is None or any(asked.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield asked


def closure(extras: Sequence[str]) -> dict[str, tuple[Distribution, set[str]]]:
    """Return each package that is needed, with the names of those that it needs itself."""
    found: dict[str, tuple[Distribution, set[str]]] = {}
    seen: dict[str, set[str]] = {}
    waiting = [(ROOT, frozenset(extras))]
    while waiting:
        name, asked = waiting.pop()
        if name in seen and asked <= seen[name]:
            continue
        seen.setdefault(name, set()).update(asked)
        package = distribution(name)
        requirements = list(needed(package, sorted(seen[name])))
        found[name] = package, {name_of(each.name) for each in requirements}
        waiting += [(name_of(each.name), frozenset(each.extras)) for each in requirements]
    return found


def licences(package: Distribution) -> list[dict[str, Any]]:
    """Return what a package says of its licence, most exact first; nothing where it says nothing."""
    if expression := package.metadata.get("License-Expression"):
        return [{"expression": expression}]
    stated = [text.rpartition(" :: ")[2] for text in package.metadata.get_all("Classifier", []) if "License ::" in text]
    text = (package.metadata.get("License") or "").strip()
    names = stated or ([text] if text and "\n" not in text and len(text) < 100 else [])
    return [{"license": {"name": name}} for name in names]


def component(package: Distribution, kind: str) -> dict[str, Any]:
    """Return a package as a component."""
    name, record = name_of(package.metadata["Name"]), package.read_text("RECORD")
    made: dict[str, Any] = {"type": kind, "bom-ref": reference(package), "name": name, "version": package.version}
    if said := licences(package):
        made["licenses"] = said
    made["purl"] = reference(package)
    if record and name != ROOT:  # that of a package under development has its folder
        digest = hashlib.sha256(record.encode()).hexdigest()
        made["properties"] = [{"name": "sfumato:sha256-of-RECORD", "value": digest}]
    return made


def reference(package: Distribution) -> str:
    """Return the address of a package: by its kind, name and version."""
    return f"pkg:pypi/{name_of(package.metadata['Name'])}@{package.version}"


def bill(extras: Sequence[str] = ()) -> dict[str, Any]:
    """Return the bill."""
    if unknown := set(extras) - set(distribution(ROOT).metadata.get_all("Provides-Extra", [])):
        raise SystemExit(f"sfumato has no extra {', '.join(sorted(unknown))}.")
    found = closure(extras)
    own, others = found[ROOT][0], [found[name][0] for name in sorted(found) if name != ROOT]
    parts = [component(package, "library") for package in others]
    content = {
        "version": 1,
        "metadata": {"component": component(own, "application")},
        "components": parts,
        "dependencies": [
            {"ref": reference(package), "dependsOn": sorted(reference(found[name][0]) for name in needs)}
            for _, (package, needs) in sorted(found.items())
        ],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}", **content}


def main() -> None:
    """Write the bill to a file, or to the standard output where it is -."""
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m docs.bill", description=__doc__, formatter_class=as_written)
    parser.add_argument("file")
    parser.add_argument("extras", nargs="*")
    asked = parser.parse_args()
    try:
        text = json.dumps(bill(asked.extras), indent=2) + "\n"
    except PackageNotFoundError as problem:
        raise SystemExit(f"{problem.name} is not installed here: a bill is of what is installed.") from None
    if asked.file == "-":
        sys.stdout.write(text)
    else:
        Path(asked.file).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
