"""Signed releases: who published can be checked, by this program and by others; what was changed since is found."""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sfumato.analyst.release import Release, open_release
from sfumato.auditor.audit import audit
from sfumato.errors import ReleaseError, UsageError
from sfumato.publisher.publish import publish
from sfumato.publisher.signing import SigningKey
from sfumato.publisher.table import scan
from sfumato.release.folder import SIGNATURE_NAME
from sfumato.release.signature import PREFIX, PublicKey, Signature
from sfumato.values.randomness import SecretKey
from tests.cli.test_commands import as_json, run
from tests.conftest import make_policy
from tests.engines.tools import ROLES, listing, patients, planned
from tests.faults.test_ends import POLICY

PAGE = Path(__file__).parents[2] / "docs/reference/signature.md"
FORMS = ("parquet", "csv")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two signing keys, hospital and other, and a key for draws."""
    folder = tmp_path_factory.mktemp("keys")
    SigningKey.create(folder / "hospital")
    SigningKey.create(folder / "other")
    SecretKey.create(folder / "draws")
    return folder


def signed(folder: Path, key: Path, format: str = "parquet") -> Release:
    table = scan(patients(), make_policy(ROLES))
    made = SigningKey.load(key)
    return publish(table, planned(table, shuffle=True), folder, sign=made, format=format)  # type: ignore[arg-type]


def found(release: Release, signer: Path | None) -> tuple[str, str]:
    """Return status and detail of the signature's check; every other one must hold."""
    checks = {check.name: check for check in open_release(release.folder).verify(signer=signer).checks}
    check = checks.pop("signature")
    assert {other.status for other in checks.values()} <= {"holds", "needs audit"}
    return check.status, check.detail


@pytest.mark.parametrize("format", FORMS)
def test_the_signer_is_told_from_others(format: str, keys: Path, tmp_path: Path) -> None:
    release = signed(tmp_path / "r", keys / "hospital", format)
    own, other = (PublicKey.load(keys / f"{name}.pub").fingerprint for name in ("hospital", "other"))
    assert found(release, keys / "hospital.pub") == ("holds", f"Signed by the key {own}.")
    status, told = found(release, keys / "other.pub")
    assert (status, own in told, other in told) == ("fails", True, True)
    status, told = found(release, None)
    assert status == "not checked"
    assert told.startswith("Signed, not checked: pass --signer")
    assert own in told
    assert listing(release.folder) == sorted(["README.md", f"data.{format}", "manifest.json", SIGNATURE_NAME])


def test_without_a_signer_nothing_is_written_or_said(keys: Path, tmp_path: Path) -> None:
    table = scan(patients(), make_policy(ROLES))
    release = publish(table, planned(table, shuffle=True), tmp_path / "r")
    assert SIGNATURE_NAME not in listing(release.folder)
    assert "signature" not in {check.name for check in release.verify().checks}
    assert found(release, keys / "hospital.pub") == ("fails", "The release is not signed: it has no manifest.sig.")


def test_every_byte_of_the_manifest_is_signed(keys: Path, tmp_path: Path) -> None:
    """A space more is the same manifest to every reader, and another one to its signature."""
    release = signed(tmp_path / "r", keys / "hospital")
    public, path = PublicKey.load(keys / "hospital.pub"), release.folder / "manifest.json"
    signature = Signature.from_text((release.folder / SIGNATURE_NAME).read_text())
    assert signature is not None
    content = path.read_bytes()
    for changed in (content + b"\n", content[:-2] + b" }\n", content.replace(b'"release"', b'"Release"'), b""):
        path.write_bytes(changed)
        assert not public.signed(release.folder, signature)
    path.write_bytes(content + b"\n")
    checks = {check.name: check for check in open_release(release.folder).verify(signer=keys / "hospital.pub").checks}
    assert checks["signature"].status == "fails"
    assert "the manifest was changed since, or the signature" in checks["signature"].detail


def test_every_bit_of_a_signature_counts(keys: Path, tmp_path: Path) -> None:
    release = signed(tmp_path / "r", keys / "hospital")
    public = PublicKey.load(keys / "hospital.pub")
    signature = Signature.from_text((release.folder / SIGNATURE_NAME).read_text())
    assert signature is not None
    assert public.signed(release.folder, signature)
    for bit in range(512):
        value = bytearray(signature.value)
        value[bit // 8] ^= 1 << bit % 8
        assert not public.signed(release.folder, Signature(signature.fingerprint, bytes(value)))


def malformed(text: str) -> dict[str, bytes]:
    """Return files that are no signature, made from one that is."""
    first, key, value, _ = text.split("\n")
    # of the last letter before the padding four bits count: another one says the same 64 bytes
    loose = (
        value[:-3]
        + "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".index(value[-3]) + 1
        ]
        + "=="
    )
    return {
        "empty": b"",
        "no end": text[:-1].encode(),
        "another end": text.replace("\n", "\r\n").encode(),
        "a line more": (text + "patient 7\n").encode(),
        "another version": text.replace("signature 1", "signature 2").encode(),
        "key in capitals": text.replace(key, f"key {key[4:].upper()}").encode(),
        "lines swapped": "\n".join((first, value, key, "")).encode(),
        "short": text.replace(value, value[:-8] + "==").encode(),
        "the same bytes in another text": text.replace(value, loose).encode(),
        "not ASCII": text.replace("sfumato", "sfumató").encode(),
        "bytes": os.urandom(64),
        "long": text.encode() * 100_000,
    }  # fmt: skip


