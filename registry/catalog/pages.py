"""The pages of the catalog: what was read, put through the templates. Each stands alone, with its style and script."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FunctionLoader
from markupsafe import Markup

import optotype
from optotype.registry.artifacts.kinds import adapter
from optotype.registry.catalog.entries import Entry
from optotype.registry.catalog.markdown import card_html
from optotype.registry.report.formats import DASH, page_environment, page_style, template_text

__all__ = ["TITLES", "Pages", "address"]

TITLES = {
    "suite": "Suites",
    "frontier": "Frontier sets",
    "pairs": "Pairs",
    "ranking": "Rankings",
    "report": "Reports",
    "features": "Patch features",
    "states": "Text states",
    "scores": "Scores",
}
MOST = 50  # entries of a list in a comparison
MOST_FILES = 1000
_PACKAGE = "optotype.registry.catalog"
_MOST_OF_PREVIOUS = 10


def address(entry: Entry, base: str = "") -> str:
    """Where the page of a version lies, from a page that is ``base`` below the root of the site."""
    return f"{base}{entry.row['kind']}/{entry.row['name']}/{quote(entry.row['version'])}/index.html"


class Pages:
    """Renders pages with one title, style and script.

    Parameters
    ----------
    title : str
        Of the whole catalog.
    source : str or None
        Where others pin from; None leaves a place to fill in the commands.
    """

    def __init__(self, title: str, source: str | None) -> None:
        self._source = source
        style = str(page_style()) + template_text(_PACKAGE, "catalog.css")
        script = template_text(_PACKAGE, "catalog.js")
        self._common: dict[str, Any] = {
            "site": title,
            "css": Markup(style),
            "script": Markup(script),
            "policy": _policy(style, script),
            "made_by": optotype.__version__,
        }
        self._environment = _environment()

    def index(self, entries: Sequence[Entry]) -> str:
        """The front page: all versions, by kind and name, newest first."""
        kinds = []
        for kind in TITLES:
            mine = [entry for entry in entries if entry.row["kind"] == kind]
            names = list(dict.fromkeys(entry.row["name"] for entry in mine))
            if not mine:
                continue
            groups = [
                {
                    "name": name,
                    "href": f"{kind}/{name}/index.html",
                    "entries": [entry for entry in mine if entry.row["name"] == name],
                }
                for name in names
            ]
            kinds.append({"kind": kind, "title": TITLES[kind], "what": adapter(kind).what, "names": groups})
        return self._render(
            "index.html",
            kinds=kinds,
            versions=len(entries),
            names=sum(len(kind["names"]) for kind in kinds),
            all_names=sorted({entry.row["name"] for entry in entries}),
        )

    def name(self, entries: Sequence[Entry], found: Mapping[tuple[str, str], Mapping[str, Any]], newest: int) -> str:
        """The page of a name: its versions, newest first, and what changed between any two."""
        kind = entries[0].row["kind"]
        return self._render(
            "name.html",
            kind=kind,
            name=entries[0].row["name"],
            kinds_title=TITLES[kind],
            what=adapter(kind).what,
            entries=entries,
            compared=[entry.row["version"] for entry in entries if entry.manifest is not None],
            pairs=[{"before": pair[0], "after": pair[1], "found": changes} for pair, changes in found.items()],
            newest=newest,
            most=MOST,
        )

    def version(
        self,
        entry: Entry,
        *,
        previous: tuple[str, Mapping[str, Any]] | None,
        instead: Entry | None,
        tables: Sequence[Mapping[str, Any]],
        pages: Sequence[Mapping[str, Any]],
        no_pages: str,
        copied: Mapping[str, str],
        graph: tuple[Markup, int, bool] | None,
        related: Sequence[tuple[str, Sequence[Entry]]],
    ) -> str:
        """The page of one version.

        Parameters
        ----------
        entry : Entry
        previous : (str, mapping) or None
            The version before it, and what changed since.
        instead : Entry or None
            What to use where it was yanked.
        tables : sequence of mappings
            As `optotype.registry.catalog.results.result_tables` gives them.
        pages : sequence of mappings
            ``path``, ``href`` and ``size`` of the pages of a report.
        no_pages : str
            Why there are none, where it is a report.
        copied : mapping
            Path in the payload -> address of its copy in the site.
        graph : (Markup, int, bool) or None
            The drawing, how many nodes it leaves out, and whether any has a link.
        related : sequence of (str, sequence of Entry)
            Headings and the versions under them.
        """
        base = "../../../"
        lists = [
            (title, [{**self._said(other), "href": address(other, base)} for other in others])
            for title, others in related
            if others
        ]
        manifest = entry.manifest
        shown = [
            ("pin", "Pin it"),
            *([("report", "Report")] if pages else []),
            *([("results", "Ranking")] if tables else []),
            *([("changes", "Changes")] if previous else []),
            ("lineage", "Lineage"),
            ("card", "Card"),
            ("files", "Files"),
        ]
        drawn, left_out, known = graph or (None, 0, False)
        return self._render(
            "version.html",
            entry=entry,
            manifest=manifest,
            reference=str(entry.version),
            kinds_title=TITLES[entry.row["kind"]],
            contents=shown,
            facts=[] if manifest is None else _facts(entry),
            pin=self._pin(entry),
            placeholder=self._source is None,
            instead=None if instead is None else {**self._said(instead), "href": address(instead, base)},
            pages=pages,
            no_pages=no_pages,
            tables=[_with_columns(table) for table in tables],
            previous=None if previous is None else previous[0],
            found=None if previous is None else previous[1],
            most=_MOST_OF_PREVIOUS,
            graph=drawn,
            left_out=left_out,
            known=known,
            related=lists,
            card=None if entry.card is None else card_html(entry.card),
            copied=copied,
            most_files=MOST_FILES,
        )

    def _pin(self, entry: Entry) -> str:
        row = entry.row
        selector = row["digest"] if row["yanked"] and row["digest"] else row["version"]
        return f"optotype pin {row['kind']}/{row['name']}@{selector} --from {self._source or 'GIT_URL_OR_PATH'}"

    def _said(self, entry: Entry) -> dict[str, Any]:
        return {"reference": str(entry.version), "title": entry.row["title"] or ""}

    def _render(self, template: str, /, **values: Any) -> str:
        return self._environment.get_template(template).render(**self._common, **values)


def _policy(style: str, script: str) -> str:
    """The page's own style and script and nothing else; a report beside it may be shown in a frame without scripts."""

    def source(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; style-src {source(style)}; script-src {source(script)}; img-src data:; "
        "frame-src 'self'; base-uri 'none'; form-action 'none'"
    )


