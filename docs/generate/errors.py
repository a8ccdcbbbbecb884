"""reference/errors: every kind of error, with its exit code, from `errors.py`."""

from __future__ import annotations

import inspect

from docs.generate.markdown import code, table
from docs.generate.markdown import page as whole
from sfumato import errors

INTRODUCTION = """\
Every message says what is wrong, with the values, and ends in what to do.
[Troubleshooting](../troubleshooting.md) lists the usual mistakes with their messages.

The first word of a message is the kind of error. With `--json` a command prints the error as JSON.
In Python catch `sf.SfumatoError`, or `sf.UsageError` and `sf.CannotMeet` apart."""

EXIT_CODES = {
    0: "Fine. A note beside the answer leaves it at 0.",
    1: "The request is well formed and cannot be met; or `verify` or `audit` found something that fails.",
    2: "The command, the policy, the table or the release is wrong.",
    70: "A mistake of this program; nothing was published.",
    130: "Interrupted by a signal. The message says whether something was published.",
}


def page() -> str:
    """Return the page."""
    kinds = [(code(kind.__name__), str(kind.exit_code), told(kind), parent(kind)) for kind in every()]
    return whole(
        "Errors",
        INTRODUCTION,
        "## Exit codes\n\n" + table(("code", "meaning"), [(str(n), text) for n, text in EXIT_CODES.items()]),
        "## Kinds\n\n" + table(("error", "exit code", "meaning", "is a kind of"), kinds),
    )


def every() -> list[type[errors.SfumatoError]]:
    """Return all errors, in the order in which they are defined.

    >>> [kind.__name__ for kind in every()][:2]
    ['SfumatoError', 'UsageError']
    """
    return [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, errors.SfumatoError)]


def told(kind: type) -> str:
    return inspect.getdoc(kind) or ""


def parent(kind: type) -> str:
    return "" if kind is errors.SfumatoError else code(kind.__bases__[0].__name__)
