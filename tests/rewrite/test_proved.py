"""No exact rule is used without its proof: the table is fresh, what it lacks is proved or refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tensmith.errors import UsageError
from tensmith.rewrite import proved
from tensmith.rewrite.law import lemma
from tensmith.rewrite.rule import EXACT
from tensmith.rewrite.term import Var
from tensmith.verify.prove import listed

X, Y = Var("x"), Var("y")
PACKAGE = Path(proved.__file__).parents[1]


def test_the_table_that_ships_is_fresh() -> None:
    known = json.loads(proved.TABLE.read_text(encoding="utf-8"))
    shipped = (
        {name for name, home in EXACT.homes.items() if home.is_relative_to(PACKAGE)} if list(EXACT) else set()
    )
    assert known.keys() == shipped, "run `tensmith prove --update`"
    stale = [n for n in shipped if known[n]["hash"] != proved.rule_digest(n, EXACT.homes[n])]
    assert stale == [], "run `tensmith prove --update`"


def test_a_proof_rests_on_all_of_this_room_that_rules_and_the_prover_import() -> None:
    room = PACKAGE / "rewrite"
    hashed = {PACKAGE / part for part in proved._PROVER if part.startswith("rewrite/")}
    assert all(file.is_file() for file in hashed)
    texts = "".join(file.read_text(encoding="utf-8") for file in [*hashed, *room.glob("exact/*.py")])
    read = {room / f"{name}.py" for name in re.findall(r"from tensmith\.rewrite\.(\w+) import", texts)}
    assert read - {Path(proved.__file__)} <= hashed


def test_a_rule_without_a_proof_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = tmp_path / "mine.py"
    home.write_text("sums", encoding="utf-8")
    with pytest.raises(UsageError, match="'half' is not used, for it has no proof"):
        proved.demand(lemma("half", X + Y, X - Y, X), home)
    proved.demand(lemma("whole", X + Y, Y + X, X - Y), home)
    (kept,) = (tmp_path / "tensmith" / "proofs").iterdir()
    assert (kept / "proved").read_text() == "whole"


def test_a_changed_file_asks_for_another_proof(tmp_path: Path) -> None:
    home = tmp_path / "mine.py"
    found = []
    for text in ("one", "two", "from tensmith.rewrite.exact.pad import x"):
        proved._file.cache_clear()
        proved._text.cache_clear()
        home.write_text(text, encoding="utf-8")
        found.append(proved.rule_digest("rule", home))
    assert len(set(found)) == 3


@pytest.mark.parametrize(
    ("text", "other", "package"),
    [
        ("from parts import RIGHT", "parts.py", False),
        ("import os, parts", "parts.py", False),
        ("from helpers.parts import RIGHT", "helpers/parts.py", False),
        ("from .parts import RIGHT", "parts.py", True),
    ],
)
def test_a_plugins_other_modules_count(tmp_path: Path, text: str, other: str, package: bool) -> None:
    home, parts = tmp_path / "mine.py", tmp_path / other
    home.write_text(text, encoding="utf-8")
    parts.parent.mkdir(exist_ok=True)
    if package:
        (tmp_path / "__init__.py").write_text("", encoding="utf-8")
    found = []
    for text in ("RIGHT = X + (-Y)", "RIGHT = Y - X"):
        proved._file.cache_clear()
        proved._text.cache_clear()
        parts.write_text(text, encoding="utf-8")
        found.append(proved.rule_digest("rule", home))
    assert found[0] != found[1]


def test_rules_are_listed_with_their_evidence() -> None:
    rows = {row["name"]: row for row in listed()}
    row = rows["weighted_sum"]
    assert row["statement"] == "reduce_sum(x * w, axes) = x @ w" and row["conditions"][0] == "w: [C]"
    assert row["evidence"] == {"kind": "proved", "cases": 2, "twins": 2}
    assert row["family"] == "reduction_products"
    assert rows["dead_code"]["evidence"]["kind"] == "structural"
