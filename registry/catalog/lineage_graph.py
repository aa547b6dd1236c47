"""The lineage of a version as a graph in layers: what is made of what, each input once, drawn as inline SVG."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import Any

from markupsafe import Markup

__all__ = ["Graph", "Node", "build_graph", "draw"]

_MOST = 150  # nodes in a drawing
_SWEEPS = 8
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _BEND = 216, 44, 44, 10, 14
_CLIP = 27  # characters that fit on a node


@dataclass
class Node:
    """One thing in a lineage.

    Attributes
    ----------
    key : tuple of str
        Kind, name and digest: equal ones are one node.
    roles : list of str
        What it is used as, in order of appearance.
    """

    key: tuple[str, str, str]
    roles: list[str] = field(default_factory=list)


@dataclass
class Graph:
    """Nodes in order of appearance, the version itself first, and which is made of which.

    Attributes
    ----------
    nodes : list of Node
    edges : list of (int, int)
        From a node to one that it was made of; free of cycles.
    left_out : int
        Nodes beyond the most that are drawn.
    """

    nodes: list[Node]
    edges: list[tuple[int, int]]
    left_out: int


def build_graph(root: tuple[str, str, str], lineage: Sequence[Mapping[str, Any]]) -> Graph:
    """Merge what occurs several times in a lineage into one node each, breadth first.

    An edge that would lead back to where it comes from is left out.
    """
    nodes = [Node(root)]
    number = {root: 0}
    below: list[list[int]] = [[]]
    missing: set[tuple[str, str, str]] = set()
    level: list[tuple[int, Sequence[Mapping[str, Any]]]] = [(0, lineage)]
    seen: set[tuple[int, int]] = set()
    while level:
        following: list[tuple[int, Sequence[Mapping[str, Any]]]] = []
        for parent, inputs in level:
            for each in inputs:
                key = (str(each["kind"]), str(each["name"]), str(each["digest"]))
                if key not in number:
                    if len(nodes) >= _MOST:
                        missing.add(key)
                        continue
                    number[key] = len(nodes)
                    nodes.append(Node(key))
                    below.append([])
                child = number[key]
                if str(each["role"]) not in nodes[child].roles:
                    nodes[child].roles.append(str(each["role"]))
                if (parent, child) not in seen and not _reaches(below, child, parent):
                    seen.add((parent, child))
                    below[parent].append(child)
                following.append((child, each["inputs"]))
        level = following
    edges = [(parent, child) for parent, children in enumerate(below) for child in children]
    return Graph(nodes, edges, len(missing))


def _reaches(below: Sequence[Sequence[int]], start: int, goal: int) -> bool:
    waiting, done = [start], set()
    while waiting:
        node = waiting.pop()
        if node == goal:
            return True
        if node not in done:
            done.add(node)
            waiting += below[node]
    return False


def _layers(graph: Graph) -> list[int]:
    """The layer of every node: one more than the deepest of those that are made of it."""
    depth = [0] * len(graph.nodes)
    for _ in graph.nodes:  # as many rounds as the longest path has edges, at most
        before = list(depth)
        for parent, child in graph.edges:
            depth[child] = max(depth[child], depth[parent] + 1)
        if depth == before:
            break
    return depth


@dataclass
class _Layout:
    """Columns of node numbers; numbers from ``len(graph.nodes)`` on are bends of edges that pass a column by."""

    columns: list[list[int]]
    chains: list[list[int]]
    y: dict[int, float]
    height: float


def _layout(graph: Graph) -> _Layout:
    depth = _layers(graph)
    columns: list[list[int]] = [[] for _ in range(max(depth) + 1)]
    for node, layer in enumerate(depth):
        columns[layer].append(node)
    chains, following = [], len(graph.nodes)
    for parent, child in graph.edges:
        chain = [parent]
        for layer in range(depth[parent] + 1, depth[child]):
            columns[layer].append(following)
            chain.append(following)
            following += 1
        chains.append([*chain, child])
    links: dict[int, tuple[list[int], list[int]]] = {node: ([], []) for column in columns for node in column}
    for chain in chains:
        for left, right in pairwise(chain):
            links[left][1].append(right)
            links[right][0].append(left)
    for sweep in range(_SWEEPS):
        side = sweep % 2
        for column in columns if side == 0 else reversed(columns):
            place = {node: i for each in columns for i, node in enumerate(each)}
            # The mean place of the neighbours on one side; ties stay in order, so that the drawing is always the same.
            column.sort(key=lambda node: _mean([place[other] for other in links[node][side]], place[node]))
    return _placed(columns, chains, links, len(graph.nodes))


def _placed(
    columns: list[list[int]],
    chains: list[list[int]],
    links: Mapping[int, tuple[list[int], list[int]]],
    real: int,
) -> _Layout:
    """Heights: each node near the middle of what it is linked to on the left, none above another."""

    def size(node: int) -> float:
        return _HEIGHT if node < real else _BEND

    total = [sum(size(node) for node in column) + _GAP_Y * (len(column) - 1) for column in columns]
    height = max(total)
    y: dict[int, float] = {}
    for column, own in zip(columns, total, strict=True):
        top = (height - own) / 2
        for node in column:
            y[node] = top + size(node) / 2
            top += size(node) + _GAP_Y
    return _Layout(columns, chains, y, height)


def _mean(places: Sequence[int], otherwise: int) -> float:
    return sum(places) / len(places) if places else float(otherwise)


def draw(graph: Graph, *, label: str, version: str, link: Callable[[Node], str | None]) -> Markup:
    """The graph as SVG in the size it is read at: the version at the left, what it was made of to its right.

    Parameters
    ----------
    graph : Graph
    label : str
        What the picture is, for those who do not see it.
    version : str
        Of the first node.
    link : callable
        Gives the address of a node's own page, or None.
    """
    layout = _layout(graph)
    width = len(layout.columns) * (_WIDTH + _GAP_X) - _GAP_X + 4
    height = layout.height + 4
    x = {node: 2 + i * (_WIDTH + _GAP_X) for i, column in enumerate(layout.columns) for node in column}
    parts = [
        f'<svg class="lineage" viewBox="0 0 {width} {height:g}" width="{width}" height="{height:g}" '
        f'role="group" aria-label="{escape(label)}">'
    ]
    parts += [f'<path class="edge" d="{_path(chain, x, layout.y, len(graph.nodes))}"/>' for chain in layout.chains]
    for column in layout.columns:
        parts += [
            _box(graph.nodes[node], x[node], 2 + layout.y[node] - _HEIGHT / 2, version if node == 0 else None, link)
            for node in column
            if node < len(graph.nodes)
        ]
    return Markup("".join([*parts, "</svg>"]))


def _path(chain: Sequence[int], x: Mapping[int, float], y: Mapping[int, float], real: int) -> str:
    text = f"M{x[chain[0]] + _WIDTH} {2 + y[chain[0]]:g}"
    before = 2 + y[chain[0]]
    for node in chain[1:]:
        here = 2 + y[node]
        text += f"C{x[node] - _GAP_X / 2:g} {before:g} {x[node] - _GAP_X / 2:g} {here:g} {x[node]:g} {here:g}"
        if node >= real:
            text += f"H{x[node] + _WIDTH}"
        before = here
    return text


def _box(node: Node, x: float, y: float, version: str | None, link: Callable[[Node], str | None]) -> str:
    kind, name, digest = node.key
    own = version is not None
    name = name if version is None else f"{name}@{version}"
    address = None if own else link(node)
    what = kind if not node.roles or node.roles == [kind] else f"{kind} as {', '.join(node.roles)}"
    short = digest.removeprefix("sha256:")[:12]
    title = f"{kind}/{name}\n{what}\n{digest}"
    style = "node own" if own else "node known" if address else "node"
    box = (
        f'<g class="{style}"><title>{escape(title)}</title>'
        f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>'
        f'<text class="what" x="{x + 10:g}" y="{y + 18:g}">{escape(_clip(_tail(name)))}</text>'
        f'<text class="of" x="{x + 10:g}" y="{y + 34:g}">{escape(_clip(what, 19))} · {escape(short)}</text></g>'
    )
    if address is None:
        return box
    return f'<a href="{escape(address)}" aria-label="{escape(f"{kind}/{name}, published")}">{box}</a>'


def _tail(name: str) -> str:
    """The end of a long path, which says more than its beginning."""
    return name if len(name) <= _CLIP else f"…{name[-_CLIP + 1 :]}"


def _clip(text: str, most: int = _CLIP) -> str:
    """Text cut to what fits; wide letters count twice."""
    room, kept = most, ""
    for sign in text:
        room -= 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        if room < 0:
            return f"{kept[:-1]}…"
        kept += sign
    return kept
