"""The report of retrieval over emoji: ``retrieval.html``, and what it concludes as ``retrieval.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optotype.registry.emoji_retrieval import EMOJI_RETRIEVAL_FORMAT
from optotype.registry.report.files import write_page
from optotype.registry.report.retrieval.page import render
from optotype.registry.report.retrieval.verdict import verdicts
from optotype.registry.report.sources import read_document
from optotype.schemas.errors import ConflictError, FormatError

__all__ = ["write_retrieval_report"]

RETRIEVAL_REPORT_FORMAT = 1
_MAKE = "optotype emoji retrieval --features NAME --names LM:STYLE=ARRAY --tasks TASKS --bootstrap 1000 --out DIR"
_OTHERS = {
    "retrieval": "optotype retrieve wrote this, which has no page: its tables are cells.csv and languages.csv. "
    "The page is of retrieval over emoji."
}
_NEEDS = ("parameters", "inputs", "sizes", "rows", "contrasts", "notes")


def write_retrieval_report(retrieval: Path, out: Path, *, title: str = "Retrieval over emoji") -> dict[str, Any]:
    """Write ``out/retrieval.html`` and ``out/retrieval.json``.

    Parameters
    ----------
    retrieval : Path
        ``retrieval.json``, as ``optotype emoji retrieval --out`` writes it.
    out : Path
        A folder, made if missing; not that of ``retrieval``, whose file has the same name.
    title : str
        Heading of the page.

    Returns
    -------
    dict
        ``html``, ``json`` (paths as strings), ``rows`` (how many). The same input gives the same bytes.

    Raises
    ------
    NotFoundError, FormatError
        There is no such document, or it is not whole.
    ConflictError
        ``out`` is the folder of ``retrieval``.
    """
    path, folder = Path(retrieval), Path(out)
    if (folder / "retrieval.json").resolve() == path.resolve():
        raise ConflictError(
            f"{path} would be replaced by the report's own retrieval.json", hint="Choose another --out."
        )
    document = read_document(
        path, kind="emoji-retrieval", newest=EMOJI_RETRIEVAL_FORMAT, needs=_NEEDS, hint=_MAKE, others=_OTHERS
    )
    try:
        page, concluded = render(document, title), verdicts(document)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: not whole ({error!r})", hint=f"Make it again: {_MAKE}") from error
    numbers = {
        "format_version": RETRIEVAL_REPORT_FORMAT,
        "kind": "emoji-retrieval-report",
        "verdicts": concluded,
        **{name: document[name] for name in _NEEDS},
    }
    html, json_file = write_page(folder, "retrieval", page, numbers)
    return {"html": str(html), "json": str(json_file), "rows": len(document["rows"])}
