"""A release: a folder with data, manifest and README. Opening, verifying and counting need nothing private."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from sfumato.errors import ReleaseError
from sfumato.release.manifest import Manifest
from sfumato.values.nearest import near_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from sfumato.analyst.answer import Answer, Estimator, Target
    from sfumato.analyst.association import Normaliser
    from sfumato.analyst.associations import Comparison
    from sfumato.analyst.power import Power
    from sfumato.analyst.tables import JointTable
    from sfumato.release.checks import Verification
    from sfumato.release.parts import FilePart

MANIFEST_NAME = "manifest.json"
README_NAME = "README.md"


@dataclass(frozen=True)
class Release:
    """A published table and its manifest. Make one with `open_release`."""

    folder: Path
    manifest: Manifest
    spark: Any = field(default=None, repr=False, compare=False)
    """A Spark session in which rows are counted; None: on this machine."""

    @property
    def data(self) -> Path:
        """The file with the published rows, or the folder of the files; `data_files` are the files in both cases."""
        return self.folder / self.manifest.data.file

    @property
    def data_files(self) -> list[Path]:
        """The files with the published rows, in the order of the rows."""
        return _files(self.data, self.manifest.data.parts)

    @property
    def groups(self) -> Path | None:
        """The file or folder with the values of each group; None unless the release is one by groups."""
        part = self.manifest.groups
        return self.folder / part.file if part else None

    @property
    def groups_files(self) -> list[Path]:
        """The files with the values of each group, in the order of their lines; none unless it is one by groups."""
        part = self.manifest.groups
        return _files(self.folder / part.file, part.parts) if part else []

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """The published columns."""
        return tuple(column.name for column in self.manifest.columns)

    @cached_property
    def askable_names(self) -> tuple[str, ...]:
        """The columns that can be asked for: the published ones, and those that only groups have."""
        groups = self.manifest.groups
        return (*self.column_names, *(part.name for part in groups.domain)) if groups else self.column_names

    def to_arrow(self) -> Any:
        """Return the published rows as an Arrow table."""
        from sfumato.analyst.counting.reading import read_rows

        return read_rows(self)

    def groups_to_arrow(self) -> Any:
        """Return the values of each group as an Arrow table; the release must be one by groups."""
        from sfumato.analyst.counting.reading import read_groups

        return read_groups(self)

    def count(
        self,
        by: str | Sequence[str] = (),
        where: str = "",
        *,
        method: Estimator = "inverse",
        target: Target = "table",
        level: float = 0.95,
    ) -> Answer:
        """Return estimated counts with standard errors and intervals: see `reconstruct.estimate.count`."""
        from sfumato.analyst.count import count

        return count(self, by, where, method=method, target=target, level=level)

    def sql(
        self,
        query: str,
        *,
        weight: str = "",
        method: Estimator = "inverse",
        target: Target = "table",
        level: float = 0.95,
    ) -> Answer:
        """Answer one SELECT over the table `release`, with standard errors and intervals.

        COUNT(*), SUM(x), AVG(x) of an untouched numeric column, quotients of counts and sums, and shares, COUNT(*) /
        SUM(COUNT(*)) OVER (PARTITION BY ...), several in a query; any WHERE over untouched and randomized columns;
        GROUP BY with CUBE, ROLLUP and GROUPING SETS; ORDER BY; LIMIT. `weight` names a column of survey weights.
        Everything else is refused by name. `method`: "classical" for that estimate of a release by groups.
        """
        from sfumato.analyst.sql import sql

        return sql(self, query, weight=weight, method=method, target=target, level=level)

    def table(
        self,
        columns: str | Sequence[str],
        where: str = "",
        *,
        method: Estimator = "inverse",
        target: Target = "table",
        level: float = 0.95,
    ) -> JointTable:
        """Return the estimated joint table of some columns, an array with one axis for each, with its covariance."""
        from sfumato.analyst.tables import table

        return table(self, columns, where, method=method, target=target, level=level)

    def association(
        self,
        first: str,
        second: str,
        where: str = "",
        *,
        target: Target = "table",
        level: float = 0.95,
        normaliser: Normaliser = "second",
    ) -> Comparison:
        """Return uncertainty coefficient, Cramer's V and a test of independence of two columns, with naive figures.

        The uncertainty coefficient is AD Eq. (12): divided by the entropy of the second column, or of the first.
        """
        from sfumato.analyst.associations import association

        return association(self, first, second, where, target=target, level=level, normaliser=normaliser)

    def risks(
        self, exposed: str, outcome: str, where: str = "", *, target: Target = "table", level: float = 0.95
    ) -> Comparison:
        """Return risk difference, risk ratio and odds ratio of an outcome; both are conditions on any columns.

        Records for which a condition is unknown (a missing value) are left out.
        """
        from sfumato.analyst.associations import risks

        return risks(self, exposed, outcome, where, target=target, level=level)

    def power(
        self,
        by: str | Sequence[str] = (),
        where: str = "",
        *,
        share: float | None = None,
        width: float | None = None,
        target: Target = "table",
        level: float = 0.95,
        chance: float = 0.8,
    ) -> Power:
        """Return what to expect of counts before they are asked: see `reconstruct.power.power`."""
        from sfumato.analyst.power import power

        return power(self, by, where, share=share, width=width, target=target, level=level, chance=chance)

    def verify(self) -> Verification:
        """Check all that the release alone proves: see `sfumato.release.verify.verification`."""
        from sfumato.release.verify.verification import verify

        return verify(self)


def _files(path: Path, parts: Sequence[FilePart] | None) -> list[Path]:
    return [path] if parts is None else [path / part.file for part in parts]


def open_release(folder: str | Path, spark: SparkSession | None = None) -> Release:
    """Open a release folder. Its manifest must be of this version; nothing else is checked (`Release.verify` does).

    With a Spark session all counting is done there, and only the correction here; its workers need sfumato, and must
    see the folder under the same path.
    """
    path = Path(folder) / MANIFEST_NAME
    if not path.is_file():
        raise _no_release(Path(folder))
    try:
        manifest = Manifest.model_validate_json(path.read_text(encoding="utf-8"))
    except (ValidationError, ValueError, OSError) as problem:
        first = problem.errors()[0] if isinstance(problem, ValidationError) else None
        reason = (
            f"{'.'.join(map(str, first['loc']))}: {first['msg'].removeprefix('Value error, ')}"
            if first
            else str(problem)
        )
        raise ReleaseError(
            f"The manifest of {str(folder)!r} is not one of version 1: {reason}.",
            _CHANGED,
        ) from None
    names = [manifest.data.file, *([manifest.groups.file] if manifest.groups else [])]
    for name in names:
        if Path(name).name != name or name in ("", ".."):
            raise ReleaseError(f"The manifest of {str(folder)!r} names a file outside of it: {name!r}.", _CHANGED)
    if len({*names, MANIFEST_NAME, README_NAME}) < len(names) + 2:
        raise ReleaseError(f"The manifest of {str(folder)!r} names one file for two purposes: {names}.", _CHANGED)
    return Release(Path(folder), manifest, spark)


_CHANGED = "Give the folder as `sfumato publish` wrote it; get it anew from the publisher if it was changed."


def _no_release(folder: Path) -> ReleaseError:
    """Return the error of a path that is no release, with what was probably meant."""
    if not folder.exists():
        return ReleaseError(
            f"There is no release {str(folder)!r}.",
            near_file(folder) or "Give the folder that `sfumato publish` wrote.",
        )
    around = release_around(folder)
    if around is not None:
        hint = f"Give the whole folder: {str(around)!r}."
    elif folder.is_file():
        hint = "A release is the folder that `sfumato publish` wrote: its manifest tells how it was randomized."
    else:
        hint = f"A release is the folder that `sfumato publish` wrote, with a {MANIFEST_NAME}."
    return ReleaseError(f"{str(folder)!r} is not a release: it has no {MANIFEST_NAME}.", hint)


def release_around(path: Path) -> Path | None:
    """Return the release that a file would lie in: the nearest folder above it that has a manifest, if any has."""
    return next((folder for folder in path.resolve().parents if (folder / MANIFEST_NAME).exists()), None)


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file."""
    with open(path, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def manifest_seal(text: str, readme_sha256: str) -> str:
    """Return the README's line that seals the manifest, which in turn holds the README's checksum."""
    blank = text.replace(readme_sha256, "") if readme_sha256 else text
    return f"Checksum of manifest.json, its readme_sha256 left empty: {hashlib.sha256(blank.encode()).hexdigest()}"


def value_type(kind: Any) -> str:
    """Return the name of an Arrow type, a dictionary's by its values; text of any width is "string"."""
    name = str(getattr(kind, "value_type", kind))
    return "string" if name in ("large_string", "string_view") else name
