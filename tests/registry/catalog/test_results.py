"""Tables of rankings: of ravel alone, of several metrics, of several settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from payloads import make_ranking

from optotype.registry.catalog.results import result_tables
from optotype.registry.rankings import write_ranking


def row(encoder: str, model: str | None, metric: str, score: float, **more: Any) -> dict[str, Any]:
    known = {
        "encoder": encoder,
        "model": model,
        "metric": metric,
        "score": score,
        "chance": 0.25,
        "adjusted": (score - 0.25) / 0.75,
        "n": 400,
        "k": 100,
        "eps": 1e-4,
        "prenorm_features": "none",
        "prenorm_states": "l2",
        "null": None,
        "interval": None,
        "bootstrap": 0,
        "features_digest": "sha256:" + "ab" * 32,
        "states_digest": "sha256:" + "ee" * 32,
        "warnings": [],
    }
    return {**known, **more}


def told(encoder: str, model: str | None, metric: str, score: float, **more: Any) -> dict[str, Any]:
    """A row of a ranking by any metrics or settings."""
    known = {"kind": "cross-modal", "gamma": 1.0, "post_features": "none", "post_states": "none", "options": {}}
    return row(encoder, model, metric, score, **{**known, "details": {}, "seed": 0, **more})


BARE: dict[str, Any] = {
    "kind": "vision-only",
    **dict.fromkeys(("k", "eps", "gamma", "prenorm_features", "prenorm_states", "chance", "adjusted")),
}


def tables(folder: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    write_ranking(rows, folder)
    return result_tables("ranking", folder)


def ranks(table: dict[str, Any]) -> list[tuple[int, str, float]]:
    return [(entry["rank"], entry["name"], entry["score"]) for entry in table["rows"]]


def test_ravel_alone(tmp_path: Path) -> None:
    (table,) = result_tables("ranking", make_ranking(tmp_path / "one", {"vit": 0.5, "cnn": 0.25, "mlp": 0.5}))
    assert table["title"] == "lm"
    assert table["note"] == "400 items, 100 neighbours; features none, states l2 as row norm."
    assert ranks(table) == [(1, "mlp", 0.5), (1, "vit", 0.5), (3, "cnn", 0.25)]
    rows = [row("vit", "lm", "ravel", 0.75, prenorm_features="l2"), row("vit", "lm", "ravel", 0.5)]
    (table,) = tables(tmp_path / "two", rows)
    assert ranks(table) == [(1, "vit", 0.5)]
    assert table["note"].endswith("features none, states l2 as row norm. 1 other row norm in ranking.json.")


def test_several_metrics_show_the_first_and_count_the_others(tmp_path: Path) -> None:
    rows = [
        *(told(encoder, model, "ravel", 0.5) for encoder in ("vit", "cnn") for model in ("lm", "other")),
        *(told(encoder, "lm", "linear-probing", 0.9, **BARE) for encoder in ("vit", "cnn")),
    ]
    first, second = tables(tmp_path, rows)
    assert (first["title"], second["title"]) == ("lm, by ravel", "other, by ravel")
    assert ranks(first) == [(1, "cnn", 0.5), (1, "vit", 0.5)]
    assert first["note"] == (
        "400 items, 100 neighbours; features none, states l2 as row norm. 1 other metric or setting in ranking.json."
    )


def test_a_metric_without_models_neighbours_or_norms(tmp_path: Path) -> None:
    rows = [told("vit", None, "linear-probing", 0.9, **BARE), told("cnn", None, "linear-probing", 0.8, **BARE)]
    (table,) = tables(tmp_path, rows)
    assert (table["title"], table["note"], table["chance"]) == ("linear-probing", "400 items.", None)
    assert ranks(table) == [(1, "vit", 0.9), (2, "cnn", 0.8)]


def test_a_sweep_shows_the_defaults(tmp_path: Path) -> None:
    rows = [
        told("vit", "lm", "ravel", 0.5 - 0.001 * k - 0.1 * gamma, k=k, gamma=gamma, n=n, prenorm_features=norm)
        for k in (50, 100, 150)
        for gamma in (0.0, 1.0)
        for n in (90, 400)
        for norm in ("none", "l2")
    ]
    (table,) = tables(tmp_path, rows)
    assert table["title"] == "lm, by ravel"
    assert ranks(table) == [(1, "vit", 0.5 - 0.001 * 100 - 0.1 * 1.0)]
    assert table["note"] == (
        "400 items, 100 neighbours; features none, states l2 as row norm. 23 other metrics or settings in ranking.json."
    )
