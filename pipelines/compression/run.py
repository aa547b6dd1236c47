"""The stages of one compression, each taking what the last one left."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.category_count import nothing, search
from optotype.pipelines.compression.cleaning import Cleaning, clean
from optotype.pipelines.compression.item_statistics import ItemStatistics, item_statistics
from optotype.pipelines.compression.leaderboard import (
    Normalise,
    category_scores,
    check_models,
    entering,
    gaps_warning,
    leaderboard,
    slice_scores,
)
from optotype.pipelines.compression.pruning import Pruning, prune, pruned_scores
from optotype.pipelines.compression.representatives import representatives
from optotype.pipelines.compression.slices import Slices
from optotype.pipelines.compression.spectrum import spectrum
from optotype.pipelines.compression.tables import json_ready
from optotype.pipelines.kernels.spearman import spearman, spearman_rows
from optotype.pipelines.scheduler import Scheduler
from optotype.schemas.errors import InvalidDataError, Problem

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["STAGES", "Run"]

STAGES = ("data cleaning", "category representatives", "item pruning", "category count")

_STAGE_0 = "leaderboard over all items against leaderboard over cleaned items"
_STAGE_1 = "median over categories of the pool's mean against the category mean"
_STAGE_2 = "mean over categories of the kept items' score against the pool's mean, on the models that chose the items"
_STAGE_3 = "leaderboard over the chosen categories against leaderboard over all pruned categories"

Floats = NDArray[np.float64]


class Run:
    """The state that one stage hands to the next."""

    def __init__(self, panel: xr.Dataset, cut: Slices, normalise: Normalise, place: Scheduler) -> None:
        check_models(panel)
        self.panel, self.cut, self.normalise, self.place = panel, cut, normalise, place
        self.names = [str(name) for name in panel["model"].to_numpy()]
        self.stages: list[dict[str, Any]] = []
        self.warnings: list[str] = []
        self.statistics: ItemStatistics = item_statistics(panel)
        self.alive = np.ones(panel.sizes["item"], dtype=bool)
        nobody = np.full(panel.sizes["model"], np.nan)
        self.all_items, self.reference, self.compressed = nobody, nobody, nobody
        self.categories = np.empty((panel.sizes["model"], 0))  # scores of the models in the categories still alive
        self.coverage = self.categories  # finite where a model has scores in one of them; z-scores may lack more
        self.pruning: Pruning | None = None
        self.unranked: str | None = None  # why the last stage ranks nobody

    def clean(self, tau: float) -> None:
        """Stage 0."""
        done: Cleaning = clean(self.panel, self.cut, tau, statistics=self.statistics)
        if not done.keep.any():
            raise InvalidDataError(
                "Stage 0 leaves no item",
                [
                    Problem(
                        str(row["benchmark"]),
                        "no-item",
                        f"of {row['items']} items {row['all_correct']} are all-correct and {row['blind_solvable']} "
                        "blind-solvable",
                    )
                    for row in done.report.to_dict("records")
                ],
                hint=self._more_items(done.keep),
            )
        before, covered_before = self._by_category(None)
        after, self.coverage = self._by_category(done.keep)
        if "blind" not in self.panel:
            self.warnings.append("the panel has no blind runs: only all-correct items are dropped")
        try:
            enter_before, enter_after = (entering(known, self.names) for known in (covered_before, self.coverage))
            self.all_items = leaderboard(before, self.normalise, enters=enter_before)
            self.reference = leaderboard(after, self.normalise, enters=enter_after)
            warning = gaps_warning(after, self.normalise, enter_after)
        except InvalidDataError as error:  # cleaning needs no ranking; the later stages will refuse
            warning = f"no ranking: {error.summary}"
        if warning:
            self.warnings.append(warning)
        self.compressed, self.categories = self.reference, after
        self._stage(
            done.keep,
            rho=spearman(self.all_items, self.reference),
            compares=_STAGE_0,
            details={"tau": tau, "benchmarks": done.report.to_dict("records")},
        )

    def represent(self, target: float) -> None:
        """Stage 1."""
        entering(self.coverage, self.names)  # refuses too few models
        done = representatives(self.panel, self.cut, self.alive, target=target, statistics=self.statistics)
        rows = done.report.to_dict("records")
        self.warnings += [text for row in rows for text in row["warnings"]]
        rhos = np.array([row["rho_pooled"] for row in rows], dtype=np.float64)
        finite = rhos[np.isfinite(rhos)]
        self.categories = slice_scores(
            self.panel, self.cut.category_of_item, len(self.cut.categories), done.pool
        )  # item-pooled
        self._rank(self.categories)
        self._stage(
            done.pool,
            rho=float(np.median(finite)) if len(finite) else np.nan,
            compares=_STAGE_1,
            details={"rho_target": target, "categories": rows},
        )

    def prune(
        self, selector: str, retention: float, alpha: float, floor: int, seed: int, embeddings: xr.Dataset | None
    ) -> None:
        """Stage 2."""
        done = prune(
            self.panel,
            self.cut,
            self.alive,
            selector=selector,
            retention=retention,
            alpha=alpha,
            floor=floor,
            seed=seed,
            embeddings=embeddings,
            statistics=self.statistics,
            place=self.place,
        )
        pooled = self.categories
        self.pruning = done
        self.categories = pruned_scores(self.panel, self.cut, done)
        self._rank(self.categories)
        rhos = spearman_rows(self.categories.T, pooled.T)
        finite = rhos[np.isfinite(rhos)]
        rows = done.report.to_dict("records")
        if not done.selected.any():
            largest = max(row["n"] for row in rows)
            self.unranked = (
                f"no item is kept: the retention {retention:g} of pools of at most {largest} items is less than one "
                f"item, and the floor is {floor}; raise --retention or --floor"
            )
        if self.unranked:
            self.warnings.append(f"stage 2 ranks nobody: {self.unranked}")
        number = {name: place for place, name in enumerate(self.cut.categories)}
        for row in rows:
            row["rho"] = float(rhos[number[row["category"]]])
        notes = list(dict.fromkeys(note for row in rows for note in row["notes"]))
        self.warnings += notes
        self._stage(
            done.selected,
            rho=float(finite.mean()) if len(finite) else np.nan,
            compares=_STAGE_2,
            details={
                "selector": selector,
                "retention": retention,
                "floor": floor,
                "alpha": alpha,
                "seed": seed,
                "filled_by": list(dict.fromkeys(row["filled_by"] for row in rows)),
                "undefined_rho": len(rows) - len(finite),
                "reason": None if len(finite) else self.unranked or "all models tie in every category",
                "notes": notes,
                "categories": rows,
            },
        )

    def count(self, k: int, greedy: bool) -> None:
        """Stage 3."""
        there = np.unique(self.cut.category_of_item[self.alive])
        columns = self.categories[:, there]
        method = "greedy" if greedy else "exhaustive"
        if self.unranked:
            found, shape = nothing(f"after stage 2 {self.unranked}", method), None
        else:
            found = search(columns, k, self.normalise, greedy_only=greedy)
            shape = asdict(spectrum(columns))
        alive = self.alive
        names = [self.cut.categories[number] for number in there.tolist()]
        details: dict[str, Any] = {"k": k, **asdict(found), "spectrum": shape}
        for key in ("subset", "greedy_subset"):
            chosen = details.pop(key)
            details[key] = None if chosen is None else [names[place] for place in chosen]
        if found.subset is None:
            self.warnings.append(f"stage 3 chose nothing: {found.reason}")
        else:
            chosen_categories = there[list(found.subset)]
            alive = alive & np.isin(self.cut.category_of_item, chosen_categories)
            self.categories = self.categories[:, chosen_categories]
            self._rank(self.categories)
        self._stage(
            alive,
            rho=np.nan if found.rho is None else found.rho,
            compares=_STAGE_3,
            details=details,
            null=found.subset is None,
        )

    def boards(self) -> dict[str, Floats]:
        """Leaderboards over all items, over the cleaned ones, and after the last stage."""
        return {"all": self.all_items, "reference": self.reference, "compressed": self.compressed}

    def _more_items(self, keep: NDArray[np.bool_]) -> str:
        """What helps where stage 0 drops everything."""
        found = self.statistics
        if (~keep & ~found.all_correct & (found.blind_mean < 1)).any():
            return "Keep more with a larger --tau"
        return (
            "No --tau keeps an item: each is solved by every model, or by every run without the image; import harder "
            "items, or more models"
        )

    def _by_category(self, keep: NDArray[np.bool_] | None) -> tuple[Floats, Floats]:
        """Category scores as means of their benchmarks, of the categories that still have an item.

        And the same without normalisation: a z-score lacks what is constant, too, which is not a lack of scores.
        """
        scores = slice_scores(self.panel, self.cut.of_item, len(self.cut), keep)
        there = np.unique(self.cut.category_of_item if keep is None else self.cut.category_of_item[keep])
        found, plain = (category_scores(scores, self.cut, how)[:, there] for how in (self.normalise, "none"))
        return found, plain

    def _rank(self, scores: Floats) -> None:
        """The leaderboard over some categories; without one, `unranked` says why."""
        there = ~np.isnan(scores).all(axis=0)
        try:
            self.compressed = leaderboard(scores[:, there], self.normalise, names=self.names)
        except InvalidDataError as error:
            self.compressed, self.unranked = np.full(len(scores), np.nan), error.summary
        else:
            tied = np.isnan(self.compressed).all()
            self.unranked = f"no category tells models apart under {self.normalise}" if tied else None

    def _stage(
        self, alive: NDArray[np.bool_], *, rho: float, compares: str, details: dict[str, Any], null: bool = False
    ) -> None:
        number = len(self.stages)
        inside, outside = self._counts(self.alive), self._counts(alive)
        self.alive = alive
        self.stages.append(
            {
                "stage": number,
                "name": STAGES[number],
                "items_in": inside[0],
                "items_out": outside[0],
                "benchmarks_in": inside[1],
                "benchmarks_out": outside[1],
                "categories_in": inside[2],
                "categories_out": outside[2],
                "rho": json_ready(rho),
                "rho_compares": compares,
                "rho_to_reference": None if null else json_ready(spearman(self.compressed, self.reference)),
                "details": json_ready(details),
            }
        )

    def _counts(self, alive: NDArray[np.bool_]) -> tuple[int, int, int]:
        """Items, benchmarks and categories."""
        present = np.unique(self.cut.of_item[alive])
        benchmarks = {self.cut.benchmark[number] for number in present.tolist()}
        return int(alive.sum()), len(benchmarks), len(np.unique(self.cut.category_of_slice[present]))
