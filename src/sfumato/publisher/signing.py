"""The publisher's signing key: who has it can publish in the publisher's name. It has no part in any draw."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from sfumato.errors import UsageError
from sfumato.release.signature import DRAWING, PREFIX, PublicKey, Signature, read_short
from sfumato.show.private import check_closed, check_no_key, write_new
from sfumato.values.randomness import no_core_dump

PUBLIC_MODE = 0o644


@dataclass(frozen=True)
class SigningKey:
    """A private key for Ed25519; its repr shows none of its bytes."""

    key: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def load(cls, path: str | Path) -> SigningKey:
        """Read a signing key, as `sfumato key --sign` writes it."""
        hint = "Give the private file that `sfumato key --sign FILE` wrote, or make one so."
        try:
            text = read_short(Path(path))
            if DRAWING.fullmatch(text):
                raise UsageError(f"{str(path)!r} is a key for draws, not for signatures: pass it by --key-file.", hint)
            if "PUBLIC KEY-----" in text:
                raise UsageError(f"{str(path)!r} is a public key; only the private one signs.", hint)
            key = load_pem_private_key(text.encode(), password=None)
        except OSError as problem:
            raise UsageError(f"The signing key {str(path)!r} cannot be read: {problem.strerror}.", hint) from None
        except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: one with a password
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise UsageError(f"{str(path)!r} is not a signing key for Ed25519 without a password.", hint)
        check_closed(Path(path), "signing key")
        return cls(key)

    @classmethod
    def create(cls, path: str | Path) -> SigningKey:
        """Write a new key that only its owner can read, and its public key beside it; never overwrite any."""
        private, public = Path(path), public_file(Path(path))
        for file in (private, public):
            check_no_key(file)
        with no_core_dump():
            made = cls(Ed25519PrivateKey.generate())
            secret = made.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
            try:
                write_new(public, made.public.to_pem())
                public.chmod(PUBLIC_MODE)
                write_new(private, secret)
            except BaseException:
                # one is of use only with the other; either may be there though its disk did not confirm it
                if _holds(public, made.public.to_pem()) and not _holds(private, secret):
                    public.unlink()
                raise
        return made

    @property
    def public(self) -> PublicKey:
        """The key that others check signatures with."""
        return PublicKey(self.key.public_key())

    def sign(self, manifest: bytes) -> Signature:
        """Return the signature of a manifest."""
        return Signature(self.public.fingerprint, self.key.sign(PREFIX + manifest))


def _holds(path: Path, text: str) -> bool:
    try:
        return path.is_file() and read_short(path) == text
    except (OSError, ValueError):  # it cannot be read, or is no text
        return False


def public_file(private: Path) -> Path:
    """Return where the public key of a signing key lies."""
    return private.with_name(f"{private.name}.pub")
