"""The catalog in a real Chromium: by keyboard, on a phone, in the dark, without scripts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SHOWN = "li[data-text] .version"
PAGES = (
    "index.html",
    "suite/prime/index.html",
    "suite/prime/0.1.0/index.html",
    "suite/prime/0.2.0/index.html",
    "ranking/emoji/0.1.0/index.html",
    "report/look/0.1.0/index.html",
    "pairs/drawings/0.1.0/index.html",
)
FOCUS = "document.activeElement.id || document.activeElement.textContent.trim()"
WIDE = """[...document.querySelectorAll("body *")]
  .filter((e) => e.checkVisibility() && !e.closest(".scroll, pre, svg, .skip, .sr"))
  .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map((e) => e.tagName + "." + e.className)"""
# Contrast of every text with what lies behind it, after WCAG 2.
CONTRAST = """(() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (color) => {
    const [r, g, b] = color.slice(0, 3).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const color = rgb(getComputedStyle(e).backgroundColor);
      if (color.length < 4 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const e of document.querySelectorAll("body *")) {
    if (e.closest("svg, script, style") || !e.checkVisibility()) continue;
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) poor.push(`${e.tagName}.${e.className}: ${e.textContent.trim()}`);
  }
  return poor;
})()"""


def test_search_and_filters_by_keyboard_alone(site: Path, tab: Callable[..., Any]) -> None:
    page = tab().open(site / "index.html")
    assert len(page.seen(SHOWN)) == 8
    page.press("/")
    assert page.run(FOCUS) == "q"
    page.type("prime 0.2")
    assert page.seen(SHOWN) == ["0.2.0"]
    assert page.seen("#found") == ["1 of 8 versions"]
    assert page.seen(".kind h2") == ["Suites"], "headings without versions are gone"
    page.press("Escape")
    assert len(page.seen(SHOWN)) == 8
    page.press("Tab", "ArrowDown")
    assert page.run(FOCUS) == "kind"
    assert page.seen(SHOWN) == ["1.0.0-rc.1", "0.2.0", "0.1.0"]
    page.press("Tab", "Tab", "ArrowDown")
    assert page.run(FOCUS) == "yanked"
    assert page.seen(SHOWN) == ["1.0.0-rc.1", "0.2.0"]
    page.press("ArrowDown")
    assert page.seen(SHOWN) == ["0.1.0"]
    page.press("Tab", "Enter")
    assert len(page.seen(SHOWN)) == 8
    assert page.run(FOCUS) == "q"
    page.type("no such thing")
    assert page.seen(SHOWN) == []
    assert page.seen("#none")[0].startswith("No published version fits.")
    assert page.complaints() == []


def test_a_filter_is_kept_in_the_address(site: Path, tab: Callable[..., Any]) -> None:
    address = (site / "index.html").as_uri()
    page = tab().open(f"{address}#name=emoji&q=0.1")
    assert page.seen(SHOWN) == ["0.1.0"]
    page.run("document.getElementById('q').focus()")
    page.press("Escape")
    assert page.seen(SHOWN) == ["0.2.0", "0.1.0"]
    if page.run("location.hash") != "#name=emoji":  # a browser may refuse this for files
        assert page.run("location.hash") == "#name=emoji&q=0.1"


def test_a_version_is_reached_by_keyboard(site: Path, tab: Callable[..., Any]) -> None:
    page = tab().open(site / "index.html")
    page.press("Tab")
    assert page.run(FOCUS) == "Skip to the content"
    page.press("/")
    page.type("prime@0.2.0")
    for _ in range(12):
        page.press("Tab")
        if page.run(FOCUS) == "0.2.0":
            break
    ring = page.run("getComputedStyle(document.activeElement).outlineStyle")
    assert ring == "solid"
    page.press("Enter")
    page._browser.wait("Page.loadEventFired", page._session)
    assert page.run("document.querySelector('h1').textContent") == "suite/prime@0.2.0"


@pytest.mark.parametrize("granted", [True, False], ids=["clipboard", "no-clipboard"])
def test_the_pin_command_is_copied(site: Path, tab: Callable[..., Any], granted: bool) -> None:
    page = tab().open(site / "suite/prime/0.2.0/index.html")
    command = "optotype pin suite/prime@0.2.0 --from GIT_URL_OR_PATH"
    page.call("Page.bringToFront")
    # What is written is caught: the machine's clipboard is shared with other tests.
    refuse = "Promise.reject(new Error())"
    page.run(
        "navigator.clipboard.writeText = (text) => { window.taken = text; return "
        f"{'Promise.resolve()' if granted else refuse}; }};"
        "document.execCommand = (what) => { window.taken = [what, String(getSelection())]; return true; };"
        "document.querySelector('button[data-copy]').focus()"
    )
    page.press("Enter")
    page.run("new Promise((done) => setTimeout(done, 50))")
    assert page.seen(".said") == ["Copied"]
    assert page.run("window.taken") == (command if granted else ["copy", command])


def test_two_versions_are_chosen_by_keyboard(site: Path, tab: Callable[..., Any]) -> None:
    page = tab().open(site / "suite/prime/index.html")
    assert page.seen("#chosen") == ["What changed from 0.2.0 to 1.0.0-rc.1:"]
    shown = "document.querySelector('details.pair:not([hidden])').dataset.from"
    page.run("document.getElementById('to').focus()")
    page.press("ArrowDown", "ArrowDown")
    assert page.seen("#chosen") == ["What changed from 0.1.0 to 0.2.0:"], "chosen the other way round, shown as it went"
    assert page.run(shown) == "0.1.0"
    text = page.run("document.querySelector('details.pair:not([hidden])').innerText")
    assert "+1 added" in text
    page.press("ArrowUp")
    assert page.seen("#chosen") == ["The same version twice: choose two."]
    assert page.run("document.querySelectorAll('details.pair:not([hidden])').length") == 0
    assert page.complaints() == []


def test_a_link_leads_to_its_comparison(site: Path, tab: Callable[..., Any]) -> None:
    page = tab().open(site / "suite/prime/0.2.0/index.html")
    page.run("[...document.links].find((a) => a.textContent === 'Compare with other versions').click()")
    page._browser.wait("Page.loadEventFired", page._session)
    assert page.seen("#chosen") == ["What changed from 0.1.0 to 0.2.0:"]


def test_pairs_that_are_not_compared_give_the_command(tab: Callable[..., Any], tmp_path: Path) -> None:
    from payloads import make_suite

    from optotype.registry.artifacts.publish import publish
    from optotype.registry.catalog.build import build_catalog

    root = tmp_path / "project"
    for minor in range(10):
        publish("suite", f"s@0.{minor}.0", make_suite(tmp_path / f"{minor}", {f"a/{minor}": 1.0}), root=root)
    build_catalog(root, tmp_path / "site")
    page = tab().open(f"{(tmp_path / 'site/suite/s/index.html').as_uri()}#0.0.0...0.9.0")
    assert page.seen("#ask") == ["optotype diff suite/s@0.0.0 suite/s@0.9.0"]
    page = tab().open(f"{(tmp_path / 'site/suite/s/index.html').as_uri()}#0.0.0...0.1.0")
    assert page.seen("#ask") == []
    assert page.seen("#chosen") == ["What changed from 0.0.0 to 0.1.0:"]


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_overflows_nothing_is_fetched_nothing_is_refused(
    site: Path, tab: Callable[..., Any], width: int
) -> None:
    page = tab(width=width)
    for name in PAGES:
        page.open(site / name)
        page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        page.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.run("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0, name
        assert page.run(WIDE) == [], name
        assert page.complaints() == [], name
        assert all(url.startswith(site.as_uri()) or url == "data:," for url in page.requested()), name


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_can_be_told_from_the_ground(site: Path, tab: Callable[..., Any], dark: bool) -> None:
    page = tab(dark=dark)
    for name in PAGES:
        page.open(site / name)
        assert page.run(CONTRAST) == [], name
    grounds = page.run("getComputedStyle(document.body).backgroundColor")
    assert (grounds == "rgb(255, 255, 255)") != dark


def test_everything_can_be_read_without_scripts(site: Path, tab: Callable[..., Any]) -> None:
    page = tab(script=False)
    page.open(site / "index.html")
    assert len(page.seen(SHOWN)) == 8
    assert page.seen("form, button, #none") == [], "what does nothing is not shown"
    page.open(site / "suite/prime/index.html")
    assert page.seen("details.pair summary") == ["0.2.0 → 1.0.0-rc.1", "0.1.0 → 1.0.0-rc.1", "0.1.0 → 0.2.0"]
    page.open(site / "suite/prime/0.2.0/index.html")
    assert page.seen("#pin-command") == ["optotype pin suite/prime@0.2.0 --from GIT_URL_OR_PATH"]
    assert page.seen("button") == []


def test_a_report_is_shown_in_a_frame_that_runs_nothing(site: Path, tab: Callable[..., Any]) -> None:
    page = tab().open(site / "report/look/0.1.0/index.html")
    page.run("document.querySelector('.preview').open = true; document.querySelector('iframe').scrollIntoView()")
    page.run("new Promise((done) => setTimeout(done, 300))")
    assert page.frames() == [(site / "report/look/0.1.0/payload/ranking.html").as_uri()]
    assert page.complaints() == []
    linked = page.run("document.querySelector('#report ~ ul a').href")
    page.open(linked)
    assert page.run("document.body.innerText") == "hello from the report"
