"""Takes in the records of an import: indices for names, cells for scores, and everything that is wrong with them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from optotype.schemas.errors import Problem
from optotype.schemas.names import id_problems
from optotype.schemas.scores import DEFAULT_SCALE, Scale
from optotype.store.importers.scores.records import Records
from optotype.store.panels.cells import Cells
from optotype.store.panels.labels import Labels, member

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Intake", "response_digest"]

_IDS = ("benchmark", "item_id", "model")
_MOST_FILES = 0xFFFE
_MOST_REASONS = 0xFFFF
_RECENT = 8  # blocks whose names are remembered


def response_digest(answer: str) -> int:
    """The first four bytes of the SHA-256 of the stripped answer, big-endian; 0 for a blank one (1 for a true 0)."""
    text = answer.strip()
    return max(1, int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")) if text else 0


def _parsed_digest(text: str) -> int | None:
    """A digest written as eight hex digits; None if it is none."""
    return int(text, 16) if re.fullmatch(r"[0-9a-f]{8}", text) else None


@dataclass
class _Range:
    """Scores off their scale, of one model on one benchmark."""

    count: int
    low: float
    high: float
    where: str


@dataclass
class Intake:
    """What an import has read so far.

    Attributes
    ----------
    scales : mapping of str to (float, float)
        Declared scales; of other benchmarks [0, 1].
    items : dict of (str, str) to int
        Index of each item in the cells, by first appearance.
    image, blind : Cells
    harvest : Labels
        What logs say of items. Of several the first stays, others are counted in `overruled`.
    blank_rows : int
        Rows without a score and without a reason.
    """

    scales: Mapping[str, Scale]
    items: dict[tuple[str, str], int] = field(default_factory=dict)
    image: Cells = field(default_factory=Cells)
    blind: Cells = field(default_factory=Cells)
    harvest: Labels = field(default_factory=Labels)
    overruled: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rows: int = 0
    blank_rows: int = 0
    _off: dict[tuple[str, str], _Range] = field(default_factory=dict)
    _bad: list[Problem] = field(default_factory=list)
    _circular: set[str] = field(default_factory=set)
    _vanilla: set[str] = field(default_factory=set)
    _recent: list[tuple[tuple[list[str], list[str]], Any, Any]] = field(default_factory=list)

    @property
    def circular(self) -> frozenset[str]:
        """Benchmarks that are scored circularly."""
        return frozenset(self._circular)

    @property
    def named(self) -> frozenset[str]:
        """Benchmarks that records name, those among them whose records say nothing."""
        return frozenset(self._circular | self._vanilla)

    def add(self, records: Records) -> None:
        """Take in a block of records."""
        self.notes += [note for note in records.notes if note not in self.notes]
        if records.items is not None:
            self._harvest(records.items)
        table = records.table
        if not len(table):
            return
        self.rows += len(table)
        block = _Block(table)
        self._circular |= records.circular & set(block.benchmarks)
        self._vanilla |= set(block.benchmarks) - records.circular
        invalid = block.codes_of("invalid")
        score = table["score"].to_numpy(np.float64)
        says = ~np.isnan(score)
        if invalid is not None:
            score = np.where(invalid[0] >= 0, np.nan, score)  # whatever stands there: an invalid record has no score
            says |= invalid[0] >= 0
        self.blank_rows += len(table) - int(np.count_nonzero(says))
        modality, words = block.codes_of("modality") or (np.zeros(len(table), np.int8), ["image"])
        for word, cells in (("image", self.image), ("blind", self.blind)):
            if word in words:
                rows = np.flatnonzero(says & (modality == words.index(word)))
                if len(rows):
                    self._add(block, cells, rows, score, invalid)

    def _add(self, block: _Block, cells: Cells, rows: Any, score: Any, invalid: tuple[Any, list[str]] | None) -> None:
        """Take in the rows of one modality."""
        items, models = self._indices(block, cells, rows)
        here = score[rows]
        self._check_range(block, rows, here)
        codes = None
        if invalid is not None and (invalid[0][rows] >= 0).any():
            for reason in invalid[1]:
                cells.reasons.setdefault(reason, len(cells.reasons) + 1)
            table = np.array([*(cells.reasons[reason] for reason in invalid[1]), 0])
            codes = table[invalid[0][rows]]
            if len(cells.reasons) > _MOST_REASONS:
                self._bad.append(Problem("invalid", "too-many-reasons", f"more than {_MOST_REASONS} different reasons"))
                return
            codes = codes.astype(np.uint16)
        answers = self._answers(block, rows) if cells is self.image else None
        if answers is not None:
            if codes is not None:
                answers = np.where(codes == 0, answers, 0).astype(np.uint32)  # an invalid record has no answer
            answers = answers if answers.any() else None
        if block.file not in cells.files and len(cells.files) < _MOST_FILES:
            cells.files.append(block.file)
        file = cells.files.index(block.file) if block.file in cells.files else _MOST_FILES - 1
        stored = here.astype(np.float32) + np.float32(0)  # -0 is 0
        cells.add(items, models, stored, codes, answers, file, lambda at: block.place(int(rows[at])))

    def _answers(self, block: _Block, rows: Any) -> Any | None:
        """Digests of the responses of some rows, given as texts or as digests; None if there are none."""
        for name, digest in (("response", response_digest), ("response_digest", _parsed_digest)):
            told = block.codes_of(name)
            if told is not None:
                values = [digest(word) for word in told[1]]
                if None in values:
                    word = told[1][values.index(None)]
                    message = f"a response_digest is 8 hex digits, got {word!r}"
                    self._bad.append(Problem(block.file, "bad-digest", message))
                    return None
                return np.array([*values, 0], np.uint32)[told[0][rows]]
        return None

    def _indices(self, block: _Block, cells: Cells, rows: Any) -> tuple[Any, Any]:
        """Indices of the items and models of some rows; new ones are given the next."""
        import pandas as pd

        for model in (block.models[code] for code in pd.unique(block.model[rows])):
            cells.models.setdefault(model, len(cells.models))
        of_model = np.array([cells.models.get(model, -1) for model in block.models], np.int64)
        width = max(1, len(block.items))
        pairs, unique = pd.factorize(block.benchmark[rows].astype(np.int64) * width + block.item[rows])
        return self._places(block, unique, width)[pairs], of_model[block.model[rows]]

    def _places(self, block: _Block, pairs: Any, width: int) -> Any:
        """Indices of pairs of a benchmark and an item, given as one code; those of the last blocks are remembered.

        In a table sorted by model every block names the same items, and looking up 400,000 names takes longer than
        all the rest.
        """
        words = (block.benchmarks, block.items)
        known, indices = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for entry in self._recent:
            if entry[0] == words:
                _, known, indices = entry
                self._recent = [other for other in self._recent if other is not entry]
                break
        at = np.minimum(np.searchsorted(known, pairs), max(0, len(known) - 1))
        found = known[at] == pairs if len(known) else np.zeros(len(pairs), bool)
        places = indices[at] if len(known) else np.zeros(len(pairs), np.int64)
        new = np.flatnonzero(~found)
        benchmarks, names = np.divmod(pairs[new], width)
        places[new] = [
            self.items.setdefault((block.benchmarks[b], block.items[i]), len(self.items))
            for b, i in zip(benchmarks.tolist(), names.tolist(), strict=True)
        ]
        if len(new):
            known, indices = np.concatenate([known, pairs[new]]), np.concatenate([indices, places[new]])
            order = np.argsort(known)
            known, indices = known[order], indices[order]
        self._recent = [(words, known, indices), *self._recent[: _RECENT - 1]]
        return places

    def _check_range(self, block: _Block, rows: Any, score: Any) -> None:
        """Note scores off the scale of their benchmark, infinite ones among them."""
        scales = np.array([self.scales.get(name, DEFAULT_SCALE) for name in block.benchmarks]).reshape(-1, 2)
        benchmark = block.benchmark[rows]
        stored, scales = score.astype(np.float32), scales.astype(np.float32)  # 0.1 as stored is above 0.1
        off = np.flatnonzero((stored < scales[benchmark, 0]) | (stored > scales[benchmark, 1]))
        if not len(off):
            return
        for at in off.tolist():
            row, value = int(rows[at]), float(score[at])
            key = (block.benchmarks[benchmark[at]], block.models[block.model[row]])
            found = self._off.get(key)
            if found is None:
                self._off[key] = _Range(1, value, value, block.place(row))
            else:
                found.count += 1
                found.low, found.high = min(found.low, value), max(found.high, value)

    def _harvest(self, items: pd.DataFrame) -> None:
        """Keep what a log says of items."""
        names = [name for name in items.columns if name not in ("benchmark", "item_id")]
        columns = {
            member(name, "item"): ["" if value is None or value != value else str(value) for value in items[name]]
            for name in names
        }
        keys = list(zip(items["benchmark"].astype(str), items["item_id"].astype(str), strict=True))
        for _, name, _ in self.harvest.add(keys, columns):
            self.overruled[name] = self.overruled.get(name, 0) + 1

    def problems(self) -> list[Problem]:
        """Everything that is wrong with what was read."""
        problems = list(self._bad)
        benchmarks: dict[str, list[str]] = {}
        for benchmark, item in self.items:
            benchmarks.setdefault(benchmark, []).append(item)
        problems += id_problems(list(benchmarks), "benchmark")
        for benchmark, items in benchmarks.items():
            problems += id_problems(items, f"item_id of {benchmark}")
        problems += id_problems(list(dict.fromkeys([*self.image.models, *self.blind.models])), "model")
        for (benchmark, model), found in self._off.items():
            low, high = self.scales.get(benchmark, DEFAULT_SCALE)
            span = f"{found.low:g}" if found.low == found.high else f"from {found.low:g} to {found.high:g}"
            words = "score" if found.count == 1 else "scores"
            message = f"{benchmark}, {model}: {found.count} {words} off the scale {low:g}:{high:g} ({span})"
            problems.append(Problem(found.where, "off-scale", message))
        for benchmark in sorted(self._circular & self._vanilla):
            message = f"{benchmark}: circular and plain scores are never mixed; import one of them under another name"
            problems.append(Problem(benchmark, "mixed-circular", message))
        names = list(self.items)
        for cells, word in ((self.image, ""), (self.blind, " (blind)")):
            models = list(cells.models)
            for conflict in sorted(cells.conflicts):
                key = "/".join(names[conflict.item])
                message = f"{key}, {models[conflict.model]}{word}: {conflict.message}"
                problems.append(Problem(conflict.here, "conflicting-score", message))
            if cells.contradictions > len(cells.conflicts):
                rest = cells.contradictions - len(cells.conflicts)
                problems.append(Problem("…", "conflicting-score", f"and {rest} more records that contradict others"))
        return problems


class _Block:
    """The columns of a block of records as codes and words."""

    def __init__(self, table: pd.DataFrame) -> None:
        self._table = table
        self.benchmark, self.benchmarks = self._codes("benchmark")
        self.item, self.items = self._codes("item_id")
        self.model, self.models = self._codes("model")
        source = table.get("source")
        is_file = source is not None and source.dtype == "category" and len(source.cat.categories) == 1
        self.file = str(source.cat.categories[0]) if source is not None and is_file else "in the same logs"

    def codes_of(self, name: str) -> tuple[Any, list[str]] | None:
        """Codes (-1: none) and words of a column; None if it is not there or says nothing."""
        if name not in self._table:
            return None
        codes, words = self._codes(name)
        return (codes, words) if words else None

    def _codes(self, name: str) -> tuple[Any, list[str]]:
        import pandas as pd

        column = self._table[name]
        if column.dtype == "category":
            codes, words = column.cat.codes.to_numpy(), column.cat.categories.tolist()
        else:
            codes, found = pd.factorize(column.to_numpy(dtype=object))
            words = found.tolist()
        if set(map(type, words)) - {str}:
            words = [str(word) for word in words]
        if name in _IDS and (codes < 0).any():  # no id: a blank one, which is refused later
            return np.where(codes < 0, len(words), codes), [*words, ""]
        return codes, words

    def place(self, row: int) -> str:
        """Where a record stands."""
        if "source" not in self._table:
            return f"record {row}"
        source = str(self._table["source"].iloc[row])
        return f"{source}, row {self._table['row'].iloc[row]}" if "row" in self._table else source
