"""A catalog of a few published versions, and a real browser to look at it with."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from payloads import make_frontier, make_pairs, make_ranking, make_report, make_suite

from optotype.registry.artifacts.index import Registry
from optotype.registry.artifacts.publish import publish
from optotype.registry.catalog.build import build_catalog

_PATIENCE = 30
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--remote-debugging-pipe",
)
# Chromium reads the protocol from descriptor 3 and writes it to 4.
_START = """
import fcntl, os, sys
reading, writing = (fcntl.fcntl(int(word), fcntl.F_DUPFD, 10) for word in sys.argv[1:3])
os.dup2(reading, 3)
os.dup2(writing, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """A headless Chromium, spoken to in the DevTools protocol through a pipe."""

    def __init__(self, program: str, profile: Path) -> None:
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        command = [sys.executable, "-c", _START, str(theirs_in), str(theirs_out), program, *_FLAGS]
        self._process = subprocess.Popen(
            [*command, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._in, self._out = os.fdopen(ours_in, "rb", buffering=0), os.fdopen(ours_out, "wb")
        self._number, self._kept = 0, b""
        self.events: list[dict[str, Any]] = []

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._in.close()
        self._out.close()

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events that come meanwhile are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result

    def wait(self, event: str, session: str) -> dict[str, Any]:
        """The next event of a kind."""
        while True:
            for i, kept in enumerate(self.events):
                if kept["method"] == event and kept.get("sessionId") == session:
                    del self.events[i]
                    return dict(kept["params"])
            answer = self._read()
            assert "id" not in answer

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._kept:
            ready, _, _ = select.select([self._in], [], [], _PATIENCE)
            assert ready, "the browser does not answer"
            block = os.read(self._in.fileno(), 1 << 16)
            assert block, "the browser has ended"
            self._kept += block
        text, _, self._kept = self._kept.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "id" not in message:
            self.events.append(message)
        return message


class Tab:
    """One page, as wide and as dark as asked for."""

    def __init__(self, browser: Browser, *, width: int, dark: bool, script: bool) -> None:
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._target = target
        self._session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._scripts = script

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command for this page."""
        return self._browser.call(method, self._session, **parameters)

    def open(self, path: Path | str) -> Tab:
        """Load a page and wait until it is there."""
        self.call("Emulation.setScriptExecutionDisabled", value=not self._scripts)
        self._browser.events.clear()
        self.call("Page.navigate", url=path.as_uri() if isinstance(path, Path) else path)
        self._browser.wait("Page.loadEventFired", self._session)
        return self

    def run(self, expression: str) -> Any:
        """What a line of JavaScript gives, awaited."""
        # The page's own policy does not bind the protocol.
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, *keys: str) -> None:
        """Press keys one after the other; a key is a name such as ``Tab``, or a letter."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, " ": 32}
        for key in keys:
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            code = ord(key.upper()) if len(key) == 1 and key.isalnum() else 0
            common = {"key": key, "windowsVirtualKeyCode": codes.get(key, code)}
            self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
            self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        """Type a text."""
        self.press(*text)

    def seen(self, selector: str) -> list[str]:
        """Texts of the elements that can be seen."""
        texts: list[str] = self.run(
            f"[...document.querySelectorAll({json.dumps(selector)})].filter((e) => e.checkVisibility())"
            ".map((e) => e.innerText.trim())"
        )
        return texts

    def complaints(self) -> list[str]:
        """What the browser logged: errors, and what the policy refused."""
        told = []
        for event in self._browser.events:
            if event["method"] == "Log.entryAdded":
                told.append(event["params"]["entry"]["text"])
            if event["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
                told.append(json.dumps(event["params"])[:300])
        return told

    def requested(self) -> list[str]:
        """Addresses that were asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self._browser.events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def frames(self) -> list[str]:
        """Addresses of the frames in pages, which run apart when they are shut in."""
        targets = self._browser.call("Target.getTargets", filter=[{"type": "iframe"}])["targetInfos"]
        return [target["url"] for target in targets]

    def picture(self, path: Path) -> None:
        """The whole page as PNG."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        """Close the page."""
        self._browser.call("Target.closeTarget", targetId=self._target)


HOSTILE = '<script>document.title = "taken"</script> & "quoted"'


def publish_all(root: Path, made: Path) -> Path:
    """A project with three suites of one name, two rankings, a report on the same arrays, pairs and a frontier set."""
    (root / ".optotype").mkdir(parents=True)
    (root / ".optotype" / "project.json").write_text('{"format_version": 1}\n', encoding="utf-8")
    one = make_suite(made / "s1", {"a/1": 0.5, "a/2": 0.25, "b/<1>": 0.25}, ranks={"m1": 1, "m2": 2, "m3": 3})
    two = make_suite(
        made / "s2",
        {"a/1": 0.5, "a/2": 0.375, "c/9": 0.125},
        ranks={"m1": 3, "m2": 2, "m4": 1},
        parameters={"retention": 0.1, "k": 5},
    )
    three = make_suite(made / "s3", {"a/1": 1.0})
    publish("suite", "prime@0.1.0", one, root=root, message="the first")
    publish("suite", "prime@0.2.0", two, root=root, message=HOSTILE)
    publish("suite", "prime@1.0.0-rc.1", three, root=root, title=HOSTILE)
    publish("ranking", "emoji@0.1.0", make_ranking(made / "r1", {"vit": 0.5, "cnn": 0.25}), root=root)
    publish("ranking", "emoji@0.2.0", make_ranking(made / "r2", {"vit": 0.375, "cnn": 0.5}), root=root)
    report = make_report(made / "report", "hello from the report")
    document = json.loads((report / "ranking.json").read_text())
    rows = json.loads((made / "r1" / "ranking.json").read_text())["rows"]
    (report / "ranking.json").write_text(json.dumps({**document, "rows": rows}))
    publish("report", "look@0.1.0", report, root=root)
    publish("pairs", "drawings@0.1.0", make_pairs(made / "pairs"), root=root)
    publish("frontier", "prime@0.1.0", make_frontier(made / "f", [("a", "1")]), root=root)
    registry = Registry(root)
    registry.yank("suite/prime@0.1.0", 'the <answer> key was "wrong"')
    registry.alias("suite/prime@0.2.0", "stable")
    return root


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed: what is to be damaged is copied first."""
    base = tmp_path_factory.mktemp("published")
    return publish_all(base / "project", base / "made")


@pytest.fixture(scope="session")
def site(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The catalog of `published`."""
    out = tmp_path_factory.mktemp("catalog") / "site"
    build_catalog(published, out, title="Things <published>")
    return out


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium on this machine to look at the pages with")
    with tempfile.TemporaryDirectory(prefix="chromium", ignore_cleanup_errors=True) as profile:
        started = Browser(program, Path(profile))
        try:
            yield started
        finally:
            started.close()


@pytest.fixture
def tab(browser: Browser) -> Iterator[Callable[..., Tab]]:
    """``tab(width=1280, dark=False, script=True)`` -> a new page."""
    opened: list[Tab] = []

    def new(*, width: int = 1280, dark: bool = False, script: bool = True) -> Tab:
        opened.append(Tab(browser, width=width, dark=dark, script=script))
        return opened[-1]

    yield new
    for each in opened:
        each.close()
