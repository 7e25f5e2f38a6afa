"""A page in a real headless Chromium, driven over its debugging pipe: no package is needed beside the browser.

    with Browser() as browser:
        page = browser.open(path, width=1280, height=800)
        page.click("#theme")
        page.key("b")
        assert page.value("document.title") == ...
        assert page.errors == []

Debian's `chromium` is looked for, and a few other names; `TIDEGATE_CHROMIUM` names another one.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --remote-debugging-pipe"
).split()
SECONDS = 30.0
# What the browser itself does with a key, it does by these numbers.
CODES = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39}
# Chromium looks for its pipe at these two numbers.
START = """
import fcntl, os, sys
told, said = (fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3])
os.dup2(told, 3)
os.dup2(said, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find_chromium() -> str | None:
    named = os.environ.get("TIDEGATE_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One process of Chromium; what it says comes on file descriptor 4, what it is told goes to 3."""

    def __init__(self) -> None:
        found = find_chromium()
        assert found is not None
        self.folder = tempfile.TemporaryDirectory(prefix="chromium", ignore_cleanup_errors=True)
        told_read, told_write = os.pipe()
        said_read, said_write = os.pipe()
        own = [str(told_read), str(said_write), found, *FLAGS, f"--user-data-dir={self.folder.name}", "about:blank"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, *own],
            pass_fds=(told_read, said_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(told_read)
        os.close(said_write)
        self.told, self.said = told_write, said_read
        self.number, self.rest = 0, b""
        self.answers: dict[int, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.told)
        os.close(self.said)
        self.folder.cleanup()

    def open(self, path: Path, *, width: int = 1280, height: int = 800, dark: bool = False) -> Page:
        context = self.ask("Target.createBrowserContext", {})["browserContextId"]  # nothing is kept from other pages
        target = self.ask("Target.createTarget", {"url": "about:blank", "browserContextId": context})["targetId"]
        session = self.ask("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        return Page(self, session, path, (width, height), dark)

    def ask(self, method: str, parameters: dict[str, Any], session: str = "") -> dict[str, Any]:
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.told, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + SECONDS
        while self.number not in self.answers:
            assert time.monotonic() < end, f"Chromium does not answer {method}"
            self.hear()
        answer = self.answers.pop(self.number)
        assert "error" not in answer, answer["error"]
        result: dict[str, Any] = answer["result"]
        return result

    def hear(self) -> None:
        got = os.read(self.said, 1 << 20)
        assert got, "Chromium has ended"
        *whole, self.rest = (self.rest + got).split(b"\0")
        for text in whole:
            message = json.loads(text)
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                self.events.append(message)


class Page:
    """One page. `errors`: what its scripts threw, and what the console was told of as an error."""

    def __init__(self, browser: Browser, session: str, path: Path, size: tuple[int, int], dark: bool) -> None:
        self.browser, self.session = browser, session
        self.ask("Page.enable")
        self.ask("Runtime.enable")
        self.ask("Log.enable")
        self.ask("Network.enable")
        width, height = size
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme, still])
        start = time.monotonic()
        self.ask("Page.navigate", url=path.resolve().as_uri())
        while self.value("document.readyState") != "complete" or self.value("location.protocol") == "about:":
            assert time.monotonic() < start + SECONDS, "the page does not load"
            time.sleep(0.01)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.ask(method, parameters, self.session)

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript gives."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def text(self, selector: str) -> str:
        return str(self.value(f"document.querySelector({json.dumps(selector)}).textContent"))

    def count(self, selector: str) -> int:
        return int(self.value(f"document.querySelectorAll({json.dumps(selector)}).length"))

    def click(self, selector: str) -> None:
        """With the mouse, in the middle of an element, or of the longest piece of a line that can be hit."""
        place = self.value(
            f"""(() => {{
              const element = document.querySelector({json.dumps(selector)});
              element.scrollIntoView({{block: "center"}});
              const box = element.getBoundingClientRect();
              let [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
              if (element.getPointAtLength && getComputedStyle(element).fill === "none") {{
                const middle = element.getPointAtLength(element.getTotalLength() / 2);
                const at = middle.matrixTransform(element.getScreenCTM());
                [x, y] = [at.x, at.y];
              }}
              return [x, y];
            }})()"""
        )
        where = {"x": place[0], "y": place[1], "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, **where)

    def key(self, key: str, *, shift: bool = False) -> None:
        about: dict[str, Any] = {"key": key, "modifiers": 8 if shift else 0, "windowsVirtualKeyCode": CODES.get(key, 0)}
        if len(key) == 1:
            about["text"] = key
        self.ask("Input.dispatchKeyEvent", type="keyDown", **about)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key)

    def tall(self) -> int:
        return int(self.value("document.documentElement.scrollHeight"))

    def picture(self, path: Path, height: int = 0) -> None:
        """All of the page as a PNG, or its first rows."""
        self.value("scrollTo(0, 0)")
        size = self.value("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": size[0], "height": height or size[1], "scale": 1}
        found = self.ask("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    @property
    def errors(self) -> list[str]:
        self.value("0")  # what was said before this is heard by now
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(event["params"]["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                found.append(str(event["params"]["entry"]["text"]))
            elif event["method"] == "Runtime.consoleAPICalled" and event["params"]["type"] == "error":
                found.append(str(event["params"]["args"]))
        return found

    @property
    def fetched(self) -> list[str]:
        """All addresses that were asked for."""
        self.value("0")
        return [
            str(event["params"]["request"]["url"])
            for event in self.browser.events
            if event.get("sessionId") == self.session and event["method"] == "Network.requestWillBeSent"
        ]
