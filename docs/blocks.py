"""The blocks of a page: what the reader types, the files shown, and what came out.

    ```sh                commands, run in the page's order in one folder
    ```python            run in that folder too
    ```LANGUAGE NAME     a file of that name in it
    ```text              what the block before printed

Tests run every one of them; `NOT_RUN` is the whole list of commands that they do not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)

NOT_RUN = {
    "pip install '.[openvino,native,lift]'": "needs a network, and would change the environment of the tests",
    "tensmith tune model.onnx --rpc HOST:PORT --output model-device": "needs a device; tests/tune has one",
    "tensmith compress model.onnx --data npz:data.npz --ray HOST:6379": "tests/workers start a cluster",
    "tensmith study examples/study/digits.yaml --output digits-study": "tests/study runs it",
    "tensmith study examples/study/tensorcompress.yaml --figures --output tensorcompress-study": (
        "takes half an hour, and data that is not ours; tests/study run a smaller one"
    ),
}


@dataclass(frozen=True)
class Block:
    """A fenced block; `name` is that of the file it shows, or empty."""

    language: str
    name: str
    text: str

    @property
    def commands(self) -> list[tuple[str, int]]:
        """The commands of an sh block that are run, each with the exit code that its comment promises.

        A backslash joins lines.
        """
        found = []
        for line in self.text.replace("\\\n", " ").splitlines():
            command, _, comment = line.partition("  # ")
            command = " ".join(command.split())
            if command and command not in NOT_RUN:
                found.append((command, int(comment.removeprefix("exit code ") or 0)))
        return found


def blocks(page: str) -> Iterator[Block]:
    """The blocks of a page, in order."""
    yield from (Block(found[1], found[2] or "", found[3]) for found in FENCE.finditer(page))
