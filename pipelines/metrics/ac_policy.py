"""AC policy: downstream scores predicted from alignment and correspondence by a quadratic fitted on other encoders."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.one_thread import one_thread
from optotype.pipelines.metrics.alignment_probing import AlignmentProbing
from optotype.pipelines.metrics.keypoints import correspondence
from optotype.pipelines.metrics.metric import (
    Inputs,
    Kind,
    Need,
    Option,
    Refusal,
    Score,
    checked_options,
    metric_error,
)
from optotype.schemas.errors import InvalidDataError, Problem, UsageError
from optotype.store.checks import limited
from optotype.store.dataset import read_table

__all__ = ["COEFFICIENTS", "AcPolicy", "predict", "read_scores"]

COEFFICIENTS = 6
"""Of 1, A, C, A², AC, C²."""

Pair = tuple[str, str]


class AcPolicy:
    """Downstream score that a quadratic in A and C predicts for an encoder, fitted on all *others*.

    For each language model and each encoder e: over the other encoders with A, C and a downstream score, A and C are
    scaled to [0, 1] by their smallest and largest, and the score is regressed on 1, A, C, A², AC, C² (scikit-learn,
    least squares). The prediction at e's own A and C is its score. Neither the scaling nor the fit sees e, so its own
    downstream score moves nothing of it (Yang et al. 2025, with leave-one-encoder-out in the place of their sampling).

    A and C are of the table ``--set ac-policy.table=FILE`` (columns ``encoder, model, a, c``; rows of encoders that are
    not ranked help to fit if they have a downstream score), or A is the R@1 of `AlignmentProbing` with its default
    options and C is `optotype.pipelines.metrics.keypoints.correspondence` of ``--keypoints``.

    With fewer than 6 training encoders the quadratic is not determined and the metric refuses, unless
    ``--set ac-policy.ridge=λ`` asks for a penalty of λ times the squared coefficients (the constant's left out), which
    takes 2 or more. With fewer than 12 a warning says that the fit is loose. A prediction outside the range of the
    training A and C is an extrapolation and says so.

    Chosen where the definition is silent: A (the paper's is the cosine to CLIP's embedding after projector training,
    which does not exist for every language model), the refusal, and ridge only if asked for. Scores are in the unit of
    the downstream scores; ``mean_of_others`` in ``details`` is what one would say without A and C.

    FLOPs: those of alignment probing for A, 2·M·d for each keypoint (M patches of d channels) for C; the fits are
    negligible. The downstream scores, which cost most, are not counted.
    """

    name = "ac-policy"
    kind: Kind = "trains"
    needs: frozenset[Need] = frozenset({"states", "downstream"})
    over_pool: Literal[True] = True
    options: Mapping[str, Option] = MappingProxyType(
        {
            "table": Option(None, str, "table encoder, model, a, c in the place of computed scores"),
            "ridge": Option(0.0, float, "penalty of the regression; 0 is least squares", minimum=0.0),
            "alpha": Option(0.1, float, "a keypoint is found within this part of the image's sides", minimum=0.001),
            "grid": Option("", str, "ROWSxCOLUMNS of patches, for features that do not say"),
        }
    )
    source = "AC policy (Yang et al. 2025, Law of Vision Representation in MLLMs)"

    def scores(self, pool: Sequence[Inputs], options: Mapping[str, Any], *, seed: int) -> list[Score | Refusal]:
        """See the class.

        Raises
        ------
        UsageError
            No downstream scores, or neither a table nor keypoints.
        NotFoundError, FormatError, InvalidDataError
            The table, or an encoder's rows.
        """
        downstream = next((inputs.downstream for inputs in pool if inputs.downstream is not None), None)
        if downstream is None:
            raise metric_error(self.name, "it needs downstream scores to be fitted on", "Give --downstream TABLE.")
        _check_downstream(self.name, downstream)
        if options["table"] is not None:
            measured: Mapping[Pair, tuple[float, float] | Refusal] = read_scores(options["table"])
            details: dict[Pair, dict[str, Any]] = {}
        else:
            measured, details = self._measured(pool, options, seed)
        return [self._score(inputs, measured, downstream, options, details) for inputs in pool]

    def _measured(
        self, pool: Sequence[Inputs], options: Mapping[str, Any], seed: int
    ) -> tuple[dict[Pair, tuple[float, float] | Refusal], dict[Pair, dict[str, Any]]]:
        """A and C of every member of the pool; C once for each encoder."""
        probing = AlignmentProbing()
        settings = checked_options(probing)
        measured: dict[Pair, tuple[float, float] | Refusal] = {}
        details: dict[Pair, dict[str, Any]] = {}
        found: dict[str, Any] = {}
        for inputs in pool:
            if inputs.keypoints is None:
                raise metric_error(
                    self.name,
                    "it needs keypoints for the correspondence score C, or a table of A and C",
                    "Give --keypoints TABLE, or --set ac-policy.table=FILE (columns encoder, model, a, c).",
                )
            key = _key(inputs)
            try:
                if inputs.encoder not in found:
                    with one_thread():
                        found[inputs.encoder] = correspondence(
                            inputs.features, inputs.keypoints, alpha=options["alpha"], grid=options["grid"]
                        )
                c = found[inputs.encoder]
                a = probing.score(inputs, settings, seed=seed)
            except UsageError as error:
                measured[key] = Refusal(error.message, error.hint)
                continue
            measured[key] = (a.value, c.value)
            details[key] = {
                "pairs": c.pairs,
                "points": c.points,
                "points_left_out": c.left_out,
                "alpha": options["alpha"],
            }
        return measured, details

    def _score(
        self,
        inputs: Inputs,
        measured: Mapping[Pair, tuple[float, float] | Refusal],
        downstream: Mapping[Pair, float],
        options: Mapping[str, Any],
        details: Mapping[Pair, Mapping[str, Any]],
    ) -> Score | Refusal:
        encoder, model = key = _key(inputs)
        own = measured.get(key)
        if own is None:
            return Refusal(
                f"metric {self.name}: the table {options['table']} has no row for encoder {encoder}, model {model}",
                "Add it, or leave the encoder out.",
            )
        if isinstance(own, Refusal):
            return own
        known = {
            name: scores
            for (name, of), scores in measured.items()
            if of == model and name != encoder and (name, of) in downstream and not isinstance(scores, Refusal)
        }
        names = sorted(known)
        least, ridge = (2 if options["ridge"] > 0 else COEFFICIENTS), options["ridge"]
        if len(names) < least:
            more = "" if ridge else f", or --set {self.name}.ridge=0.1 for a penalised fit of 2 or more"
            return Refusal(
                f"metric {self.name}: {least} other encoders with a downstream score for {model} are the least that it "
                f"is fitted on; {encoder} has {len(names)}",
                f"Rank more encoders, add rows to the table of downstream scores{more}.",
            )
        training = np.array([known[name] for name in names], dtype=np.float64)
        targets = np.array([downstream[name, model] for name in names], dtype=np.float64)
        value, outside = predict(training, targets, np.array(own, dtype=np.float64), ridge)
        notes = []
        if not ridge and len(names) < 2 * COEFFICIENTS:
            notes.append(f"{COEFFICIENTS} coefficients are fitted on {len(names)} encoders: the prediction is loose")
        if outside:
            notes.append(f"{encoder} lies outside the {' and '.join(outside)} of the encoders it is predicted from")
        return Score(
            value,
            details={
                "a": own[0],
                "c": own[1],
                "training_encoders": names,
                "mean_of_others": float(targets.mean()),
                "ridge": ridge,
                "from_table": options["table"] is not None,
                **details.get(key, {}),
            },
            warnings=tuple(notes),
        )


def predict(
    training: NDArray[np.float64], targets: NDArray[np.float64], own: NDArray[np.float64], ridge: float
) -> tuple[float, list[str]]:
    """Quadratic of ``training`` at ``own``.

    Parameters
    ----------
    training : ndarray (m, 2) float64
        A and C of the training encoders. One that does not vary is taken as 0.
    targets : ndarray (m,) float64
    own : ndarray (2,) float64
    ridge : float
        0 is least squares; where that has several solutions, the one of least norm.

    Returns
    -------
    float
        Rounded to 12 significant digits.
    list of str
        Which of ``"A"`` and ``"C"`` is outside the training range.
    """
    from sklearn.linear_model import LinearRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures

    low, high = training.min(axis=0), training.max(axis=0)
    outside = [name for name, at, a, b in zip("AC", own, low, high, strict=True) if not a <= at <= b]
    model = make_pipeline(
        MinMaxScaler(),
        PolynomialFeatures(2, include_bias=False),
        Ridge(alpha=ridge, solver="cholesky") if ridge > 0 else LinearRegression(),
    )
    with one_thread():
        value = float(model.fit(training, targets).predict(own[np.newaxis])[0])
    return float(f"{value:.12g}"), outside


def read_scores(path: str | Path) -> dict[Pair, tuple[float, float]]:
    """A and C of a table with the columns ``encoder, model, a, c``.

    Raises
    ------
    NotFoundError, FormatError
        No table, or not a readable one.
    InvalidDataError
        Every problem: missing columns, blank names, repeats, numbers that are none.
    """
    scores: dict[Pair, tuple[float, float]] = {}
    problems = []
    for number, row in enumerate(read_table(Path(path), ["encoder", "model", "a", "c"])):
        encoder, model = (str(row[column] or "").strip() for column in ("encoder", "model"))
        if not encoder or not model:
            problems.append(Problem(f"row {number}", "blank", "encoder or model is blank"))
        values = []
        for column in ("a", "c"):
            try:
                values.append(float(row[column]))
            except (TypeError, ValueError):
                values.append(math.nan)
            if not math.isfinite(values[-1]):
                problems.append(Problem(f"{column}[{number}]", "not-finite", f"{row[column]!r} is not a finite number"))
        if (encoder, model) in scores:
            problems.append(Problem(f"row {number}", "repeat", f"{encoder} and {model} have a row already"))
        scores[encoder, model] = (values[0], values[1])
    if not scores:
        problems.append(Problem("encoder", "empty", "the table has no rows"))
    if problems:
        raise InvalidDataError(f"{path} refused:", limited(problems))
    return scores


def _key(inputs: Inputs) -> Pair:
    return inputs.encoder, inputs.model or ""


def _check_downstream(name: str, downstream: Mapping[Pair, float]) -> None:
    problems = [
        Problem(f"{encoder}, {model}", "not-finite", f"its downstream score is {value!r}")
        for (encoder, model), value in sorted(downstream.items())
        if not math.isfinite(value)
    ]
    if problems:
        raise InvalidDataError(f"metric {name}: downstream scores are finite numbers", limited(problems))
