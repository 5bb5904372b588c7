"""A second opinion on the certificate of a lifted function: its structure, by the standard library alone.

    python -m tensmith.verify.lift_checker FOLDER.cert

Small enough to be read in a sitting, and importing nothing of tensmith, so that trusting it does not mean
trusting what made the certificate. It asks no solver. It checks that files and hashes agree; that every loop
of the function has its initiation, preservation and exit, every access its bounds, every division its
divisor, every result its postcondition and every written parameter its frame; and that a script assumes
nothing but facts that are stated, instances of the axioms below, instances of the definitions of prefix
functions, and equations of folds whose lemma is itself an obligation. That the stated facts and goals say
what the function means is the work of what generated them, and is not checked here.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAME = "structure.json"
MAX_STRUCTURE, MAX_SCRIPT, MAX_FILES = 64 << 20, 4 << 20, 10_000
_LISTS = ("requires", "assumes", "results", "functions", "facts", "obligations")
_PARTS = dict.fromkeys(_LISTS, list) | {"schema": int, "hashes": dict, "source": dict, "digest": str}
_ROW = dict.fromkeys(("name", "kind", "subject", "loop", "rung"), str) | {"line": int, "column": int}
_SOLVED: dict[str, type] = dict.fromkeys(("file", "sha256", "expects"), str)
_SOLVED |= dict.fromkeys(("facts", "path", "recurrences", "lemmas"), list)
_FILE = re.compile(r"\d{3,5}\.smt2")
_TOKEN = re.compile(r"\|[^|]*\||[^\s()|]+")
_SYMBOL = r"(?:\|[^|]*\||[^\s()|]+)"
_ATOM = rf"(?:\({_SYMBOL} .*\)|{_SYMBOL})"
_DECLARED = re.compile(rf"\(declare-(?:const|fun) ({_SYMBOL})(?: \(([\w ]*)\))? (Int|Real|Bool)\)")
# What facts of each kind look like; those of sizes and requirements are for readers.
_FACTS = {
    "natural": re.compile(rf"\(>= \(?({_SYMBOL}).* 0\)"),
    "length": re.compile(rf"\(>= \(\+ {2**63 - 1} \(\* \(- 1\) len\.{_SYMBOL}\)\) 0\)"),
    "type": re.compile(
        rf"\(and \(<= [-() \d]+ ({_ATOM})\) \(<= \1 [-() \d]+\)\)"
        rf"|\(>= (?:\(\+ \d+ (?:in\.{_SYMBOL}|\(\* \(- 1\) in\.{_SYMBOL}\))\)|in\.{_SYMBOL}) 0\)"
    ),
    "counter": re.compile(r"\(>= .* 0\)|true"),
    "size": re.compile(r"\(= .*|true"),
    "requirement": re.compile(r"\((?:>=|=|not|and) .*|true"),
}

# The axioms, as templates over x and y; see `theory`.
_TEMPLATES = [
    "(=> (distinct y 0) (= (tdiv x y) (ite (>= x 0) (div x y) (- (div (- x) y)))))",
    "(=> (distinct y 0) (= (fdiv x y) (ite (>= y 0) (div x y) (div (- x) (- y)))))",
    "(=> (distinct y 0) (= (fdiv x y) (ite (or (= (* y (tdiv x y)) x) (= (>= x 0) (>= y 0))) (tdiv x y) "
    "(- (tdiv x y) 1))))",
    "(=> (distinct x 0.0) (= (* x (inv x)) 1.0))",
    "(= (f.floor x) (to_real (to_int x)))",
    "(= (f.ceil x) (- (to_real (to_int (- x)))))",
    "(= (trunc x) (ite (>= x 0.0) (to_int x) (- (to_int (- x)))))",
]
for _sign in "iu":
    for _bits in (8, 16, 32, 64):
        _half = 2 ** (_bits - 1) if _sign == "i" else 0
        _low, _high = f"(- {_half})" if _half else "0", 2**_bits - _half - 1
        _f = f"(wrap.{_sign}{_bits} x)"
        _exact = f"(- (mod (+ x {_half}) {2**_bits}) {_half})" if _half else f"(mod x {2**_bits})"
        _TEMPLATES += [
            f"(and (<= {_low} {_f}) (<= {_f} {_high}))",
            f"(=> (and (<= {_low} x) (<= x {_high})) (= {_f} x))",
            f"(= {_f} {_exact})",
        ]
_JOIN = {"sum": "(+ {0} {1})", "prod": "(* {0} {1})"} | {
    kind: f"(ite ({relation} {{0}} {{1}}) {{0}} {{1}})" for kind, relation in (("max", ">="), ("min", "<="))
}


class Wrong(Exception):
    """Something that is wrong, as a sentence."""


def check(folder: Path) -> list[str]:
    """What is wrong with a certificate folder, as sentences; nothing is if the list is empty."""
    document = read(folder)
    if isinstance(document, str):
        return [document]
    try:
        checking = Checking(Path(folder), document)
        checking.run()
    except Wrong as wrong:
        return [f"{folder}: {wrong}"]
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        return [f"{folder}: {NAME} is malformed ({type(error).__name__})"]
    return [f"{folder}: {problem}" for problem in checking.problems]


def read(folder: Path) -> dict[str, Any] | str:
    """structure.json, or why it cannot be read."""
    path = Path(folder) / NAME
    if not path.is_file():
        return f"{path} is no file"
    try:
        with path.open("rb") as file:
            data = file.read(MAX_STRUCTURE + 1)
        if len(data) > MAX_STRUCTURE:
            return f"{path} is larger than {MAX_STRUCTURE >> 20} MB"
        document = json.loads(data)
    except (OSError, ValueError, RecursionError) as error:
        return f"{path} cannot be read: {error}"
    return document if isinstance(document, dict) else f"{path} holds no certificate"


def rows(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All obligations, those of lemmas included."""
    pending = list(document["obligations"])
    while pending:
        row = pending.pop(0)
        yield row
        pending += [lemma["proof"] for lemma in row.get("lemmas", [])]


