"""The process that speaks TVM's RPC protocol: it loads libraries on a device and calls their functions.

    python -m tensmith.tune.tvm.remote HOST PORT

A request is a frame (see engine.frame) of a library's path, the name of one of its functions, arrays and
numbers, its arguments in this order. The answer holds the function's value and, where `back` names an array,
what it has become; or `refused`, why the device does not load the library. An EngineError says why the device
does not answer.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

from tensmith.engine.frame import Answer, Array, serve, take_stdout
from tensmith.errors import EngineError
from tensmith.tune.tvm.packages import import_tvm


class RpcSession:
    """A session with the server at an address; tvm raises RuntimeError and OSError where it fails."""

    def __init__(self, host: str, port: int) -> None:
        from tvm import rpc, runtime

        self._tensor = runtime.tensor
        self._session = rpc.connect(host, port)
        self._memory = self._session.cpu()
        self._libraries = 0

    def answer(self, request: dict[str, Any], arrays: dict[str, Array]) -> Answer:
        """What the function of a library says."""
        self._libraries += 1  # a file that is loaded must not be written over
        name = f"{self._libraries}.so"
        self._session.upload(bytearray(Path(request["library"]).read_bytes()), name)
        try:
            return self._called(name, request, arrays)
        finally:
            with contextlib.suppress(Exception):  # of a session that is lost, the first error tells more
                self._session.remove(name)

    def _called(self, name: str, request: dict[str, Any], arrays: dict[str, Array]) -> Answer:
        try:
            library = self._session.load_module(name)
        except RuntimeError as error:
            return {"refused": first_line(error)}, {}
        there = {name: self._tensor(array, self._memory) for name, array in arrays.items()}
        value = library[request["function"]](*there.values(), *request["numbers"])
        back = request.get("back", [])
        return {"value": value}, {name: there[name].numpy() for name in back}


def first_line(error: BaseException) -> str:
    """What an error of tvm's says, without the check that failed before it and the stack below."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rpartition("is false: ")[2] if lines else type(error).__name__


def main() -> None:
    """Answers until the pipe closes."""
    host, port = sys.argv[1:]
    answers = take_stdout()
    import_tvm()
    device = None

    def answer(request: dict[str, Any], arrays: dict[str, Array]) -> Answer:
        nonlocal device
        try:
            device = device or RpcSession(host, int(port))
            return device.answer(request, arrays)
        except Exception as error:  # of whatever kind: tvm makes its own
            raise EngineError(first_line(error)) from error

    serve(answers, answer)


if __name__ == "__main__":
    main()
