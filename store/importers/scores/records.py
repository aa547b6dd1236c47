"""Records: what every reader of scores yields, whatever the files looked like."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COLUMNS", "Records"]

COLUMNS = ("benchmark", "item_id", "model", "score", "modality", "response", "invalid", "source")


@dataclass
class Records:
    """Scores read from files: one row for each (benchmark, item, model, modality).

    Attributes
    ----------
    table : DataFrame
        Columns `COLUMNS`: ``benchmark``, ``item_id``, ``model`` (str; object or categorical of str), ``score``
        (float64 on the benchmark's own scale; NaN = missing), ``modality`` (``image`` or ``blind``), ``response``
        (str or None), ``invalid`` (str or None: in a word or two why the score is missing although there was a
        record), ``source`` (``FILE:LINE``, for messages; or a categorical of FILE with an integer column ``row``
        beside it, where a text for each row costs too much). ``response``, ``invalid`` and ``source`` may be absent,
        which is the same as None throughout. A row with neither a score nor a reason says nothing and is dropped.
        An empty modality is ``image``, or ``blind`` in files that are given as blind runs.
        Rows may repeat: who stores them accepts equal repeats and refuses differing ones.
    items : DataFrame or None
        ``benchmark``, ``item_id`` and columns of the items table that the files told (category, question, answer ...);
        str or None.
    notes : list of str
        Which field was the id, what was left out and counted, and the like, for the reader.
    circular : frozenset of str
        Benchmarks scored circularly (all rotations right, or wrong): never mixed with vanilla scores.
    """

    table: pd.DataFrame
    items: pd.DataFrame | None = None
    notes: list[str] = field(default_factory=list)
    circular: frozenset[str] = frozenset()
