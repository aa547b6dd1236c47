"""Rows of a ranking as sweeps: for each pair of encoders and each language model, score by mixture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["CSV_COLUMNS", "csv_rows", "sweeps", "verdict"]

Row = Mapping[str, Any]

CSV_COLUMNS = (
    "a",
    "b",
    "model",
    "mixture",
    "encoder",
    "alpha",
    "ssl_ratio",
    "score",
    "adjusted",
    "chance",
    "low",
    "high",
)


def sweeps(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Sweeps out of the rows that speak of mixtures, under the prenorms of the first row (the best).

    Returns
    -------
    list of dict
        Sorted by ``a``, ``b``, ``model``: these, ``n``, ``k``, ``chance``, ``prenorm_features``, ``prenorm_states``,
        ``additive`` (points by rising SSL ratio) and ``interleaved`` (a point or None). A point has ``encoder``,
        ``alpha``, ``ssl_ratio``, ``score``, ``adjusted``, ``low`` and ``high`` (of the bootstrap; None without one).
    """
    if not rows:
        return []
    norms = [(row["prenorm_features"], row["prenorm_states"]) for row in rows]
    mixed = [row for row, pair in zip(rows, norms, strict=True) if pair == norms[0] and row.get("mixture")]
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in mixed:
        groups.setdefault((row["mixture"]["a"], row["mixture"]["b"], row["model"]), []).append(row)
    made = []
    for (a, b, model), own in sorted(groups.items()):
        additive = [_point(row) for row in own if row["mixture"]["kind"] == "additive"]
        interleaved = [_point(row) for row in own if row["mixture"]["kind"] == "interleaved"]
        made.append(
            {
                "a": a,
                "b": b,
                "model": model,
                **{name: own[0][name] for name in ("n", "k", "chance", "prenorm_features", "prenorm_states")},
                "additive": sorted(additive, key=lambda point: (point["ssl_ratio"], point["encoder"])),
                "interleaved": interleaved[0] if interleaved else None,
            }
        )
    return made


def verdict(sweep: Mapping[str, Any]) -> str:
    """What the numbers of a sweep allow to say, in a sentence or two.

    A mixture is called better than both encoders only where its bootstrap interval lies above those of both; the
    intervals are of each score on its own, so this is careful.
    """
    points = [*sweep["additive"], *([sweep["interleaved"]] if sweep["interleaved"] else [])]
    ends = [point for point in sweep["additive"] if point["ssl_ratio"] in (0.0, 1.0)]
    best = max(points, key=lambda point: point["score"])
    name = f"SSL ratio {best['ssl_ratio']:g}" if best["ssl_ratio"] is not None else "interleaving"
    text = f"{sweep['model']}: the highest score is that of {name}, {best['score']:.4f}"
    if len(ends) < 2:
        return f"{text}; the two encoders alone are not both in the sweep."
    top = max(ends, key=lambda point: point["score"])
    alone = f"{sweep['a'] if top['ssl_ratio'] == 0 else sweep['b']} alone has {top['score']:.4f}"
    if best in ends:
        return f"{text}, one of the two encoders alone: no mixture is better."
    if best["low"] is None or top["high"] is None:
        return f"{text}; {alone}. Without intervals nothing says whether that is more than noise."
    clear = best["low"] > max(point["high"] for point in ends)
    said = "the intervals are apart" if clear else "the intervals overlap, so this ranking does not tell them apart"
    return f"{text}; {alone}: {said}."


def csv_rows(made: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row for each point, with the columns of `CSV_COLUMNS`."""
    return [
        {
            **{name: sweep[name] for name in ("a", "b", "model", "chance")},
            "mixture": kind,
            **{name: point[name] for name in ("encoder", "alpha", "ssl_ratio", "score", "adjusted", "low", "high")},
        }
        for sweep in made
        for kind, points in (("additive", sweep["additive"]), ("interleaved", [sweep["interleaved"]]))
        for point in points
        if point is not None
    ]


def _point(row: Row) -> dict[str, Any]:
    low, high = row["interval"] or (None, None)
    told = row["mixture"]
    return {
        "encoder": row["encoder"],
        "alpha": told["alpha"],
        "ssl_ratio": told["ssl_ratio"],
        "score": row["score"],
        "adjusted": row["adjusted"],
        "low": low,
        "high": high,
    }
