"""Everything that sfumato raises on purpose.

    SfumatoError
    ├── UsageError            the call, the policy or the input is wrong        exit code 2
    │   ├── PolicyError         the policy does not say what is needed, or contradicts itself
    │   ├── TableError          the table cannot be read, or does not fit the policy
    │   └── ReleaseError        the folder is not a release, or is one of another version
    ├── CannotMeet            well formed, but not to be had                     exit code 1
    │   ├── Infeasible          no mechanism meets the requirement; says the nearest that one does
    │   ├── SingularMatrix      the inverse estimate does not exist, or is numerically worthless
    │   ├── PlanMismatch        table or policy are not the ones that were signed off
    │   ├── OutOfSpace          the disk is full
    │   └── JobFailed           a cluster could not do it, for reasons of its own
    ├── Interrupted           a signal came when the release was there already   exit code 130
    └── InternalError         a mistake of this program                          exit code 70

Every error says what is wrong, with the values, and ends in a hint of what to do.
"""

from __future__ import annotations

import traceback
from pathlib import Path


class SfumatoError(Exception):
    """Base of all errors: a message, and a hint of what to do about it."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(SfumatoError):
    """The call, the policy or the input is wrong."""


def no_more_threads() -> UsageError:
    """Return what is said where the system starts no thread."""
    return UsageError(
        "The system lets this process start no more threads.",
        "Raise the limit on processes (ulimit -u), or the container's limit on them, and try again.",
    )


class PolicyError(UsageError):
    """The policy does not say what is needed, or contradicts itself."""


class TableError(UsageError):
    """The table cannot be read, or does not fit the policy."""


class ReleaseError(UsageError):
    """The folder is not a release, or is one of another version."""


class CannotMeet(SfumatoError):
    """A well-formed request that cannot be met."""

    exit_code = 1


class Infeasible(CannotMeet):
    """No mechanism meets the requirement; the hint names the nearest that one does."""


class SingularMatrix(CannotMeet):
    """The inverse estimate does not exist, or would be all rounding error."""


class PlanMismatch(CannotMeet):
    """The table or the policy is not the one that was signed off."""


class OutOfSpace(CannotMeet):
    """The disk is full; nothing was published."""


class JobFailed(CannotMeet):
    """A Spark job did not end well, for a reason that is not the table's or the plan's."""


class Interrupted(SfumatoError):
    """A signal that came too late to keep a release from appearing."""

    exit_code = 130


class InternalError(SfumatoError):
    """A mistake of this program: nobody's request or table is to blame."""

    exit_code = 70

    @classmethod
    def of(cls, problem: Exception) -> InternalError:
        """Return what can be told of an unforeseen error: kind and place, and no word of it, which may hold values."""
        frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if "sfumato" in frame.filename]
        place = f" at {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
        return cls(
            f"sfumato made a mistake ({type(problem).__name__}{place}); nothing was published.",
            "Please report this line, with the command and the version, as an issue of the repository where you got "
            "sfumato. If a release may tell too much, report it privately: SECURITY.md there says how. "
            "SFUMATO_TRACEBACK=1 before the command shows more, which may hold values of the table.",
        )
