"""How numbers and names stand on a page, and the environment that its template is rendered in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

__all__ = [
    "DASH",
    "clip",
    "count",
    "general",
    "interval",
    "listed",
    "num",
    "p",
    "page_environment",
    "page_style",
    "percent",
    "ratio",
    "rendered",
    "share",
    "short",
    "signed",
    "span",
    "template_text",
]

DASH = "–"
_PACKAGE = "optotype.registry.report"
_NAMED = 6  # at most, in one sentence


def num(value: float | None) -> str:
    """Three decimals, a true minus sign; a dash for what is not there."""
    return DASH if value is None else f"{value:.3f}".replace("-", "−")


def general(value: float | None) -> str:
    """Three significant digits."""
    return DASH if value is None else f"{value:.3g}".replace("-", "−")


def p(value: float | None) -> str:
    """A p-value."""
    if value is None:
        return DASH
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"


def ratio(value: float | None) -> str:
    """A ratio: two decimals below ten, none above."""
    if value is None:
        return DASH
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def percent(value: float | None) -> str:
    """A share in percent, "< 1 %" where rounding would say none."""
    if value is None:
        return DASH
    if 0 < value < 0.005:
        return "< 1 %"
    return f"{100 * value:.0f} %"


def interval(value: Sequence[float] | None) -> str:
    """Both ends."""
    return DASH if value is None else f"{num(value[0])} to {num(value[1])}"


def count(value: float | None) -> str:
    """A whole number with commas; a mean of such numbers is rounded."""
    return DASH if value is None else f"{value:,.0f}"


def signed(value: float | None) -> str:
    """Three decimals behind a sign."""
    return DASH if value is None else f"{value:+.3f}".replace("-", "−")


def listed(names: Sequence[str], most: int = _NAMED) -> str:
    """Names as a sentence has them, the first few of many; a dash for none."""
    if not names:
        return DASH
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def share(value: float) -> str:
    """A chosen share in percent, with the digits that it has."""
    return f"{100 * value:.6g} %"


def span(ends: Sequence[float] | None) -> str:
    """Whole numbers from the first to the last; one where they are the same."""
    if ends is None:
        return DASH
    low, high = (count(end) for end in ends)
    return low if low == high else f"{low}–{high}"


def short(digest: str) -> str:
    """The first twelve digits of a digest."""
    return digest.rpartition(":")[2][:12]


def clip(text: str, most: int = 140) -> str:
    """Text cut to its first characters."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def page_environment() -> Environment:
    """A Jinja environment that escapes everything, refuses unknown names, and knows the filters of this module.

    Its templates may extend and import those that lie beside this module: ``base.html``, ``parts.html``.
    """
    environment = Environment(
        autoescape=True,
        loader=FunctionLoader(lambda name: template_text(_PACKAGE, name)),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters.update(
        clip=clip,
        count=count,
        general=general,
        interval=interval,
        listed=listed,
        num=num,
        p=p,
        percent=percent,
        ratio=ratio,
        share=share,
        short=short,
        signed=signed,
        span=span,
    )
    return environment


def rendered(
    template: str,
    *,
    title: str,
    contents: Sequence[tuple[str, str]],
    filters: Mapping[str, Callable[..., Any]] | None = None,
    sheets: Sequence[str] = (),
    **values: Any,
) -> str:
    """A page of the shape of ``base.html``.

    Parameters
    ----------
    template : str
        Text of a template that extends ``base.html``.
    title : str
        Heading of the page.
    contents : sequence of (str, str)
        Id and words of every section that the list of contents names.
    filters : mapping, optional
        Further filters.
    sheets : sequence of str, optional
        Style sheets beside this module, after the one that all pages share.
    **values
        What the template speaks of.
    """
    environment = page_environment()
    environment.filters.update(filters or {})
    page: str = environment.from_string(template).render(
        title=title, contents=list(contents), css=page_style(*sheets), **values
    )
    return page


def template_text(package: str, name: str) -> str:
    """The text of a template that lies in a package."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def page_style(*sheets: str) -> Markup:
    """The style sheet that all pages share and some others beside it, to stand in a page."""
    return Markup("".join(template_text(_PACKAGE, name) for name in ("report.css", *sheets)))
