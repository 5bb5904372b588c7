"""A second opinion on the certificate of a lifted function: its structure, by the standard library alone.

    python -m tensmith.verify.lift_checker FOLDER.cert ...

Small enough to be read in a sitting, and importing nothing of tensmith, so that trusting it does not mean
trusting what made the certificate. It asks no solver. It checks that files and hashes agree; that the
function has all that it demands: of loops initiation, preservation and exit, of accesses bounds, of divisions
divisors, of results postcondition and program, of written parameters the frame; that operators take sorts
that they can; and that a script assumes only instances of the axioms below and of definitions of prefix
functions, equations of folds whose lemma is an obligation, and facts: limits of types, ranges of counters
inside their loops, definitions of sizes, and requirements that are listed and can hold together. That paths
and goals say what the function means is not checked here: `tensmith verify --source` makes them again.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAME = "structure.json"
MAX_STRUCTURE, MAX_SCRIPT, MAX_FILES = 64 << 20, 4 << 20, 10_000
_LISTS = ("requires", "assumes", "results", "functions", "facts", "obligations")
_THERE = "'{} holds every element that is read at {}:{}'"
_BLOCKS = ("body", "then", "otherwise")
_KNOWN = "Declare Allocate Assign Store Append If Loop Return Num Read Call Load Length Scalar SourcePosition"
_KNOWN += " Array"
_FILE = re.compile(r"\d{3,5}\.smt2")
_TOKEN = re.compile(r"(?:\|[^|]*\||[^\s()|]+)")
# A symbol as the writer writes them without bars: the same with them, and so two texts one name.
_BARRED = re.compile(r"\|[A-Za-z_][A-Za-z0-9_.%~!$^&*<>=+?/-]*\|")
_SPEAKS = re.compile(r"\|?(?:[a-z]+\.|[xk]\d+)")
_DECLARED = re.compile(rf"\(declare-(?:const|fun) ({_TOKEN.pattern})(?: \(([\w ]*)\))? (Int|Real|Bool)\)")
# What operators take, and the sort of what they give.
_SORTS = re.compile(
    r"(?P<Int>\d+|(?:div|mod) Int Int|[-+*](?: Int)+|to_int Real|ite Bool Int Int)"
    r"|(?P<Real>\d+\.\d+|/ Real Real|[-+*](?: Real)+|to_real Int|ite Bool Real Real)"
    r"|(?P<Bool>true|false|(?:assert|and|or|not|=>|=|ite)(?: Bool)+|(?:[<>]=?|=|distinct)( Int| Real)\4*)"
)

# The axioms, as templates over any ?x and ?y; see `theory`.
_AXIOMS = [
    "(=> (distinct ?y 0) (= (tdiv ?x ?y) (ite (>= ?x 0) (div ?x ?y) (- (div (- ?x) ?y)))))",
    "(=> (distinct ?y 0) (= (fdiv ?x ?y) (ite (>= ?y 0) (div ?x ?y) (div (- ?x) (- ?y)))))",
    "(=> (distinct ?y 0) (= (fdiv ?x ?y) (ite (or (= (* ?y (tdiv ?x ?y)) ?x) (= (>= ?x 0) (>= ?y 0))) "
    "(tdiv ?x ?y) (- (tdiv ?x ?y) 1))))",
    "(=> (distinct ?x 0.0) (= (* ?x (inv ?x)) 1.0))",
    "(= (f.floor ?x) (to_real (to_int ?x)))",
    "(= (f.ceil ?x) (- (to_real (to_int (- ?x)))))",
    "(= (trunc ?x) (ite (>= ?x 0.0) (to_int ?x) (- (to_int (- ?x)))))",
]
for _sign in "iu":
    for _bits in (8, 16, 32, 64):
        _half = 2 ** (_bits - 1) if _sign == "i" else 0
        _low, _high = f"(- {_half})" if _half else "0", 2**_bits - _half - 1
        _f = f"(wrap.{_sign}{_bits} ?x)"
        _exact = f"(- (mod (+ ?x {_half}) {2**_bits}) {_half})" if _half else f"(mod ?x {2**_bits})"
        _AXIOMS += [
            f"(and (<= {_low} {_f}) (<= {_f} {_high}))",
            f"(=> (and (<= {_low} ?x) (<= ?x {_high})) (= {_f} ?x))",
            f"(= {_f} {_exact})",
        ]
_JOIN = {"sum": "(+ {0} {1})", "prod": "(* {0} {1})"} | {
    kind: f"(ite ({relation} {{0}} {{1}}) {{0}} {{1}})" for kind, relation in (("max", ">="), ("min", "<="))
}


class Wrong(Exception):
    """Something that is wrong, as a sentence."""


def check(folder: Path) -> list[str]:
    """What is wrong with a certificate folder, as sentences; nothing is if the list is empty."""
    try:
        checking = Checking(Path(folder), read(folder))
        checking.run()
    except Wrong as wrong:
        return [f"{folder}: {wrong}"]
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        return [f"{folder}: {NAME} is malformed ({type(error).__name__})"]
    return [f"{folder}: {problem}" for problem in checking.problems]


def read(folder: Path) -> dict[str, Any]:
    """structure.json; raises Wrong where it cannot be read."""
    try:
        document = json.loads(_plain(Path(folder) / NAME, MAX_STRUCTURE))
    except (ValueError, RecursionError) as error:
        raise Wrong(f"{NAME} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise Wrong(f"{NAME} holds no certificate")
    return document


def _plain(path: Path, most: int) -> bytes:
    """The content of a file that is no link and no pipe, and not too large."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > most:
            raise Wrong(f"{path.name} is no plain file of at most {most >> 20} MB")
        return path.read_bytes()
    except OSError as error:
        raise Wrong(f"{path.name} cannot be read: {error.strerror}") from error


