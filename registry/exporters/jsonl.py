"""JSON lines: one object for each item, for programs of one's own."""

from __future__ import annotations

import json
from typing import Any

from optotype.registry.exporters.exporter import Exported, Request
from optotype.registry.exporters.items import Item
from optotype.store.drafts import draft_file

__all__ = ["JsonLines"]

_FIRST = ("question", "answer", "sub_task", "n_choices", "scoring")


class JsonLines:
    """``benchmark, item_id, category, weight, modality`` and what is known: question, options, answer, image ...

    ``options`` maps letters to texts. ``image`` is what the tables say (a path, base64), and is left out of a blind
    run; ``modality`` is ``image`` or ``blind``, as in a table of scores.
    """

    name = "jsonl"
    needs_content = True
    options = frozenset({"blind"})

    def write(self, request: Request) -> Exported:
        """Write the lines."""
        with draft_file(request.target) as file:
            for item in request.items:
                file.write(json.dumps(_object(item, blind=request.blind), ensure_ascii=False).encode() + b"\n")
        bare = sum("question" not in item.columns for item in request.items)
        notes = [f"{bare} of {len(request.items)} items have no question here"] if bare else []
        return Exported((request.target,), notes=tuple(notes))


def _object(item: Item, *, blind: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "benchmark": item.benchmark,
        "item_id": item.item_id,
        "category": item.category,
        "weight": item.weight,
        "modality": "blind" if blind else "image",
    }
    found |= {name: item.columns[name] for name in _FIRST if name in item.columns}
    if item.options:
        found["options"] = item.options
    rest = sorted(set(item.columns) - {*found, *item.options, *(("image", "image_path") if blind else ())})
    return found | {name: item.columns[name] for name in rest}
