"""Detached signatures over a certificate's digest, made and checked by OpenSSH.

A digest tells damage: whoever forges a certificate makes it anew. A signature tells who vouches. The tool is
ssh-keygen (-Y sign, -Y verify), which most machines have; keys are the user's SSH keys, and the namespace
keeps a signature from being taken for one of anything else. The signature lies beside the certificate, as
certificate.json.sig or structure.json.sig, in OpenSSH's own armoured format.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

from tensmith.errors import UsageError, VerificationError
from tensmith.files import TemporaryFolder, write_bytes

SUFFIX = ".sig"
NAMESPACE = "certificate@tensmith"
_SIGNER = "signer"
_MOST_BYTES, _MOST_DOCUMENT = 1 << 16, 64 << 20
_PUBLIC = re.compile(r"[a-z0-9@.-]{3,80} [A-Za-z0-9+/=]{30,8000}( .*)?")
_SECONDS = 60.0


def sign(document: Path, digest: str, key: Path) -> Path:
    """Writes and returns the signature of the certificate at `document`; `key` is a private SSH key.

    The tool asks for a passphrase itself where the key has one.
    """
    if not key.is_file() or key.stat().st_size > _MOST_BYTES:  # which ssh-keygen would read whole
        raise UsageError(f"there is no key {key}; make one with: ssh-keygen -t ed25519 -f {key}")
    command = ["-Y", "sign", "-q", "-n", NAMESPACE, "-f", str(key.absolute())]
    done = _run(command, _message(document.name, digest), None)
    if done.returncode != 0 or not done.stdout.startswith(b"-----BEGIN SSH SIGNATURE"):
        raise UsageError(f"ssh-keygen does not sign with {key}: {_complaint(done)}; give a private SSH key")
    path = document.with_name(document.name + SUFFIX)
    write_bytes(path, done.stdout)
    return path


def check_signature(document: Path, digest: str, public: Path) -> str:
    """Who signed the certificate at `document`: the comment of the key `public`, or its file's name.

    VerificationError if there is no signature, or it is not by that key or of this digest.
    """
    signature = document.with_name(document.name + SUFFIX)
    if not signature.is_file() or signature.stat().st_size > _MOST_BYTES:
        raise VerificationError(f"{document} is not signed: there is no {signature.name} beside it")
    text = _public_key(public)
    with TemporaryFolder() as folder:
        allowed = Path(folder) / "allowed"
        allowed.write_text(f"{_SIGNER} {' '.join(text.split()[:2])}\n", encoding="utf-8")
        command = ["-Y", "verify", "-n", NAMESPACE, "-f", str(allowed), "-I", _SIGNER]
        done = _run([*command, "-s", str(signature.absolute())], _message(document.name, digest), _SECONDS)
    if done.returncode != 0:
        raise VerificationError(
            f"{signature} is not a signature of {document.name} by {public}: {_complaint(done)}"
        )
    return " ".join(text.split()[2:]) or public.name


def read_digest(document: Path) -> str:
    """The digest that a certificate states; VerificationError if it is none."""
    try:
        if not document.is_file() or document.stat().st_size > _MOST_DOCUMENT:
            raise ValueError("it is no plain file of a certificate's size")
        digest = json.loads(document.read_bytes())["digest"]
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
            raise ValueError("it states no digest")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise VerificationError(f"{document} is no certificate: {error}") from error
    return digest


def _public_key(path: Path) -> str:
    if not path.is_file() or path.stat().st_size > _MOST_BYTES:
        raise UsageError(f"there is no public key {path}; give a file such as id_ed25519.pub")
    text = path.read_text(encoding="utf-8", errors="replace").strip()
    if not _PUBLIC.fullmatch(text):
        raise UsageError(f"{path} is no public SSH key (one line: type, key, comment); give the .pub file")
    return text


def _message(name: str, digest: str) -> bytes:
    """What is signed."""
    return f"tensmith {name} {digest}\n".encode()


def _run(arguments: list[str], message: bytes, seconds: float | None) -> subprocess.CompletedProcess[bytes]:
    tool = shutil.which("ssh-keygen")
    if tool is None:
        raise UsageError("signatures need ssh-keygen, which is not installed: install OpenSSH's client tools")
    try:
        return subprocess.run(
            [tool, *arguments], input=message, capture_output=True, timeout=seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"ssh-keygen cannot be run: {error}") from error


def _complaint(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else f"it ended with {done.returncode}"
