"""A release against its signature: who published it, if the reader has the publisher's public key."""

from __future__ import annotations

import os
from collections.abc import Iterator

from sfumato.claims.claim import Check, outcome
from sfumato.release.folder import SIGNATURE_NAME, ReleaseFolder
from sfumato.release.signature import PublicKey, read_signature

SIGNATURE = "signature"


def signature_checks(release: ReleaseFolder, signer: PublicKey | None) -> Iterator[Check]:
    """Yield whether the signer signed the manifest; without one, that there is a signature, if there is."""
    if not os.path.lexists(release.folder / SIGNATURE_NAME):
        if signer:
            yield Check(SIGNATURE, "fails", f"The release is not signed: it has no {SIGNATURE_NAME}.")
        return
    found = read_signature(release.folder)
    if found is None:
        yield Check(SIGNATURE, "fails", f"{SIGNATURE_NAME} is not a signature of version 1.")
    elif signer is None:
        told = f"Signed, not checked: pass --signer PUBLICKEY. It says that its key is {found.fingerprint}."
        yield Check(SIGNATURE, "not checked", told)
    elif found.fingerprint != signer.fingerprint:
        told = f"Signed by another key, it says {found.fingerprint}; the signer's is {signer.fingerprint}."
        yield Check(SIGNATURE, "fails", told)
    else:
        yield outcome(
            SIGNATURE,
            signer.signed(release.folder, found),
            f"Signed by the key {signer.fingerprint}.",
            f"The key {signer.fingerprint} did not sign this: the manifest was changed since, or the signature.",
        )
