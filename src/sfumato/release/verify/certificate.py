"""A certificate against the release that it is of: what must be equal, what can be counted again, and what cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sfumato.claims.claim import Check, needs_audit, outcome
from sfumato.errors import SfumatoError
from sfumato.release.alone import Alone, alone_in
from sfumato.release.certificate import (
    Certificate,
    card_of,
    certified_release,
    required_of,
)
from sfumato.release.folder import ReleaseFolder
from sfumato.release.manifest import Manifest
from sfumato.values.software import software

CERTIFICATE = "certificate, "
"""How the names of these checks begin."""
UNREADABLE = (ArithmeticError, AssertionError, IndexError, ValueError, SfumatoError)
"""What a manifest whose numbers or domains were changed can raise."""


def certificate_checks(release: ReleaseFolder, certificate: Certificate) -> Iterator[Check]:
    """Yield what a certificate states, each with whether the release bears it out."""
    manifest = release.manifest
    yield outcome(
        f"{CERTIFICATE}seal",
        certificate.seal == certificate.due_seal,
        "It is as it was made, but for somebody who made a new seal.",
        "It was changed after it was made.",
    )
    yield _release(release, certificate)
    yield _equal("promise", certificate.promise, lambda: manifest.guarantee)
    yield _equal("requirement", certificate.requirement, lambda: required_of(manifest))
    yield _card(certificate, manifest)
    yield _equal("policy", certificate.policy.sha256, lambda: manifest.policy_sha256)
    yield _alone(release, certificate.alone)
    yield from _unseen(certificate)


def _equal(part: str, stated: object, due: Callable[[], object]) -> Check:
    """Check that a part is what follows from the manifest, if that can be read at all."""
    try:
        good = stated == due()
    except UNREADABLE:
        good = False
    what = f"{part} that follows from the manifest"
    return outcome(f"{CERTIFICATE}{part}", good, f"It is the {what}.", f"It is not the {what}.")


def _card(certificate: Certificate, manifest: Manifest) -> Check:
    """Check the card; one of another version may have other words for the same, which are for people to compare."""
    found = _equal("card", certificate.card, lambda: card_of(manifest))
    if found.status == "holds" or certificate.software == software():
        return found
    return needs_audit(
        found.name,
        f"Worded by {certificate.software}; this is {software()}. Compare it with the card of the release.",
    )


def _release(release: ReleaseFolder, certificate: Certificate) -> Check:
    due, stated = certified_release(release), certificate.release
    wrong = [key for key in type(due).model_fields if getattr(due, key) != getattr(stated, key)]
    return outcome(
        f"{CERTIFICATE}release",
        not wrong,
        "It names this release, its manifest and its tables by their checksums.",
        f"It is of another release, or this one was changed: {', '.join(wrong)}.",
    )


def _alone(release: ReleaseFolder, stated: Alone | None) -> Check:
    name = f"{CERTIFICATE}unique records"
    try:
        found = alone_in(release)
    except SfumatoError as problem:
        return Check(name, "fails", f"The records cannot be counted: {problem.message}")
    told = "nobody was counted" if found is None else f"{found.unique:,} of {found.records:,} published records"
    return outcome(name, found == stated, f"Counted again: {told}.", f"Counted again, it is otherwise: {told}.")


def _unseen(certificate: Certificate) -> Iterator[Check]:
    """Yield what only the publisher can check."""
    if certificate.from_private_table:
        listed = ", ".join(certificate.from_private_table)
        yield needs_audit(f"{CERTIFICATE}figures of the table", f"Measured with the private table: {listed}.")
    if certificate.policy.about:
        yield needs_audit(
            f"{CERTIFICATE}policy's text", "What the policy says that it is about: compare with the policy."
        )
    if certificate.plan_sha256:
        yield needs_audit(f"{CERTIFICATE}plan", "That this plan was signed off: compare with the file of the plan.")
