"""The analyst's page as one file: no script, nothing loaded, and nothing in it that the release does not hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from sfumato.analyst.ask.scale import Scale
from sfumato.analyst.release import Release, open_release
from sfumato.errors import SfumatoError, UsageError
from sfumato.release.folder import release_around
from sfumato.show.files import check_new, new_file
from sfumato.studio.analyst.answering import Answers
from sfumato.studio.analyst.asking import named
from sfumato.studio.analyst.calls import Call
from sfumato.studio.analyst.overview import columns_of, warnings_of
from sfumato.studio.analyst.telling import Told
from sfumato.studio.web.pages import STATIC, environment

FOLDER = Path("RELEASE")
"""What commands call the release: where it lies is its reader's business."""


@dataclass(frozen=True)
class Section:
    """A figure of a column: its answer, or why there is none, and the command that gives it."""

    column: str
    title: str
    told: Told | None
    problem: SfumatoError | None
    command: str


def save_page(release: Path, file: Path) -> None:
    """Write the page of a release to a new file, which must not lie in the release: that is sealed."""
    check_new(file)
    if file.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"The page is one in HTML; {file.name!r} has another suffix.", "Name it release.html.")
    if release_around(file):
        raise UsageError(
            f"{str(file)!r} lies inside a release, which is sealed: verify would find a file that was not published.",
            "Write it beside the release, and hand out both.",
        )
    text = saved(open_release(release))
    with new_file(file) as partial:
        partial.write_text(text, encoding="utf-8")


def saved(release: Release) -> str:
    """Return the page."""
    manifest = release.manifest
    return (
        environment()
        .get_template("release_saved.html")
        .render(
            manifest=manifest,
            columns=columns_of(manifest),
            warnings=list(warnings_of(manifest)),
            sections=list(_sections(release)),
            style=Markup((STATIC / "studio.css").read_text(encoding="utf-8")),
        )
    )


def _sections(release: Release) -> Iterator[Section]:
    """Give the counts of every hidden column, and of one in an order its distribution and average, too."""
    answers = Answers(release)
    for name in release.manifest.domain.names:
        yield _section(answers, name, f"Records by {name}", Call("count", ((name,), "")))
        if release.manifest.in_buckets:
            continue
        scale = Scale.of(release, name)
        if scale.size:
            yield _section(answers, name, f"Distribution of {name}", Call("distribution", (name, (), "")))
        if _has_average(scale):
            query = f"SELECT AVG({named(name)}) FROM release"
            yield _section(answers, name, f"Average of {name}", Call("sql", (query,)))


def _has_average(scale: Scale) -> bool:
    try:
        scale.require_numbers()
    except UsageError:
        return False
    return True


def _section(answers: Answers, column: str, title: str, call: Call) -> Section:
    command = call.command(FOLDER)
    try:
        return Section(column, title, answers.ask(call).told, None, command)
    except SfumatoError as problem:
        return Section(column, title, None, problem, command)