def _environment() -> Environment:
    environment = page_environment()
    environment.loader = FunctionLoader(lambda name: template_text(_PACKAGE, name))
    environment.filters.update(
        haystack=_haystack,
        href=address,
        joined=lambda keys: [" / ".join(map(str, key)) for key in keys],
        moved_rows=_moved,
        node_names=lambda nodes: [f"{node['role']}: {node['kind']}/{node['name']}" for node in nodes],
        parameter_rows=lambda changes: [
            (name, _value(change["from"]), _value(change["to"])) for name, change in changes.items()
        ],
        sentence=lambda text: f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}",
        size=_size,
        value=_value,
        value_rows=lambda rows: [
            (" / ".join(row["key"]), name, _value(change["from"]), _value(change["to"]))
            for row in rows
            for name, change in row["values"].items()
        ],
        weight_rows=lambda rows: [(" / ".join(row["key"]), _value(row["from"]), _value(row["to"])) for row in rows],
    )
    return environment


def _haystack(entry: Entry) -> str:
    """What the search looks through, in small letters."""
    row = entry.row
    words = [str(entry.version), row["title"], row["digest"], *(f"@{word}" for word in row["aliases"])]
    words += ["@latest"] * bool(row["latest"]) + ["yanked", row["yanked"]] * (row["yanked"] is not None)
    words += [entry.manifest.message] if entry.manifest is not None else ["damaged"]
    return " ".join(" ".join(word.lower().split()) for word in words if word)


def _facts(entry: Entry) -> list[tuple[str, str]]:
    manifest = entry.manifest
    if manifest is None:
        return []
    facts = [
        (key.replace("_", " "), _value(value))
        for key, value in manifest.facts.items()
        if not isinstance(value, (list, dict))  # the card has those
    ]
    facts += [("size", _size(manifest.size)), ("files", f"{len(manifest.files):,}"), ("kept by", manifest.storage)]
    if manifest.seed is not None:
        facts.append(("seed", str(manifest.seed)))
    commit = manifest.code.git_commit
    dirty = ", with changes that were not committed" if manifest.code.dirty else ""
    facts.append(("written by", f"optotype {manifest.code.version}"))
    if commit is not None:
        facts.append(("git commit", f"{commit[:12]}{dirty}"))
    if manifest.licences:
        facts.append(("licence of the sources", "; ".join(manifest.licences)))
    return [(name[:1].upper() + name[1:], value) for name, value in facts]


def _with_columns(table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **table,
        "intervals": any(row["interval"] is not None for row in table["rows"]),
        "adjusted": any(row["adjusted"] is not None for row in table["rows"]),
    }


def _moved(rows: Sequence[Mapping[str, Any]] | None) -> list[tuple[str, str, str, str]]:
    """Models whose rank changed, with the change as an arrow: up is better."""
    moved = []
    for row in rows or ():
        change = row["change"]
        if change == 0:
            continue
        how = "only in one" if change is None else f"{'▼' if change > 0 else '▲'} {abs(change):g}"
        moved.append((row["model"], _value(row["from"]), _value(row["to"]), how))
    return moved


def _value(value: Any) -> str:
    """A JSON value to read."""
    if value is None:
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}".replace("-", "−")
    if isinstance(value, list) and value and not any(isinstance(each, (list, dict)) for each in value):
        text = ", ".join(map(_value, value))
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:199]}…"


def _size(size: int) -> str:
    """Bytes, kB, MB or GB, in powers of 1000."""
    if size < 1000:
        return f"{size} B"
    amount = float(size)
    for unit in ("kB", "MB", "GB"):
        amount /= 1000
        if amount < 999.95:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1000:.1f} TB"
