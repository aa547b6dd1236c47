"""Imports scores into a panel: reads, compares, and writes one new part. Nothing that stands is ever rewritten.

Tables are read in blocks into a matrix of small numbers, so memory is that of the matrix (see
`optotype.store.panels.cells`), not of the rows. Many scores are best given as tidy Parquet, in one file or several.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from optotype.schemas.errors import ConflictError, InvalidDataError, Problem
from optotype.schemas.scores import DEFAULT_SCALE, PANEL_FORMAT, Scale
from optotype.store.checks import limited
from optotype.store.drafts import draft_file, is_draft, writing
from optotype.store.importers.scores import iter_records
from optotype.store.manifest import MANIFEST
from optotype.store.panels.intake import Intake
from optotype.store.panels.labels import Labels, read_items, read_models
from optotype.store.panels.merge import compare, gained_labels
from optotype.store.panels.orders import catalogue_order
from optotype.store.panels.parts import OpenPanel, document_digest, open_parts
from optotype.store.panels.writing import write_part
from optotype.store.project import PANEL

__all__ = ["import_panel"]

_PART = re.compile(r"part-\d{4,}")
_MOST_PROBLEMS = 200  # of each kind


def import_panel(
    folder: Path,
    paths: Sequence[str | Path],
    *,
    format: str = "auto",  # noqa: A002
    items: Path | None = None,
    models: Path | None = None,
    blind: Sequence[str | Path] = (),
    scales: Mapping[str, Scale] | None = None,
    invalid_response: str | None = None,
    on_path: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Import scores into the panel in ``folder``, which is made if there is none; see `optotype.import_scores`."""
    with writing(folder):
        panel = _standing(folder)
        work = _Import(panel, items, models, scales or {})
        for some, is_blind in ((paths, False), (blind, True)):
            if some:
                with work.collecting():
                    for records in iter_records(
                        some, format=format, blind=is_blind, invalid_response=invalid_response, on_path=on_path
                    ):
                        work.intake.add(records)
        return work.store(folder)


def _standing(folder: Path) -> OpenPanel | None:
    """The panel that stands in the folder; parts that a killed import left there are removed."""
    panel = open_parts(folder) if (folder / PANEL).is_file() else None
    listed = [] if panel is None else [entry["name"] for entry in panel.document["parts"]]
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        if _PART.fullmatch(entry.name) and entry.name not in listed and (entry / MANIFEST).is_file():
            shutil.rmtree(entry)
        elif panel is None and not is_draft(entry.name):
            raise ConflictError(
                f"{folder} is in the way: it is not a panel of scores", hint="Move it away, or choose another name."
            )
    return panel


