"""What is known to be proved: no exact rule is used without its proof.

A proof is found again by the hash of all that it rests on: the file that declares the rule, those of the
rules' own modules that it imports, of a plugin's rule all of the plugin and what declares ops outside of
tensmith, the meanings of ops, the formula language and the prover. `proved.json`
ships with the hashes that `tensmith prove --update` found proved. A rule whose hash is not among them is
proved when it is first read, and that is kept for this user.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tensmith.cache import fetch, find, user_cache
from tensmith.errors import UsageError
from tensmith.ir.op import OPS
from tensmith.rewrite.rule import Rule

TABLE = Path(__file__).with_name("proved.json")
_PACKAGE = Path(__file__).resolve().parents[1]
# What the prover is made of: folders, and files of others.
_PROVER = (
    "formula", "ir", *(
        f"rewrite/{name}.py"
        for name in (
            "case", "given", "instance", "judge", "law", "match", "right_sides", "rule", "term", "told",
            "trials", "values",
        )
    ),
)  # fmt: skip
_IMPORT = re.compile(r"^from tensmith\.rewrite\.exact\.(\w+) import", re.MULTILINE)


def demand(rule: Rule, home: Path) -> None:
    """Nothing if the rule that a file declares is proved; UsageError with the reason if it cannot be."""
    digest = rule_digest(rule.name, home)
    if digest == table().get(rule.name, {}).get("hash"):
        return
    of = {"rule": rule.name, "hash": digest}
    room = user_cache("proofs")
    if find(room, of) is None:
        from tensmith.rewrite.judge import judged  # not before: it takes a solver along

        problems = judged(rule).problems
        if problems:
            raise UsageError(f"exact rule '{rule.name}' is not used, for it has no proof: {problems[0]}")
        fetch(room, of, lambda folder: _note(folder, rule))


def _note(folder: Path, rule: Rule) -> None:
    folder.mkdir()
    (folder / "proved").write_text(rule.name, encoding="utf-8")


@cache
def table() -> Mapping[str, Mapping[str, Any]]:
    """Rule -> hash, number of cases proved and of wrong twins refuted, as shipped."""
    try:
        found: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def rule_digest(name: str, home: Path) -> str:
    """The hash of all that the proof of a rule rests on."""
    beside = _imported(home)
    if not _ours(home):
        own = plugin_files(home) | _foreign_ops()
        beside = own.union(*map(_imported, own))
    return _sha256(name, _file(home), *map(_file, sorted(beside)), _prover())[:32]


@cache
def _ours(home: Path) -> bool:
    return home.resolve().is_relative_to(_PACKAGE)


@cache
def plugin_files(home: Path) -> frozenset[Path]:
    """The files of a plugin's package; of one without, the modules and folders beside it that it imports, and
    so on, but for folders among what is installed: these are other packages."""
    root = home.parent
    if (root / "__init__.py").is_file():
        while (root.parent / "__init__.py").is_file():
            root = root.parent
        return frozenset(root.rglob("*.py"))
    installed = any(root.glob("*.dist-info"))
    seen, pending = {home}, [home]
    while pending:
        for name in _modules(pending.pop()):
            files = {root / f"{name}.py", *(() if installed else (root / name).rglob("*.py"))}
            new = {file for file in files - seen if file.is_file()}
            seen |= new
            pending += new
    return frozenset(seen)


def _modules(path: Path) -> set[str]:
    """The modules that a file imports, but for what follows the first dot in their names."""
    names: set[str] = set()
    with contextlib.suppress(SyntaxError, ValueError):  # no Python, and nothing that it imports
        for node in ast.walk(ast.parse(_text(path))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    return names


def _foreign_ops() -> frozenset[Path]:
    """The files of ops that are declared outside of tensmith."""
    names = {type(item).__module__ for item in OPS.values()}
    files = (getattr(sys.modules.get(name), "__file__", None) for name in names)
    paths = {Path(file).resolve() for file in files if file}
    return frozenset(path for path in paths if not path.is_relative_to(_PACKAGE))


@cache
def _imported(path: Path) -> frozenset[Path]:
    """The rules' own modules that one imports, and those that these do."""
    seen: set[Path] = set()
    pending = [path]
    while pending:
        for name in _IMPORT.findall(_text(pending.pop())):
            module = Path(__file__).with_name("exact") / f"{name}.py"
            if module not in seen:
                seen.add(module)
                pending.append(module)
    return frozenset(seen)


@cache
def _prover() -> str:
    paths = [_PACKAGE / part for part in _PROVER]
    files = [file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    return _sha256(*(f"{file.relative_to(_PACKAGE).as_posix()} {_file(file)}" for file in files))


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="backslashreplace") if path.is_file() else ""


@cache
def _file(path: Path) -> str:
    return _sha256(_text(path))


def _sha256(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
