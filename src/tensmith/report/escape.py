"""Making text from strangers (model, layer, file names) safe to show: terminal, HTML, JSON inside HTML."""

from __future__ import annotations

import html
import json
from typing import Any

# Characters of a sentence that a reader must not miss.
MOST_OF_A_NOTE = 1000


def printable(text: str, limit: int = 200) -> str:
    """`text` with every unprintable character (controls, direction marks, lone surrogates) spelled out.

    Texts over `limit` characters lose their middle, so that one name cannot drown a page.
    """
    if len(text) > limit:
        head = limit * 2 // 3
        text = f"{text[:head]}…{text[len(text) - (limit - head - 1) :]}"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def html_text(text: str, limit: int = 200) -> str:
    """`text` as HTML character data, valid between tags and inside quoted attributes."""
    return html.escape(printable(text, limit))


def plot_text(text: str, limit: int = 120) -> str:
    """`text` for plotly, which reads a little HTML (links among it) and TeX in every string it draws."""
    return html.escape(printable(text, limit), quote=False).replace("$", "&#36;")


def script_json(data: Any) -> str:
    """`data` as JSON that cannot end, or comment out, the <script> element it stands in."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
