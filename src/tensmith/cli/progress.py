"""What goes on, on stderr: a line that changes where there is a terminal, nothing elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tensmith.cli.terminal import visible
from tensmith.progress import Progress, silent


@contextlib.contextmanager
def progress(start: str) -> Iterator[Progress]:
    """Yields a function that shows a sentence in place of the last one, beside the time since the start."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    console = Console(stderr=True)
    if not console.is_terminal:
        yield silent
        return
    words = TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis"))
    with Bar(
        SpinnerColumn(), TimeElapsedColumn(), words, console=console, transient=True, redirect_stdout=False
    ) as bar:
        task = bar.add_task(escape(visible(start)))
        yield lambda sentence: bar.update(task, description=escape(visible(sentence)))
