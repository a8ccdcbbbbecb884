"""The words of a report that the manifest alone gives: the story, the promise, its limits, how to cite."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from sfumato.analyst.release import Release
from sfumato.auditor.report.page import Block, Facts, Items, Section, Text, table
from sfumato.claims.claim import STRENGTHS
from sfumato.methods import title_of
from sfumato.release.folder import MANIFEST_NAME
from sfumato.release.manifest import BoundPart, DataFile, GroupsPart, Manifest, MechanismPart
from sfumato.values.attributes import label
from sfumato.values.mechanism import Mechanism

ASSURANCES = {
    "proved": "The promise below is proved; where the method's paper claims more than holds, it was corrected.",
    "as-published": "The method was carried out to the letter of its paper. What is stated below is the weaker claim "
    "that really holds.",
}
DIRECTIONS = {"upward": "a low belief does not rise too far", "downward": "a high belief does not fall too far"}
SHOWN_BOUNDS = 25


def story(manifest: Manifest) -> Section:
    """Return what was published and how, for readers who know nothing of it."""
    blocks = [Text(text) for text in (*_what(manifest), *_how(manifest), ASSURANCES[manifest.assurance])]
    return Section("story", "In short", (Text(blocks[0].text, "lead"), *blocks[1:]))


def _what(manifest: Manifest) -> Iterator[str]:
    hidden = and_list(manifest.sensitive)
    yield (
        f"{manifest.data.rows:,} records were published on {manifest.created}, so that others can count and compare. "
        f"What a single person's {hidden} is shall stay uncertain: how uncertain is promised below, and was measured."
    )
    kept = [column.name for column in manifest.columns if column.treatment == "untouched"]
    binned = [column.name for column in manifest.columns if column.treatment == "binned"]
    if kept:
        yield f"Published as collected: {and_list(kept)}."
    if binned:
        yield f"Published in bins, otherwise as collected: {and_list(binned)}."
    if merged := [column.name for column in manifest.columns if column.treatment == "merged"]:
        yield f"Published with some values merged, otherwise as collected: {and_list(merged)}."
    yield "The rows are in random order." if manifest.data.shuffled else "The rows are in the order of the table."


def _how(manifest: Manifest) -> Iterator[str]:
    if manifest.in_buckets:
        yield from _grouped(manifest, manifest.buckets)
        return
    for part, mechanism in zip(manifest.mechanisms, manifest.mechanism_values, strict=True):
        yield _blurred(part, mechanism)
    if not set(manifest.sensitive) <= set(manifest.randomized):
        yield (
            f"The column {and_list(manifest.sensitive)} itself is not blurred: every row shows the true "
            "value. What is blurred are columns by which a row could be linked with a person."
        )
    yield (
        "So a single row is not to be trusted. But the probabilities are known, and counts over many rows can be "
        "corrected for them, with error bars."
    )


def _blurred(part: MechanismPart, mechanism: Mechanism) -> str:
    name, size = mechanism.domain.name, mechanism.domain.size
    retentions = [table.matrix.retention for table in mechanism.tables]
    if (any_matrix := mechanism.tables[0].matrix).retention is None:
        low, high = float(any_matrix.diagonal.min()), float(any_matrix.diagonal.max())
        return (
            f"Each record was published with its own {name} with a probability of {percent(low)} to {percent(high)}, "
            f"depending on its value, and otherwise with another of the {size:,} values, drawn with probabilities that "
            "the manifest states for each pair of values."
        )
    kept = [float(p) for of_table in retentions if of_table is not None for p in of_table]
    chance = percent(min(kept)) if max(kept) - min(kept) < 5e-5 else f"{percent(min(kept))} to {percent(max(kept))}"
    if part.kind == "small-domain":
        return (
            f"The records were dealt at random to {len(mechanism.tables):,} sub-tables, which the column "
            f"{part.sub_table_column} tells. Each record then kept its {name} with a probability of {chance}, the same "
            "in a sub-table, and otherwise got one that was drawn at random from the values of its sub-table."
        )
    depends = ", depending on its value," if max(kept) - min(kept) >= 5e-5 else ""
    return (
        f"Each record kept its {name} with a probability of {chance}{depends} and otherwise got one that was drawn at "
        f"random from all {size:,} values."
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
    """Return what is promised, against whom and under which prior."""
    stated = manifest.guarantee
    facts = [
        ("Against whom", stated.adversary),
        ("What he may believe beforehand", stated.prior),
        ("It holds for", "statements about single values" if stated.scope == "single values" else "any statement"),
        ("Directions", "; ".join(DIRECTIONS[direction] for direction in stated.directions)),
        ("Strength", STRENGTHS[stated.strength]),
        ("A second release", manifest.second_release),
    ]
    return Section(
        "promise", "What is promised", (Text(stated.sentence, "quote"), Facts(tuple(facts)), *_bounds(manifest))
    )


def _bounds(manifest: Manifest) -> Iterator[Block]:
    """Give the bounds on values, those with the same ones in one row; sub-tables tell theirs with their matrices."""
    for part, mechanism in zip(manifest.mechanisms, manifest.mechanism_values, strict=True):
        stated: dict[tuple[str, ...], list[str]] = {}
        bounds = part.sub_tables[0].bounds if mechanism.is_whole else ()
        bounds *= mechanism.domain.size if len(bounds) == 1 else 1
        for name, bound in zip(mechanism.domain.labels, bounds, strict=False):
            if bound.gamma is not None:
                stated.setdefault(_bound(bound), []).append(name)
        rows = [(and_list(names, 6), *bound) for bound, names in stated.items()]
        if rows:
            more = f" (the first {SHOWN_BOUNDS} of {len(rows):,})" if len(rows) > SHOWN_BOUNDS else ""
            columns = (mechanism.domain.name, "belief before (rho1)", "belief after (rho2)", "odds change (gamma)")
            yield table(f"Bounds on the belief in a value{more}", columns, rows[:SHOWN_BOUNDS])


def _bound(bound: BoundPart) -> tuple[str, ...]:
    rho1, rho2 = (f"at most {share(text)}" if text else "any" for text in (bound.rho1, bound.rho2))
    return rho1, rho2 if bound.rho2 else "by gamma", f"at most {float(Fraction(bound.gamma or 0)):.4g}-fold"


def limits(manifest: Manifest, further: Iterable[Block] = ()) -> Section:
    """Return what the guarantee does not cover, and what else belongs to it."""
    first = (
        "No release makes it impossible to learn something of a person. The promise is about one adversary, with the "
        "knowledge and the beliefs that are stated. It does not cover these:"
    )
    return Section("limits", "Limits", (Text(first), Items(manifest.guarantee.limits), *_disclosed(manifest), *further))


def _disclosed(manifest: Manifest) -> Iterator[Block]:
    if manifest.computed_from_table:
        yield Text("These facts of the release were computed from the table, and tell of it whatever the noise is:")
        yield Items(manifest.computed_from_table)


# --- citing -----------------------------------------------------------------------------------------------------------


def citing(release: Release, made: str, software: str) -> Section:
    """Return how the release is cited and checked: versions, dates, checksums."""
    manifest = release.manifest
    cited = (
        f"Release {manifest.release_id}, {manifest.created}, {title_of(manifest.method)} "
        f"({manifest.assurance}), made with {manifest.software}. SHA-256 of {_file(manifest.data)}: "
        f"{manifest.data.sha256}."
    )
    manifest_hash = hashlib.sha256((release.folder / MANIFEST_NAME).read_bytes()).hexdigest()
    hashes = [
        *((_file(table), table.sha256) for table in manifest.tables),
        (MANIFEST_NAME, manifest_hash),
        ("README.md", manifest.readme_sha256),
        ("policy", manifest.policy_sha256),
    ]
    facts = Facts((("This page", f"{made}, {software}"), ("The release", f"{manifest.created}, {manifest.software}")))
    checked = "Whoever has the release can check it: sfumato verify compares the checksums and re-computes the bounds."
    blocks = (Text(cited, "mono"), facts, Text(checked), table("SHA-256", ("file", "checksum"), hashes, 2))
    return Section("citing", "How to cite and check", blocks)


def _file(stated: DataFile | GroupsPart) -> str:
    """Return the name of a table's file; of one in parts the folder's, and how many files it has."""
    return stated.file if stated.parts is None else f"{stated.file} ({len(stated.parts):,} files)"


# --- texts ------------------------------------------------------------------------------------------------------------


def and_list(names: Sequence[object], most: int = 12) -> str:
    """Return names as a text.

    >>> and_list(["a"]), and_list(["a", "b", "c"]), and_list("abcdef", 3)
    ('a', 'a, b and c', 'a, b, c and 3 more')
    """
    shown = [name if isinstance(name, str) else label(name) for name in names]  # type: ignore[arg-type]
    if len(shown) > most:
        return f"{', '.join(shown[:most])} and {len(shown) - most:,} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def percent(number: float) -> str:
    """Return a share in percent, with three digits.

    >>> [percent(x) for x in (0, 1, 0.1234, 0.05, 0.00012)]
    ['0%', '100%', '12.3%', '5%', '0.012%']
    """
    return f"{100 * number:.3g}%" if number < 1 else f"{100 * number:.0f}%"


def share(text: str) -> str:
    """Return an exact fraction for readers.

    >>> share("1/4"), share("1/3")
    ('25%', '1/3')
    """
    value = Fraction(text)
    exact = value * 10000
    return percent(float(value)) if exact.denominator == 1 else str(value) if len(text) < 12 else percent(float(value))