# What the function demands


@dataclass
class Demands:
    """What stands in the function. loops: label -> labels around it; stored: loop -> arrays stored inside
    that exist before it; accesses: (array, line, column, loop); divisors: (line, column)."""

    loops: dict[str, tuple[str, ...]] = field(default_factory=dict)
    stored: dict[str, set[str]] = field(default_factory=dict)
    accesses: set[tuple[str, int, int, str]] = field(default_factory=set)
    divisors: set[tuple[int, int]] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    returns: bool = False

    def block(self, statements: list[Any], around: tuple[str, ...], born: dict[str, tuple[str, ...]]) -> None:
        """born: local array -> the loops around its allocation."""
        for statement in statements:
            kind, inside = statement["node"], around
            if kind == "Loop":
                inside = (*around, statement["label"])
                self.loops[statement["label"]] = around
                self.stored[statement["label"]] = set()
            elif kind == "Allocate":
                born[statement["name"]] = around
            elif kind in ("Store", "Append"):
                self._write(statement, around, born)
            elif kind == "Return":
                self.returns = True
            for key, value in statement.items():
                if key in ("body", "then", "otherwise"):
                    self.block(value, inside, born)
                else:
                    self.expression(value, inside)

    def _write(self, statement: Any, around: tuple[str, ...], born: dict[str, tuple[str, ...]]) -> None:
        array = statement["array"]
        if array not in born:
            self.written.add(array)
        home = born.get(array, ())
        for label in around[len(home) :]:
            self.stored[label].add(array)
        if statement["node"] == "Store":
            self._access(statement, around)

    def _access(self, node: Any, around: tuple[str, ...]) -> None:
        position = node["position"]
        self.accesses.add((node["array"], position["line"], position["column"], around[-1] if around else ""))

    def expression(self, node: Any, around: tuple[str, ...]) -> None:
        """Accesses and divisions inside an expression."""
        pending = [node]
        while pending:
            part = pending.pop()
            if isinstance(part, list):
                pending += part
            if not isinstance(part, dict):
                continue
            if part.get("node") == "Load":
                self._access(part, around)
            if part.get("node") == "Apply" and part["operator"] in ("tdiv", "tmod", "fdiv", "fmod"):
                divisor = part["arguments"][1]
                fixed = divisor["node"] == "Constant" and divisor["value"] not in (0, "0")
                if divisor["type"]["kind"] == "int" and not fixed:
                    self.divisors.add((part["position"]["line"], part["position"]["column"]))
            pending += [value for key, value in part.items() if key not in ("type", "position")]


# Checking