class _Import:
    """One import: what was given, what stands, what is wrong."""

    def __init__(
        self, panel: OpenPanel | None, items: Path | None, models: Path | None, scales: Mapping[str, Scale]
    ) -> None:
        self.problems: list[Problem] = []
        self._panel = panel
        self._items_path, self._models_path = items, models
        self._given_scales = scales
        self._items, table_scales = (Labels(), {}) if items is None else read_items(items, self.problems)
        self._models = Labels() if models is None else read_models(models, self.problems)
        self._old: dict[str, dict[str, Any]] = {}
        if panel is not None:
            self._old = {entry["name"]: entry for entry in panel.document["benchmarks"]}
        self.intake = Intake(self._merged_scales(table_scales))

    def _merged_scales(self, of_table: Mapping[str, Scale]) -> dict[str, Scale]:
        """Scales of all benchmarks that have one; what contradicts is a problem."""
        merged: dict[str, Scale] = {name: (entry["scale"][0], entry["scale"][1]) for name, entry in self._old.items()}
        for given, where in ((of_table, str(self._items_path)), (self._given_scales, "--scale")):
            for name, scale in given.items():
                if merged.setdefault(name, scale) != scale:
                    words = "{:g}:{:g}".format(*scale), "{:g}:{:g}".format(*merged[name])
                    message = f"{name} has scale {words[1]} already, got {words[0]}; a benchmark has one scale"
                    self.problems.append(Problem(where, "conflicting-scale", message))
        return merged

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """What readers refuse is listed with everything else."""
        try:
            yield
        except InvalidDataError as error:
            self.problems += error.problems

    def store(self, folder: Path) -> dict[str, Any]:
        """Write what is new; returns the counts."""
        intake, panel = self.intake, self._panel
        refused = bool(self.problems)
        self.problems += intake.problems() + self._unknown(refused)
        if not intake.items and not refused:
            self.problems.append(Problem("scores", "empty", "there are no records in the files"))
        intake.image.finish(len(intake.items))
        intake.blind.finish(len(intake.items))
        if panel is not None:
            self.problems += compare(panel, intake)
        standing = [] if panel is None else panel.items
        there = set(standing) | set(intake.items)
        keys = catalogue_order(standing, list(self._items.places), list(intake.items))
        names = sorted({*([] if panel is None else panel.models), *intake.image.models})
        item_labels, overruled = self._labels("item", keys, {key: place for place, key in enumerate(standing)})
        old_models = {} if panel is None else {name: place for place, name in enumerate(panel.models)}
        model_labels, _ = self._labels("model", names, old_models)
        if self.problems:
            raise InvalidDataError(
                f"scores for the panel {folder.name!r} refused, nothing was written:",
                limited(self.problems, _MOST_PROBLEMS),
            )
        parts = [] if panel is None else list(panel.document["parts"])
        target = folder / f"part-{len(parts) + 1:04d}"
        appearance = [] if panel is None else panel.appearance
        manifest = write_part(target, intake, keys, names, item_labels, model_labels, appearance)
        document = {} if panel is None else dict(panel.document)
        if manifest is not None:
            parts.append({"name": target.name, "digest": manifest.digest})
            document = self._document(parts, keys)
            with draft_file(folder / PANEL) as file:
                file.write((json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode())
        return self._counts(document, keys, names, there, overruled)

    def _unknown(self, refused: bool) -> list[Problem]:
        """Items and models that the tables given do not have, nor the panel.

        Of a benchmark with ``refused`` cells it is not said that it has no scores.
        """
        problems = []
        if self._items_path is not None:
            known = set(self._items.places) | set(() if self._panel is None else self._panel.items)
            problems += [
                Problem(str(self._items_path), "unknown-item", f"there is no item {'/'.join(key)}, which has scores")
                for key in self.intake.items
                if key not in known
            ]
        if self._models_path is not None:
            known_models = set(self._models.places) | set(() if self._panel is None else self._panel.models)
            problems += [
                Problem(str(self._models_path), "unknown-model", f"there is no model {name!r}, which has scores")
                for name in sorted(set(self.intake.image.models) - known_models)
            ]
        benchmarks = {benchmark for benchmark, _ in self.intake.items} | set(self._old)
        benchmarks |= self.intake.named if refused else set()
        problems += [
            Problem("--scale", "unknown-benchmark", f"there are no scores of {name!r}")
            for name in self._given_scales
            if name not in benchmarks
        ]
        new = dict.fromkeys(benchmark for benchmark, _ in self.intake.items)
        for name in new:
            if name in self._old and self._old[name]["circular"] != (name in self.intake.circular):
                message = f"{name}: circular and plain scores are never mixed; import these into another panel"
                problems.append(Problem(name, "mixed-circular", message))
        return problems

    def _labels(
        self, kind: str, keys: Sequence[Any], places: Mapping[Any, int]
    ) -> tuple[dict[str, Any], dict[str, int]]:
        panel = self._panel
        standing: Mapping[str, Any] = {}
        if panel is not None:
            standing = panel.item_labels if kind == "item" else panel.model_labels
        table = self._items if kind == "item" else self._models
        path = self._items_path if kind == "item" else self._models_path
        harvest = self.intake.harvest if kind == "item" else Labels()
        gained, problems, overruled = gained_labels(keys, table, harvest, standing, places, str(path), kind)
        self.problems += problems
        return gained, overruled

    def _document(self, parts: list[dict[str, str]], keys: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """``panel.json``: the parts, and what there is of each benchmark."""
        of: dict[str, list[tuple[str, str]]] = {}
        for key in keys:
            of.setdefault(key[0], []).append(key)
        benchmarks = []
        for name, entries in of.items():
            old = self._old.get(name, {})
            here = np.array([self.intake.items[key] for key in entries if key in self.intake.items], np.int64)
            scores, invalid = self.intake.image.counts(here)
            blind, invalid_blind = self.intake.blind.counts(here)
            benchmarks.append(
                {
                    "name": name,
                    "items": len(entries),
                    "scale": list(self.intake.scales.get(name, DEFAULT_SCALE)),
                    "circular": bool(old.get("circular")) or name in self.intake.circular,
                    "scores": _added(old.get("scores", {}), scores),
                    "blind": _added(old.get("blind", {}), blind),
                    "invalid": _added_reasons(old.get("invalid", {}), invalid),
                    "invalid_blind": _added_reasons(old.get("invalid_blind", {}), invalid_blind),
                }
            )
        document = {"format_version": PANEL_FORMAT, "kind": "panel", "parts": parts, "benchmarks": benchmarks}
        return {**document, "digest": document_digest(document)}

    def _counts(
        self,
        document: Mapping[str, Any],
        keys: Sequence[tuple[str, str]],
        models: Sequence[str],
        there: set[tuple[str, str]],
        overruled: Mapping[str, int],
    ) -> dict[str, Any]:
        """What the import found, for the reader."""
        intake, benchmarks = self.intake, document["benchmarks"]
        notes = list(intake.notes)
        differing = {
            name: overruled.get(name, 0) + intake.overruled.get(name, 0) for name in {**overruled, **intake.overruled}
        }
        notes += [
            f"{count} times a log says another {name} of an item than is known; what was known stays"
            for name, count in sorted(differing.items())
        ]
        if intake.blank_rows:
            notes.append(f"{intake.blank_rows} rows have no score and say no reason; left out")
        scored = sum(sum(entry["scores"].values()) for entry in benchmarks)
        whole = sum(len({**entry["scores"], **entry["invalid"]}) * entry["items"] for entry in benchmarks)
        return {
            "models": len(models),
            "blind_models": len({name for entry in benchmarks for name in (*entry["blind"], *entry["invalid_blind"])}),
            "benchmarks": len(benchmarks),
            "items": len(keys),
            "scores": scored,
            "missing": whole - scored,
            "blind_scores": sum(sum(entry["blind"].values()) for entry in benchmarks),
            "new_scores": scored - sum(sum(entry["scores"].values()) for entry in self._old.values()),
            "new_blind_scores": sum(
                sum(entry["blind"].values()) - sum(self._old.get(entry["name"], {}).get("blind", {}).values())
                for entry in benchmarks
            ),
            "invalid": {entry["name"]: entry["invalid"] for entry in benchmarks if entry["invalid"]},
            "invalid_blind": {entry["name"]: entry["invalid_blind"] for entry in benchmarks if entry["invalid_blind"]},
            "repeats": intake.image.repeats + intake.blind.repeats,
            "blank_rows": intake.blank_rows,
            "ignored_items": sum(key not in there for key in self._items.places),
            "ignored_models": sum(name not in set(models) for name in self._models.places),
            "repeated_table_rows": self._items.repeats + self._models.repeats,
            "parts": len(document["parts"]),
            "digest": document["digest"],
            "notes": notes,
        }


def _added(old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, int]:
    return {name: old.get(name, 0) + new.get(name, 0) for name in sorted({**old, **new})}


def _added_reasons(
    old: Mapping[str, Mapping[str, int]], new: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    return {name: _added(old.get(name, {}), new.get(name, {})) for name in sorted({**old, **new})}
