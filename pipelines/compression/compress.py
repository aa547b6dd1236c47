"""Stages 0 to 3 in one run, stoppable after each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from optotype.pipelines.compression.cleaning import TAU
from optotype.pipelines.compression.leaderboard import Normalise, check_normalise
from optotype.pipelines.compression.pruning import FLOOR, RETENTION
from optotype.pipelines.compression.representatives import RHO_TARGET
from optotype.pipelines.compression.run import STAGES, Run
from optotype.pipelines.compression.slices import slices
from optotype.pipelines.compression.tables import item_table, model_rows
from optotype.pipelines.kernels.shares import budget
from optotype.pipelines.progress import SILENT, Progress
from optotype.pipelines.scheduler import scheduler as open_scheduler
from optotype.pipelines.selectors.pool import ALPHA
from optotype.pipelines.selectors.selector import get_selector
from optotype.schemas.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["STAGES", "Compression", "compress"]


@dataclass(frozen=True)
class Compression:
    """A compressed suite.

    Attributes
    ----------
    stages : list of dict
        One for each stage that ran, JSON-ready: ``stage, name, items_in, items_out, benchmarks_in, benchmarks_out,
        categories_in, categories_out, rho, rho_compares, rho_to_reference, details``. ``rho_to_reference`` compares
        the leaderboard after the stage with the one over all cleaned items (each category the mean of its benchmarks).
        A ρ that is undefined is None. A stage 3 without a subset has ``details["reason"]``, and lets everything pass.
    items : DataFrame
        Columns ``benchmark, item_id, category, vaw, variance, delta, cell, weight``, in catalogue order, of the items
        that the last stage kept. The five of stage 2 are null where it did not run; ``cell`` is null for an item that
        is in no cell; ``weight`` is 1 where the selector gives none; ``vaw`` is the ranked score v̂ + α/√M · δ.
    models : list of dict
        ``model``, and ``score_*`` and ``rank_*`` (1 is the best, ties share their mean rank) on ``all`` items, on the
        cleaned items (``reference``) and on the ``compressed`` suite; None for a model that does not enter.
    warnings : list of str
    parameters : dict
    """

    stages: list[dict[str, Any]]
    items: pd.DataFrame
    models: list[dict[str, Any]]
    warnings: list[str] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)


def compress(
    panel: xr.Dataset,
    *,
    stop_after: int = 3,
    tau: float = TAU,
    retention: float = RETENTION,
    k: int = 5,
    alpha: float = ALPHA,
    seed: int = 0,
    category_by: str = "category",
    floor: int = FLOOR,
    normalise: Normalise = "none",
    rho_target: float = RHO_TARGET,
    selector: str = "vaw",
    embeddings: xr.Dataset | None = None,
    greedy: bool = False,
    scheduler: str = "threads",
    progress: Progress | None = None,
) -> Compression:
    """Compress a panel: clean it, choose representatives, prune their items, choose k categories.

    Each stage is a function of its own: `clean`, `representatives`, `prune`, `search`. The same input, parameters and
    version give the same result for any scheduler.

    Parameters
    ----------
    panel : Dataset
        As `optotype.store.panels.open_panel` gives it.
    stop_after : {0, 1, 2, 3}
    tau : float
        Stage 0: items that image-free runs solve at this rate or above are dropped.
    retention, floor, alpha, seed, selector, embeddings
        Stage 2: see `optotype.pipelines.compression.pruning.prune`.
    k, greedy
        Stage 3: see `optotype.pipelines.compression.category_count.search`.
    category_by : str
        ``category``, ``benchmark`` or a column of the items table.
    normalise : {"none", "zscore"}
        Of category scores before they are averaged.
    rho_target : float
        Stage 1: below it a representative is supplemented.
    scheduler : str
        ``threads``, ``processes`` or the address of a dask.distributed scheduler.
    progress : Progress, optional

    Raises
    ------
    UsageError, NotFoundError
        An argument out of range, an unknown column or selector; before anything is computed.
    InvalidDataError
        Fewer than 3 models have scores in half of the categories (only where stage 1 or a later one runs); no item is
        left.
    """
    parameters = {
        "stop_after": stop_after, "tau": tau, "retention": retention, "k": k, "alpha": alpha, "seed": seed,
        "category_by": category_by, "floor": floor, "normalise": normalise, "rho_target": rho_target,
        "selector": selector, "greedy": greedy,
    }  # fmt: skip
    if stop_after not in range(len(STAGES)):
        raise UsageError(f"stop after stage 0, 1, 2 or 3; got {stop_after}")
    if k < 1:
        raise UsageError(f"k is 1 or more categories; got {k}")
    if seed < 0:
        raise UsageError(f"seed is 0 or more, got {seed}")
    check_normalise(normalise)
    get_selector(selector)
    budget(1, retention, floor)
    cut = slices(panel, category_by)
    report = progress or SILENT
    with (
        open_scheduler(scheduler) as place,
        report(f"compressing {panel.attrs.get('name', 'panel')}", total=stop_after + 1, unit="stages") as task,
    ):
        run = Run(panel, cut, normalise, place)
        steps: list[Callable[[], None]] = [
            lambda: run.clean(tau),
            lambda: run.represent(rho_target),
            lambda: run.prune(selector, retention, alpha, floor, seed, embeddings),
            lambda: run.count(k, greedy),
        ]
        for step in steps[: stop_after + 1]:
            step()
            report.note(_line(run.stages[-1]))
            task.advance()
        return Compression(
            run.stages,
            item_table(panel, cut, run.alive, run.pruning),
            model_rows(panel, run.boards()),
            run.warnings,
            parameters,
        )


def _line(stage: dict[str, Any]) -> str:
    rho = "undefined" if stage["rho"] is None else f"{stage['rho']:.3f}"
    return (
        f"stage {stage['stage']}, {stage['name']}: {stage['items_in']} -> {stage['items_out']} items, "
        f"{stage['categories_in']} -> {stage['categories_out']} categories, ρ {rho}"
    )
