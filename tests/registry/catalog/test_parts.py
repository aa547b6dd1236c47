"""Cards as HTML, and lineages as graphs."""

from __future__ import annotations

import itertools
import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optotype.registry.catalog.lineage_graph import build_graph, draw
from optotype.registry.catalog.markdown import card_html

ROOT = ("suite", "s", "sha256:" + "0" * 64)


def test_cards_keep_headings_lists_tables_and_code() -> None:
    html = card_html(
        "# Title\n\nwords `code`\n\n## Part\n\n- a\n  - b\n\n|  |  |\n|---|---|\n| x | 1 |\n\n```sh\nls <x>\n```\n"
    )
    assert "Title" not in html
    assert "<h3>Part</h3>" in html
    assert html.count("<ul>") == 2
    assert "<thead>" not in html
    assert "<td>x</td>" in html
    assert '<pre tabindex="0"><code>ls &lt;x&gt;\n</code></pre>' in html
    assert "<thead>" in card_html("| file | bytes |\n|---|---|\n| x | 1 |\n")


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "a <img src=x onerror=alert(1)> b",
        "[x](javascript:alert(1))",
        "![x](https://example.org/x.png)",
        "<https://example.org>",
        "[x]\n\n[x]: https://example.org",
        "| <b>x</b> | y |\n|---|---|\n| <i>1</i> | 2 |",
        "<div>\n\nx\n\n</div>",
    ],
)
def test_cards_neither_link_nor_run(text: str) -> None:
    tags = set(re.findall(r"<(\w+)", card_html(text)))
    assert tags <= {"p", "table", "thead", "tbody", "tr", "th", "td"}


def node(name: str, *inputs: dict[str, Any], role: str = "input", kind: str = "file") -> dict[str, Any]:
    return {"role": role, "kind": kind, "name": name, "digest": f"sha256:{name:f>64}", "inputs": list(inputs)}


def test_what_occurs_twice_is_one_node() -> None:
    raw = node("raw")
    graph = build_graph(ROOT, [node("a", raw, role="x"), node("b", node("a", raw, role="y")), raw])
    assert [each.key[1] for each in graph.nodes] == ["s", "a", "b", "raw"]
    assert set(graph.edges) == {(0, 1), (0, 2), (0, 3), (1, 3), (2, 1)}
    assert graph.nodes[1].roles == ["x", "y"]


def test_a_lineage_that_names_itself_is_drawn_once() -> None:
    one = build_graph(ROOT, [node("a", node("a", node("a")))])
    assert one.edges == [(0, 1)]
    two = build_graph(ROOT, [node("a", node("b", node("a"))), node("b", node("a"))])
    assert _acyclic(two.edges, len(two.nodes))
    draw(two, label="x", version="1.0.0", link=lambda _: None)


def _acyclic(edges: list[tuple[int, int]], n: int) -> bool:
    """Kahn: take away nodes that nothing leads to, until none is left."""
    left = set(range(n))
    while left:
        free = {i for i in left if not any(b == i and a in left for a, b in edges)}
        if not free:
            return False
        left -= free
    return True


LINEAGES = st.recursive(
    st.builds(node, st.sampled_from("abcdefgh")),
    lambda inner: st.builds(
        lambda name, inputs: node(name, *inputs), st.sampled_from("abcdefgh"), st.lists(inner, max_size=4)
    ),
    max_leaves=25,
)


@given(st.lists(LINEAGES, max_size=5))
def test_any_lineage_is_drawn_without_cycles_or_overlaps(lineage: list[dict[str, Any]]) -> None:
    graph = build_graph(ROOT, lineage)
    assert _acyclic(graph.edges, len(graph.nodes))
    reached = {0} | {b for _, b in graph.edges}
    assert reached == set(range(len(graph.nodes))), "nothing stands alone"
    drawn = draw(graph, label='a "label" & <more>', version="1.0.0", link=lambda _: None)
    assert drawn == draw(build_graph(ROOT, lineage), label='a "label" & <more>', version="1.0.0", link=lambda _: None)
    svg = ET.fromstring(drawn)
    boxes = [
        (
            float(rect.get("x", "")),
            float(rect.get("y", "")),
            float(rect.get("width", "")),
            float(rect.get("height", "")),
        )
        for rect in svg.iter("rect")
    ]
    assert len(boxes) == len(graph.nodes)
    width, height = float(svg.get("width", "")), float(svg.get("height", ""))
    for x, y, w, h in boxes:
        assert 0 <= x <= x + w <= width
        assert 0 <= y <= y + h <= height
    for one, other in itertools.combinations(boxes, 2):
        assert one[0] != other[0] or abs(one[1] - other[1]) >= one[3]
    assert len(list(svg.iter("path"))) == len(graph.edges)


def test_what_is_made_of_another_stands_to_its_left() -> None:
    raw = node("raw")
    graph = build_graph(ROOT, [raw, node("a", node("b", raw))])
    svg = ET.fromstring(draw(graph, label="x", version="1.0.0", link=lambda _: None))
    places = {
        group.findtext("title", "").split("\n")[0]: float(group.find("rect").get("x", "")) for group in svg.iter("g")
    }  # type: ignore[union-attr]
    assert places["suite/s@1.0.0"] < places["file/a"] < places["file/b"] < places["file/raw"]


def test_names_are_cut_to_fit_and_escaped_and_links_are_made() -> None:
    graph = build_graph(ROOT, [node("<x>" + "y" * 200), node("漢" * 40)])
    drawn = draw(graph, label="x", version="1.0.0", link=lambda each: "page.html" if "x" in each.key[1] else None)
    svg = ET.fromstring(drawn)
    assert [link.get("href") for link in svg.iter("a")] == ["page.html"]
    assert all(len(text.text or "") <= 40 for text in svg.iter("text"))
    assert any("漢…" in (text.text or "") for text in svg.iter("text"))


def test_very_large_lineages_are_cut_and_counted() -> None:
    graph = build_graph(ROOT, [node(f"n{i:03d}") for i in range(400)])
    assert len(graph.nodes) == 150
    assert graph.left_out == 400 - 149