@dataclass
class Checking:
    """One run over one certificate; `problems` grows."""

    folder: Path
    document: dict[str, Any]
    problems: list[str] = field(default_factory=list)

    def run(self) -> None:
        """All checks; raises Wrong where going on makes no sense."""
        document = self.document
        _typed(document, _PARTS, "the certificate")
        if document["schema"] != 1:
            raise Wrong(f"schema {document['schema']} is not known")
        if _sha({key: value for key, value in document.items() if key != "digest"}) != document["digest"]:
            raise Wrong("its content does not have the digest it states: it was edited or damaged")
        if _sha(document["source"]) != document["hashes"].get("function"):
            raise Wrong("the function does not have the hash it states")
        self.functions = {row["name"]: row for row in document["functions"]}
        self._definitions()
        self.demands = Demands()
        self.demands.block(document["source"]["body"], (), {})
        self.unsigned = set(_unsigned(document["source"]["parameters"]))
        self._facts()
        found = list(rows(document))
        named = {row["file"] for row in found if "file" in row}
        if len(named) > MAX_FILES or not all(_FILE.fullmatch(name) for name in named):
            raise Wrong("a script has no plain number for a name")
        for stray in sorted({path.name for path in self.folder.glob("*.smt2")} - named):
            self.problems.append(f"{stray} belongs to no obligation")
        for row in found:
            try:
                self._row(row)
            except Wrong as wrong:
                self.problems.append(f"{row['name']}: {wrong}")
        self._complete(document["obligations"])

    def _definitions(self) -> None:
        """Prefix functions refer to others in no circle, and to their own parameters."""
        done: set[str] = set()
        for name in self.functions:
            if not re.fullmatch(r"fold\.\d+", name):
                raise Wrong(f"'{name}' is no name of a prefix function")
            self._ends(name, (), done)

    def _ends(self, name: str, above: tuple[str, ...], done: set[str]) -> None:
        if name in above:
            raise Wrong(f"the definition of {name} goes round in a circle")
        if name in done:
            return
        row = self.functions.get(name)
        if row is None or row["kind"] not in _JOIN or row["sort"] not in ("Int", "Real"):
            raise Wrong(f"the prefix function {name} is not defined")
        count = len(row["parameters"]) - (row["kind"] in ("max", "min"))
        for token in _TOKEN.findall(row["body"]):
            if re.fullmatch(r"p\d+", token) and int(token[1:]) >= count:
                raise Wrong(f"the definition of {name} has no parameter {token}")
            if token.startswith("fold."):
                self._ends(token, (*above, name), done)
        done.add(name)

    def _facts(self) -> None:
        for fact in self.document["facts"]:
            why, text = fact["why"], fact["text"]
            found = _FACTS[why].fullmatch(text) if why in _FACTS else None
            if found is None or (why == "natural" and not self._natural(found[1])):
                self.problems.append(f"'{why}' is no reason to assume {text}")
            if why == "counter" and fact["loop"] not in self.demands.loops:
                self.problems.append(f"{text} is of no loop of the function")

    def _natural(self, symbol: str) -> bool:
        name = symbol.strip("|")
        if name.startswith("in."):
            return name[3:] in self.unsigned
        return name.startswith(("size.", "len.", "at.")) or bool(re.fullmatch(r"x\d+|k\d+", name))

    def _row(self, row: dict[str, Any]) -> None:
        _typed(row, _ROW, "a row")
        if "file" not in row:
            if not row.get("structural") or row["kind"] in ("form", "lemma", "satisfiable"):
                raise Wrong("it is neither true by its form nor has a script")
            return
        _typed(row, _SOLVED, "a row")
        if row["expects"] != ("sat" if row["kind"] == "satisfiable" else "unsat"):
            raise Wrong("it asks the solver for the wrong answer")
        self._script(row, self._text(row))

    def _text(self, row: dict[str, Any]) -> str:
        path: Path = self.folder / row["file"]
        try:
            if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_SCRIPT:
                raise Wrong(f"{row['file']} is no plain file of at most {MAX_SCRIPT >> 20} MB")
            data = path.read_bytes()
        except OSError as error:
            raise Wrong(f"{row['file']} cannot be read: {error}") from error
        if _sha(data) != row["sha256"]:
            raise Wrong(f"{row['file']} does not have the hash it states")
        return data.decode()

    def _script(self, row: dict[str, Any], text: str) -> None:
        lines = text.split("\n")
        if not lines[0].startswith("(set-logic QF_") or lines[-2:] != ["(check-sat)", ""]:
            raise Wrong(f"{row['file']} is no script of declarations, assertions and one question")
        asserted = []
        for line in lines[1:-2]:
            if line.startswith("(assert ") and _balanced(line):
                asserted.append(line[len("(assert ") : -1])
            elif not self._declares(line):
                raise Wrong(f"{row['file']} does more than declare and assert: {line[:80]}")
        if row["expects"] == "unsat" and (not asserted or asserted.pop() != f"(not {row['goal']})"):
            raise Wrong(f"{row['file']} does not refute the goal")
        allowed = {self.document["facts"][number]["text"] for number in row["facts"]} | set(row["path"])
        self._counters(row)
        allowed |= {self._recurrence(recurrence) for recurrence in row["recurrences"]}
        allowed |= {self._lemma(row, lemma) for lemma in row["lemmas"]}
        for line in asserted:
            if line not in allowed and not any(_matches(_parse(t), _parse(line), {}) for t in _TEMPLATES):
                raise Wrong(f"{row['file']} assumes what nothing states: {line[:120]}")

    def _declares(self, line: str) -> bool:
        found = _DECLARED.fullmatch(line)
        if found is None:
            return False
        name, sorts, result = found.groups()
        if name.startswith("fold."):
            row = self.functions.get(name)
            stated = row is not None and (" ".join([*row["parameters"], "Int"]), row["sort"])
            if (sorts, result) != stated:
                raise Wrong(f"{name} is declared otherwise than it is defined")
        return True

    def _counters(self, row: dict[str, Any]) -> None:
        """A counter lies in its range only inside its loop: not on the way in, and not after the end."""
        outside = row["kind"] == "initiation" or (row["kind"] == "exit" and row["subject"] == "ends")
        inside = {*self.demands.loops.get(row["loop"], ()), *(() if outside else (row["loop"],))}
        for number in row["facts"]:
            fact = self.document["facts"][number]
            if fact["why"] == "counter" and fact["loop"] not in inside:
                raise Wrong(f"it assumes the range of the counter of {fact['loop']}, but lies outside of it")

    def _recurrence(self, row: dict[str, Any]) -> str:
        """The instance of a prefix function's definition that a row names."""
        definition, given, at = self.functions[row["function"]], row["arguments"], row["position"]
        kind, values = definition["kind"], self._values(definition, given)
        here, ordered = _call(row["function"], given, at), kind in ("max", "min")
        relation = "<=" if kind == "min" else ">="
        if row["case"] == "base":
            return f"(=> (<= {at} 0) (= {here} {self._start(definition, given)}))"
        if row["case"] == "step":
            joined = _JOIN[kind].format(here, _replaced(definition["body"], {**values, "k": at}))
            return f"(=> (>= {at} 0) (= {_call(row['function'], given, f'(+ {at} 1)')} {joined}))"
        if row["case"] == "bound" and ordered:
            return f"({relation} {here} {given[-1]})"
        if row["case"] == "restart" and ordered:
            other = _call(row["function"], [*given[:-1], row["other"]], at)
            joined = _JOIN[kind].format(given[-1], other)
            return f"(=> ({relation} {given[-1]} {row['other']}) (= {here} {joined}))"
        raise Wrong(f"'{row['case']}' is no consequence of the definition of {row['function']}")

    def _values(self, definition: dict[str, Any], given: list[str]) -> dict[str, str]:
        if len(given) != len(definition["parameters"]):
            raise Wrong(f"{definition['name']} has other parameters")
        if not all(map(_balanced, given)):
            raise Wrong("an argument of a recurrence is no expression")
        return {f"p{i}": argument for i, argument in enumerate(given)}

    def _start(self, definition: dict[str, Any], given: list[str]) -> str:
        if definition["kind"] in ("max", "min"):
            return str(given[-1])
        return ("0" if definition["kind"] == "sum" else "1") + (".0" if definition["sort"] == "Real" else "")

    def _lemma(self, row: dict[str, Any], lemma: dict[str, Any]) -> str:
        """The equation of a lemma whose own obligation says what makes the two folds equal."""
        proof, window = lemma["proof"], lemma["window"]
        (f, arguments, extent), (g, others, length) = window["first"], window["second"]
        first, second = self.functions[f], self.functions[g]
        if (first["kind"], first["sort"]) != (second["kind"], second["sort"]):
            raise Wrong("a lemma is about folds of two kinds")
        shift, k = window["shift"], window["position"]
        inner = k if shift == "0" else f"(- {k} {shift})"
        if window["reversed"]:
            inner = f"(- (+ {shift} (- {length} 1)) {k})"
        here = _replaced(first["body"], {**self._values(first, arguments), "k": k})
        there = _replaced(second["body"], {**self._values(second, others), "k": inner})
        start, same = self._start(first, arguments), self._start(second, others)
        relation = {"max": "<=", "min": ">="}.get(first["kind"], "=")
        inside = f"(and (<= {shift} {k}) (< {k} (+ {shift} {length})))"
        each = f"(ite {inside} (= {here} {there}) ({relation} {here} {start}))"
        fits = f"(or (<= {length} 0) (and (<= 0 {shift}) (<= (+ {shift} {length}) {extent})))"
        goal = f"(and (= {start} {same}) {fits} (=> (< {k} {extent}) {each}))"
        if (shift, extent) == ("0", length):
            goal = f"(and (= {start} {same}) (=> (< {k} {extent}) (= {here} {there})))"
        wanted = ("lemma", goal, row["path"], row["loop"])
        if (proof["kind"], proof.get("goal"), proof.get("path"), proof["loop"]) != wanted:
            raise Wrong("the lemma that it uses is not the one that is proved")
        if not re.fullmatch(r"k\d+", k) or k in _TOKEN.findall(
            " ".join([*arguments, *others, extent, length, shift, *row["path"]])
        ):
            raise Wrong("the position of a lemma is not arbitrary")
        return f"(= {_call(f, arguments, extent)} {_call(g, others, length)})"

    def _complete(self, found: list[dict[str, Any]]) -> None:
        """Nothing that the function demands is missing."""
        demands, missing = self.demands, []
        have = {(row["kind"], row["subject"], row["loop"]) for row in found}
        kinds = {(row["kind"], row["subject"]) for row in found}
        if ("satisfiable", "requirements") not in kinds:
            missing.append("whether the requirements can hold")
        for label in demands.loops:
            exits = (s for s in ("goes on", "ends") if ("exit", s, label) not in have)
            missing += [f"that the loop {label} {subject}" for subject in exits]
            before, after = (
                {subject for kind, subject, loop in have if (kind, loop) == (wanted, label)}
                for wanted in ("initiation", "preservation")
            )
            left = (before ^ after) | ({f"{name}[]" for name in demands.stored[label]} - before)
            missing += [f"{subject} in the loop {label}" for subject in sorted(left)]
        bounds = {(r["subject"], r["line"], r["column"], r["loop"]) for r in found if r["kind"] == "bounds"}
        missing += [f"the bounds of {a} at {n}:{column}" for a, n, column, _ in demands.accesses - bounds]
        stated = {int(n) for text in self.document["requires"] for n in re.findall(r"\(line (\d+)\)", text)}
        divided = {(row["line"], row["column"]) for row in found if row["kind"] == "definedness"}
        divisors = (place for place in demands.divisors - divided if place[0] not in stated)
        missing += [f"the divisor at {line}:{column}" for line, column in divisors]
        missing += [f"the frame of {name}" for name in demands.written if ("frame", name) not in kinds]
        results = self.document["results"]
        missing += [f"the result {name}" for name in results if ("post", name) not in kinds]
        if not results or ("return" in results) != demands.returns:
            missing.append("the results of the function")
        self.problems += [f"nothing proves {what}" for what in sorted(missing)]


