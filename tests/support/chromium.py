"""Debian's chromium, headless, driven over a pair of pipes (the DevTools protocol) with the standard library alone."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

MISSING = "chromium was not found: the browser tests need the Debian package `chromium` (apt-get install chromium)"


def find_chromium() -> str:
    """The program's path; a failed assertion that names the package when it is missing."""
    found = shutil.which("chromium")
    assert found, MISSING
    return found


class Chromium:
    """A browser with one page; every wait has a deadline."""

    def __init__(self, profile: Path, deadline: float = 60.0) -> None:
        self.deadline = deadline
        self.events: list[dict[str, Any]] = []
        self._buffer = b""
        self._last = 0
        to_child, self._write = os.pipe()
        self._read, from_child = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4; the shell puts our pipes there.
        command = f'exec "$0" "$@" 3<&{to_child} 4>&{from_child}'
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", command, find_chromium(), *options, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_child, from_child),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_child)
        os.close(from_child)
        target = self._send("Target.createTarget", {"url": "about:blank"}, None)["targetId"]
        self._session: str | None = self._send("Target.attachToTarget", {"targetId": target, "flatten": True}, None)[
            "sessionId"
        ]
        for domain in ("Page", "Network", "Runtime"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._write)
        os.close(self._read)
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """A command to the page, and its answer."""
        return self._send(method, params, self._session)

    def open(self, path: Path, width: int, height: int = 900, dark: bool = False, media: str = "") -> None:
        """Show a file at a width, light or dark, on screen or as ``print``."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.events.clear()
        self.send("Page.navigate", url=path.absolute().as_uri())
        until = time.monotonic() + self.deadline
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            assert time.monotonic() < until, f"{path} did not load within {self.deadline} s"
            self._receive(until)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def requests(self) -> list[str]:
        """The addresses that the page asked for."""
        return [
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        ]

    def screenshot(self, path: Path) -> Path:
        """The whole page as PNG."""
        answer = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))
        return path

    def pdf(self, path: Path) -> Path:
        """The page on A4 paper."""
        answer = self.send("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, preferCSSPageSize=True)
        path.write_bytes(base64.b64decode(answer["data"]))
        return path

    def _send(self, method: str, params: dict[str, Any], session: str | None) -> dict[str, Any]:
        self._last += 1
        number = self._last
        message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + self.deadline
        while True:
            answer = self._receive(until)
            if answer is not None and answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self, until: float) -> dict[str, Any] | None:
        """The next message; events are kept, answers returned."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"chromium did not answer within {self.deadline} s"
            piece = os.read(self._read, 1 << 20)
            assert piece, (
                "chromium ended by itself; try by hand: chromium --headless --no-sandbox --dump-dom about:blank"
            )
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "id" in message:
            return message
        self.events.append(message)
        return None
