"""The mistakes that new users make, and what each is met with: the list behind docs/troubleshooting.md.

    python -m tests.journeys.mistakes > docs/troubleshooting.md

writes the page anew; a test holds the committed one to it.
"""

from __future__ import annotations

import csv
import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from tests.journeys import desk
from tests.journeys.desk import POLICY, Printed, patients

Change = Callable[[], None]
"""What is done to a desk before the command is typed."""


def nothing() -> None:
    """Leave the desk as it is: the command is the mistake."""


@dataclass(frozen=True)
class Mistake:
    """A mistake in words, how it is made, and what of the answer names the remedy."""

    words: str
    command: str
    remedy: str
    change: Change = nothing
    code: int = 2

    def made(self) -> Printed:
        """Make it, at the desk that is the current folder."""
        self.change()
        return desk.run(self.command)


PLAN = "plan patients.csv policy.toml"
PUBLISH = "publish patients.csv policy.toml -o new"
SENSITIVE = '[columns.diagnosis]\nrole = "sensitive"'
AGE = '[columns.age]\nrole = "quasi_identifier"'
REGION = '[columns.region]\nrole = "quasi_identifier"'
KNOWN = (AGE, '[columns.sex]\nrole = "quasi_identifier"', REGION)


# --- how a desk is changed --------------------------------------------------------------------------------------------


def policy(*swaps: tuple[str, str]) -> Change:
    """Write something else into the policy: each text is there once, and is replaced."""

    def change() -> None:
        text = POLICY
        for old, new in swaps:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        Path("policy.toml").write_text(text, encoding="utf-8")

    return change


def of_region(keys: str) -> Change:
    """Make the region sensitive, with more keys and sections."""
    return policy((REGION, f"{REGION.replace('quasi_identifier', 'sensitive')}\n{keys}"))


def method(name: str, requirement: str, *swaps: tuple[str, str], more: str = "") -> Change:
    """Ask for another method and requirement."""
    return policy(('name = "uniform"', f'name = "{name}"{more}'), ("rho1 = 0.2\nrho2 = 0.5", requirement), *swaps)


def said_of(section: str, *lines: str) -> Change:
    """Say more of a column."""
    return policy((section, "\n".join([section, *lines])))


def column(name: str, value: Callable[[int], object]) -> Change:
    """Put other values into a column of the table: one for each row number."""

    def change() -> None:
        rows = rows_of(patients())
        place = rows[0].index(name)
        for number, row in enumerate(rows[1:]):
            row[place] = str(value(number))
        table(rows)()

    return change


def renamed(old: str, new: str, *more: Change) -> Change:
    """Give a column another name, in the table and in the policy."""
    heading = desk.HEADER.replace(old, new)
    return both(
        table([heading.split(","), *rows_of(patients())[1:]]), policy((f"[columns.{old}]", f"[columns.{new}]")), *more
    )


def table(rows: Iterable[list[str]], name: str = "patients.csv", delimiter: str = ",") -> Change:
    """Write a table."""

    def change() -> None:
        text = io.StringIO()
        csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
        file(name, text.getvalue())()

    return change


def file(name: str, content: str | bytes = "") -> Change:
    """Write a file."""

    def change() -> None:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return change


def published(*changes: Change) -> Change:
    """Publish the changed table."""

    def change() -> None:
        both(*changes)()
        made = desk.run(f"{PUBLISH} --seed 1")
        assert made.code == 0, made.err

    return change


def both(*changes: Change) -> Change:
    """Make several changes."""

    def change() -> None:
        for each in changes:
            each()

    return change


def rows_of(lines: list[str]) -> list[list[str]]:
    """Return the fields of CSV lines."""
    return list(csv.reader(lines))


def asked(query: str) -> str:
    """Return the command that asks the release."""
    return f'estimate release "{query}"'


# --- the mistakes -----------------------------------------------------------------------------------------------------

NOTES = ("came with a strong cough", "pain in the left knee since spring", "fell from a ladder, two stitches")

