"""`tensmith sign`: vouches for a certificate with an SSH key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tensmith.cli.command import Answer, command


@command(example="tensmith sign out/best --key ~/.ssh/id_ed25519")
def sign(
    folder: Annotated[
        Path,
        typer.Argument(metavar="OUT/best|F.cert", help="A front point's folder, or a lift's certificate."),
    ],
    key: Annotated[Path, typer.Option(metavar="PRIVATE", help="A private SSH key (ssh-keygen -t ed25519).")],
) -> Answer:
    """Sign a certificate's digest, which covers all that it lists. The signature is a file beside it, made by
    ssh-keygen; `tensmith verify --key PUBLIC` checks it. Sign what you have verified: a signature says that
    you vouch, not that the claims are true."""
    from tensmith.errors import VerificationError
    from tensmith.verify import lift_checker
    from tensmith.verify.schema import read_certificate
    from tensmith.verify.signature import read_digest
    from tensmith.verify.signature import sign as write_signature

    found = [folder / name for name in ("certificate.json", "structure.json") if (folder / name).is_file()]
    if len(found) != 1:
        raise VerificationError(
            f"{folder} holds no certificate; give the folder of a front point, as OUT/best, or of a lifted "
            "function, as lifted/F.cert"
        )
    if found[0].name == "certificate.json":
        digest = read_certificate(found[0]).digest
    else:
        digest = read_digest(found[0])
        if wrong := lift_checker.check(folder):
            raise VerificationError(f"{wrong[0]}; only a sound certificate is signed")
    path = write_signature(found[0], digest, key)
    document = {"certificate": str(found[0]), "digest": digest, "signature": str(path)}
    return Answer(document, [f"{path}  signs the digest {digest}"])
