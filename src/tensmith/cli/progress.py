"""What goes on, on stderr: a line that changes where there is a terminal, nothing elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from tensmith.cli.terminal import visible

Tell = Callable[[str], None]


@contextlib.contextmanager
def progress(start: str) -> Iterator[Tell]:
    """Yields a function that shows a sentence in place of the last one, beside the time since the start."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    words = TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis"))
    with Progress(
        SpinnerColumn(), TimeElapsedColumn(), words, console=console, transient=True, redirect_stdout=False
    ) as bar:
        task = bar.add_task(escape(visible(start)))
        yield lambda sentence: bar.update(task, description=escape(visible(sentence)))
