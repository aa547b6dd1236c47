"""The ranking report: ``ranking.html``, self-contained, and ``ranking.json`` with the same numbers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from optotype.registry.report.files import write_page
from optotype.registry.report.ranking import plots
from optotype.registry.report.ranking.examples import choose_items, neighbour_examples
from optotype.registry.report.ranking.inputs import Graph, Inputs, gather, whitened_patches
from optotype.registry.report.ranking.page import render
from optotype.registry.report.ranking.patch_match import PatchMatch, match_patches, square_side
from optotype.registry.report.ranking.rows import (
    COMBINATIONS,
    combination,
    main_combination,
    read_rows,
    tables,
    ties,
    warning_groups,
)
from optotype.registry.report.ranking.thumbnails import make_thumbnails, read_rgb
from optotype.schemas.errors import UsageError
from optotype.store.project import Project

__all__ = ["write_ranking_report"]

_FORMAT_VERSION = 1
_POINTS = 160  # of a spectrum; more cannot be told apart at the width of a plot


def write_ranking_report(
    ranking: Path | Sequence[Mapping[str, Any]],
    project: Project,
    pairs: Path,
    out: Path,
    *,
    title: str = "Vision encoders ranked by RAVEL",
    examples: int = 3,
    shown: int = 5,
    seed: int = 0,
    scheduler: str = "threads",
) -> dict[str, Any]:
    """Write ``out/ranking.html`` and ``out/ranking.json``; both or neither.

    Parameters
    ----------
    ranking : Path or sequence of mappings
        Rows as `optotype.pipelines.rank.rank` gives them, or a JSON file that holds them. They may cover
        several combinations of row normalisation: the default one (features none, states l2) is ranked, all
        are compared.
    project : Project
        Holds the arrays that the rows name, and their neighbour graphs (computed where missing).
    pairs : Path
        Table of the items with columns id, image (a path relative to the table) and text.
    out : Path
        A folder, made if missing.
    title : str
        Heading of the page.
    examples : int
        Items whose neighbours are shown, at least 1, drawn with ``seed``.
    shown : int
        Neighbours shown per list, at least 1.
    seed : int
        Of the choice of examples.
    scheduler : str
        Where missing graphs are computed: ``threads``, ``processes`` or an address.

    Returns
    -------
    dict
        ``html`` and ``json`` (paths as strings), ``rows``, ``encoders``, ``models``, ``warnings`` (counts).
        The files hold no clock, path or random id: the same input gives the same bytes.

    Raises
    ------
    UsageError
        ``examples`` or ``shown`` below 1.
    NotFoundError, FormatError
        No ranking there, or not one.
    InvalidDataError
        Lists every problem of the rows, the arrays and the pairs, missing images among them.
    """
    for name, value in (("examples", examples), ("shown", shown)):
        if value < 1:
            raise UsageError(f"{name} is a number from 1 on, got {value}")
    rows = read_rows(ranking)
    main = main_combination(rows)
    ranked = tables(rows, main)
    main_rows = [row for table in ranked.values() for row in table]
    inputs = gather(main_rows, project, Path(pairs), scheduler=scheduler)
    items = choose_items(len(inputs.ids), examples, seed)
    order = _encoder_order(ranked)
    match, place = _match(inputs, order, items, main_rows[0])

    document: dict[str, Any] = {
        "format_version": _FORMAT_VERSION,
        "kind": "ranking-report",
        "title": title,
        "seed": seed,
        "summary": _summary(rows, main_rows, main),
        "rows": rows,
        "tables": [_table(model, table) for model, table in ranked.items()],
        "warnings": warning_groups(main_rows),
        "other_warnings": warning_groups([row for row in rows if combination(row) != main]),
        "examples": [
            {
                "encoder": encoder,
                "items": neighbour_examples(
                    inputs.ids, inputs.pairs.texts, inputs.encoders[encoder], inputs.models, items, shown=shown
                ),
            }
            for encoder in order
        ],
        "spectra": {
            "features": {name: _spectrum(inputs.encoders[name]) for name in order},
            "states": {name: _spectrum(graph) for name, graph in inputs.models.items()},
        },
        "patch_match": _match_document(match, place, inputs) if match else None,
        "reproduce": {"commands": _commands(rows, main_rows, main, inputs), "arrays": _arrays(main_rows)},
    }
    pictured = [near["id"] for group in document["examples"] for item in group["items"] for near in _pictured(item)]
    thumbnails = make_thumbnails(inputs.pairs.paths, pictured + list(match.items if match else ()))
    page = render(document, _figures(document, rows, main, match, inputs, order), thumbnails)
    html, numbers = write_page(Path(out), "ranking", page, document)
    return {
        "html": str(html),
        "json": str(numbers),
        "rows": len(rows),
        "encoders": len(order),
        "models": len(ranked),
        "warnings": len(document["warnings"]),
    }


def _pictured(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """An example and all its neighbours, in the order of the page."""
    return [item, *item["visual"], *(near for side in item["textual"] for near in side["neighbours"])]


def _encoder_order(ranked: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Encoders by their mean score over the language models, best first, then by name."""
    scores: dict[str, list[float]] = {}
    for table in ranked.values():
        for row in table:
            scores.setdefault(row["encoder"], []).append(row["score"])
    return sorted(scores, key=lambda name: (-sum(scores[name]) / len(scores[name]), name))


