"""Rank by any metrics, under any settings: rows as those of `optotype.pipelines.rank`, with what else a metric says."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import xarray as xr

from optotype.pipelines.forms import Form
from optotype.pipelines.graphs import features_graphs, states_graphs
from optotype.pipelines.kernels import overlap
from optotype.pipelines.kernels.whitening import check_eps
from optotype.pipelines.metrics.fronts import check_gamma, parse_fronts
from optotype.pipelines.metrics.inputs import Maker
from optotype.pipelines.metrics.metric import (
    Inputs,
    Metric,
    PoolMetric,
    Refusal,
    Score,
    hangs_on_pairing,
    metric_error,
    reads_patches,
)
from optotype.pipelines.metrics.plan import fitting, plan
from optotype.pipelines.metrics.ravel import RavelFamily
from optotype.pipelines.metrics.settings import Request, Setting, check_sweep
from optotype.pipelines.metrics.sources import NOTHING, Sources
from optotype.pipelines.pool import Pool, first_items, open_pool
from optotype.pipelines.problems import naming, reason
from optotype.pipelines.progress import SILENT, Progress
from optotype.pipelines.rank import graph_row
from optotype.pipelines.ravel import check_repeats
from optotype.pipelines.scheduler import Scheduler
from optotype.pipelines.scheduler import scheduler as open_scheduler
from optotype.schemas.errors import (
    ConflictError,
    ExternalError,
    FormatError,
    IntegrityError,
    InvalidDataError,
    OptotypeError,
    Problem,
    UsageError,
)
from optotype.store.project import Project

__all__ = ["rank_metrics"]

Row = dict[str, Any]

_SHOWN = 5
_DAMAGE = (ConflictError, ExternalError, FormatError, IntegrityError)


def rank_metrics(
    project: Project | None,
    features: Sequence[str],
    states: Sequence[str],
    request: Request,
    sources: Sources = NOTHING,
    *,
    common: bool = False,
    scheduler: str = "threads",
    progress: Progress | None = None,
) -> list[Row]:
    """Score every encoder, against every language model where there is one, by every metric asked for.

    All references, ids, needs and options are checked before anything is computed. RAVEL and its ablations go through
    the graphs of the project, under keys that hold what differs from a plain graph, and the pairs of an array are gone
    through once for all k of a sweep; the other metrics are scored anew.

    Parameters
    ----------
    project : Project or None
        Where names are looked up and graphs are kept.
    features, states : sequence of str
        Patch features of the encoders, states of the language models; none of the latter where all metrics are of
        vision alone.
    request : Request
    sources : Sources
    common, scheduler, progress
        As for :func:`optotype.pipelines.rank.rank`.

    Returns
    -------
    list of dict
        By metric in the order asked, then by falling score, ties by encoder and model. JSON-ready. The fields of
        :func:`optotype.pipelines.rank.rank`, None where they do not apply (what belongs to whitening, ``chance`` and
        ``adjusted`` where a metric has no level of chance, all of the states for a vision-only metric, whose score
        stands in a row for each model), and

        - ``kind``: of the metric; ``options``: all of them;
        - ``gamma``: None where it has no say; ``post_features``, ``post_states``: the chains, canonical;
        - ``features_layer``, ``states_layer``: as the arrays' attributes say;
        - ``details``: what the metric says of its score; ``seed``.

        The interval is that of the mean over the items a metric scores, drawn with replacement; None where its score
        is no such mean. The null re-scores a cross-modal metric under random pairings of images and texts; None, with a
        warning, for one on which pairings have no say.

        Where everything was asked for, what has no score is noted and the rest is ranked.

    Raises
    ------
    UsageError
        An option out of range; a metric without something that it needs (all of both, with the options that help).
    InvalidDataError
        Different id sets, or data that cannot be scored.
    NotFoundError, ConflictError, FormatError, IntegrityError, ExternalError, ModelError
        From the store, or of a language model.
    """
    report = progress or SILENT
    if not features:
        raise UsageError("a ranking takes one --features or more")
    check_repeats(request.null, request.seed, request.bootstrap)
    check_eps(request.eps)
    check_gamma(request.gamma)
    request = replace(request, sweep=check_sweep(request.sweep))
    fronts = parse_fronts(request.post_features, request.post_states)
    planned = plan(request, sources, bool(states), report)
    pool = open_pool(project, features, states, common=common)
    planned = fitting(planned, pool, request, report)
    if common:
        report.note(f"{len(pool.items)} ids are common to all arrays")
    if any("labels" in metric.needs for metric, _ in planned):
        _note_strangers(sources, pool, report)
    run = _Run(project, pool, request, report, Maker(pool, sources, *fronts, report), fronts)
    with open_scheduler(scheduler) as place:
        rows = [row for metric, own in planned for row in run.rows(metric, own, place)]
    if not rows:
        raise UsageError("no metric has a score for any of these arrays", hint="The notes above say why.")
    order = {metric.name: number for number, (metric, _) in enumerate(planned)}
    return sorted(rows, key=lambda row: (order[row["metric"]], -row["score"], row["encoder"], row["model"] or ""))


class _Run:
    """One ranking under way."""

    def __init__(
        self, project: Project | None, pool: Pool, request: Request, report: Progress, maker: Maker, fronts: Any
    ) -> None:
        self.project, self.pool, self.request, self.report, self.maker = project, pool, request, report, maker
        self.fronts = fronts
        self.models: list[str | None] = list(pool.models) or [None]
        self.noted: set[str] = set()

    def rows(self, metric: Metric | PoolMetric, own: Sequence[Setting], place: Scheduler) -> Iterator[Row]:
        """Rows of one metric."""
        if isinstance(metric, RavelFamily):
            by_setting: dict[int, list[Row]] = {}
            for places in _but_k(own):
                made = self._graph_rows(metric, [own[number] for number in places], place)
                by_setting.update(zip(places, made, strict=True))
            for number in range(len(own)):
                yield from by_setting[number]
            return
        pairs = len(self.pool.encoders) * len(self.models) * len(own)
        with self.report(metric.name, total=pairs, unit="scores") as task:
            if getattr(metric, "over_pool", False):
                for setting in own:
                    yield from self._pool_rows(metric, setting)
                    task.advance(len(self.pool.encoders) * len(self.models))
                return
            for encoder in self.pool.encoders:
                for setting in own:
                    yield from self._pair_rows(metric, setting, encoder)
                    task.advance(len(self.models))

    def _items(self, setting: Setting) -> list[str]:
        items = self.pool.items
        return list(items) if setting.images is None else first_items(items, setting.images, self.request.seed)

    def _graph_rows(self, metric: RavelFamily, together: Sequence[Setting], place: Scheduler) -> list[list[Row]]:
        """Rows of each of the settings, which differ in k alone: their graphs are computed in one pass an array."""
        setting = together[0]
        items, options = self._items(setting), setting.options
        forms = [replace(form, chain=chain) for form, chain in zip(metric.forms(), self.fronts, strict=True)]
        forms[0] = replace(forms[0], gamma=1.0 if setting.gamma is None else setting.gamma)
        if forms[0].pooled:
            forms[0] = replace(forms[0], chain=_without_gamma(forms[0]))
        shared: dict[str, Any] = {
            "ks": [one.options["k"] for one in together],
            "scheduler": place,
            "progress": self.report,
        }
        told: dict[str, Any] = {"eps": None, "prenorm_features": None, "prenorm_states": None}
        norms: list[dict[str, Any]] = [{}, {}]
        if metric.whitened:
            told = {"eps": options["eps"]}
            for number, side in enumerate(("features", "states")):
                told[f"prenorm_{side}"] = options[f"prenorm-{side}"]
                norms[number] = {"eps": options["eps"], "prenorm": options[f"prenorm-{side}"]}
        textual: dict[str, dict[int, xr.Dataset]] = {}
        for model in self.pool.models:
            with self._trying(metric, "states", [(encoder, model) for encoder in self.pool.encoders]):
                textual[model] = states_graphs(self.project, model, texts=items, form=forms[1], **norms[1], **shared)
        asked = {"null": self.request.null, "seed": self.request.seed, "bootstrap": self.request.bootstrap}
        made: list[list[Row]] = [[] for _ in together]
        for encoder in self.pool.encoders if textual else ():
            visual: dict[int, xr.Dataset] = {}
            with self._trying(metric, "features", [(encoder, model) for model in textual]):
                visual = features_graphs(self.project, encoder, images=items, form=forms[0], **norms[0], **shared)
            if not visual:
                continue
            for one, rows in zip(together, made, strict=True):
                k = one.options["k"]
                for model, graphs in textual.items():
                    row = graph_row(
                        self.pool, encoder, model, metric.name, visual[k], graphs[k], told, asked, self.report
                    )
                    rows.append({**row, **self._told(metric, one, encoder, model, {})})
        return made

    def _pair_rows(self, metric: Any, setting: Setting, encoder: str) -> Iterator[Row]:
        items = self._items(setting)
        alone = metric.kind == "vision-only"
        for model in [None] if alone else self.models:
            inputs = score = None
            with self._trying(metric, "pair", [(encoder, model)]):
                inputs = self._inputs(metric, setting, encoder, model, items)
                score = _checked(metric, metric.score(inputs, setting.options, seed=self.request.seed))
            if score is not None and inputs is not None:
                for spoken in self.models if alone else [model]:
                    yield self._row(metric, setting, encoder, spoken, score, inputs)

    def _inputs(self, metric: Any, setting: Setting, encoder: str, model: str | None, items: Sequence[str]) -> Inputs:
        gamma = 1.0 if setting.gamma is None else setting.gamma
        return self.maker.inputs(encoder, model, items, gamma=gamma, patches=reads_patches(metric))

    @contextmanager
    def _trying(
        self, metric: Any, side: Literal["features", "states", "pair"], pairs: Sequence[tuple[str, str | None]]
    ) -> Iterator[None]:
        """What cannot be scored in here is noted for each of ``pairs`` where all metrics were asked for.

        Otherwise it is an error that names the metric and the array (``side``), or the pair where both have a say.
        Damage of the store is an error in any case, since other metrics would read the same.
        """
        encoder, model = pairs[0]
        what = self._named(encoder, model)
        if side != "pair":
            what = f"{side} of {self.pool.label(side, encoder if side == 'features' else str(model))}"
        try:
            with naming(metric.name, what):
                yield
        except _DAMAGE:
            raise
        except OptotypeError as error:
            if not self.request.everything:
                raise
            cause = error.__cause__ if isinstance(error.__cause__, OptotypeError) else error
            for pair in pairs:
                self._note(metric, self._named(*pair), reason(cause, metric.name))

    def _named(self, encoder: str, model: str | None) -> str:
        name = self.pool.label("features", encoder)
        return name if model is None else f"{name} x {self.pool.label('states', model)}"

    def _note(self, metric: Any, pair: str, why: str) -> None:
        """Tell it once, under however many settings."""
        text = f"{metric.name} has no score for {pair}: {why}"
        if text not in self.noted:
            self.noted.add(text)
            self.report.note(text)

    def _pool_rows(self, metric: Any, setting: Setting) -> Iterator[Row]:
        items = self._items(setting)
        pairs, members = [], []
        for pair in itertools.product(self.pool.encoders, self.models):
            with self._trying(metric, "pair", [pair]):
                members.append(self._inputs(metric, setting, *pair, items))
                pairs.append(pair)
        if not members:
            return
        try:
            results = list(metric.scores(members, setting.options, seed=self.request.seed))
        except OptotypeError as error:
            if not self.request.everything:
                raise
            self.report.note(f"{metric.name} has no scores: {reason(error, metric.name)}")
            return
        refused = [
            (inputs, result) for inputs, result in zip(members, results, strict=True) if isinstance(result, Refusal)
        ]
        if refused and not self.request.everything:
            problems = [Problem(f"{one.encoder} x {one.model}", "refused", result.why) for one, result in refused]
            hints = [result.hint for _, result in refused if result.hint]
            raise InvalidDataError(
                f"metric {metric.name}: {len(refused)} of {len(members)} have no score",
                problems,
                hint=next(iter(hints), None),
            )
        for (encoder, model), inputs, result in zip(pairs, members, results, strict=True):
            if isinstance(result, Refusal):
                self._note(metric, self._named(encoder, model), result.why)
            else:
                yield self._row(metric, setting, encoder, model, _checked(metric, result), inputs)

    def _told(
        self, metric: Metric | PoolMetric, setting: Setting, encoder: str, model: str | None, details: Mapping[str, Any]
    ) -> Row:
        """What a plain ranking does not say."""
        return {
            "kind": metric.kind,
            "options": dict(setting.options),
            "gamma": setting.gamma,
            "post_features": str(self.fronts[0]),
            "post_states": str(self.fronts[1]),
            **self.pool.layers(encoder, model),
            "details": dict(details),
            "seed": self.request.seed,
        }

    def _row(self, metric: Any, setting: Setting, encoder: str, model: str | None, score: Score, inputs: Inputs) -> Row:
        request, options = self.request, setting.options
        spoken = None if metric.kind == "vision-only" else model  # the states have no say in a vision-only score
        adjusted = None if score.chance is None else overlap.adjusted(score.value, score.chance)
        shuffled = bool(request.null) and metric.kind == "cross-modal"
        warnings = list(score.warnings)
        if shuffled and not hangs_on_pairing(metric):
            shuffled = False
            warnings.append(f"{metric.name}: no null: which text belongs to which image has no say in this score")
        return {
            "encoder": self.pool.label("features", encoder),
            "model": None if model is None else self.pool.label("states", model),
            "metric": metric.name,
            "score": score.value,
            "chance": score.chance,
            "adjusted": adjusted,
            "n": len(inputs.items),
            "k": options.get("k"),
            "eps": options.get("eps"),
            "prenorm_features": None,
            "prenorm_states": None,
            "null": self._null(metric, setting, score, inputs) if shuffled else None,
            "interval": _interval(score, request.bootstrap, request.seed),
            "bootstrap": request.bootstrap,
            **self.pool.facts(encoder, spoken),
            "n_over_d": None,
            "share_below_eps": None,
            "cosine_spread": None,
            "warnings": warnings,
            **self.pool.mixture(encoder),
            **self._told(metric, setting, encoder, spoken, score.details),
        }

    def _null(self, metric: Any, setting: Setting, score: Score, inputs: Inputs) -> Row:
        """Scores under random pairings of images and texts; p is (1 + those that reach the score) / (1 + repeats)."""
        repeats, seed = self.request.null, self.request.seed
        generator = np.random.default_rng(seed)
        values = np.empty(repeats)
        for repeat in range(repeats):
            order = generator.permutation(len(inputs.items))
            shuffled = replace(
                inputs,
                states=None if inputs.states is None else inputs.states[order],
                captions=None if inputs.captions is None else inputs.captions[order],
            )
            values[repeat] = _checked(metric, metric.score(shuffled, setting.options, seed=seed)).value
        hits = int(np.count_nonzero(values >= score.value))
        sd = float(values.std(ddof=1)) if repeats > 1 else 0.0
        return {
            "mean": float(values.mean()),
            "sd": sd,
            "p": (1 + hits) / (1 + repeats),
            "repeats": repeats,
            "seed": seed,
        }


def _but_k(own: Sequence[Setting]) -> list[list[int]]:
    """Places of the settings that differ in k alone, together."""
    found: list[tuple[Setting, list[int]]] = []
    for place, setting in enumerate(own):
        bare = replace(setting, options={name: value for name, value in setting.options.items() if name != "k"})
        for known, places in found:
            if known == bare:
                places.append(place)
                break
        else:
            found.append((bare, [place]))
    return [places for _, places in found]


def _without_gamma(form: Form) -> Any:
    """The chain of a pooled form: γ says nothing to single rows, and equal graphs have equal keys."""
    return type(form.chain)(tuple(step for step in form.chain if step.kind != "image"))


def _note_strangers(sources: Sources, pool: Pool, report: Progress) -> None:
    """Tell of labels that belong to none of the items: of other data, or misspelt."""
    strangers = sorted(set(sources.labels or {}) - set(pool.items))
    if strangers:
        more = f" and {len(strangers) - _SHOWN} more" if len(strangers) > _SHOWN else ""
        report.note(
            f"labels: {len(strangers)} of {len(sources.labels or {})} ids are not among the {len(pool.items)} items: "
            f"{', '.join(strangers[:_SHOWN])}{more}"
        )


def _checked(metric: Any, score: Score) -> Score:
    """``score`` if it is a finite number; a metric that gives another is broken, which must not pass as a rank."""
    if not math.isfinite(score.value):
        raise metric_error(metric.name, f"its score is {score.value}, which is no number to rank by")
    return score


def _interval(score: Score, repeats: int, seed: int, level: float = 0.95) -> list[float] | None:
    """Percentile interval of the mean over items drawn with replacement."""
    if not repeats or score.per_item is None or not len(score.per_item):
        return None
    generator = np.random.default_rng(seed)
    values, count = score.per_item, len(score.per_item)
    means = np.array([values[generator.integers(0, count, count)].mean() for _ in range(repeats)])
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return [float(low), float(high)]
