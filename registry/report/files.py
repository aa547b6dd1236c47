"""The files of a report: a page, and the same numbers as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optotype.store.drafts import draft_file

__all__ = ["write_page"]


def write_page(out: Path, name: str, page: str, document: Mapping[str, Any]) -> tuple[Path, Path]:
    """Write ``out/NAME.html`` and ``out/NAME.json``; both or neither.

    Returns
    -------
    (Path, Path)
        The page and the document.
    """
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    html, numbers = out / f"{name}.html", out / f"{name}.json"
    # Both drafts are whole before either takes its place.
    with draft_file(html) as html_draft, draft_file(numbers) as numbers_draft:
        html_draft.write(page.encode())
        numbers_draft.write(text.encode())
    return html, numbers