SECTIONS: dict[str, tuple[Mistake, ...]] = {
    "Numbers of the policy": (
        Mistake("a percentage for a share", PLAN, "write rho1 = 0.3", policy(("rho1 = 0.2", "rho1 = 30"))),
        Mistake(
            "percentages throughout",
            PLAN,
            "write rho1 = 0.2 and rho2 = 0.5",
            policy(("rho1 = 0.2", "rho1 = 20"), ("rho2 = 0.5", "rho2 = 50")),
        ),
        Mistake("a percent sign", PLAN, "write rho1 = 0.3", policy(("rho1 = 0.2", 'rho1 = "30%"'))),
        Mistake("a decimal comma", PLAN, "rho1 = 0.2", policy(("rho1 = 0.2", "rho1 = 0,2"))),
        Mistake("a decimal comma in quotes", PLAN, "rho1 = 0.2", policy(("rho1 = 0.2", 'rho1 = "0,2"'))),
        Mistake("no 0 before the point", PLAN, "rho1 = 0.2", policy(("rho1 = 0.2", "rho1 = .2"))),
        Mistake("a fraction without quotes", PLAN, 'rho1 = "1/5"', policy(("rho1 = 0.2", "rho1 = 1/5"))),
        Mistake("rho1 as words", PLAN, "Write a number such as 0.2", policy(("rho1 = 0.2", 'rho1 = "a fifth"'))),
        Mistake("rho1 above rho2", PLAN, "ask for a rho2 above 0.6", policy(("rho1 = 0.2", "rho1 = 0.6"))),
        Mistake("rho1 without rho2", PLAN, "add rho2", policy(("rho2 = 0.5\n", ""))),
        Mistake("l = 1", PLAN, "must be at least 2", method("anatomy", "l = 1")),
        Mistake("l in quotes", PLAN, "write l = 3, without quotes", method("anatomy", 'l = "3"')),
        Mistake(
            "l above the number of values",
            PLAN,
            "Ask for l <= 2",
            method("anatomy", "l = 9"),
            code=1,
        ),
        Mistake("l above what the most frequent value allows", PLAN, "suppression", method("anatomy", "l = 4"), code=1),
        Mistake("l with a method that takes rho1", PLAN, "state rho1 and rho2", method("uniform", "l = 3")),
        Mistake(
            "rho1 with a method that takes l", PLAN, "write for instance l = 3", policy(('"uniform"', '"anatomy"'))
        ),
        Mistake(
            "r without attribute sets", PLAN, 'attribute_sets = [["sex", "age"]]', method("robust-anatomy", "r = 3")
        ),
        Mistake(
            "attribute sets that are no lists",
            PLAN,
            'attribute_sets = [["sex", "age"]]',
            method("robust-anatomy", "r = 3", more='\nattribute_sets = ["sex", "age"]'),
        ),
        Mistake(
            "a risk limit in percent", PLAN, "write risk_limit = 0.3", method("randomized-response", "risk_limit = 30")
        ),
        Mistake(
            "a risk limit below what the most frequent value allows",
            PLAN,
            "risk_limit = 0.376 or more",
            method("randomized-response", "risk_limit = 0.05"),
            code=1,
        ),
        Mistake(
            "a retention floor that the requirement does not allow",
            PLAN,
            "Ask for a floor of 0.375 or less",
            policy(('"uniform"', '"uniform"\nretention_floor = 0.9')),
            code=1,
        ),
        Mistake(
            "r above what the most frequent value allows",
            PLAN,
            "Ask for r <= 2",
            method("robust-anatomy", "r = 4", more='\nattribute_sets = [["sex"]]'),
            code=1,
        ),
        Mistake("gamma below 1", PLAN, "gamma = 3", method("uniform", "gamma = 0.5")),
    ),
    "A method for one column": (
        Mistake(
            "a method of its own, and no requirement",
            PLAN,
            "add [columns.NAME.requirement]",
            of_region('[columns.region.method]\nname = "uniform"'),
        ),
        Mistake(
            "a requirement of its own, and no method",
            PLAN,
            "add [columns.NAME.method]",
            of_region("[columns.region.requirement]\ngamma = 3"),
        ),
        Mistake(
            "a method for every sensitive column",
            PLAN,
            "state one of them as [method] and [requirement]",
            policy((SENSITIVE, f"{SENSITIVE}\nmethod = {{ name = 'uniform' }}\nrequirement = {{ gamma = 3 }}")),
        ),
        Mistake(
            "a method that cannot stand beside another",
            PLAN,
            "choose uniform, subset, ranges",
            of_region('[columns.region.method]\nname = "anatomy"\n[columns.region.requirement]\nl = 2'),
        ),
        Mistake(
            "a method of its own for a column that is not sensitive",
            PLAN,
            'write role = "sensitive"',
            policy((REGION, f"{REGION}\nmethod = {{ name = 'uniform' }}\nrequirement = {{ gamma = 3 }}")),
        ),
        Mistake(
            "a method of its own without a section",
            PLAN,
            "write [columns.region.method] on a line of its own",
            of_region('method = "uniform"\nrequirement = { gamma = 3 }'),
        ),
        Mistake(
            "a requirement of its own that is none",
            PLAN,
            "[columns.region.requirement]",
            of_region("method = { name = 'uniform' }\nrequirement = { gamma = 0.5 }"),
        ),
        Mistake(
            "a method for ordered values, of texts without an order",
            PLAN,
            "ordered = true in [columns.region]",
            of_region("method = { name = 'ranges' }\nrequirement = { gamma = 3 }"),
        ),
    ),
    "Words of the policy": (
        Mistake("a misspelt column", PLAN, "[columns.region]", policy(("[columns.region]", "[columns.regoin]"))),
        Mistake(
            "a capital letter in a column's name", PLAN, "[columns.sex]", policy(("[columns.sex]", "[columns.Sex]"))
        ),
        Mistake(
            "a misspelt role",
            PLAN,
            "did you mean 'sensitive'?",
            policy((SENSITIVE, SENSITIVE.replace("itive", "tive"))),
        ),
        Mistake("a hyphen in a role", PLAN, "did you mean 'quasi_identifier'?", policy((AGE, AGE.replace("_", "-")))),
        Mistake("a misspelt method", PLAN, "did you mean 'fine-grain'?", policy(('"uniform"', '"fine_grain"'))),
        Mistake(
            "a method that is not there",
            PLAN,
            "must be 'uniform', 'subset', 'ranges'",
            policy(('"uniform"', '"l-diversity"')),
        ),
        Mistake("a misspelt key", PLAN, "did you mean 'role'?", policy((SENSITIVE, SENSITIVE.replace("role", "rol")))),
        Mistake("a misspelt section", PLAN, "did you mean 'columns'?", policy(("[columns.age]", "[column.age]"))),
        Mistake(
            "a key in the wrong section",
            PLAN,
            "it goes into [requirement]",
            policy(('name = "uniform"', 'name = "uniform"\nrho1 = 0.2')),
        ),
        Mistake("a text without quotes", PLAN, 'name = "uniform"', policy(('name = "uniform"', "name = uniform"))),
        Mistake("a colon for an equals sign", PLAN, "Write = between", policy(('name = "uniform"', 'name: "uniform"'))),
        Mistake(
            "a column's name with a space",
            PLAN,
            '[columns."day of birth"]',
            policy(("[columns.age]", "[columns.day of birth]")),
        ),
        Mistake("a forgotten column", PLAN, "Add [columns.region]", policy((f"{REGION}\n", ""))),
        Mistake("a column twice in the policy", PLAN, "below one heading", policy((SENSITIVE, f"{SENSITIVE}\n{AGE}"))),
        Mistake(
            "no sensitive column",
            PLAN,
            'role = "sensitive"',
            policy((SENSITIVE, SENSITIVE.replace("sensitive", "other"))),
        ),
        Mistake(
            "a misspelt person column",
            PLAN,
            "did you mean 'record'?",
            policy(("[method]", '[person]\ncolumn = "recrod"\n[method]')),
        ),
        Mistake(
            "a misspelt value in a requirement",
            PLAN,
            "Did you mean 'asthma'?",
            method(
                "fine-grain", 'rho1 = 0.2\nrho2 = 0.5\n[[requirement.values]]\nvalue = "astma"\nrho1 = 0.1\nrho2 = 0.2'
            ),
        ),
        Mistake(
            "a prefix that no value has",
            PLAN,
            "start with 'as'",
            method("fine-grain", 'gamma = 8\n[[requirement.values]]\nprefix = "asm"\ngamma = 3'),
        ),
        Mistake(
            "a set of all values",
            PLAN,
            "Name fewer values",
            method("fine-grain", 'gamma = 8\n[[requirement.values]]\nbetween = ["A", "z"]\ngamma = 3'),
        ),
        Mistake(
            "a set, and nothing said of its values",
            PLAN,
            'say others = "unprotected"',
            method("fine-grain", '[[requirement.values]]\nvalues = ["flu", "asthma"]\nrho1 = 0.1\nrho2 = 0.25'),
        ),
        Mistake(
            "a value and a set in one entry",
            PLAN,
            "an entry is about one value or one set",
            method("fine-grain", 'gamma = 8\n[[requirement.values]]\nvalue = "flu"\nprefix = "as"\ngamma = 3'),
        ),
        Mistake("a policy that is not there", "plan patients.csv polcy.toml", "Did you mean 'policy.toml'?"),
        Mistake("curly quotes", PLAN, "Use straight quotes", policy(('name = "uniform"', "name = “uniform”"))),
        Mistake(
            "a column's name with a point",
            PLAN,
            '[columns."age.group"]',
            policy(("[columns.age]", "[columns.age.group]")),
        ),
        Mistake("a role without a section", PLAN, "write [columns.age]", policy((AGE, '[columns]\nage = "other"'))),
        Mistake(
            "a key of another method",
            PLAN,
            "leave it out",
            method("anatomy", "l = 2", more="\nretention_floor = 0.1"),
        ),
        Mistake(
            "linking without quasi-identifiers",
            PLAN,
            'role = "quasi_identifier"',
            method(
                "randomized-response", "l = 2", *((each, each.replace("quasi_identifier", "other")) for each in KNOWN)
            ),
        ),
        Mistake("two requirements", PLAN, "state one requirement", policy(("rho2 = 0.5", "rho2 = 0.5\nepsilon = 1"))),
    ),
    "Values of columns": (
        Mistake(
            "a domain that lacks a value",
            PLAN,
            "Add them to the domain",
            said_of(SENSITIVE, 'domain = ["flu", "asthma", "diabetes", "gout"]'),
        ),
        Mistake(
            "a domain with a misspelt value",
            PLAN,
            "Is 'asthma' the same as 'astma'",
            said_of(SENSITIVE, 'domain = ["flu", "astma", "diabetes", "gout", "migraine"]'),
        ),
        Mistake(
            "a domain that names a value twice",
            PLAN,
            "Leave it in the list once",
            said_of(SENSITIVE, 'domain = ["flu", "asthma", "flu"]'),
        ),
        Mistake("a domain that is no list", PLAN, 'write domain = ["flu", ...]', said_of(SENSITIVE, 'domain = "flu"')),
        Mistake(
            "codes as numbers: 007 is not 7",
            PLAN,
            "Is '000' the same as '0'",
            both(column("diagnosis", lambda k: f"00{k % 5}"), said_of(SENSITIVE, "domain = [0, 1, 2, 3, 4]")),
        ),
        Mistake("incomes as values", PLAN, "coarser (bins", column("diagnosis", lambda k: 1800.5 + 13.25 * k)),
        Mistake("ages as values", PLAN, "bins = { width = 10 }", column("diagnosis", lambda k: 18 + k % 60), code=0),
        Mistake(
            "an id as the sensitive column",
            PLAN,
            "choose another sensitive column",
            column("diagnosis", lambda k: f"D{k:05}"),
        ),
        Mistake(
            "free text as the sensitive column",
            PLAN,
            "choose another sensitive column",
            column("diagnosis", lambda k: f"{NOTES[k % 3]}, visit {k}"),
        ),
        Mistake(
            "free text as a quasi-identifier",
            PLAN,
            'role = "drop"',
            column("region", lambda k: f"{NOTES[k % 3]}, visit {k}"),
        ),
        Mistake(
            "an id as a quasi-identifier",
            PLAN,
            'role = "drop"',
            policy(('[columns.record]\nrole = "identifier"', '[columns.record]\nrole = "quasi_identifier"')),
        ),
        Mistake(
            "dates to the day",
            PLAN,
            'bins = "year"',
            column("age", lambda k: f"19{40 + k % 50}-0{1 + k % 9}-{10 + k % 18}"),
        ),
        Mistake(
            "a width for dates",
            PLAN,
            'bins = "year"',
            both(
                said_of(AGE, "bins = { width = 10 }"),
                column("age", lambda k: f"19{40 + k % 50}-0{1 + k % 9}-{10 + k % 18}"),
            ),
        ),
        Mistake("bins on text", PLAN, "take the bins away", said_of(REGION, "bins = { width = 10 }")),
        Mistake("bins that are a number", PLAN, "write bins = { width = 10 }", said_of(AGE, "bins = 10")),
        Mistake("breaks in no order", PLAN, "Write breaks = [18, 65]", said_of(AGE, "bins = { breaks = [65, 18] }")),
        Mistake(
            "NA for a missing value",
            PLAN,
            'missing_values = ["", "NA"]',
            column("diagnosis", lambda k: "NA" if k % 9 == 7 else "ab"[k % 2]),
            code=0,
        ),
        Mistake("missing values named in a column", PLAN, "[input] missing_values", said_of(AGE, 'missing = "NA"')),
        Mistake("one value", PLAN, "choose another sensitive column", column("diagnosis", lambda k: "flu")),
        Mistake(
            "one value, for groups",
            PLAN,
            "Choose another sensitive column",
            both(method("anatomy", "l = 2"), column("diagnosis", lambda k: "flu")),
        ),
        Mistake(
            "some values missing",
            PLAN,
            'missing = "category"',
            column("diagnosis", lambda k: "" if k % 9 == 7 else "ab"[k % 2]),
        ),
        Mistake("all values missing", PLAN, "choose another sensitive column", column("diagnosis", lambda k: "")),
        Mistake(
            "a person with several rows",
            PLAN,
            'person.repeated = "keep-one"',
            both(
                column("record", lambda k: f"P{k // 2}"), policy(("[method]", '[person]\ncolumn = "record"\n[method]'))
            ),
        ),
    ),
    "Tables": (
        Mistake("semicolons between values", PLAN, 'delimiter = ";"', table(rows_of(patients()), delimiter=";")),
        Mistake(
            "a .tsv file",
            "plan patients.tsv policy.toml",
            'delimiter = "\\t"',
            table(rows_of(patients()), "patients.tsv", "\t"),
        ),
        Mistake("an Excel workbook", "init patients.xlsx", "Save the sheet as CSV", file("patients.xlsx", b"PK\3\4")),
        Mistake(
            "a workbook that is called .csv",
            "init patients.csv",
            "save the sheet as CSV",
            file("patients.csv", b"PK\3\4\xff\n"),
        ),
        Mistake("a file of SPSS, Stata or SAS", "init patients.sav", "Export it as CSV", file("patients.sav")),
        Mistake(
            "text that is not UTF-8",
            "init patients.csv",
            "Save it as UTF-8",
            file("patients.csv", b"name,age\nJos\xe9,20\n"),
        ),
        Mistake(
            "a folder of CSV files", "init tables", "join them to one", both(file("tables/a.csv"), file("tables/b.csv"))
        ),
        Mistake("a table that is not there", "init patient.csv", "Did you mean 'patients.csv'?"),
        Mistake("a secret that no column is", "init patients.csv --sensitive diagnose", "Did you mean 'diagnosis'?"),
        Mistake("an empty file", "init patients.csv", "the first line names the columns", file("patients.csv")),
        Mistake("a header and no rows", PLAN, "give a table with rows", table(rows_of(patients(0)))),
        Mistake(
            "rows and no header", PLAN, "The first line of a file must hold the names", table(rows_of(patients())[1:])
        ),
        Mistake(
            "spaces after the commas",
            PLAN,
            "Remove the spaces",
            file("patients.csv", "\n".join(line.replace(",", ", ") for line in patients())),
        ),
        Mistake("one row", PLAN, "choose another sensitive column", table(rows_of(patients(1)))),
        Mistake(
            "a line with too many fields",
            PLAN,
            "must be quoted",
            file("patients.csv", "\n".join([*patients(), "R1,20,F,North, West,1,flu"])),
        ),
        Mistake(
            "a column twice in the table",
            PLAN,
            "Rename or drop one",
            table([desk.HEADER.replace("sex", "age").split(","), *rows_of(patients())[1:]]),
        ),
        Mistake("two columns that differ in case", PLAN, "Rename one", renamed("weight", "Age")),
        Mistake("a column called estimate", PLAN, "'estimate_value'", renamed("weight", "estimate")),
        Mistake(
            "a column called group, for groups",
            PLAN,
            "rename it",
            both(renamed("weight", "group"), method("anatomy", "l = 2", ("[columns.weight]", "[columns.group]"))),
        ),
    ),
    "Publishing": (
        Mistake("an output that exists", "publish patients.csv policy.toml -o release", "Choose another name"),
        Mistake(
            "a folder that is not there", "publish patients.csv policy.toml -o new/release", "Make the folder first"
        ),
        Mistake(
            "a plan of another table",
            f"{PUBLISH} --plan plan.json",
            "Plan again",
            column("age", lambda k: 20 + k % 9),
            code=1,
        ),
        Mistake(
            "a policy changed after the plan",
            f"{PUBLISH} --plan plan.json",
            "Plan again",
            policy(("rho1 = 0.2", "rho1 = 0.1")),
            code=1,
        ),
        Mistake("the policy for the plan", f"{PUBLISH} --plan policy.toml", "sfumato plan TABLE POLICY -o plan.json"),
        Mistake("a seed and a key file", f"{PUBLISH} --seed 1 --key-file hospital.key", "give --key-file alone"),
        Mistake("a key file that is none", f"{PUBLISH} --key-file policy.toml", "`sfumato key FILE`"),
        Mistake(
            "a record key without a series",
            PLAN,
            'series = "admissions"',
            policy(("version = 1", 'version = 1\nrecord_key = "record"')),
        ),
        Mistake("policy and table exchanged", "plan policy.toml patients.csv", "the table comes first"),
        Mistake("a misspelt command", "pubish patients.csv policy.toml -o new", "Did you mean 'publish'?"),
        Mistake("no output", "publish patients.csv policy.toml", "'--output'"),
        Mistake("a release for the table", "plan release policy.toml", "Give the original table"),
        Mistake("a key file without a record key", f"{PUBLISH} --key-file hospital.key", "leave the key file out"),
    ),
    "Asking": (
        Mistake(
            "a table for a release", "estimate patients.csv --by diagnosis", "the folder that `sfumato publish` wrote"
        ),
        Mistake(
            "the data file for the release", "estimate release/data.parquet --by diagnosis", "Give the whole folder"
        ),
        Mistake("a misspelt column", "estimate release --by diagnosiss", "Did you mean 'diagnosis'?"),
        Mistake(
            "a column that was left out",
            "estimate release --by record",
            "one that the publisher left out cannot be asked for",
        ),
        Mistake(
            "a condition on a randomized column",
            "estimate release --where \"diagnosis = 'flu'\"",
            "SELECT COUNT(*) FROM release WHERE diagnosis = 'flu'",
        ),
        Mistake(
            "a misspelt value of a randomized column",
            asked("SELECT COUNT(*) FROM release WHERE diagnosis IN ('flu', 'astma')"),
            "Did you mean 'asthma'?",
            code=0,
        ),
        Mistake(
            "a misspelt value of another column",
            asked("SELECT COUNT(*) FROM release WHERE region = 'Nort'"),
            "Did you mean 'North'?",
            code=0,
        ),
        Mistake(
            "a text without quotes",
            'estimate release --where "region = North"',
            "A text stands in single quotes: 'North'",
        ),
        Mistake(
            "text compared with a number", 'estimate release --where "region > 3"', "Compare it with texts in quotes"
        ),
        Mistake(
            "a number compared with text", "estimate release --where \"age > 'thirty'\"", "Compare it with numbers"
        ),
        Mistake("MIN, MAX", asked("SELECT MIN(age) FROM release"), "counts by the column"),
        Mistake("MEDIAN", asked("SELECT MEDIAN(age) FROM release"), "counts by the column"),
        Mistake("a quantile of texts in no order", "distribution release diagnosis", "ordered = true"),
        Mistake("a join", asked("SELECT COUNT(*) FROM release JOIN visits USING (age)"), "join the answers"),
        Mistake("another table", asked("SELECT COUNT(*) FROM patients"), "FROM release"),
        Mistake("a column that is not grouped by", asked("SELECT sex, COUNT(*) FROM release"), "GROUP BY sex"),
        Mistake(
            "a nearly unique column to group by",
            "estimate new --by age,diagnosis",
            "mostly noise",
            published(column("age", lambda k: 1000 + k), said_of(AGE, 'publish_as_is = "a test"')),
            code=0,
        ),
        Mistake("an average of a randomized column", asked("SELECT AVG(diagnosis) FROM release"), "GROUP BY diagnosis"),
        Mistake(
            "a misspelt weight", asked("SELECT COUNT(*) FROM release") + " --weight wieght", "Did you mean 'weight'?"
        ),
        Mistake(
            "missing weights",
            'estimate new "SELECT COUNT(*) FROM release" --weight weight',
            'WHERE "weight" >= 0',
            published(
                column("weight", lambda k: k % 3 or ""),
                said_of('[columns.weight]\nrole = "other"', 'missing = "category"'),
            ),
        ),
        Mistake(
            "negative weights",
            'estimate new "SELECT COUNT(*) FROM release" --weight weight',
            'WHERE "weight" >= 0',
            published(column("weight", lambda k: k % 3 - 1)),
        ),
        Mistake("a confidence level in percent", "estimate release --by sex --level 95", "write 0.95"),
        Mistake(
            "an estimator that is not there", "estimate release --by sex --method inverted", "Did you mean 'inverse'?"
        ),
        Mistake("rows for figures", asked("SELECT * FROM release"), "release.to_arrow()"),
        Mistake("a column by its number", asked("SELECT sex, COUNT(*) FROM release GROUP BY 1"), "GROUP BY sex"),
        Mistake(
            "a number that adds a randomized column to another",
            asked("SELECT SUM(age + CASE WHEN diagnosis = 'flu' THEN 1 ELSE 0 END) FROM release"),
            "FILTER (WHERE diagnosis = 'flu')",
        ),
        Mistake("&& for AND", "estimate release --where \"sex = 'F' && age > 30\"", "Write AND"),
        Mistake("a quote that is never closed", asked("SELECT COUNT(*) FROM release WHERE sex = 'F"), "never closed"),
        Mistake(
            "an association of a column with itself", "associate release --between sex,sex", "--between sex,diagnosis"
        ),
        Mistake("a share in percent", "power release --by diagnosis --share 5", "5% is 0.05"),
        Mistake("answers as a workbook", "estimate release --by diagnosis -o counts.xlsx", ".csv"),
    ),
    "Auditing": (
        Mistake(
            "an audit with another table",
            "audit patients.csv policy.toml release",
            "Give the table that was published",
            table(rows_of(patients(200))),
        ),
        Mistake("an audit without the policy", "audit patients.csv release", "TABLE POLICY RELEASE"),
        Mistake(
            "a report into the release",
            "report patients.csv policy.toml release -o release/report.html",
            "Write it beside the release",
        ),
        Mistake(
            "an audit into the release",
            "audit patients.csv policy.toml release -o release/audit.json",
            "Write it elsewhere",
        ),
        Mistake("a report that is no page", "report patients.csv policy.toml release -o report.pdf", "report.html"),
    ),
    "The studio": (
        Mistake("a policy beside a release", "studio release policy.toml", "Give the release alone"),
        Mistake("a misspelt table", "studio patient.csv", "Did you mean 'patients.csv'?"),
        Mistake("a port that there is not", "studio patients.csv --port 70000", "Leave --port out"),
        Mistake("the copy of a table's page", "studio patients.csv --save page.html", "Give a release"),
    ),
}
MISTAKES = tuple(mistake for section in SECTIONS.values() for mistake in section)


