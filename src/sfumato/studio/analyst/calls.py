"""A question as a call of the library: what is run is what is shown as a command, in Python and in R."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sfumato.analyst.release import Release

Name = Literal["count", "sql", "distribution", "association", "risks", "power"]
COMMANDS: dict[Name, str] = {
    "count": "estimate",
    "sql": "estimate",
    "distribution": "distribution",
    "association": "associate",
    "risks": "associate",
    "power": "power",
}
PARAMETERS: dict[Name, tuple[str, ...]] = {
    "count": ("by", "where"),
    "sql": ("query",),
    "distribution": ("column", "by", "where"),
    "association": ("between", "between", "where"),
    "risks": ("exposed", "outcome", "where"),
    "power": ("by", "where"),
}
"""What stands in the places of a call, by the command's names of the same."""
ARGUMENTS = ("query", "column")
"""What a command takes without a name."""
AS_ROWS: tuple[Name, ...] = ("count", "sql", "distribution")
"""Calls whose commands write their answers to files."""
Given = str | tuple[str, ...]


@dataclass(frozen=True)
class Call:
    """A method of a release with what it is given; options that are left out have their usual values."""

    name: Name
    places: tuple[Given, ...]
    options: tuple[tuple[str, Any], ...] = ()

    def asked(self, release: Release) -> Any:
        """Return the answer."""
        return getattr(release, self.name)(*self.places, **dict(self.options))

    def without(self, *names: str) -> Call:
        """Return the same without some options."""
        return Call(self.name, self.places, tuple(pair for pair in self.options if pair[0] not in names))

    def arguments(self, folder: Path, *more: str) -> list[str]:
        """Return the words of the command after `sfumato`, with further options."""
        pairs = list(zip(PARAMETERS[self.name], self.places, strict=True))
        words = [COMMANDS[self.name], str(folder)]
        bare = [str(given) for name, given in pairs if name in ARGUMENTS]
        for name, given in pairs:
            if name not in ARGUMENTS:
                words += [word for text in _texts(given) for word in _option(name, text)]
        words += [word for name, given in self.options for word in _option(name, str(given))]
        words += more
        return [*words[:2], *bare, *words[2:]] if not any(b.startswith("-") for b in bare) else [*words, "--", *bare]

    def command(self, folder: Path) -> str:
        """Return the command line."""
        return " ".join(["sfumato", *map(_shell, self.arguments(folder))])

    def python(self, folder: Path) -> str:
        """Return the same in Python."""
        places = list(self.places)
        while places and not places[-1]:
            places.pop()
        given = [repr(list(each) if isinstance(each, tuple) else each) for each in places]
        given += [f"{name}={value!r}" for name, value in self.options]
        return (
            f"import sfumato as sf\n\nrelease = sf.open_release({str(folder)!r})\n"
            f"answer = release.{self.name}({', '.join(given)})\nprint(answer)\n"
        )

    def r(self, folder: Path) -> str:
        """Return the same in R, which calls the command and reads what it gives."""
        if self.name in AS_ROWS:
            words = ", ".join(map(_r_text, self.arguments(folder, "--output", FILE)))
            words = words.replace(_r_text(FILE), "file")
            return (
                f'file <- tempfile(fileext = ".csv")\nsystem2("sfumato", shQuote(c({words})))\n'
                "answer <- read.csv(file, check.names = FALSE)\nanswer\n"
            )
        words = ", ".join(map(_r_text, self.arguments(folder, "--json")))
        return (
            f'told <- system2("sfumato", shQuote(c({words})), stdout = TRUE)\n'
            'answer <- jsonlite::fromJSON(paste(told, collapse = "\\n"))\nanswer\n'
        )


FILE = "\0"
"""Stands for the variable that names the file; no word of a command can be it."""


def _texts(given: Given) -> tuple[str, ...]:
    """Return what an option is given, each time that it is; nothing where it is left out."""
    return given if isinstance(given, tuple) else (given,) if given else ()


def _option(name: str, text: str) -> list[str]:
    return [f"--{name}={text}"] if text.startswith("-") else [f"--{name}", text]


def _shell(word: str) -> str:
    """Return a word as a shell reads it: in double quotes where it has single ones and nothing that they would change.

    >>> print(_shell("sex = 'F'"), _shell("cost > '$5'"))
    "sex = 'F'" 'cost > '"'"'$5'"'"''
    """
    return f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else shlex.quote(word)


def _r_text(text: str) -> str:
    """Return a text as R writes it.

    >>> print(_r_text('say "x" \\\\ y'))
    "say \\"x\\" \\\\ y"
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
