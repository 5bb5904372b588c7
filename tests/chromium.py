"""A headless Chromium driven over the DevTools protocol through a pipe: no driver, no port, no dependency.

With --remote-debugging-pipe the browser reads NUL-terminated JSON from descriptor 3 and writes it to 4.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str | None:
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Page:
    """One tab. `events` collects everything the browser reports."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._write, self._read = to_browser, from_browser
        self._pending = b""
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends one command and waits for its answer."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive(time.monotonic() + 120)
            if answer.get("id") == number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self._read], [], [], max(deadline - time.monotonic(), 0))
            if not ready:
                raise TimeoutError("Chromium did not answer in time")
            piece = os.read(self._read, 1 << 16)
            if not piece:
                raise ConnectionError("Chromium closed its pipe")
            self._pending += piece
        text, _, self._pending = self._pending.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def evaluate(self, expression: str) -> Any:
        """The JSON value of a JavaScript expression; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = 60) -> Any:
        """Waits until the expression is truthy, and returns it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            value = self.evaluate(expression)
            if value:
                return value
            time.sleep(0.05)
        raise TimeoutError(f"never came true: {expression}")

    def open(self, path: Path, width: int, height: int, scheme: str = "light") -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=path.as_uri())
        self.until("document.readyState === 'complete'")

    def move_mouse(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path: Path, whole: bool = True) -> None:
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def complaints(self) -> list[dict[str, Any]]:
        """Everything that went wrong in the page: console errors, exceptions, policy violations.

        Left out is what the browser says while it draws: on a busy machine the plotting library places a
        label before the text is laid out, and places it again afterwards.
        """
        wrong = {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"}
        found = [event for event in self.events if event["method"] in wrong]
        return [e for e in found if e["params"].get("entry", {}).get("source") != "rendering"]

    def requests(self) -> list[str]:
        """Every address that was asked for."""
        sent = (e for e in self.events if e["method"] == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]


@contextlib.contextmanager
def chromium_page(profile: Path) -> Iterator[Page]:
    """A tab of a fresh browser that lives as long as the block."""
    binary = find_chromium()
    assert binary is not None
    command = [binary, "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
    command += [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--hide-scrollbars",
    ]
    command += ["--disable-background-networking", "--disable-component-update", "about:blank"]
    (browser_in, we_out), (we_in, browser_out) = os.pipe(), os.pipe()
    # Out of the way of 3 and 4, where the browser expects them.
    high_in, high_out = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in (browser_in, browser_out))

    def place() -> None:
        os.dup2(high_in, 3)
        os.dup2(high_out, 4)

    process = subprocess.Popen(
        command, preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    for descriptor in (browser_in, browser_out, high_in, high_out):
        os.close(descriptor)
    try:
        yield Page(we_out, we_in)
    finally:
        os.close(we_out)
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(we_in)