# --- the page ---------------------------------------------------------------------------------------------------------

INTRODUCTION = """\
# Troubleshooting: mistakes, and what sfumato says

Every message says what is wrong, with the values, and what to do. This page shows the usual mistakes, each with its
message. A test makes every mistake, reads what is printed, and holds this page to it.

The table is `patients.csv`, with the columns record, age, sex, region, weight and diagnosis. Its policy is
`policy.toml`, its release `release`. Wrong use ends with exit code 2, what cannot be met with 1. A note beside an
answer or a plan that is given all the same leaves it at 0.
"""


def page(answers: dict[str, Printed]) -> Iterator[str]:
    """Give the lines of the page."""
    yield INTRODUCTION
    for heading, mistakes in SECTIONS.items():
        yield f"## {heading}\n"
        yield "| mistake | message as printed | what to do |\n|---|---|---|"
        for mistake in mistakes:
            shown = message(mistake, answers[mistake.words + mistake.command])
            yield f"| {mistake.words} | {cell(shown)} | {cell(mistake.remedy)} |"
        yield ""


def message(mistake: Mistake, answer: Printed) -> str:
    """Return what is printed: of an answer that is given all the same, the note that names the remedy."""
    if mistake.code:
        return steady(answer.err)
    return next(line.strip() for line in answer.out.splitlines() if mistake.remedy in line)


def steady(text: str) -> str:
    """Return a text without what varies: how the program was started, where the desk is, hashes."""
    text = re.sub(r"\AUsage: .*?^(?=Error: )", "", text.strip(), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"'[^' ]*/(release)'", r"'\1'", text)
    return re.sub(r"\b[0-9a-f]{12}\b", "...", text)


def cell(text: str) -> str:
    """Return a text as a cell of a table in Markdown: as code, line by line."""
    return "<br>".join(_code(line.strip().replace("|", "\\|")) for line in text.strip().splitlines())


def _code(line: str) -> str:
    return f"`` {line} ``" if "`" in line else f"`{line}`"


def answered(folder: Path, mistakes: Iterable[Mistake] = MISTAKES) -> dict[str, Printed]:
    """Make mistakes, each at a fresh desk; return what is printed of each."""
    with mock.patch.dict(os.environ):
        os.environ.pop("COLUMNS", None)  # lines stay whole, whoever runs this
        made = desk.make_desk(folder / "desk")
        answers = {}
        for mistake in mistakes:
            with desk.fresh(made, folder / "fresh"):
                answers[mistake.words + mistake.command] = mistake.made()
    return answers


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        sys.stdout.write("\n".join(page(answered(Path(temporary)))))
