"""What every page of a report has to be: self-contained, readable without sight, and as narrow as a phone."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

__all__ = ["Tags", "check_fits_a_phone", "check_ids", "check_self_contained", "check_words"]


class Tags(HTMLParser):
    """Start tags in order, with their attributes; raises nothing on unknown tags. ``void`` ones are never closed."""

    def __init__(self, text: str, void: tuple[str, ...] = ("meta", "link", "br")) -> None:
        super().__init__()
        self._void = void
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self._void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)


def check_self_contained(page: str) -> None:
    """No script, nothing loaded from elsewhere, every tag closed, a policy that forbids the rest."""
    assert "Content-Security-Policy" in page
    tags = Tags(page)
    assert not tags.unbalanced
    assert not tags.open
    assert "script" not in {tag for tag, _ in tags.found}
    for tag, attributes in tags.found:
        for name in ("src", "href", "srcset", "action", "data", "poster", "xlink:href"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:")), (tag, name, value[:60])
    assert not re.findall(r"url\((?!#)|@import", page)


def check_ids(page: str) -> None:
    """No id twice, and none missing that something refers to."""
    tags = Tags(page).found
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes.get("href") or "" for _, attributes in tags]
    targets: list[str | None] = [link[1:] for link in links if link.startswith("#")]
    targets += [attributes["aria-labelledby"] for _, attributes in tags if "aria-labelledby" in attributes]
    targets += re.findall(r"url\(#([^)]+)\)", page)
    assert set(targets) <= set(ids)


def check_words(page: str) -> int:
    """Headings in order, words for every picture, scrolling tables in reach of the keyboard; the number of pictures."""
    tags = Tags(page).found
    levels = [int(tag[1]) for tag, _ in tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    pictures = [attributes for tag, attributes in tags if tag == "svg" and attributes.get("aria-hidden") != "true"]
    assert all(attributes.get("role") == "img" and attributes.get("aria-label") for attributes in pictures)
    for tag, attributes in tags:
        if (attributes.get("class") or "") == "scroll":
            assert attributes.get("tabindex") == "0", f"a {tag} that scrolls can be reached with the keyboard"
    return len(pictures)


CHECK = """
<script>
addEventListener("load", () => {
  const root = document.documentElement;
  const wide = [...document.querySelectorAll("body *")]
    .filter((e) => !e.closest(".scroll, pre, svg, .hidden, .sr"))
    .filter((e) => e.getBoundingClientRect().right > root.clientWidth + 1)
    .map((e) => e.tagName + "." + e.className);
  parent.postMessage(JSON.stringify([root.scrollWidth, root.clientWidth, wide.slice(0, 5)]), "*");
});
</script>
"""
FRAME = """<!DOCTYPE html><body><pre id="told"></pre>
<script>addEventListener("message", (e) => { document.getElementById("told").textContent = e.data; });</script>
<iframe src="page.html" style="width:390px;height:800px;border:0"></iframe></body>
"""


def check_fits_a_phone(page: str, tmp_path: Path) -> None:
    """Nothing stands out at a width of 390 pixels, but for what scrolls on its own."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine to render the page with")
    # The page forbids scripts; the copy that is measured lets this one in, in a frame as wide as a phone.
    bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    (tmp_path / "page.html").write_text(
        bare.replace("<details>", "<details open>").replace("</body>", CHECK + "</body>")
    )
    (tmp_path / "frame.html").write_text(FRAME)
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--no-first-run",
        "--hide-scrollbars",
    ]
    dom = subprocess.run(
        [
            browser,
            *flags,
            f"--user-data-dir={tmp_path / 'profile'}",
            "--window-size=800,900",
            "--virtual-time-budget=5000",
            "--dump-dom",
            (tmp_path / "frame.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    told = re.search(r'<pre id="told">(.+?)</pre>', dom)
    assert told is not None, dom[:500]
    scroll_width, client_width, wide = json.loads(told[1].replace("&gt;", ">"))
    assert client_width == 390
    assert scroll_width <= client_width
    assert wide == []
