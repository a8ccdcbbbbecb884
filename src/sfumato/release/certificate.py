"""A certificate: what was promised of a release and what was found, as JSON that a machine can check.

It names the release by its checksums, and repeats the promise, the requirement and the card, which `sfumato verify
RELEASE --certificate FILE` compares with the release. What was measured with the private table is listed in
`from_private_table`: nobody can check it without the table. A public certificate holds none of these figures; of the
audit it has the verdicts. Its JSON Schema is docs/reference/certificate.schema.json.

The seal is a checksum of all else. It finds accidents, and not somebody who makes a new seal: sign the file by other
means where that matters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from sfumato.claims.claim import Guarantee
from sfumato.errors import UsageError
from sfumato.release.alone import Alone
from sfumato.release.folder import MANIFEST_NAME, ReleaseFolder, file_sha256, first_mistake, read_part
from sfumato.release.manifest import Manifest, Rational
from sfumato.release.parts import Part, schema_of
from sfumato.show.reading import read_text
from sfumato.values.bound import strictest_gamma

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
CertifiedVerdict = Literal["within the bound", "above the bound", "not covered by the guarantee"]


class CertifiedFile(Part):
    """A file of the release, or the folder of a table in parts."""

    file: str
    sha256: Sha256


class CertifiedRelease(Part):
    """Which release it is."""

    release_id: str
    created: str = Field(description="Date, ISO 8601.")
    software: str
    status: Literal["release", "not for release"]
    method: str
    assurance: Literal["proved", "as-published"]
    rows: int = Field(ge=0, description="Published records.")
    withheld: int = Field(ge=0)
    manifest_sha256: Sha256
    files: tuple[CertifiedFile, ...] = Field(description="The tables, as the manifest states them.")


class Required(Part):
    """What was required of some columns; exact fractions as text."""

    columns: tuple[str, ...]
    bounds: Literal["odds", "share of a group", "risk"] = Field(description="What is bounded.")
    limit: Rational | None = Field(
        description="The strictest one: the factor gamma on odds, or a probability; null where nothing is bounded."
    )
    rho1: Rational | None = Field(description="With rho2: where all values share them; else null.")
    rho2: Rational | None


class CardLine(Part):
    """A line of the card."""

    label: str
    text: str


class CertifiedPolicy(Part):
    """The policy of the publication."""

    sha256: Sha256
    about: dict[str, str] = Field(description="Its section [about]: title, owner, purpose, recipients; or none.")


class CertifiedTable(Part):
    """The private table. Never in a public certificate."""

    sha256: str | None = Field(description="As plans state it; null where it was not computed.")
    records: int = Field(ge=0)
    alone: Alone | None = Field(description="By the quasi-identifiers of the policy, as they are published.")


class CertifiedAttack(Part):
    """What an attacker reached, or that no promise is about it; in a public certificate without figures."""

    attacker: str
    about: str
    verdict: CertifiedVerdict
    before: float | None = Field(description="What is reached without the release.")
    worst: float | None = Field(description="The largest risk, or where beliefs must not fall the smallest.")
    promised: float | None
    records: int | None
    at_risk: int | None


class Certificate(Part):
    """What was promised of a release, and what was found."""

    certificate_version: Literal[1] = 1
    made: str = Field(description="Date, ISO 8601.")
    software: str
    public: bool = Field(description="Whether it holds no figure that was measured with the private table.")
    release: CertifiedRelease
    promise: Guarantee
    requirement: tuple[Required, ...]
    card: tuple[CardLine, ...]
    policy: CertifiedPolicy
    plan_sha256: Sha256 | None = Field(description="Of the file of the plan that was signed off; null if not given.")
    alone: Alone | None = Field(description="Of the published records, by columns without noise; null: not counted.")
    table: CertifiedTable | None
    attacks: tuple[CertifiedAttack, ...]
    from_private_table: tuple[str, ...] = Field(description="Keys that cannot be checked without the private table.")
    seal: Annotated[str, Field(description="SHA-256 of this document with an empty seal.")] = ""

    def to_json(self) -> str:
        """Return the certificate as JSON, as it is written to a file."""
        return self.model_dump_json(indent=2) + "\n"

    @property
    def due_seal(self) -> str:
        """The seal that belongs to the content."""
        return hashlib.sha256(self.model_copy(update={"seal": ""}).to_json().encode()).hexdigest()

    def sealed(self) -> Certificate:
        """Return the certificate with its seal."""
        return self.model_copy(update={"seal": self.due_seal})


def load_certificate(path: str | Path) -> Certificate:
    """Read a certificate."""
    hint = "Make one with `sfumato report ... --certificate FILE`."
    try:
        return read_part(Certificate, read_text(path))
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageError(f"The certificate {str(path)!r} cannot be read: {problem}.", hint) from None
    except ValueError as problem:
        raise UsageError(f"{str(path)!r} is not a certificate: {first_mistake(problem)}.", hint) from None


def json_schema() -> str:
    """Return the JSON Schema of certificates."""
    return schema_of(Certificate, "sfumato certificate of a release, version 1")


# --- what follows from a release --------------------------------------------------------------------------------------


def certified_release(release: ReleaseFolder) -> CertifiedRelease:
    """Return which release it is."""
    manifest = release.manifest
    return CertifiedRelease(
        release_id=manifest.release_id,
        created=manifest.created,
        software=manifest.software,
        status=manifest.status,
        method=manifest.method,
        assurance=manifest.assurance,
        rows=manifest.data.rows,
        withheld=manifest.withheld,
        manifest_sha256=file_sha256(release.folder / MANIFEST_NAME),
        files=tuple(CertifiedFile(file=table.file, sha256=table.sha256) for table in manifest.tables),
    )


def required_of(manifest: Manifest) -> tuple[Required, ...]:
    """Return what the manifest states as required, the strictest of every mechanism."""
    return tuple(_required(manifest))


def _required(manifest: Manifest) -> Iterator[Required]:
    if manifest.groups:
        yield _limit(manifest.groups.at_most, manifest.sensitive, "share of a group")
    elif manifest.response:
        limits = [manifest.response.limit, *(group.limit for group in manifest.response.groups)]
        yield _limit(str(min(map(Fraction, limits))), manifest.sensitive, "risk")
    else:
        for mechanism in manifest.mechanism_values:
            bounds = [bound for table in mechanism.tables for bound in table.bounds]
            gamma = strictest_gamma(bounds, mechanism.sets)
            shared = {(bound.rho1, bound.rho2) for bound in bounds}
            rho1, rho2 = shared.pop() if len(shared) == 1 else (None, None)
            yield Required(
                columns=mechanism.domain.names,
                bounds="odds",
                limit=None if gamma is None else str(gamma),
                rho1=None if rho1 is None else str(rho1),
                rho2=None if rho2 is None else str(rho2),
            )


def _limit(limit: str, columns: tuple[str, ...], bounds: Literal["share of a group", "risk"]) -> Required:
    return Required(columns=columns, bounds=bounds, limit=limit, rho1=None, rho2=None)


def card_of(manifest: Manifest) -> tuple[CardLine, ...]:
    """Return the lines of the card."""
    return tuple(CardLine(label=label, text=text) for label, text in manifest.card.rows)
