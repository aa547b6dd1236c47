"""Evaluate selectors on a panel: every protocol, its units of work, and the tables that come of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.cleaning import clean
from optotype.pipelines.compression.embeddings import aligned
from optotype.pipelines.compression.leaderboard import category_scores, check_models, slice_scores
from optotype.pipelines.compression.representatives import representatives
from optotype.pipelines.compression.slices import Slices, slices
from optotype.pipelines.evaluation.plan import BASELINE, Options
from optotype.pipelines.evaluation.protocols import Protocols, Refused
from optotype.pipelines.evaluation.tasks import POOL
from optotype.pipelines.evaluation.units import code_digest, versions
from optotype.pipelines.evaluation.variants import VariantSet, read_variants
from optotype.pipelines.evaluation.workspace import Workspace
from optotype.pipelines.progress import SILENT, Progress
from optotype.pipelines.scheduler import cpu_count
from optotype.schemas.documents import cache_key
from optotype.schemas.errors import UsageError
from optotype.store.drafts import Draft

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EVALUATION_FORMAT", "evaluate"]

EVALUATION_FORMAT = 1


@dataclass
class Stages:
    """Stages 0 and 1 of the whole panel, which every protocol but the end-to-end one shares."""

    slices: Slices
    keep: NDArray[np.bool_]
    pool: NDArray[np.bool_]
    reference: NDArray[np.float64]
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def evaluate(
    panel: xr.Dataset,
    options: Options,
    *,
    embeddings: xr.Dataset | None = None,
    variants: Path | None = None,
    workers: int | None = None,
    cache: Path | None = None,
    optional: bool = True,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run the protocols of an evaluation.

    Stages 0 and 1 are run once on the whole panel; only selection sees build models alone, except end to end, where
    stages 1 to 3 are refitted on them.

    Parameters
    ----------
    panel : Dataset
        As `optotype.store.panels.open_panel` gives it.
    options : Options
    embeddings : Dataset, optional
        As `optotype.store.embeddings.open_embeddings` gives it.
    variants : Path, optional
        Table of variant sets; see `optotype.pipelines.evaluation.variants.read_variants`.
    workers : int, optional
        Processes; one per CPU by default. The same result whatever their number.
    cache : Path, optional
        Folder under which results of units are kept, so that a run that was stopped goes on. Nothing is kept without.
    optional : bool
        Whether a protocol that the panel does not allow is left out with a warning instead of raising.
    progress : Progress, optional

    Returns
    -------
    dict
        ``format_version, kind, panel, parameters, versions, tables, warnings``, JSON-ready; ``tables`` maps names to
        lists of flat rows. See `docs/selectors.md` for what they say.

    Raises
    ------
    OptotypeError
        Options out of range, a table of variants that cannot be used, or (not ``optional``) a protocol that the
        panel does not allow.
    """
    options = options.check()
    report = progress or SILENT
    if workers is not None and workers < 1:
        raise UsageError(f"workers are 1 or more processes, got {workers}")
    check_models(panel)
    sets = read_variants(variants, panel) if variants is not None else []
    stages = _stages(panel, options)
    key = _key(panel, embeddings, options)
    with _folder(cache, key) as (folder, results):
        protocols = Protocols(panel, options, stages.slices.categories, stages.reference, sets)
        refused = protocols.prepare(optional=optional)
        workspace = _workspace(folder, panel, stages, options, embeddings, sets, protocols)
        protocols.run(workspace, key=key, cache=results, workers=workers or cpu_count(), progress=report)
    warnings = [*stages.warnings, *(_refusal(entry) for entry in refused), *protocols.warnings()]
    return {
        "format_version": EVALUATION_FORMAT,
        "kind": "evaluation",
        "panel": {
            "name": str(panel.attrs.get("name", "")),
            "digest": str(panel.attrs.get("digest", "")),
            "models": int(panel.sizes["model"]),
            "items": int(panel.sizes["item"]),
            "benchmarks": len(set(stages.slices.benchmark)),
            "categories": len(stages.slices.categories),
        },
        "embeddings": None if embeddings is None else str(embeddings.attrs.get("digest", "")),
        "parameters": _listed(options) | {"baseline": BASELINE if BASELINE in options.selectors else None},
        "versions": versions(),
        "tables": stages.tables | protocols.tables,
        "warnings": list(dict.fromkeys(warnings)),
    }


def _stages(panel: xr.Dataset, options: Options) -> Stages:
    """Stages 0 and 1 on all models, and the category means after stage 0."""
    found = slices(panel, options.category_by)
    cleaning = clean(panel, found, options.tau)
    chosen = representatives(panel, found, cleaning.keep, target=options.rho_target)
    scores = slice_scores(panel, found.of_item, len(found), cleaning.keep)
    tables = {"cleaning": _records(cleaning.report), "pools": _records(chosen.report)}
    warnings = [text for row in tables["pools"] for text in row.pop("warnings")]
    return Stages(found, cleaning.keep, chosen.pool, category_scores(scores, found), tables, warnings)


def _records(table: Any) -> list[dict[str, Any]]:
    """Rows of a DataFrame, JSON-ready: NaN is null, NumPy's numbers are Python's."""
    rows = []
    for record in table.to_dict(orient="records"):
        plain = {name: value.item() if hasattr(value, "item") else value for name, value in record.items()}
        rows.append({str(name): None if value != value else value for name, value in plain.items()})
    return rows


def _key(panel: xr.Dataset, embeddings: xr.Dataset | None, options: Options) -> str:
    """All that every unit depends on."""
    return cache_key(
        {
            "panel": str(panel.attrs.get("digest", "")),
            "embeddings": None if embeddings is None else str(embeddings.attrs.get("digest", "")),
            "parameters": options.shared(),
            "versions": versions(),
            "code": code_digest(),
        }
    )


@contextmanager
def _folder(cache: Path | None, key: str) -> Iterator[tuple[Path, Path | None]]:
    """An empty folder for the workspace, removed at the end, and the one where results of units are kept."""
    if cache is None:
        with tempfile.TemporaryDirectory(prefix="optotype-") as name:
            yield Path(name), None
        return
    results = cache / key
    results.mkdir(parents=True, exist_ok=True)
    # A draft that is never committed: one run at a time, and the next one removes what a killed one left.
    with Draft(results / "workspace") as draft:
        yield draft.path, results


def _workspace(
    folder: Path,
    panel: xr.Dataset,
    stages: Stages,
    options: Options,
    embeddings: xr.Dataset | None,
    sets: list[VariantSet],
    protocols: Protocols,
) -> Workspace:
    stops = np.cumsum([0, *(len(s.models) for s in sets)]).tolist()
    plan = options.shared() | {
        "variants": [{"set": s.name, "rows": [stops[place], stops[place + 1]]} for place, s in enumerate(sets)],
        "intervals": protocols.interval_plan(),
    }
    workspace = Workspace.write(folder, panel, plan, protocols.splits)
    workspace.put("keep", stages.keep)
    workspace.put(POOL, stages.pool)
    workspace.put("reference", stages.reference)
    if sets:
        workspace.put("variants", np.concatenate([s.scores for s in sets]))
    if embeddings is not None:
        for name, rows in zip(("text", "vision_text"), aligned(embeddings, panel), strict=True):
            if rows is not None:
                workspace.put(name, rows)
    return workspace


def _listed(options: Options) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(options).items()}


def _refusal(refused: Refused) -> str:
    return f"{refused.protocol}: not run. {refused.reason}"
