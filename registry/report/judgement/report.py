"""The report of a judgement: ``judgement.html``, self-contained; its numbers are those of ``judgement.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import UndefinedError

from optotype.pipelines.judging.judge import JUDGEMENT_FORMAT, KIND
from optotype.registry.report.judgement.page import render
from optotype.registry.report.sources import read_document
from optotype.schemas.errors import FormatError
from optotype.store.drafts import draft_file

__all__ = ["write_judgement_report"]

_JUDGE = "optotype judge RANKING DOWNSTREAM --out DIR"
_NEEDS = (
    "parameters",
    "downstream",
    "results",
    "rows",
    "comparisons",
    "curves",
    "costs",
    "points",
    "sources",
    "warnings",
)


def write_judgement_report(judgement: Path, out: Path, *, title: str = "Metrics judged side by side") -> dict[str, Any]:
    """Write ``out/judgement.html``.

    Parameters
    ----------
    judgement : Path
        ``judgement.json``, as ``optotype judge --out`` writes it, or its folder.
    out : Path
        A folder, made if missing; it may be the same one.
    title : str
        Heading of the page.

    Returns
    -------
    dict
        ``html`` (a path as a string), ``metrics``, ``results``, ``encoders``, ``models`` (counts). The page holds no
        clock, path or random id: the same input gives the same bytes.

    Raises
    ------
    NotFoundError, FormatError
        There is no judgement, it is not one, or it holds no rows.
    """
    path = Path(judgement)
    path = path / "judgement.json" if path.is_dir() else path
    document = read_document(path, kind=KIND, newest=JUDGEMENT_FORMAT, needs=_NEEDS, hint=_JUDGE)
    if document["rows"] == [] or document["results"] == []:
        raise FormatError(f"{path}: there are no results in it", hint=f"Make it again: {_JUDGE}")
    try:
        page = render(document, title)
    except (KeyError, TypeError, UndefinedError) as error:
        raise FormatError(f"{path}: not whole ({error!r})", hint=f"Make it again: {_JUDGE}") from error
    html = Path(out) / "judgement.html"
    with draft_file(html) as draft:
        draft.write(page.encode())
    return {
        "html": str(html),
        "metrics": len(document["parameters"]["metrics"]),
        "results": len(document["results"]),
        "encoders": len(document["downstream"]["encoders"]),
        "models": len(document["downstream"]["models"]),
    }
