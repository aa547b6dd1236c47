"""The report of an evaluation: ``evaluation.html``, self-contained; its numbers are those of ``evaluation.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import UndefinedError

from optotype.pipelines.evaluation.evaluate import EVALUATION_FORMAT
from optotype.registry.report.evaluation.page import render
from optotype.registry.report.sources import read_document
from optotype.schemas.errors import FormatError
from optotype.store.drafts import draft_file

__all__ = ["write_evaluation_report"]

_EVALUATE = "optotype evaluate PANEL --out DIR"
_NEEDS = ("panel", "parameters", "versions", "tables", "warnings")


def write_evaluation_report(evaluation: Path, out: Path, *, title: str = "Item selectors compared") -> dict[str, Any]:
    """Write ``out/evaluation.html``.

    Parameters
    ----------
    evaluation : Path
        Folder that `optotype.evaluate` has written.
    out : Path
        A folder, made if missing; it may be the same one.
    title : str
        Heading of the page.

    Returns
    -------
    dict
        ``html`` (a path as a string), ``selectors``, ``protocols``, ``warnings`` (counts). The page holds no clock,
        path or random id: the same input gives the same bytes.

    Raises
    ------
    NotFoundError, FormatError
        There is no evaluation, or it is not one.
    """
    path = Path(evaluation) / "evaluation.json"
    document = read_document(path, kind="evaluation", newest=EVALUATION_FORMAT, needs=_NEEDS, hint=_EVALUATE)
    try:
        page = render(document, title)
    except (KeyError, UndefinedError) as error:
        raise FormatError(f"{path}: not whole, {error} is missing", hint=f"Make it again: {_EVALUATE}") from error
    html = Path(out) / "evaluation.html"
    with draft_file(html) as draft:
        draft.write(page.encode())
    protocols = {row["protocol"] for rows in document["tables"].values() for row in rows if "protocol" in row}
    return {
        "html": str(html),
        "selectors": len(document["parameters"]["selectors"]),
        "protocols": len(protocols),
        "warnings": len(document["warnings"]),
    }
