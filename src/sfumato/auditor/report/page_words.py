"""The words of a report that the release alone gives: the story, the promise, its limits, how to cite."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from sfumato.analyst.release import Release
from sfumato.auditor.report.page import Block, Details, Facts, Items, Section, Text, first_rows, table
from sfumato.claims.claim import STRENGTHS
from sfumato.methods import title_of
from sfumato.release.folder import MANIFEST_NAME
from sfumato.release.manifest import BoundPart, DataFile, GroupsPart, Manifest, MechanismPart
from sfumato.show.words import at_least, at_most, chance, chances, factor
from sfumato.values.attributes import label
from sfumato.values.mechanism import Mechanism

ASSURANCES = {
    "proved": "The promise is proved; where the method's paper claims more than holds, it was corrected.",
    "as-published": "The method was carried out to the letter of its paper. What is promised is the weaker claim "
    "that really holds.",
}
TREATMENTS = {
    "untouched": "as collected",
    "binned": "in bins, otherwise as collected",
    "merged": "with some values merged, otherwise as collected",
}
"""What is published as it is."""
DIRECTIONS = {"upward": "a low belief does not rise too far", "downward": "a high belief does not fall too far"}
SHOWN_BOUNDS = 25


def story(manifest: Manifest) -> Section:
    blocks = [Text(text) for text in (*_what(manifest), *_how(manifest), ASSURANCES[manifest.assurance])]
    return Section("story", "How it was made", tuple(blocks))


def in_short(manifest: Manifest) -> str:
    """Return what the method does, in half a line."""
    if manifest.in_buckets:
        return f"{manifest.domain.name} in a separate list, by groups of records"
    names = and_list([mechanism.domain.name for mechanism in manifest.mechanism_values], 4)
    if all(mechanism.form == "value" for mechanism in manifest.mechanism_values):
        return f"{names} replaced at random"
    return f"{names} published as random sets of values"


def _what(manifest: Manifest) -> Iterator[str]:
    hidden = and_list(manifest.sensitive)
    yield (
        f"{manifest.data.rows:,} records were published on {manifest.created}, so that others can count and compare. "
        f"What a single person's {hidden} is shall stay uncertain: how uncertain is promised above, and was measured."
    )
    for treatment, words in TREATMENTS.items():
        if names := [column.name for column in manifest.columns if column.treatment == treatment]:
            yield f"Published {words}: {and_list(names)}."
    yield "The rows are in random order." if manifest.data.shuffled else "The rows are in the order of the table."


def _how(manifest: Manifest) -> Iterator[str]:
    if manifest.in_buckets:
        yield from _grouped(manifest, manifest.buckets)
        return
    for part, mechanism in zip(manifest.mechanisms, manifest.mechanism_values, strict=True):
        yield _blurred(part, mechanism)
    if not set(manifest.sensitive) <= set(manifest.domain.names):
        yield (
            f"The column {and_list(manifest.sensitive)} itself is not blurred: every row shows the true "
            "value. What is blurred are columns by which a row could be linked with a person."
        )
    yield (
        "So a single row is not to be trusted. But the probabilities are known, and counts over many rows can be "
        "corrected for them, with error bars."
    )


def _blurred(part: MechanismPart, mechanism: Mechanism) -> str:
    if mechanism.form != "value":
        return of_cards(mechanism)
    name, size = mechanism.domain.name, mechanism.domain.size
    matrices = [table.matrix for table in mechanism.tables]
    if matrices[0].retention is None:
        diagonal = matrices[0].diagonal
        return (
            f"Each record was published with its own {name} with a probability of "
            f"{chances(float(diagonal.min()), float(diagonal.max()))}, depending on its value, and otherwise with "
            f"another of the {size:,} "
            "values, drawn with probabilities that the manifest states for each pair of values."
        )
    kept = [float(p) for matrix in matrices if matrix.retention is not None for p in matrix.retention]
    low, high = min(kept), max(kept)
    kept_with, differ = chances(low, high), chance(low) != chance(high)
    if part.sub_table_column is not None:
        return (
            f"The records were dealt at random to {len(mechanism.tables):,} sub-tables, which the column "
            f"{part.sub_table_column} tells. Each record then kept its {name} with a probability of {kept_with}, the "
            "same in a sub-table, and otherwise got one that was drawn at random from the values of its sub-table."
        )
    return (
        f"Each record kept its {name} with a probability of {kept_with}{', depending on its value,' if differ else ''} "
        f"and otherwise got one that was drawn at random from all {size:,} values."
    )


def of_cards(mechanism: Mechanism) -> str:
    """Say what is published of a record, and that the truth may lie outside."""
    name, matrix, held = mechanism.domain.name, mechanism.matrix, mechanism.matrix.holds_truth
    holds = chances(float(held.min()), float(held.max()))
    fewest, most = matrix.card_sizes
    members = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    shown = "" if mechanism.form == "set" else ", which is named by the number of its card"
    return (
        f"In place of its {name} each record was published with a set of {members} of the {matrix.size:,} values, one "
        f"of {matrix.outputs:,} that are used{shown}. The set holds the record's own {name} with a probability of "
        f"{holds}; otherwise the truth lies outside, and nothing says which it is."
    )


def _grouped(manifest: Manifest, groups: GroupsPart) -> Iterator[str]:
    name = manifest.domain.name
    if groups.withheld:
        yield (
            f"{groups.withheld:,} records were withheld: without that, some values of {name} would be so frequent that "
            "they could not be hidden among others, or it could be told which ones they are."
        )
    among = f" among those that agree in {and_list(groups.dealt_within)}" if groups.dealt_within else ""
    yield (
        f"All published values are true, but {name} was taken apart from the rest. The records were dealt at random"
        f"{among} to {groups.number:,} groups. One file tells who is in which group, the other which values of {name} "
        "a group has, and how often. Which record of a group has which value is not told."
    )
    published = " among the published records" if groups.withheld else ""
    yield (
        f"So how often each {name} occurs{published} is exact, and how it goes together with other columns can be "
        "estimated."
    )


# --- the promise ------------------------------------------------------------------------------------------------------


def promise(manifest: Manifest) -> Section:
    """Return the exact statement behind the card; its bounds, value by value, are folded away."""
    stated = manifest.guarantee
    facts = [
        ("Against whom", stated.adversary),
        ("What they may believe beforehand", stated.prior),
        ("It holds for", _scope(manifest)),
        ("Directions", "; ".join(DIRECTIONS[direction] for direction in stated.directions)),
        ("Strength", STRENGTHS[stated.strength]),
        ("A second release", manifest.second_release),
    ]
    bounds = tuple(_bounds(manifest))
    folded = (Details("The bounds, value by value", bounds),) if bounds else ()
    return Section(
        "promise", "The promise, to the letter", (Text(stated.sentence, "quote"), Facts(tuple(facts), "about"), *folded)
    )


def _scope(manifest: Manifest) -> str:
    if manifest.guarantee.scope != "single values":
        return "any statement"
    has_sets = any(table.sets for part in manifest.mechanisms for table in part.sub_tables)
    return "statements about single values" + (" and about the listed sets of values" if has_sets else "")


def _bounds(manifest: Manifest) -> Iterator[Block]:
    """Give the bounds on values, those with the same ones in one row; sub-tables tell theirs with their matrices."""
    for part, mechanism in zip(manifest.mechanisms, manifest.mechanism_values, strict=True):
        bounds = part.sub_tables[0].bounds if mechanism.is_whole else ()
        bounds *= mechanism.domain.size if len(bounds) == 1 else 1
        stated = zip(mechanism.domain.labels, bounds, strict=False)
        rows = alike(((name, _bound(bound)) for name, bound in stated if bound.gamma is not None), 6)
        if rows:
            caption = f"Bounds on the belief in a value{first_rows(rows, SHOWN_BOUNDS)}"
            columns = (mechanism.domain.name, "belief before (rho1)", "belief after (rho2)", "odds change (gamma)")
            yield table(caption, columns, rows[:SHOWN_BOUNDS])
        yield from _set_bounds(part, mechanism)


def _set_bounds(part: MechanismPart, mechanism: Mechanism) -> Iterator[Block]:
    """Give the bounds on sets of values, where there are any."""
    told = zip(part.sub_tables[0].sets or (), mechanism.sets, strict=True)
    rows = [(each.told(mechanism.domain), f"{len(one.values):,}", *_bound(one.bound)) for one, each in told]
    if rows:
        caption = f"Bounds on the belief that the value is one of a set{first_rows(rows, SHOWN_BOUNDS)}"
        columns = ("statement", "values", "belief before (rho1)", "belief after (rho2)", "odds change (gamma)")
        yield table(caption, columns, rows[:SHOWN_BOUNDS])


def _bound(bound: BoundPart) -> tuple[str, ...]:
    rho1 = f"at most {at_least(Fraction(bound.rho1))}" if bound.rho1 else "any"
    return (
        rho1,
        f"at most {at_most(Fraction(bound.rho2))}" if bound.rho2 else "by gamma",
        f"at most {factor(float(Fraction(bound.gamma or 0)))}-fold",
    )


def limits(manifest: Manifest) -> Section:
    """Return what the guarantee does not cover, and what the release tells whatever the noise is."""
    first = (
        "No release makes it impossible to learn something of a person. The promise is about one attacker, with the "
        "knowledge and the beliefs that are stated. These are its limits, to the letter:"
    )
    blocks: list[Block] = [Text(first), Items(manifest.guarantee.limits)]
    if computed := manifest.computed_from_table:
        told = "These facts of the release were computed from the table, and tell of it whatever the noise is:"
        blocks += [Text(told), Items(computed)]
    return Section("limits", "Limits", tuple(blocks))


def citing(release: Release, made: str) -> Section:
    """Return how the release is cited and checked: versions, dates, checksums. made: when the page was, and by what."""
    manifest = release.manifest
    cited = (
        f"Release {manifest.release_id}, {manifest.created}, {title_of(manifest.method)} ({manifest.assurance}), made "
        f"with {manifest.software}. SHA-256 of {_file(manifest.data)}: {manifest.data.sha256}."
    )
    manifest_hash = hashlib.sha256((release.folder / MANIFEST_NAME).read_bytes()).hexdigest()
    hashes = [
        *((_file(table), table.sha256) for table in manifest.tables),
        (MANIFEST_NAME, manifest_hash),
        ("README.md", manifest.readme_sha256),
        ("policy", manifest.policy_sha256),
    ]
    facts = Facts((("This page", made), ("The release", f"{manifest.created}, {manifest.software}")), "about")
    checked = "Whoever has the release can check it: sfumato verify compares the checksums and re-computes the bounds."
    listed = Details("Checksums", (table("SHA-256", ("file", "checksum"), hashes, 2),))
    blocks = (Text(cited, "mono"), facts, Text(checked), listed)
    return Section("citing", "How to cite and check", blocks)


def _file(stated: DataFile | GroupsPart) -> str:
    """Return the name of a table's file; of one in parts the folder's, and how many files it has."""
    return stated.file if stated.parts is None else f"{stated.file} ({len(stated.parts):,} files)"


def and_list(names: Sequence[object], most: int = 12) -> str:
    """Return names as a text.

    >>> and_list(["a"]), and_list(["a", "b", "c"]), and_list("abcdef", 3)
    ('a', 'a, b and c', 'a, b, c and 3 more')
    """
    shown = [name if isinstance(name, str) else label(name) for name in names]  # type: ignore[arg-type]
    if len(shown) > most:
        return f"{', '.join(shown[:most])} and {len(shown) - most:,} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def alike(lines: Iterable[tuple[str, tuple[str, ...]]], most: int = 12) -> list[tuple[str, ...]]:
    """Return rows of a name and its figures; names with the same figures share one.

    >>> alike([("a", ("1%",)), ("b", ("2%",)), ("c", ("1%",))])
    [('a and c', '1%'), ('b', '2%')]
    """
    found: dict[tuple[str, ...], list[str]] = {}
    for name, figures in lines:
        found.setdefault(figures, []).append(name)
    return [(and_list(names, most), *figures) for figures, names in found.items()]