def _summary(
    rows: Sequence[Mapping[str, Any]], main_rows: Sequence[Mapping[str, Any]], main: tuple[str, str]
) -> dict[str, Any]:
    first = main_rows[0]
    nulls = {row["null"].get("repeats") for row in main_rows if row["null"]}
    return {
        "metric": first["metric"],
        "n": first["n"],
        "k": first["k"],
        "eps": first["eps"],
        "chance": first["chance"],
        "prenorm_features": main[0],
        "prenorm_states": main[1],
        "combinations": [list(wanted) for wanted in COMBINATIONS if any(combination(row) == wanted for row in rows)],
        "encoders": sorted({row["encoder"] for row in main_rows}),
        "models": sorted({row["model"] for row in main_rows}),
        "features_dtypes": sorted({str(row.get("features_dtype", "unknown")) for row in main_rows}),
        "states_dtypes": sorted({str(row.get("states_dtype", "unknown")) for row in main_rows}),
        "features_digests": sorted({row["features_digest"] for row in main_rows}),
        "states_digests": sorted({row["states_digest"] for row in main_rows}),
        "null_repeats": max((repeats for repeats in nulls if repeats), default=0),
        "intervals": sum(row["interval"] is not None for row in main_rows),
    }


def _table(model: str, table: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    marks = ties(table)
    rows = [
        {"place": place, "encoder": row["encoder"], "score": row["score"], "against_best": mark}
        for place, (row, mark) in enumerate(zip(table, marks, strict=True), start=1)
    ]
    return {"model": model, "rows": rows}


def _spectrum(graph: Graph) -> dict[str, Any]:
    """Both spectra over the kept directions; those that were dropped have variance 0 afterwards."""
    kept = int((graph.whitened_variance > 0).sum())
    return {
        "channels": int(graph.eigenvalues.size),
        "before": _points(graph.eigenvalues[:kept]),
        "after": _points(graph.whitened_variance[:kept]),
    }


def _points(values: np.ndarray) -> dict[str, Any]:
    """At most `_POINTS` of a descending spectrum, the first 20 and the last among them; directions count from 1."""
    kept = values.size
    even = np.linspace(20, kept - 1, _POINTS - 20) if kept > _POINTS else np.arange(kept)
    index = np.unique(np.concatenate([np.arange(min(20, kept)), np.round(even).astype(np.int64)]))
    return {
        "directions": kept,
        "index": (index + 1).tolist(),
        "variance": [float(f"{values[position]:.6g}") for position in index],
    }


def _match(
    inputs: Inputs, order: Sequence[str], items: Sequence[int], row: Mapping[str, Any]
) -> tuple[PatchMatch | None, int]:
    """The patch match of the first example and its nearest visual neighbour, for the best encoder with square grids.

    Also the place (1 = nearest) of that neighbour: grids that are not square are passed over.
    """
    for encoder in order:
        dataset = inputs.arrays[encoder]
        position = {str(item): index for index, item in enumerate(dataset["image"].values.tolist())}
        row_size = np.asarray(dataset["row_size"].values)
        for item in items:
            for place, other in enumerate(inputs.encoders[encoder].neighbours[item].tolist(), start=1):
                pair = (inputs.ids[item], inputs.ids[other])
                where = (position[pair[0]], position[pair[1]])
                if any(square_side(int(row_size[index])) is None for index in where):
                    continue
                a, b = whitened_patches(
                    dataset, inputs.ids, pair, eps=float(row["eps"]), prenorm=row["prenorm_features"]
                )
                return match_patches(encoder, pair, a, b), place
    return None, 0


def _match_document(match: PatchMatch, place: int, inputs: Inputs) -> dict[str, Any]:
    return {
        "encoder": match.encoder,
        "items": list(match.items),
        "texts": [inputs.pairs.texts[item] for item in match.items],
        "place": place,
        "grids": list(match.grids),
        "chamfer": round(match.chamfer, 9),
        "best_of_a": match.best_of_a.tolist(),
        "best_of_b": match.best_of_b.tolist(),
        "similarity_of_a": match.best_a.tolist(),
        "similarity_of_b": match.best_b.tolist(),
    }


def _arrays(main_rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    arrays = {}
    for kind, column in (("features", "encoder"), ("states", "model")):
        for row in sorted(main_rows, key=lambda row: str(row[column])):
            arrays[kind, row[column]] = {
                "name": str(row[column]),
                "kind": kind,
                "dtype": str(row.get(f"{kind}_dtype", "unknown")),
                "digest": str(row[f"{kind}_digest"]),
            }
    return list(arrays.values())


def _commands(
    rows: Sequence[Mapping[str, Any]], main_rows: Sequence[Mapping[str, Any]], main: tuple[str, str], inputs: Inputs
) -> list[str]:
    first = main_rows[0]
    words = ["optotype rank"]
    words += [f"--features {shlex.quote(name)}" for name in sorted(inputs.encoders)]
    words += [f"--states {shlex.quote(name)}" for name in sorted(inputs.models)]
    words.append(f"--metric {first['metric']} -k {first['k']} --eps {first['eps']:g}")
    if len({combination(row) for row in rows}) > 1:
        words.append("--all-prenorms")
    else:
        words.append(f"--prenorm-features {main[0]} --prenorm-states {main[1]}")
    null = next((row["null"] for row in main_rows if row["null"]), None)
    if null:
        words.append(f"--null {null.get('repeats')} --seed {null.get('seed')}")
    if any(row["interval"] for row in main_rows):
        words.append(f"--bootstrap {first.get('bootstrap', 'RESAMPLES')}")
    if any(int(dataset.sizes["image"]) != int(first["n"]) for dataset in inputs.arrays.values()):
        words.append("--common")
    words.append("--out RANKING")
    report = "optotype report ranking --ranking RANKING/ranking.json --pairs PAIRS.csv --out REPORTS"
    return [" \\\n    ".join(words), report]


def _figures(
    document: Mapping[str, Any],
    rows: Sequence[dict[str, Any]],
    main: tuple[str, str],
    match: PatchMatch | None,
    inputs: Inputs,
    order: Sequence[str],
) -> dict[str, Any]:
    """Every plot of the page as inline SVG."""
    ranked = tables(rows, main)
    figures: dict[str, Any] = {"scores": {}, "combinations": {}, "spectra": {"features": {}, "states": {}}}
    for number, (model, table) in enumerate(ranked.items()):
        figures["scores"][model] = plots.score_plot(model, table, ties(table), name=f"score{number}")
    if len(document["summary"]["combinations"]) > 1:
        for number, (model, table) in enumerate(ranked.items()):
            encoders = [row["encoder"] for row in table]
            these = [row for row in rows if row["model"] == model and row["encoder"] in encoders]
            figures["combinations"][model] = plots.combination_plot(model, encoders, these, name=f"norm{number}")
    eps = document["summary"]["eps"]
    for kind in ("features", "states"):
        for number, (name, spectrum) in enumerate(document["spectra"][kind].items()):
            before, after = spectrum["before"], spectrum["after"]
            label = (
                f"Spectrum of {name}: variance of {before['directions']} directions, {_ends(before)} before whitening "
                f"and {_ends(after)} after; ε is {eps:g}."
            )
            figures["spectra"][kind][name] = plots.spectrum_plot(
                (before["index"], before["variance"]),
                (after["index"], after["variance"]),
                eps,
                name=f"{kind}{number}",
                label=label,
            )
    if match:
        images = (read_rgb(inputs.pairs.paths[match.items[0]]), read_rgb(inputs.pairs.paths[match.items[1]]))
        figures["patch"] = {
            "lines": plots.line_plot(match, images, name="lines"),
            "paint": plots.paint_plot(match, images, name="paint"),
            "heat": plots.heat_plot(match, name="heat"),
            "cropped": any(_far_from_square(image) for image in images),
        }
    return figures


def _far_from_square(image: Image.Image) -> bool:
    return abs(image.width - image.height) > 0.02 * max(image.size)


def _ends(points: Mapping[str, Any]) -> str:
    return f"{points['variance'][0]:.3g} down to {points['variance'][-1]:.3g}"