def rows(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All obligations, those of lemmas included."""
    for row in document["obligations"]:
        yield row
        yield from rows({"obligations": [lemma["proof"] for lemma in row.get("lemmas", [])]})


@dataclass
class Demands:
    """What stands in the function. loops: label -> labels around it; stored: loop -> arrays stored inside
    that exist before it; accesses: (array, line, column, loop); divisors: (line, column)."""

    loops: dict[str, tuple[str, ...]] = field(default_factory=dict)
    stored: dict[str, set[str]] = field(default_factory=dict)
    accesses: set[tuple[str, int, int, str]] = field(default_factory=set)
    divisors: set[tuple[int, int]] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    returns: int = 0

    def block(self, statements: list[Any], around: tuple[str, ...], born: dict[str, tuple[str, ...]]) -> None:
        """born: local array -> the loops around its allocation."""
        for statement in statements:
            inside, array = around, statement.get("array")
            if statement["node"] == "Loop":
                inside = (*around, statement["label"])
                self.loops[statement["label"]], self.stored[statement["label"]] = around, set()
            elif statement["node"] == "Allocate":
                born[statement["name"]] = around
            elif statement["node"] in ("Store", "Append"):
                self.written |= {array} - born.keys()
                for label in around[len(born.get(array, ())) :]:
                    self.stored[label].add(array)
            self.returns += statement["node"] == "Return"
            for key in _BLOCKS:
                self.block(statement.get(key, []), inside, born)
            own = {key: part for key, part in statement.items() if key not in _BLOCKS}
            self.expressions(own, inside[-1] if inside else "")

    def expressions(self, statement: Any, loop: str) -> None:
        """Accesses and divisions of a statement without the statements in it."""
        for part in _nodes(statement):
            place: Any = part.get("position") or part.get("origin")
            if part["node"] not in _KNOWN.split():
                raise Wrong(f"a function has no {part['node']}")
            if part["node"] in ("Load", "Store"):
                self.accesses.add((part["array"], place["line"], place["column"], loop))
            elif part["node"] == "Call" and part["function"] in ("div", "fmod", "floor_div", "mod"):
                divisor = part["args"][1]
                fixed = divisor["node"] == "Num" and divisor["value"] not in (0, "0")
                if divisor["type"]["kind"] == "int" and not fixed:
                    self.divisors.add((place["line"], place["column"]))


@dataclass
class Checking:
    """One run over one certificate; `problems` grows."""

    folder: Path
    document: dict[str, Any]
    problems: list[str] = field(default_factory=list)

    def run(self) -> None:
        """All checks; raises Wrong where going on makes no sense."""
        document = self.document
        if document["schema"] != 2:
            raise Wrong(f"schema {document['schema']} is not known")
        if not all(isinstance(document[name], list) for name in _LISTS):
            raise Wrong(f"one of {', '.join(_LISTS)} is no list")
        if _sha({key: value for key, value in document.items() if key != "digest"}) != document["digest"]:
            raise Wrong("its content does not have the digest it states: it was edited or damaged")
        if _sha(document["source"]) != document["hashes"].get("function"):
            raise Wrong("the function does not have the hash it states")
        self.functions = {row["name"]: row for row in document["functions"]}
        self._definitions()
        laws = (law for row in self.functions.values() for law in _laws(row))
        self.laws = [_parse(text) for text in (*_AXIOMS, *laws)]
        self.demands = Demands()
        self.demands.block(document["source"]["body"], (), {})
        self.types = dict(_types(document["source"]["parameters"]))
        self._source()
        self._facts()
        found = list(rows(document))
        self.models = [set(row.get("facts", ())) for row in found if row["kind"] == "satisfiable"]
        named = {row["file"] for row in found if "file" in row}
        if len(named) > MAX_FILES or not all(_FILE.fullmatch(name) for name in named):
            raise Wrong("a script has no plain number for a name")
        for stray in sorted({p.name for p in self.folder.iterdir()} - named - {NAME, NAME + ".sig"}):
            self.problems.append(f"{stray} belongs to no obligation")
        for row in found:
            try:
                self._row(row)
            except Wrong as wrong:
                self.problems.append(f"{row['name']}: {wrong}")
        self._complete(document["obligations"])

    def _definitions(self) -> None:
        """Prefix functions refer to their own parameters, and to others that are numbered before them."""
        self.sorts: dict[str, tuple[str, str]] = {}
        for name, row in sorted(self.functions.items(), key=lambda item: int(item[0][5:])):
            if row["kind"] not in _JOIN or not re.fullmatch(r"fold\.\d+", name) or not _parse(row["body"]):
                raise Wrong(f"{name} is no prefix function")
            count = len(row["parameters"]) - (row["kind"] in ("max", "min"))
            for token in _TOKEN.findall(row["body"]):
                if re.fullmatch(r"p\d+", token) and int(token[1:]) >= count:
                    raise Wrong(f"the definition of {name} has no parameter {token}")
                if token.startswith(("?", "place.")) or (token[:5] == "fold." and token not in self.sorts):
                    raise Wrong(f"the definition of {name} needs {token}, which is not defined before it")
            self.sorts[name] = " ".join([*row["parameters"], "Int"]), row["sort"]

    def _source(self) -> None:
        """The name, the arithmetic and the assumptions are those of the function."""
        document, source = self.document, self.document["source"]
        scalars = [node for node in _nodes(source) if node["node"] == "Scalar"]
        floats = any(node["kind"] == "float" for node in scalars)
        signed = any(node["kind"] == "int" and node["signed"] for node in scalars)
        python = source["language"] == "python"
        arithmetic = "reals" if floats else "integers" if python else "machine integers"
        if (document["function"], document["arithmetic"]) != (source["name"], arithmetic):
            self.problems.append("it names another function or another arithmetic than the function's")
        rounded = "floats as reals: rounding and the order of additions may differ"
        fit = "integers fit in 64 bits" if python else "signed arithmetic of the source does not overflow"
        wanted = [*source["noted"], *floats * [rounded], *signed * [fit]]
        missing = [text for text in wanted if text not in document["assumes"]]
        self.problems += [f"it does not say that it assumes: {text}" for text in missing]

    def _facts(self) -> None:
        """Every fact is what its reason says; a loop has one range, a size one definition."""
        self.facts = dict(enumerate(self.document["facts"]))
        self.asked = {n for n, fact in self.facts.items() if fact["why"] in ("size", "requirement")}
        self.known: dict[str, str] = {}
        for fact in self.facts.values():
            if fact["text"] != "true" and not self._allowed(fact, _parse(fact["text"])):
                self.problems.append(f"'{fact['why']}' is no reason to assume {fact['text']}")

    def _allowed(self, fact: dict[str, Any], tree: Any) -> bool:
        text, required = str(fact["text"]), fact["of"] in self.document["requires"]
        match fact["why"], tree:
            case "natural" | "length" | "type", _:
                return self._ranges(tree)
            case "counter", [">=", ["+", *terms], "0"] if _alone(terms, "at.", text):
                loop = str(fact["loop"])
                return loop in self.demands.loops and self.known.setdefault(loop, text) == text
            case "size", ["=", ["+", *terms], "0"] if size := _alone(terms, "size.", text):
                return self.known.setdefault(size, text) == text
        own = any(token.startswith(("fold.", "place.")) for token in _TOKEN.findall(text))  # of the proof
        return required and bool(fact["why"] == "requirement") and not own

    def _ranges(self, tree: Any) -> bool:
        """Whether it is the lower or the upper limit of a symbol's or an element's type, or both."""
        match tree:
            case [">=", ["+", high, ["*", ["-", "1"], str(symbol)]], "0"]:
                return str(high) == str(self._known(symbol)[2])
            case [">=", ["+", low, str(symbol)], "0"]:
                return f"-{low}" == str(self._known(symbol)[1])
            case [">=", [str(symbol), *_] | str(symbol), "0"]:
                return self._known(symbol)[1] == 0
            case ["and", ["<=", low, [str(array), *_] as element], ["<=", same, high]]:
                limits = tuple(int("".join(limit)) for limit in (low, high))
                return str(element) == str(same) and limits == self._known(array)[1:]
        return False

    def _known(self, symbol: str, sort: str = "") -> tuple[str, int | None, int | None]:
        """Sort and limits of what counts and of parameters; of others a sort."""
        name = symbol.strip("|")
        if name.startswith(("size.", "at.")) or re.fullmatch(r"[xk]\d+", name):
            return "Int", 0, None
        return ("Int", 0, 2**63 - 1) if name.startswith("len.") else self.types.get(name, (sort, None, None))

    def _row(self, row: dict[str, Any]) -> None:
        if "file" not in row:
            if not row.get("structural") or row["kind"] in ("form", "lemma", "satisfiable"):
                raise Wrong("it is neither true by its form nor has a script")
            return
        if row["expects"] != ("sat" if row["kind"] == "satisfiable" else "unsat"):
            raise Wrong("it asks the solver for the wrong answer")
        data = _plain(self.folder / row["file"], MAX_SCRIPT)
        if _sha(data) != row["sha256"]:
            raise Wrong(f"{row['file']} does not have the hash it states")
        asserted = self._asserted(row, data.decode())
        if row["expects"] == "unsat":
            if not asserted or asserted.pop() != f"(not {row['goal']})":
                raise Wrong(f"{row['file']} does not refute the goal")
            if _evident(_parse(row["goal"])):
                raise Wrong(f"its goal says nothing: {row['goal']}")
        if not all(line == "true" or _SPEAKS.search(line) for line in row["path"]):
            raise Wrong("its path speaks of nothing")
        allowed = self._assumed(row)
        if row["kind"] == "satisfiable" and not allowed <= set(asserted):
            raise Wrong(f"{row['file']} asks for a model of less than it states")
        allowed |= {*row["path"], *(self._lemma(row, lemma) for lemma in row["lemmas"])}
        for line in asserted:
            if line not in allowed and not any(_matches(law, _parse(line), {}) for law in self.laws):
                raise Wrong(f"{row['file']} assumes what nothing states: {line[:120]}")

    def _asserted(self, row: dict[str, Any], text: str) -> list[str]:
        """What a script asserts; it only declares otherwise, prefix functions as they are defined."""
        first, *lines = text.split("\n")
        framed = re.fullmatch(r"\(set-logic QF_[A-Z]+\)", first) and lines[-2:] == ["(check-sat)", ""]
        if not framed or set(';"') & set(text):
            raise Wrong(f"{row['file']} is no script of declarations, assertions and one question")
        asserted, sorts = list[str](), dict(self.sorts)
        for line in lines[:-2]:
            declared = _DECLARED.fullmatch(line)
            if line.startswith("(assert ") and _sort(_parse(line), sorts):
                asserted.append(line[8:-1])
            elif declared is None or not _parse(declared[1]):
                raise Wrong(f"{row['file']} does more than declare and assert: {line[:80]}")
            else:
                name, given, sort = declared.groups("")
                known = sorts.setdefault(name, (given, sort))
                if known != (given, sort) or self._known(name, sort)[0] != sort:
                    raise Wrong(f"{name} is declared otherwise than it is defined")
        return asserted

    def _assumed(self, row: dict[str, Any]) -> set[str]:
        """The facts of a row. A counter lies in its range only inside its loop: not on the way in, and not
        after the end; sizes and requirements are those that one row asks a model of."""
        outside = row["kind"] == "initiation" or (row["kind"] == "exit" and row["subject"] == "ends")
        inside = {*self.demands.loops.get(row["loop"], ()), *(() if outside else (row["loop"],))}
        if not any(self.asked.intersection(row["facts"]) <= model for model in self.models):
            raise Wrong("nobody asked for a model of what it requires")
        facts = [self.facts[number] for number in row["facts"]]
        for fact in facts:
            if fact["why"] == "counter" and fact["loop"] not in inside:
                raise Wrong(f"it assumes the range of the counter of {fact['loop']}, but lies outside of it")
        return {fact["text"] for fact in facts}

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
        here, there = _element(first, arguments, k), _element(second, others, inner)
        start, same = _start(first, arguments), _start(second, others)
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
        texts = (*arguments, *others, extent, length, shift, *row["path"], first["body"], second["body"])
        spoken = str([_parse(text) for text in texts])
        if not re.fullmatch(r"k\d+", k) or f"'{k}'" in spoken:
            raise Wrong("the position of a lemma is not arbitrary")
        return f"(= {_call(f, arguments, extent)} {_call(g, others, length)})"

    def _complete(self, found: list[dict[str, Any]]) -> None:
        """Nothing that the function demands is missing."""
        demands, results = self.demands, self.document["results"]
        have: set[tuple[Any, ...]] = {(r["kind"], r["subject"]) for r in found}
        for r in found:
            at, loop = (r["line"], r["column"]), r["loop"]
            have |= {(r["kind"], r["subject"], loop), (r["kind"], *at), (r["kind"], r["subject"], *at, loop)}
        required = str(self.document["requires"])
        read = {at for at in demands.accesses if _THERE.format(*at) not in required}
        wanted: dict[tuple[Any, ...], str] = {
            ("satisfiable", "requirements"): "whether the requirements can hold",
            **{("frame", name): f"the frame of {name}" for name in demands.written},
            **{("post", name): f"the result {name}" for name in (*results, *demands.written)},
            **{("program", name): f"the program of {name}" for name in (*results, *demands.written)},
            **{("bounds", *at): f"the bounds of {at[0]} at {at[1]}:{at[2]}" for at in read},
            **{("definedness", *at): f"the divisor at {at[0]}:{at[1]}" for at in demands.divisors},
        }
        for label, stored in demands.stored.items():
            wanted |= {("exit", s, label): f"that the loop {label} {s}" for s in ("goes on", "ends")}
            about = {f"{name}[]" for name in stored}
            about |= {s for k, s, *at in have if k in ("initiation", "preservation") and at == [label]}
            for kind in ("initiation", "preservation"):
                wanted |= {(kind, s, label): f"the {kind} of {s} in the loop {label}" for s in about}
        missing = {what for key, what in wanted.items() if key not in have}
        returned = sum(name.split(".")[0] == "return" for name in set(results))  # of several return.1, ...
        if not results or returned != demands.returns or not demands.written <= set(results):
            missing.add("the results of the function")
        self.problems += [f"nothing proves {what}" for what in sorted(missing)]


def _laws(row: dict[str, Any]) -> Iterator[str]:
    """What follows from the definition of a prefix function, at any arguments ?p0, ... and position ?t."""
    name, given = row["name"], [f"?p{i}" for i in range(len(row["parameters"]))]
    here, start, join = _call(name, given, "?t"), _start(row, given), _JOIN[row["kind"]]
    yield f"(=> (<= ?t 0) (= {here} {start}))"
    following = join.format(here, _element(row, given, "?t"))
    yield f"(=> (>= ?t 0) (= {_call(name, given, '(+ ?t 1)')} {following}))"
    if row["kind"] in ("max", "min"):
        relation, other = ">=" if row["kind"] == "max" else "<=", _call(name, [*given[:-1], "?q"], "?t")
        yield f"({relation} {here} {start})"
        yield f"(=> ({relation} {start} ?q) (= {here} {join.format(start, other)}))"
        yield f"(=> (and (<= 0 ?k) (< ?k ?t)) ({relation} {here} {_element(row, given, '?k')}))"
        place = _call(f"place.{name}", given, "?t")  # where it is an element; in nothing else that is assumed
        within = f"(<= 0 {place}) (< {place} ?t)"
        yield f"(or (= {here} {start}) (and {within} (= {here} {_element(row, given, place)})))"


def _element(row: dict[str, Any], given: list[str], position: str) -> str:
    values = {f"p{i}": argument for i, argument in enumerate(given)}
    return _TOKEN.sub(lambda match: {**values, "k": position}.get(match[0], match[0]), row["body"])


def _start(row: dict[str, Any], given: list[str]) -> str:
    unit = ("0" if row["kind"] == "sum" else "1") + (".0" if row["sort"] == "Real" else "")
    return given[-1] if row["kind"] in ("max", "min") else unit


def _call(function: str, arguments: list[str], position: str) -> str:
    return f"({' '.join((function, *arguments, position))})"


def _matches(pattern: Any, tree: Any, bound: dict[str, Any]) -> bool:
    if isinstance(pattern, str) or isinstance(tree, str):
        free = isinstance(pattern, str) and pattern.startswith("?")
        return bool((bound.setdefault(pattern, tree) if free else pattern) == tree)
    return len(pattern) == len(tree) and all(_matches(p, t, bound) for p, t in zip(pattern, tree))


def _sort(tree: Any, sorts: dict[str, tuple[str, str]]) -> str:
    """The sort of an expression; raises Wrong where its parts have others than it takes."""
    head, *parts = [tree] if isinstance(tree, str) else tree
    given = " ".join(map(_sort, parts, [sorts] * len(parts)))
    if head in sorts and sorts[head][0] == given:
        return sorts[head][1]
    if found := _SORTS.fullmatch(f"{head} {given}".strip()):
        return str(found.lastgroup)
    raise Wrong(f"nothing says what {head} gives of ({given})")


def _parse(text: str) -> Any:
    """One expression as nested lists; raises Wrong for anything else."""
    if barred := _BARRED.search(text):
        raise Wrong(f"{barred[0]} is written with bars that it does not need")
    stack: list[list[Any]] = [[]]
    for token in re.findall(rf"[()]|{_TOKEN.pattern}", text):
        if token == "(":
            stack.append([])
        elif token != ")":
            stack[-1].append(token)
        elif len(stack) > 1:
            stack[-2].append(stack.pop())
    whole = len(stack) == 1 and len(stack[0]) == 1 and text.count("(") == text.count(")")
    if not whole or text.count("|") % 2:
        raise Wrong(f"{text[:80]} is no expression")
    return stack[0][0]


def _evident(goal: Any) -> bool:
    """Whether a goal holds by its form alone: it speaks of nothing, or both sides are the same."""
    if goal[0] in ("and", "or"):
        return (all if goal[0] == "and" else any)(map(_evident, goal[1:]))
    same = goal[0] in ("=", ">=", "<=") and goal[1] == goal[2]
    return same or not _SPEAKS.search(str(goal))


def _alone(terms: list[Any], prefix: str, text: str) -> str:
    """The counter that a sum takes off once, or size that it takes off or adds, and not again; or ""."""
    found = [term[-1] for term in terms if term[:-1] == ["*", ["-", "1"]]] + terms * (prefix == "size.")
    once = (s for s in found if isinstance(s, str) and _TOKEN.findall(text).count(s) == 1)
    return next((s for s in once if s.strip("|").startswith(prefix)), "")


def _types(parameters: list[Any]) -> Iterator[tuple[str, tuple[str, int | None, int | None]]]:
    """Sort and range of every parameter, field and element; Python's integers are taken to fit in 64 bits."""
    for parameter in parameters:
        kind = parameter["type"]
        for name, type_ in kind["fields"] if kind["node"] == "Struct" else [[None, kind]]:
            element = type_["element"] if type_["node"] == "Array" else type_
            bits = element["bits"] or 64
            low = -(2 ** (bits - 1)) if element["signed"] else 0
            limits = (low, low + 2**bits - 1) if element["kind"] == "int" else (None, None)
            name = "in." + ".".join(filter(None, (parameter["name"], name)))
            yield name, ({"int": "Int", "float": "Real", "bool": "Bool"}[element["kind"]], *limits)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """All objects in a tree."""
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    for part in tree if isinstance(tree, list) else []:
        yield from _nodes(part)


def _sha(data: Any) -> str:
    """Of bytes, or of JSON in its canonical form."""
    if not isinstance(data, bytes):
        data = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    wrong = [problem for folder in sys.argv[1:] for problem in check(Path(folder))]
    sys.exit("\n".join("".join(c if c.isprintable() else ascii(c)[1:-1] for c in p) for p in wrong) or 0)