def test_what_is_no_signature_fails_with_or_without_a_signer(keys: Path, tmp_path: Path) -> None:
    release = signed(tmp_path / "r", keys / "hospital")
    path = release.folder / SIGNATURE_NAME
    for name, content in malformed(path.read_text()).items():
        path.write_bytes(content)
        for signer in (None, keys / "hospital.pub"):
            assert found(release, signer) == ("fails", "manifest.sig is not a signature of version 1."), name
    path.unlink()
    path.mkdir()
    assert found(release, None)[0] == "fails"
    path.rmdir()
    path.symlink_to(keys / "hospital.pub")
    with pytest.raises(ReleaseError, match=r"manifest\.sig.*is a link"):
        open_release(release.folder)


def test_a_fifo_is_not_waited_for(keys: Path, tmp_path: Path) -> None:
    release = signed(tmp_path / "r", keys / "hospital")
    (release.folder / SIGNATURE_NAME).unlink()
    os.mkfifo(release.folder / SIGNATURE_NAME)
    assert found(release, None)[0] == "fails"


def test_no_table_of_a_release_may_have_its_name(keys: Path, tmp_path: Path) -> None:
    release = signed(tmp_path / "r", keys / "hospital")
    path = release.folder / "manifest.json"
    path.write_text(path.read_text().replace("data.parquet", SIGNATURE_NAME))
    with pytest.raises(ReleaseError, match="one file for two purposes"):
        open_release(release.folder)


def test_it_is_a_function_of_manifest_and_key_alone() -> None:
    key = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
    again = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
    assert key.sign(b"manifest") == key.sign(b"manifest") == again.sign(b"manifest")
    assert key.sign(b"manifest") != key.sign(b"manifesu")


def test_the_vectors_of_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    key = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
    assert f"public key    {key.public.key.public_bytes_raw().hex()}" in page
    assert f"fingerprint   {key.public.fingerprint}" in page
    for manifest in (b"", b'{"manifest_version": 1}\n'):
        assert f"`{key.sign(manifest).to_text().split()[-1]}`" in page
    told = re.search(r"after (\d+) bytes .*?\n\n {4}(.+?) {2,}(\d+) bytes of ASCII, and one zero", page, re.DOTALL)
    assert told is not None
    assert (int(told[1]), int(told[3]), told[2].encode() + b"\0") == (len(PREFIX), len(PREFIX) - 1, PREFIX)


def openssl() -> str:
    """Return OpenSSL of a version that can check Ed25519 in files, or skip."""
    path = shutil.which("openssl")
    version = subprocess.run([path, "version"], capture_output=True, text=True, check=True).stdout if path else ""
    if not re.match(r"OpenSSL [3-9]", version):
        pytest.skip("OpenSSL 3 is not here")
    return str(path)


def test_openssl_says_the_same(keys: Path, tmp_path: Path) -> None:
    """The commands of the page, as they stand there."""
    openssl()
    release = signed(tmp_path / "release", keys / "hospital")
    shutil.copy(keys / "hospital.pub", tmp_path / "hospital.sign.pub")
    page = PAGE.read_text(encoding="utf-8")
    script = next(text for text in re.findall(r"```sh\n(.+?)```", page, re.DOTALL) if "pkeyutl" in text)

    def checked() -> tuple[str, str]:
        done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.stdout, done.stderr

    out, err = checked()
    assert "Signature Verified Successfully" in out, err
    assert PublicKey.load(keys / "hospital.pub").fingerprint in out
    path = release.folder / "manifest.json"
    path.write_bytes(path.read_bytes() + b" ")
    assert "Verified Successfully" not in checked()[0]


def test_keys_of_openssl_are_taken(tmp_path: Path) -> None:
    tool = openssl()
    subprocess.run([tool, "genpkey", "-algorithm", "ed25519", "-out", tmp_path / "k"], check=True)
    subprocess.run([tool, "pkey", "-in", tmp_path / "k", "-pubout", "-out", tmp_path / "k.pub"], check=True)
    (tmp_path / "k").chmod(0o600)
    release = signed(tmp_path / "r", tmp_path / "k")
    assert found(release, tmp_path / "k.pub")[0] == "holds"
    subprocess.run([tool, "genpkey", "-algorithm", "x25519", "-out", tmp_path / "x"], check=True)
    (tmp_path / "x").chmod(0o600)
    with pytest.raises(UsageError, match="not a signing key for Ed25519"):
        SigningKey.load(tmp_path / "x")


# --- keys in each other's place ---------------------------------------------------------------------------------------


