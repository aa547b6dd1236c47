"""Cards as HTML: headings, lists, tables and code; nothing that loads, links or runs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from markdown_it.token import Token

__all__ = ["card_html"]

_DEEPEST = 6


def card_html(text: str, *, below: int = 2) -> Markup:
    """The Markdown of a card as HTML.

    HTML, links and pictures in it stay text, so that a card can neither run nor fetch anything.

    Parameters
    ----------
    text : str
    below : int
        Level of the heading that the card stands under; its own begin one level deeper. Its first heading is left out:
        it is the title, which the page has already.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.disable(["html_block", "html_inline", "link", "image", "autolink", "reference", "entity"])
    tokens = _without_title(_without_empty_heads(parser.parse(text)))
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(_DEEPEST, int(token.tag[1]) - 1 + below)}"
    # What is wider than the page can be scrolled with the keyboard.
    parser.add_render_rule("fence", _code)
    parser.add_render_rule("code_block", _code)
    return Markup(parser.renderer.render(tokens, parser.options, {}))


def _code(self: object, tokens: Sequence[Token], index: int, options: object, env: object) -> str:
    return f'<pre tabindex="0"><code>{escape(tokens[index].content)}</code></pre>\n'


def _without_title(tokens: list[Token]) -> list[Token]:
    if tokens and tokens[0].type == "heading_open" and tokens[0].tag == "h1":
        return tokens[3:]
    return tokens


def _without_empty_heads(tokens: list[Token]) -> list[Token]:
    """Tables of names and values have a head without words; a page needs none."""
    kept: list[Token] = []
    head: list[Token] | None = None
    for token in tokens:
        if token.type == "thead_open":
            head = []
        if head is None:
            kept.append(token)
            continue
        head.append(token)
        if token.type == "thead_close":
            if any(each.type == "inline" and each.content.strip() for each in head):
                kept += head
            head = None
    return kept
