"""The protocols: which units of work each takes, and what becomes of their results."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.leaderboard import slice_scores
from optotype.pipelines.compression.slices import slices
from optotype.pipelines.evaluation import results
from optotype.pipelines.evaluation.caveats import caveats
from optotype.pipelines.evaluation.intervals import bootstrap_plan, bootstrap_table, bootstrap_units
from optotype.pipelines.evaluation.left_out import left_out
from optotype.pipelines.evaluation.plan import Options
from optotype.pipelines.evaluation.seeds import derived_seed
from optotype.pipelines.evaluation.shelf_life import shelf_life
from optotype.pipelines.evaluation.splits import Split, chronological_split, family_splits, random_splits
from optotype.pipelines.evaluation.tasks import ALL_ITEMS, compute, pool_of
from optotype.pipelines.evaluation.units import Result, Unit, run_units
from optotype.pipelines.evaluation.variants import VariantSet
from optotype.pipelines.evaluation.workspace import Workspace
from optotype.pipelines.progress import Progress
from optotype.schemas.documents import canonical_json
from optotype.schemas.errors import InvalidDataError, Problem, UsageError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["LEAST_FAMILY", "Protocols", "Refused"]

_BOOTSTRAPPED = ("chronological", "whole")
LEAST_FAMILY = 3  # models of a family that is left out: the places of fewer say little

Row = dict[str, Any]


@dataclass(frozen=True)
class Refused:
    """A protocol that the panel does not allow."""

    protocol: str
    reason: str


class Protocols:
    """The protocols of one evaluation.

    Parameters
    ----------
    panel : Dataset
    options : Options
        Checked.
    categories : sequence of str
    reference : ndarray (M, C) float64
        Category means after stage 0.
    sets : sequence of VariantSet

    Attributes
    ----------
    splits : dict of str to list of Split
        Of every kind of unit.
    tables : dict of str to list of dict
        Filled by `run`.
    """

    def __init__(
        self,
        panel: xr.Dataset,
        options: Options,
        categories: Sequence[str],
        reference: NDArray[np.float64],
        sets: Sequence[VariantSet],
    ) -> None:
        self.panel, self.options, self.categories, self.reference, self.sets = (
            panel,
            options,
            categories,
            reference,
            sets,
        )
        self.models = [str(name) for name in panel["model"].values]
        self.families = [str(name) for name in panel["family"].values]
        self.dates = (
            [str(d) for d in panel["release_date"].values]
            if "release_date" in panel.coords
            else [""] * len(self.models)
        )
        self.splits: dict[str, list[Split]] = {}
        self.tables: dict[str, list[Row]] = {}
        self._notes: dict[str, set[str]] = {}
        self._benchmarks: list[str] = []
        self._scores = np.empty((len(self.models), 0))

    # What can be done

    def prepare(self, *, optional: bool) -> list[Refused]:
        """Make the splits, and the tables that need no units.

        Returns
        -------
        list of Refused
            Protocols that the panel does not allow.

        Raises
        ------
        OptotypeError
            A protocol that the panel does not allow, unless ``optional``.
        """
        self._benchmarks, self._scores = _benchmark_scores(self.panel)
        covered = np.isfinite(self._scores)
        steps: dict[str, Callable[[NDArray[np.bool_]], None]] = {
            "held-out": self._prepare_held_out,
            "chronological": self._prepare_chronological,
            "end-to-end": self._prepare_end_to_end,
            "shelf-life": self._shelf_life,
            "left-out": self._left_out,
            "cross-family": self._prepare_families,
            "variants": self._prepare_variants,
            "intervals": self._prepare_intervals,
            "spectrum": self._prepare_spectrum,
        }
        refused = []
        for protocol in self.options.protocols:
            try:
                steps[protocol](covered)
            except (InvalidDataError, UsageError) as error:
                if not optional:
                    raise
                problems = getattr(error, "problems", ())
                reason = error.summary if isinstance(error, InvalidDataError) else error.message
                refused.append(Refused(protocol, "; ".join([reason, *(str(p) for p in problems[:3])])))
        return refused

    def _prepare_held_out(self, covered: NDArray[np.bool_]) -> None:
        self.splits["held-out"] = random_splits(covered, self.options.splits, self.options.seed)

    def _prepare_end_to_end(self, covered: NDArray[np.bool_]) -> None:
        splits = random_splits(covered, self.options.splits, self.options.seed)
        self.splits["pools"] = self.splits["end-to-end"] = splits

    def _prepare_chronological(self, covered: NDArray[np.bool_]) -> None:
        self.splits["chronological"] = [chronological_split(covered, self.dates, self.options.seed)]

    def _prepare_whole(self, covered: NDArray[np.bool_]) -> None:
        everyone = tuple(int(m) for m in np.flatnonzero(covered.any(axis=1)))
        self.splits["whole"] = [Split("whole", everyone, everyone, self.options.seed)]

    def _prepare_spectrum(self, covered: NDArray[np.bool_]) -> None:
        self.tables["spectrum"] = [
            {
                "protocol": "spectrum",
                "selector": "cleaned items",
                "retention": 1.0,
                **results.spectrum_row(self.reference),
            }
        ]
        self._prepare_whole(covered)

    def _prepare_families(self, covered: NDArray[np.bool_]) -> None:
        if not any(self.families):
            raise InvalidDataError(
                "No model has a family",
                [Problem("family", "no-family", "every model is a family of its own")],
                hint="Import the models with `--models FILE`, a table with a column family",
            )
        self._prepare_whole(covered)
        splits = family_splits(self.families, covered, self.options.seed)
        self.splits["leave-one-family-out"] = [s for s in splits if len(s.held_out) >= LEAST_FAMILY]

    def _prepare_intervals(self, covered: NDArray[np.bool_]) -> None:
        self._prepare_whole(covered)
        if "chronological" not in self.splits and any(self.dates):
            self._prepare_chronological(covered)

    def _prepare_variants(self, covered: NDArray[np.bool_]) -> None:
        if not self.sets:
            if len(self.options.protocols) == 1:
                raise UsageError("the protocol `variants` takes a table of variants", hint="Give one: --variants FILE")
            return
        away = {name for s in self.sets for name in s.models}
        build = tuple(m for m, name in enumerate(self.models) if name not in away and covered[m].any())
        self.splits["variants"] = [
            Split("variants", build, (), derived_seed(self.options.seed, "selection", "variants"))
        ]

    def interval_plan(self) -> dict[str, Row]:
        """What the bootstrap of each split needs."""
        if "intervals" not in self.options.protocols:
            return {}
        return bootstrap_plan(
            [s for kind in _BOOTSTRAPPED for s in self.splits.get(kind, ())], self.panel, self.options
        )

    # What is done

    def run(self, workspace: Workspace, *, key: str, cache: Path | None, workers: int, progress: Progress) -> None:
        """Compute all units and fill the tables."""

        def computed(units: Sequence[Unit], title: str) -> list[tuple[Unit, Result]]:
            found = run_units(
                units,
                compute,
                str(workspace.folder),
                key=key,
                cache=cache,
                workers=workers,
                progress=progress,
                title=title,
            )
            done = list(found)
            for unit, result in done:
                self._notes.setdefault(unit.selector, set()).update(result.get("notes", ()))
            return done

        for unit, result in computed([self._unit("pools", split) for split in self.splits.get("pools", ())], "pools"):
            mask = np.zeros(self.panel.sizes["item"], dtype=bool)
            mask[result["pool"]] = True
            workspace.put(pool_of(unit.split), mask)
        kinds = ("held-out", "chronological", "whole", "leave-one-family-out", "variants")
        units = [unit for kind in kinds for unit in self._units(kind)] + self._end_to_end_units()
        by_kind: dict[str, list[tuple[Unit, Result]]] = {}
        for unit, result in computed(units, "evaluating"):
            by_kind.setdefault(unit.kind, []).append((unit, result))
        self._fill(by_kind)
        if "intervals" in self.options.protocols:
            found = [entry for kind in _BOOTSTRAPPED for entry in by_kind.get(kind, ())]
            units, points = bootstrap_units(found, workspace, self.interval_plan())
            self.tables["intervals"] = bootstrap_table(computed(units, "bootstrap"), points)

    def _units(self, kind: str) -> list[Unit]:
        """Every selector at every retention on every split; splits are outermost, so that workers keep their pools."""
        options = self.options
        units = [
            self._unit(kind, split, retention, selector)
            for split in self.splits.get(kind, ())
            for selector in options.selectors
            for retention in options.retentions
        ]
        if kind == "whole":
            units += [self._unit(kind, split, 1.0, ALL_ITEMS) for split in self.splits.get(kind, ())]
        return units

    def _end_to_end_units(self) -> list[Unit]:
        everything = [self._unit("end-to-end", split, 1.0, ALL_ITEMS) for split in self.splits.get("end-to-end", ())]
        return self._units("end-to-end") + everything

    def _unit(self, kind: str, split: Split, retention: float = 1.0, selector: str = "") -> Unit:
        sides: list[Any] = [[self.models[m] for m in side] for side in (split.build, split.held_out)]
        extra = [[s.name, list(s.models), hashlib.sha256(s.scores.tobytes()).hexdigest()] for s in self.sets]
        members = [*sides, split.seed, extra if kind == "variants" else None]
        digest = hashlib.sha256(canonical_json(members)).hexdigest()
        return Unit(kind, split.name, digest, retention, selector)

    def _fill(self, by_kind: dict[str, list[tuple[Unit, Result]]]) -> None:
        """Tables of everything but the intervals."""
        asked, whole = self.options.protocols, by_kind.get("whole", [])
        if "held-out" in asked or "chronological" in asked:
            self.tables |= results.held_out_tables(by_kind, asked)
        if "end-to-end" in asked:
            self.tables |= results.end_to_end_tables(by_kind)
        if "leave-one-family-out" in self.splits:
            self.tables |= results.family_tables(by_kind)
        if "spectrum" in self.tables:
            models = self.splits["whole"][0].held_out
            self.tables["spectrum"] += results.spectra(whole, models, len(self.models), self.categories)
        if "variants" in self.splits:
            self.tables |= results.variant_tables(by_kind, self.sets, self.options.seed)

    def _shelf_life(self, covered: NDArray[np.bool_]) -> None:
        options = self.options
        self.tables["shelf_life"] = shelf_life(
            self.reference,
            self.categories,
            self.dates,
            options.k,
            options.normalise,  # type: ignore[arg-type]
        )

    def _left_out(self, covered: NDArray[np.bool_]) -> None:
        options = self.options
        if len(self._benchmarks) < 2:
            raise InvalidDataError(
                "There is no other benchmark to predict from",
                [Problem("benchmarks", "too-few", f"the panel has {len(self._benchmarks)}; two are needed")],
            )
        rows = left_out(self._scores, self._benchmarks, seed=options.seed, least=options.min_held_out)
        if not rows:
            raise InvalidDataError(
                "No benchmark shares enough models with another one",
                [Problem("models", "too-few", f"{options.min_held_out + 1} models with another benchmark are needed")],
            )
        self.tables["left_out"] = rows

    def warnings(self) -> list[str]:
        """Sentences about what the tables cannot support."""
        return caveats(self.tables, self._notes, self.families, self.options.min_held_out)


def _benchmark_scores(panel: xr.Dataset) -> tuple[list[str], NDArray[np.float64]]:
    """Mean of all valid scaled items of each benchmark, before any cleaning, (M, B)."""
    found = slices(panel, "benchmark")
    return list(found.categories), slice_scores(panel, found.of_item, len(found))
