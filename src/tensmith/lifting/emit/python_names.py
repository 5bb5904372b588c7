"""Names in emitted Python: what users call keeps its name, and what the text itself needs takes another.

A module speaks of imports, helpers and builtins; its function has the source's name and the source's
parameters. Where these meet (a parameter `np`, a function `max`), the module's own names give way.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator, Mapping

BUILTINS = frozenset(dir(builtins))
# What a module may not bind: a syntax error, and where functions look for builtins.
FORBIDDEN = frozenset({"__debug__", "__builtins__"})


def global_names(text: str) -> frozenset[str]:
    """Every name that a module binds or looks up outside of functions, builtins among them."""

    def inside(table: symtable.SymbolTable) -> Iterator[str]:
        for symbol in table.get_symbols():
            if table.get_type() == "module" or symbol.is_global():
                yield symbol.get_name()
        for child in table.get_children():
            yield from inside(child)

    return frozenset(inside(symtable.symtable(text, "emitted", "exec")))


def renamed(text: str, function: str, public: Mapping[str, str], fixed: frozenset[str]) -> str:
    """The module with names of its last function, and its own, as users know them.

    public: name in the text -> name for users; function: as it is defined in the text; fixed: locals of the
    function that may take other names. Whatever else has a public name in the text gets a new one.
    """
    tree = ast.parse(text)
    every = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    every |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    every |= global_names(text) | set(public) | set(public.values())
    taken = (global_names(text) | fixed) & set(public.values()) - {function}
    new: dict[str, str] = {}
    for name in sorted(taken):
        new[name] = _fresh(name, every)
        every.add(new[name])
    hidden = {name for name in taken & BUILTINS if name not in _bound(tree)}
    if hidden:
        home = _fresh("builtins", every) if "builtins" in every else "builtins"
        new |= {name: f"{home}.{name}" for name in hidden}
        place = next(i for i, node in enumerate(tree.body) if not _is_docstring(node))
        alias = ast.alias("builtins", None if home == "builtins" else home)
        tree.body.insert(place, ast.Import([alias]))
    for statement in tree.body:
        own = isinstance(statement, ast.FunctionDef) and statement.name == function
        _Renaming({**new, **public} if own else new, () if own else _locals(statement)).visit(statement)
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _fresh(name: str, taken: set[str]) -> str:
    return next(found for k in range(2, len(taken) + 3) if (found := f"{name}_{k}") not in taken)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _bound(tree: ast.Module) -> set[str]:
    """What a module defines and imports."""
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


def _locals(statement: ast.stmt) -> frozenset[str]:
    """Names that are local anywhere inside a helper."""
    if not isinstance(statement, ast.FunctionDef):
        return frozenset()
    inside = list(ast.walk(statement))
    found = {node.arg for node in inside if isinstance(node, ast.arg)}
    found |= {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    found |= {node.name for node in inside[1:] if isinstance(node, ast.FunctionDef)}
    return frozenset(found)


class _Renaming(ast.NodeTransformer):
    """Replaces names, but for those that are local where it goes."""

    def __init__(self, names: Mapping[str, str], kept: frozenset[str] | tuple[()]) -> None:
        self.names = {name: new for name, new in names.items() if name not in kept}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        new = self.names.get(node.id, node.id)
        home, _, name = new.rpartition(".")
        if home:
            return ast.Attribute(ast.Name(home, ast.Load()), name, node.ctx)
        return ast.Name(new, node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self.names.get(node.arg, node.arg)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.name = self.names.get(node.name, node.name)
        return node

    def visit_alias(self, node: ast.alias) -> ast.alias:
        name = node.asname or node.name
        if name in self.names:
            node.asname = self.names[name]
        return node
