"""Who published a release: an Ed25519 signature of its manifest, which holds the checksums of all other files.

    manifest.sig          three lines of ASCII text, each with a line feed at its end
        sfumato signature 1
        key FINGERPRINT       SHA-256 of the public key (DER, SubjectPublicKeyInfo), 64 hexadecimal digits
        ed25519 SIGNATURE     64 bytes in base64

Signed are the bytes of manifest.json after `PREFIX`, so that a signature of anything else is none of a release. Ed25519
draws nothing: the signature is a function of the manifest and the signing key, and tells nothing more of the table.
Public keys are PEM files as other tools write and read them. docs/reference/signature.md has test vectors, and how to
check a signature with OpenSSL.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from sfumato.errors import UsageError
from sfumato.release.folder import MANIFEST_NAME, SIGNATURE_NAME

PREFIX = b"sfumato release manifest, version 1\0"
"""Stands before the manifest in what is signed."""
FORM = re.compile(r"sfumato signature 1\nkey ([0-9a-f]{64})\ned25519 ([A-Za-z0-9+/]{86}==)\n")
LONGEST = 10_000
"""Bytes that are read of a key or a signature, which have some hundred."""
PRIVATE = "PRIVATE KEY-----"
DRAWING = re.compile(r"\s*[0-9a-fA-F]{64}\s*")
"""A key file for draws, which holds nothing else."""


@dataclass(frozen=True)
class Signature:
    """A signature, and the fingerprint of the key that it says it was made with."""

    fingerprint: str
    value: bytes

    def to_text(self) -> str:
        """Return the text of the file."""
        return f"sfumato signature 1\nkey {self.fingerprint}\ned25519 {base64.b64encode(self.value).decode()}\n"

    @classmethod
    def from_text(cls, text: str) -> Signature | None:
        """Return the signature of a file, None if that holds anything else: each signature has one text."""
        form = FORM.fullmatch(text)
        made = cls(form[1], base64.b64decode(form[2])) if form else None
        return made if made and made.to_text() == text else None


def read_signature(folder: Path) -> Signature | None:
    """Return the signature of a release, None if its file holds anything else; it must be there."""
    path = folder / SIGNATURE_NAME
    try:
        return Signature.from_text(read_short(path)) if path.is_file() else None
    except (OSError, ValueError):
        return None


def read_short(path: Path) -> str:
    """Return the text of a key or a signature; more than one can have is not read."""
    with open(path, encoding="ascii", newline="") as file:
        return file.read(LONGEST)


@dataclass(frozen=True)
class PublicKey:
    """The key that signatures are checked with. It is no secret."""

    key: Ed25519PublicKey

    @classmethod
    def load(cls, path: str | Path) -> PublicKey:
        """Read a public key, as `sfumato key --sign` writes it."""
        hint = "Give the public key of the publisher: the file ending in .pub that `sfumato key --sign` wrote."
        try:
            text = read_short(Path(path))
            if PRIVATE in text:
                raise UsageError(f"{str(path)!r} is a private key, which only the publisher may have.", hint)
            if DRAWING.fullmatch(text):
                raise UsageError(f"{str(path)!r} is a key for draws: who has it can undo the noise.", hint)
            key = load_pem_public_key(text.encode())
        except OSError as problem:
            raise UsageError(f"The public key {str(path)!r} cannot be read: {problem.strerror}.", hint) from None
        except (ValueError, UnsupportedAlgorithm, binascii.Error):
            key = None
        if not isinstance(key, Ed25519PublicKey):
            raise UsageError(f"{str(path)!r} is not a public key for Ed25519.", hint)
        return cls(key)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the key, by which people compare it."""
        der = self.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(der).hexdigest()

    def to_pem(self) -> str:
        """Return the text of the file."""
        return self.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def signed(self, folder: Path, signature: Signature) -> bool:
        """Whether the manifest of a release was signed with the key that belongs to this one."""
        try:
            self.key.verify(signature.value, PREFIX + (folder / MANIFEST_NAME).read_bytes())
        except InvalidSignature:
            return False
        return True