# Texts


def _matches(pattern: Any, tree: Any, bound: dict[str, Any]) -> bool:
    if pattern in ("x", "y"):
        return bool(bound.setdefault(pattern, tree) == tree)
    if isinstance(pattern, str) or isinstance(tree, str):
        return bool(pattern == tree)
    return len(pattern) == len(tree) and all(_matches(p, t, bound) for p, t in zip(pattern, tree))


def _parse(text: str) -> Any:
    stack: list[list[Any]] = [[]]
    for token in re.findall(r"[()]|\|[^|]*\||[^\s()|]+", text):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    return stack[0][0]


def _balanced(text: str) -> bool:
    """Whether a text is one expression."""
    depth = ends = 0
    for token in re.findall(r"[()]|\|[^|]*\||[^\s()|]+", text):
        depth += {"(": 1, ")": -1}.get(token, 0)
        if depth < 0:
            return False
        ends += depth == 0
    return depth == 0 and ends == 1 and ";" not in text


def _replaced(template: str, values: dict[str, str]) -> str:
    return _TOKEN.sub(lambda match: values.get(match.group(), match.group()), template)


def _call(function: str, arguments: list[str], position: str) -> str:
    return f"({' '.join((function, *arguments, position))})"


def _unsigned(parameters: list[Any]) -> Iterator[str]:
    for parameter in parameters:
        kind = parameter["type"]
        fields = kind["fields"] if kind["node"] == "Struct" else [[None, kind]]
        for name, type_ in fields:
            element = type_["element"] if type_["node"] == "Array" else type_
            if element["kind"] == "int" and not element["signed"]:
                yield parameter["name"] if name is None else f"{parameter['name']}.{name}"


def _typed(row: dict[str, Any], parts: Mapping[str, type], what: str) -> None:
    for name, kind in parts.items():
        if type(row.get(name)) is not kind:
            raise Wrong(f"{what} has no proper '{name}'")


def _sha(data: Any) -> str:
    """Of bytes, or of JSON in its canonical form."""
    if not isinstance(data, bytes):
        data = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tensmith.verify.lift_checker FOLDER.cert")
    sys.exit("\n".join(check(Path(sys.argv[1]))) or 0)
