"""Tables that grow by definition: a decorator registers, importing a folder discovers.

Third parties add to any table through the entry-point group `tensmith.plugins`: each entry point names a
module, which is imported the first time a table is read.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from tensmith.errors import TensmithError, UsageError, first_line, nearest

T = TypeVar("T")
Key = TypeVar("Key")

_plugins_loaded = False
_loading: set[int] = set()  # the threads that load plugins


def plugins() -> list[tuple[str, str]]:
    """The module of each plugin that is installed, and its distribution with the version."""
    import importlib.metadata  # a seventh of a worker's start, and few workers read a whole table

    found = importlib.metadata.entry_points(group="tensmith.plugins")
    return [
        (entry.module, f"{entry.dist.name} {entry.dist.version}" if entry.dist else "") for entry in found
    ]


def _load_plugins() -> None:
    """Imports them; a thread that comes while another does waits for each import, as Python has it."""
    global _plugins_loaded
    thread = threading.get_ident()
    if _plugins_loaded or thread in _loading:
        return
    _loading.add(thread)
    try:
        for module, distribution in plugins():
            try:
                importlib.import_module(module)
            except Exception as error:
                _plugins_loaded = True  # said once
                of = f" of {distribution}" if distribution else ""
                why = f"{type(error).__name__}: {first_line(error)}"
                raise TensmithError(
                    f"the plugin {module}{of} cannot be loaded ({why}); repair or uninstall it"
                ) from error
        _plugins_loaded = True
    finally:
        _loading.discard(thread)


def entered_in(table: dict[Key, T]) -> Callable[..., Callable[[T], T]]:
    """The decorator that enters what it stands at in a table, under one or more keys."""

    def under(*keys: Key) -> Callable[[T], T]:
        def enter(item: T) -> T:
            table.update(dict.fromkeys(keys, item))
            return item

        return enter

    return under


# As many names an error lists.
_NAMED = 20


class Registry(Mapping[str, T], Generic[T]):
    """A name -> T table filled by the modules of one package, imported on first read.

    Threads may read it at once: each waits until all of it is there.
    `kind` is the word used in messages ("op", "engine"); `package` is the folder whose modules register.
    """

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self._package = package
        self._items: dict[str, T] = {}
        self._discovered = False
        self._discovering: set[int] = set()  # the threads that import its modules, which read it too

    def add(self, name: str, item: T) -> T:
        """Registers `item`; a second item of the same name is an error."""
        if name in self._items:
            raise UsageError(f"{self.kind} '{name}' is registered twice; rename one of them")
        self._items[name] = item
        return item

    def _discover(self) -> None:
        thread = threading.get_ident()
        if self._discovered or thread in self._discovering:
            return
        self._discovering.add(thread)
        try:
            package = importlib.import_module(self._package)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{self._package}.{module.name}")
            _load_plugins()
            self._discovered = _plugins_loaded
        finally:
            self._discovering.discard(thread)

    def __getitem__(self, name: str) -> T:
        if name not in self._items:
            self._discover()
        if name not in self._items:
            raise UsageError(f"unknown {self.kind} '{name}'{nearest(name, sorted(self._items), _NAMED)}")
        return self._items[name]

    def __contains__(self, name: object) -> bool:
        self._discover()
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        self._discover()
        return iter(sorted(self._items))

    def __len__(self) -> int:
        self._discover()
        return len(self._items)
