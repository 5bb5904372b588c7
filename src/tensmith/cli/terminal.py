"""The one printer: whatever a command says to a terminal goes through here, and shows what names hide.

Names, messages and figures come from strangers' files. Control characters, direction marks and lone
surrogates are spelled out (`report.escape.printable`), so that no name can colour, move or forge a line. What
was closed before the command began is told nothing.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tensmith.report.escape import printable

if TYPE_CHECKING:
    from rich.table import Table

_WIDTH_OF_FILES = 160
_NEVER_CUT = 1 << 20


def visible(text: str) -> str:
    """One line of text with every unprintable character spelled out."""
    return printable(text, _NEVER_CUT)


def complain(text: str) -> None:
    """Prints lines on stderr, each of them visible."""
    if sys.stderr is None:  # print would take stdout for it
        return
    _tolerant(sys.stderr)
    print("\n".join(map(visible, text.split("\n"))), file=sys.stderr)


def show(items: Iterable[Any]) -> None:
    """Prints sentences and rich renderables on stdout; a sentence is one line, whatever it holds."""
    if sys.stdout is None:
        return
    from rich.console import Console

    _tolerant(sys.stdout)
    width = None if sys.stdout.isatty() else _WIDTH_OF_FILES
    console = Console(markup=False, highlight=False, emoji=False, width=width)
    for item in items:
        if isinstance(item, str):
            console.print(visible(item), soft_wrap=True)
        else:
            console.print(item)
    sys.stdout.flush()


def show_json(document: Any) -> None:
    """Prints one JSON document in ASCII on stdout; numbers that JSON does not have are null."""
    if sys.stdout is not None:
        print(json.dumps(_plain(document), indent=1, default=str, allow_nan=False))
        sys.stdout.flush()


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], title: str = "", numbers: Collection[str] = ()
) -> Table:
    """A table without lines, of cells that are visible text; long ones are folded, `numbers` on the right."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", title_justify="left")
    made.title = Text(visible(title)) if title else None
    for name in columns:
        made.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(visible(cell)) for cell in row))
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _tolerant(stream: Any) -> None:
    """Where a terminal's encoding lacks a character, it is spelled out rather than an error."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
