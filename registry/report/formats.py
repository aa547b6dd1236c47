"""How numbers and names stand on a page, and the environment that its template is rendered in."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

__all__ = [
    "DASH",
    "clip",
    "general",
    "interval",
    "num",
    "p",
    "page_environment",
    "page_style",
    "percent",
    "ratio",
    "short",
    "template_text",
]

DASH = "–"


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


def short(digest: str) -> str:
    """The first twelve digits of a digest."""
    return digest.rpartition(":")[2][:12]


def clip(text: str, most: int = 140) -> str:
    """Text cut to its first characters."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def page_environment() -> Environment:
    """A Jinja environment that escapes everything, refuses unknown names, and knows the filters of this module."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(
        clip=clip, general=general, interval=interval, num=num, p=p, percent=percent, ratio=ratio, short=short
    )
    return environment


def template_text(package: str, name: str) -> str:
    """The text of a template that lies in a package."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def page_style() -> Markup:
    """The style sheet that all pages share, to stand in each of them."""
    return Markup(template_text("optotype.registry.report", "report.css"))
