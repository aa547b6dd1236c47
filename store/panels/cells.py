"""The scores of an import while they are read: a matrix that grows, and what in it contradicts itself.

Held as (items, models), so that it grows by new rows; memory that no score was written to costs nothing, since the
system hands out zeroed pages only when they are touched. A cell costs 6 bytes (score, and the file it came from), 2
more where records are invalid and 4 more where there are responses: 106 million scores take 0.7 GB.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Cells", "Conflict"]

_MOST_CONFLICTS = 1000  # that are told one by one


@dataclass(frozen=True, order=True)
class Conflict:
    """Two records of one cell that disagree.

    Attributes
    ----------
    model, item : int
        Indices.
    here : str
        Where the later one stands.
    message : str
        What both say.
    """

    model: int
    item: int
    here: str
    message: str


@dataclass
class Cells:
    """Scores of one modality.

    Attributes
    ----------
    reasons : dict of str to int
        Why records are invalid -> code, from 1.
    files : list of str
        Where records came from.
    repeats : int
        Records that said again what was known.
    conflicts : list of Conflict
        At most a thousand; `contradictions` counts all.
    """

    reasons: dict[str, int] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    repeats: int = 0
    contradictions: int = 0
    conflicts: list[Conflict] = field(default_factory=list)
    models: dict[str, int] = field(default_factory=dict)
    mark: Any = field(default_factory=lambda: np.zeros((0, 0), np.uint16))  # 0: no record; else file + 1
    score: Any = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    invalid: Any | None = None  # codes of reasons
    response: Any | None = None
    filled: Any = field(default_factory=lambda: np.zeros((0, 0), bool))

    def add(
        self,
        items: Any,
        models: Any,
        score: Any,
        invalid: Any | None,
        response: Any | None,
        file: int,
        place: Callable[[int], str],
    ) -> None:
        """Take in records; one that repeats another is counted, one that differs from another is a conflict.

        Parameters
        ----------
        items, models : ndarray of int64, shape (n,)
            Indices; those of the models are positions in `models`.
        score : ndarray of float32, shape (n,)
            Finite where ``invalid`` is 0.
        invalid : ndarray of uint16, shape (n,), optional
            Codes of reasons; 0: there is a score.
        response : ndarray of uint32, shape (n,), optional
            Digests; 0: none.
        file : int
            Index in `files`.
        place : callable
            Position of a record -> where it stands, for messages.
        """
        if not len(items):
            return
        self._grow(int(items.max()) + 1, len(self.models), invalid is not None, response is not None)
        flat = items * self.mark.shape[1] + models
        mark, scores = self.mark.reshape(-1), self.score.reshape(-1)
        codes = np.zeros(len(flat), np.uint16) if invalid is None else invalid
        answers = np.zeros(len(flat), np.uint32) if response is None else response
        fresh = np.flatnonzero(mark[flat] == 0)[::-1]  # backwards: of several the first stays
        mark[flat[fresh]] = file + 1
        scores[flat[fresh]] = np.where(codes[fresh] == 0, score[fresh], 0)
        if self.invalid is not None:
            self.invalid.reshape(-1)[flat[fresh]] = codes[fresh]
        differs = scores[flat] != np.where(codes == 0, score, 0)
        if self.invalid is not None:
            differs |= self.invalid.reshape(-1)[flat] != codes
        if self.response is not None:
            told = self.response.reshape(-1)
            silent = np.flatnonzero((told[flat] == 0) & (answers != 0) & ~differs)[::-1]
            told[flat[silent]] = answers[silent]
            differs |= (answers != 0) & (told[flat] != answers)
        wrong = np.flatnonzero(differs)
        self.contradictions += len(wrong)
        for at in wrong[: _MOST_CONFLICTS - len(self.conflicts)].tolist():
            item, model = int(items[at]), int(models[at])
            before = f"{self.told(item, model)} ({self.files[int(mark[flat[at]]) - 1]})"
            now = self._words(float(score[at]), int(codes[at]), int(answers[at]))
            self.conflicts.append(Conflict(model, item, place(at), f"{now}, another record {before}"))
        self.repeats += len(flat) - _distinct(flat[fresh]) - len(wrong)

    def told(self, item: int, model: int) -> str:
        """What is known of a cell, in words."""
        invalid = 0 if self.invalid is None else int(self.invalid[item, model])
        answer = 0 if self.response is None else int(self.response[item, model])
        return self._words(float(self.score[item, model]), invalid, answer)

    def _words(self, score: float, invalid: int, response: int) -> str:
        if invalid:
            return f"says it is invalid: {list(self.reasons)[invalid - 1]}"
        return f"says {score:.9g}" + (f" with a response of digest {response:08x}" if response else "")

    def finish(self, items: int) -> None:
        """Make room for all items of the import, those without a record of this modality among them."""
        self._grow(items, len(self.models), False, False)
        self.filled = np.zeros((0, 0), bool)

    def known(self, items: Any, models: Any) -> Any:
        """Whether there are records, shape (items, models)."""
        return self.mark[np.ix_(items, models)] != 0

    def scores(self, items: Any, models: Any) -> Any:
        """Scores of some items and models, float32 of shape (items, models); NaN where there is none."""
        has = self.known(items, models) & (self.codes(items, models) == 0)
        return np.where(has, self.score[np.ix_(items, models)], np.float32("nan")).astype(np.float32)

    def codes(self, items: Any, models: Any) -> Any:
        """Codes of the reasons of invalid records, uint16; 0 where there is none."""
        return self._of(self.invalid, items, models, np.uint16)

    def responses(self, items: Any, models: Any) -> Any:
        """Digests of responses, uint32; 0 where there is none."""
        return self._of(self.response, items, models, np.uint32)

    def _of(self, array: Any | None, items: Any, models: Any, dtype: Any) -> Any:
        known = self.known(items, models)
        if array is None:
            return np.zeros(known.shape, dtype)
        return np.where(known, array[np.ix_(items, models)], 0).astype(dtype)

    def forget(self, items: Any, models: Any, stored: Any) -> None:
        """Drop the cells (items, models) where ``stored`` is true: the panel has them."""
        cells = np.ix_(items, models)
        self.repeats += int(np.count_nonzero(stored))
        self.mark[cells] = np.where(stored, 0, self.mark[cells])

    def fill(self, items: Any, models: Any, silent: Any) -> None:
        """Remember the cells whose score the panel has, without the response that came now."""
        if silent.any():
            if self.filled.shape != self.mark.shape:
                self.filled = np.zeros(self.mark.shape, bool)
            self.filled[np.ix_(items, models)] |= silent

    def counts(self, items: Any) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
        """New scores of each model on some items, and its invalid records by reason."""
        known = self.mark[items] != 0
        if self.filled.shape == self.mark.shape:
            known &= ~self.filled[items]
        codes = np.zeros(known.shape, np.uint16) if self.invalid is None else self.invalid[items]
        scores = np.count_nonzero(known & (codes == 0), axis=0).tolist()
        words = list(self.reasons)
        invalid: dict[str, dict[str, int]] = {}
        for model, place in self.models.items():
            reasons = np.bincount(codes[known[:, place], place], minlength=1)[1:].tolist()
            told = {words[code]: count for code, count in enumerate(reasons) if count}
            if told:
                invalid[model] = dict(sorted(told.items()))
        return {model: scores[place] for model, place in self.models.items() if scores[place]}, invalid

    def _grow(self, items: int, models: int, invalid: bool, response: bool) -> None:
        shape = self.mark.shape
        if items > shape[0] or models > shape[1]:
            shape = (
                max(items, shape[0] + shape[0] // 2) if items > shape[0] else shape[0],
                max(models, 2 * shape[1], 64) if models > shape[1] else shape[1],
            )
        # One after another, so that only one of them is there twice at a time.
        for name, dtype, wanted in (
            ("mark", np.uint16, True),
            ("score", np.float32, True),
            ("invalid", np.uint16, invalid or self.invalid is not None),
            ("response", np.uint32, response or self.response is not None),
        ):
            old = getattr(self, name)
            if not wanted or (old is not None and old.shape == shape):
                continue
            new = np.zeros(shape, dtype)
            if old is not None:
                new[: old.shape[0], : old.shape[1]] = old
            setattr(self, name, new)


def _distinct(values: Any) -> int:
    """How many different integers there are; by hashing, since sorting a million costs more than all the rest."""
    import pandas as pd

    return len(pd.unique(values))
