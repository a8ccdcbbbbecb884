"""reference/python: every public name with its signature and what its docstring says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import sfumato as sf
from docs.generate.markdown import page as whole

INTRODUCTION = """\
Every public name, with what its own documentation says. `help(sf.scan)` prints the same.

Start with the tasks: [five minutes](../start/five-minutes.md), [publishing](../publish/walkthrough.md),
[a first estimate](../analyse/first-estimate.md).
A name that is not listed here can change without notice: [stability](../project/stability.md)."""

GROUPS: dict[str, tuple[str, ...]] = {
    "Publishing": ("Policy", "scan", "Table", "profile", "Profile", "plan", "Plan", "load_plan", "rehearse",
                   "publish", "SecretKey", "SigningKey"),
    "Asking": ("open_release", "Release", "Answer", "JointTable", "Comparison", "Power", "Verification"),
    "Reviewing": ("audit", "Audit", "compare", "MethodComparison", "report", "estimate_risk", "SampledRisks"),
}  # fmt: skip
"""What people do, and the names for it; methods, requirements and errors are told by their classes."""


STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def page() -> str:
    """Return the page."""
    parts = []
    for title, names in groups().items():
        parts += [f"## {title}", *(told(name) for name in names)]
    return whole("Python", INTRODUCTION, *parts)


def groups() -> dict[str, list[str]]:
    """Return all public names, each in one group.

    >>> sorted(name for names in groups().values() for name in names) == sorted(sf.__all__)
    True
    """
    stated = {name for names in GROUPS.values() for name in names}
    rest = [name for name in sf.__all__ if name not in stated]
    errors = [name for name in rest if inspect.isclass(of(name)) and issubclass(of(name), Exception)]
    methods = [name for name in rest if hasattr(of(name), "avoid_if")]
    others = [name for name in rest if name not in errors and name not in methods]
    found = {title: [name for name in names if name in sf.__all__] for title, names in GROUPS.items()}
    return found | {"Methods": methods, "Requirements and matrices": others, "Errors": errors}


def of(name: str) -> Any:
    return getattr(sf, name)


def told(name: str) -> str:
    """Return what is told of a public name: for a class of its own methods and properties, too."""
    thing = of(name)
    parts = [f"### {name}", f"```text\n{signature(name, thing)}\n```", documented(thing)]
    if inspect.isclass(thing):
        parts += members(name, thing)
    return "\n\n".join(filter(None, parts))


def signature(name: str, thing: Any) -> str:
    """Return how a name is called; a long list of parameters has a line for each."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return f"sf.{name}"
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return f"sf.{name}(message, hint='')"
    parameters = [plain(parameter) for parameter in found.parameters.values() if parameter.name != "self"]
    if any(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in found.parameters.values()):
        first = next(i for i, p in enumerate(found.parameters.values()) if p.kind is inspect.Parameter.KEYWORD_ONLY)
        first -= "self" in found.parameters
        parameters.insert(first, "*")
    line = f"sf.{name}({', '.join(parameters)})"
    return line if len(line) <= 110 else f"sf.{name}(\n    " + ",\n    ".join(parameters) + ",\n)"


def plain(parameter: inspect.Parameter) -> str:
    """Return a parameter by its name, with its default where that is short: types are in the docstring's words."""
    if parameter.default is inspect.Parameter.empty:
        return STARS.get(parameter.kind, "") + parameter.name
    default = repr(parameter.default)
    return f"{parameter.name}={default if len(default) <= 30 and ' at 0x' not in default else '...'}"


def members(name: str, thing: type) -> Iterator[str]:
    """Give what instances offer: methods and properties that are documented where the class is defined."""
    lines = []
    for member, value in sorted(inspect.getmembers_static(thing)):
        if member.startswith("_") or not offered(value) or not ours(thing, member):
            continue
        text = first_sentence(inspect.getdoc(value) or "")
        if text:
            lines.append(f"- `{member}{'' if is_property(value) else called(name, value)}`: {text}")
    if lines:
        yield "\n".join(lines)


def ours(thing: type, member: str) -> bool:
    """Tell whether a member is defined in sfumato, and not by a library that it stands on."""
    return any(member in vars(base) and base.__module__.startswith("sfumato") for base in thing.__mro__)


def is_property(value: Any) -> bool:
    return isinstance(value, property | cached_property)


def offered(value: Any) -> bool:
    return is_property(value) or isinstance(value, staticmethod | classmethod) or inspect.isfunction(value)


def called(name: str, value: Any) -> str:
    function = getattr(value, "__func__", value)
    names = [p.name for p in inspect.signature(function).parameters.values()]
    return f"({', '.join(n for n in names if n not in ('self', 'cls'))})"


def first_sentence(text: str) -> str:
    """Return the first paragraph of a docstring on one line."""
    return " ".join(text.split("\n\n")[0].split())


def documented(thing: Any) -> str:
    """Return a docstring as Markdown, up to its examples: these are run where they stand."""
    text = re.split(r"^\s*>>>", inspect.getdoc(thing) or "", maxsplit=1, flags=re.MULTILINE)[0]
    return text.strip()