def test_each_key_is_refused_by_name_in_anothers_place(keys: Path) -> None:
    for load, name, told in (
        (SecretKey.load, "hospital", "is a key for signatures, not for draws"),
        (SecretKey.load, "hospital.pub", "is a key for signatures, not for draws"),
        (SigningKey.load, "draws", "is a key for draws, not for signatures"),
        (SigningKey.load, "hospital.pub", "is a public key; only the private one signs"),
        (PublicKey.load, "hospital", "is a private key, which only the publisher may have"),
        (PublicKey.load, "draws", "is a key for draws"),
        (SigningKey.load, "nothing", "cannot be read: No such file"),
        (PublicKey.load, "nothing", "cannot be read: No such file"),
    ):
        with pytest.raises(UsageError, match=told) as problem:
            load(keys / name)
        assert problem.value.hint


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"])
def test_what_is_no_key_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "k").write_bytes(content)
    (tmp_path / "k").chmod(0o600)
    with pytest.raises(UsageError, match="not a public key for Ed25519"):
        PublicKey.load(tmp_path / "k")
    with pytest.raises(UsageError, match=r"not a signing key|is a public key"):
        SigningKey.load(tmp_path / "k")


def test_a_signing_key_is_for_its_owner_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        SigningKey.create(tmp_path / "k")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "k.pub").stat().st_mode) == 0o644
    (tmp_path / "k").chmod(0o640)
    with pytest.raises(UsageError, match=r"Others can read the signing key .*mode 640"):
        SigningKey.load(tmp_path / "k")


@pytest.mark.parametrize("taken", ["k", "k.pub"])
def test_no_key_is_overwritten(taken: str, tmp_path: Path) -> None:
    (tmp_path / taken).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="never overwritten"):
        SigningKey.create(tmp_path / "k")
    assert listing(tmp_path) == [taken]


def test_a_signing_key_shows_and_gives_away_nothing(keys: Path) -> None:
    key = SigningKey.load(keys / "hospital")
    assert repr(key) == "SigningKey()"
    with pytest.raises(TypeError):
        pickle.dumps(key)


# --- commands and other readers ---------------------------------------------------------------------------------------


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    import pyarrow.parquet as pq

    pq.write_table(patients(), "t.parquet")
    Path("policy.toml").write_text(POLICY)
    made = as_json("key", "--sign", "h")
    assert made == {"file": "h", "public_file": "h.pub", "fingerprint": PublicKey.load("h.pub").fingerprint}
    code, out, _ = run("key", "--sign", "g")
    assert code == 0
    assert PublicKey.load("g.pub").fingerprint in out.replace("\n", "")
    told = as_json("publish", "t.parquet", "policy.toml", "-o", "r", "--sign", "h")
    assert told["signer"] == made["fingerprint"]
    assert as_json("publish", "t.parquet", "policy.toml", "-o", "plain")["signer"] is None
    code, out, _ = run("publish", "t.parquet", "policy.toml", "-o", "s", "--sign", "h")
    assert f"Signed by the key {made['fingerprint']}." in out
    assert run("verify", "r", "--signer", "h.pub")[0] == 0
    code, out, _ = run("verify", "r")
    assert code == 0
    assert "not checked  signature: Signed, not checked: pass --signer" in out
    code, out, _ = run("verify", "r", "--signer", "g.pub")
    assert code == 1
    assert "FAILS: 1 of" in out
    for arguments in (
        ("verify", "r", "--signer", "h"),
        ("publish", "t.parquet", "policy.toml", "-o", "q", "--sign", "h.pub"),
    ):
        assert run(*arguments)[0] == 2
    assert not Path("q").exists()
    assert run("key", "--sign", "r/k")[0] == 2
    assert run("estimate", "r", "--by", "disease")[0] == 0


def test_an_audit_takes_it_for_a_part_of_the_release(keys: Path, tmp_path: Path) -> None:
    """Base64 looks like short identifiers by chance; what is planted beside a signature is still found."""
    names = [f"{k:03d}" for k in range(300)]
    table = scan(patients().set_column(0, "name", [names]), make_policy(ROLES))
    release = publish(table, planned(table, shuffle=True), tmp_path / "r", sign=SigningKey.load(keys / "hospital"))
    assert audit(table, release).holds
    path = release.folder / SIGNATURE_NAME
    path.write_text(path.read_text() + "\n".join(names))
    assert found(release, None)[0] == "fails"


def test_checksums_of_the_manifest_cover_every_file(keys: Path, tmp_path: Path) -> None:
    """What is signed is all of the release: each file but the manifest and its signature has its hash there."""
    release = signed(tmp_path / "r", keys / "hospital")
    text = (release.folder / "manifest.json").read_text()
    others = {path for path in release.folder.rglob("*") if path.is_file()} - {
        release.folder / "manifest.json", release.folder / SIGNATURE_NAME,
    }  # fmt: skip
    assert len(others) == 2
    assert all(hashlib.sha256(path.read_bytes()).hexdigest() in text for path in others)
