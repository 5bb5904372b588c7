"""A signature says who vouches for a certificate; a digest alone says only that nothing was damaged."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import points
import pytest

from command_line import tensmith
from tensmith.cli.command import Answer
from tensmith.cli.sign import sign
from tensmith.cli.verify import verify
from tensmith.deploy import again
from tensmith.errors import UsageError, VerificationError
from tensmith.verify import signature
from tensmith.verify.schema import seal

SUM = """
def f(x: list[float], n: int):
    total = 0.0
    for i in range(n):
        total += x[i]
    return total
"""

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="OpenSSH is not installed")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """original.onnx, an exact point, and the keys of Ann and Bob."""
    folder = tmp_path_factory.mktemp("signed")
    points.write_original(folder)
    points.write_point(folder, "exact", points.exact_trail)
    for name in ("ann", "bob"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder / name], check=True
        )
    return folder


@pytest.fixture
def point(root: Path, tmp_path: Path) -> Path:
    """A copy of the point, signed by Ann."""
    folder = Path(shutil.copytree(root / "exact", tmp_path / "exact"))
    answer = sign(folder, root / "ann")
    assert answer.document["signature"] == str(folder / "certificate.json.sig")
    return folder


def checked(root: Path, point: Path, **options: Any) -> Answer:
    """What `tensmith verify` answers, the original given."""
    return verify(point, **{"original": root / "original.onnx", "seconds": 1.0, **options})


def test_the_first_line_says_what_was_shown(root: Path, point: Path) -> None:
    answer = checked(root, point, key=root / "ann.pub")
    assert answer.shown[0].startswith("signed by ann: neither damaged nor forged since")
    assert answer.document["signed_by"] == "ann"
    shown = checked(root, point).shown
    assert shown[0].startswith("signature not checked") and "forgery would not" in shown[0]
    (point / "certificate.json.sig").unlink()
    answer = checked(root, point)
    assert answer.shown[0] == "not signed: damage would be seen, forgery would not"
    assert "2 were not checked: accuracy" in answer.shown[-1] and answer.document["signed_by"] is None


def test_another_key_and_another_certificate_are_refused(root: Path, point: Path) -> None:
    with pytest.raises(VerificationError, match=r"is not a signature .* by .*bob\.pub"):
        checked(root, point, key=root / "bob.pub")
    path = point / "certificate.json"
    path.write_text(json.dumps(seal({**json.loads(path.read_text()), "tensmith": "9"})))
    with pytest.raises(VerificationError, match="is not a signature"):
        checked(root, point, key=root / "ann.pub")
    (point / "certificate.json.sig").unlink()
    with pytest.raises(VerificationError, match="is not signed"):
        checked(root, point, key=root / "ann.pub")


def test_wrong_use(root: Path, point: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="ssh-keygen -t ed25519"):
        sign(point, root / "none")
    (tmp_path / "huge").touch()
    os.truncate(tmp_path / "huge", 5 << 30)
    with pytest.raises(UsageError, match="there is no key"):
        sign(point, tmp_path / "huge")
    with pytest.raises(UsageError, match="give a private SSH key"):
        sign(point, root / "original.onnx")
    with pytest.raises(VerificationError, match="holds no certificate"):
        sign(root, root / "ann")
    with pytest.raises(UsageError, match="is no public SSH key"):
        checked(root, point, key=root / "ann")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(UsageError, match="OpenSSH"):
        sign(point, root / "ann")


def test_strict_wants_the_original_and_everything_checked(root: Path, point: Path) -> None:
    with pytest.raises(UsageError, match="--original"):
        checked(root, point, strict=True, original=None)
    answer = checked(root, point)
    assert answer.exit_code == 0 and answer.document["ok"] and not answer.document["complete"]
    assert [claim.split(" is ")[0] for claim in answer.document["unchecked"]] == ["accuracy", "latency_ms"]
    assert checked(root, point, strict=True).exit_code == 1


def test_what_is_forged_is_not_run(root: Path, point: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "verify_point", lambda *_, **__: pytest.fail("it was looked into"))
    with pytest.raises(VerificationError, match="is not a signature"):
        checked(root, point, key=root / "bob.pub", run_library=True)


def test_only_what_is_sound_is_signed(root: Path, point: Path, tmp_path: Path) -> None:
    path = point / "certificate.json"
    other = {**json.loads(path.read_text()), "tensmith": "9"}  # with the digest of the first
    path.write_text(json.dumps(other))
    with pytest.raises(VerificationError, match="was edited or damaged"):
        sign(point, root / "ann")
    (tmp_path / "lift").mkdir()
    (tmp_path / "lift" / "structure.json").write_text(json.dumps({"digest": "5" * 64}))
    with pytest.raises(VerificationError, match="only a sound certificate is signed"):
        sign(tmp_path / "lift", root / "ann")


def test_a_lift_is_signed_too(root: Path, tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(SUM)
    assert tensmith("lift", "f.py", "--to", "numpy", "--output", "out", folder=tmp_path).returncode == 0
    result = tensmith("sign", "out/f.cert", "--key", root / "ann", "--json", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    digest = json.loads(result.stdout)["digest"]
    path = tmp_path / "out" / "f.cert" / "structure.json"
    assert signature.check_signature(path, digest, root / "ann.pub") == "ann"
    shown = tensmith("verify", "out/f.cert", "--key", root / "ann.pub", folder=tmp_path)
    assert shown.returncode == 0 and shown.stdout.startswith("signed by ann")


@pytest.mark.parametrize(
    ("options", "words"),
    [({"solver": "cvc5"}, "for lifted functions"), ({"run": False}, "for lifted functions")],
)
def test_options_of_the_other_kind_are_refused(
    root: Path, point: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        checked(root, point, **options)
