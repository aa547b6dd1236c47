"""What an import brings that a panel does not have: scores compared with those that stand, and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from optotype.schemas.errors import Problem
from optotype.store.panels.cells import Cells
from optotype.store.panels.intake import Intake
from optotype.store.panels.labels import Labels
from optotype.store.panels.parts import OpenPanel

__all__ = ["compare", "gained_labels"]

_BLOCK_BYTES = 16 << 20
_SHOWN = 1000


def compare(panel: OpenPanel, intake: Intake) -> list[Problem]:
    """Drop what the panel has already; a problem for each record that contradicts it."""
    places = np.array([intake.items.get(key, -1) for key in panel.items], np.int64)
    problems = _compare(panel, intake.image, places, panel.models, ("score", "invalid", "response"))
    return problems + _compare(panel, intake.blind, places, panel.blind_models, ("blind", "blind_invalid", ""))


def _compare(
    panel: OpenPanel, cells: Cells, places: Any, models: Sequence[str], names: tuple[str, str, str]
) -> list[Problem]:
    rows = np.array([row for row, model in enumerate(models) if model in cells.models], np.int64)
    standing = [panel.matrix(name) if name else None for name in names]
    if not len(rows) or all(matrix is None for matrix in standing):
        return []
    mine = np.array([cells.models[models[row]] for row in rows], np.int64)
    reasons = panel.reasons()
    # Codes of the import as those of the panel; a reason that the panel does not know is like no other.
    codes = np.array([0, *(reasons.index(word) + 1 if word in reasons else 0xFFFF for word in cells.reasons)])
    step = max(1, _BLOCK_BYTES // (4 * len(models)))
    problems: list[Problem] = []
    more = 0
    for start in range(0, len(places), step):
        here = places[start : start + step]
        local = np.flatnonzero(here >= 0)
        if not len(local):
            continue
        items = here[local]
        stop = start + len(here)
        score, invalid, response = (
            None if matrix is None else matrix.read(start, stop)[np.ix_(rows, local)].T for matrix in standing
        )
        shape = (len(local), len(rows))
        score = np.full(shape, np.nan, np.float32) if score is None else score
        invalid = np.zeros(shape, np.uint16) if invalid is None else invalid
        response = np.zeros(shape, np.uint32) if response is None else response
        new, answer = cells.scores(items, mine), cells.responses(items, mine)
        both = cells.known(items, mine) & (~np.isnan(score) | (invalid > 0))
        differs = (codes[cells.codes(items, mine)] != invalid) | ((invalid == 0) & (new != score))
        differs = both & (differs | ((answer != 0) & (response != 0) & (answer != response)))
        silent = both & ~differs & (answer != 0) & (response == 0)
        cells.fill(items, mine, silent)
        for item, model in np.argwhere(differs).tolist():
            if len(problems) >= _SHOWN:
                more += 1
                continue
            reason = reasons[int(invalid[item, model]) - 1] if invalid[item, model] else ""
            stands = f"invalid: {reason}" if reason else f"{score[item, model]:.9g}"
            if not reason and response[item, model]:
                stands += f" with a response of digest {response[item, model]:08x}"
            source = cells.files[int(cells.mark[items[item], mine[model]]) - 1]
            key = "/".join(panel.items[start + int(local[item])])
            message = (
                f"{key}, {models[rows[model]]}: {cells.told(int(items[item]), int(mine[model]))}, the panel {stands}"
            )
            problems.append(Problem(source, "contradicts-panel", message))
        cells.forget(items, mine, both & ~differs & ~silent)
    if more:
        problems.append(Problem("…", "contradicts-panel", f"and {more} more records that contradict the panel"))
    return problems


def gained_labels(
    keys: Sequence[Any],
    table: Labels,
    harvest: Labels,
    standing: Mapping[str, Any],
    places: Mapping[Any, int],
    where: str,
    kind: str,
) -> tuple[dict[str, Any], list[Problem], dict[str, int]]:
    """What is newly said of items or models.

    Parameters
    ----------
    keys : sequence
        All of them, in the order of the panel to be.
    table : Labels
        Of a table that was given: may not contradict what stands.
    harvest : Labels
        Of logs: says something only where nothing else does.
    standing : mapping of str to ndarray
        Columns of the panel; ``places`` has the row of each key.
    where, kind : str
        The table, and ``item`` or ``model``, for messages.

    Returns
    -------
    gained : dict of str to ndarray of object, shape (keys,)
        ``""`` where nothing new is said; columns without anything new are left out.
    problems : list of Problem
    overruled : dict of str to int
        Keys of which logs say something else, by column.
    """
    rows = np.array([places.get(key, -1) for key in keys], np.int64)
    gained, problems, overruled = {}, [], {}
    for name in dict.fromkeys([*table.columns, *harvest.columns]):
        blank = np.full(len(keys), "", object)
        told = np.array(table.column(name, keys), object) if name in table.columns else blank
        heard = np.array(harvest.column(name, keys), object) if name in harvest.columns else blank
        stands = blank
        if name in standing:
            stands = np.where(rows >= 0, standing[name][rows], "")
        for place in np.flatnonzero((told != "") & (stands != "") & (told != stands)).tolist():
            key = keys[place]
            label = "/".join(key) if isinstance(key, tuple) else str(key)
            message = f"{label} has {name.removeprefix(f'{kind}_')} {told[place]!r}, in the panel {stands[place]!r}"
            problems.append(Problem(where, f"conflicting-{kind}", message))
        known = np.where(stands != "", stands, told)
        others = int(np.count_nonzero((heard != "") & (known != "") & (heard != known)))
        if others:
            overruled[name] = others
        new = np.where(stands != "", "", np.where(told != "", told, heard))
        if (new != "").any():
            gained[name] = new
    return gained, problems, overruled
