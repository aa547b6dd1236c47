"""Lists of ids: one line for each item, its benchmark and its id with a tab between them."""

from __future__ import annotations

from optotype.registry.exporters.exporter import Exported, Request
from optotype.schemas.errors import InvalidDataError, Problem
from optotype.store.checks import limited
from optotype.store.drafts import draft_file

__all__ = ["Ids"]


class Ids:
    """``benchmark<TAB>item_id``, in the suite's order, UTF-8, no heading."""

    name = "ids"
    needs_content = False
    options: frozenset[str] = frozenset()

    def write(self, request: Request) -> Exported:
        """Write the list.

        Raises
        ------
        InvalidDataError
            Names with a tab or line end in them, which no line could hold.
        """
        problems = [
            Problem(f"{item.benchmark!r}: {item.item_id!r}", "line-end", "a name with a tab or line end in it")
            for item in request.items
            if any(len(text.splitlines()) != 1 or "\t" in text for text in (item.benchmark, item.item_id))
        ]
        if problems:
            raise InvalidDataError("the suite cannot be written as lines:", limited(problems))
        with draft_file(request.target) as file:
            for item in request.items:
                file.write(f"{item.benchmark}\t{item.item_id}\n".encode())
        return Exported((request.target,))
