"""The sections of an evaluation's page, each made of the evaluation's tables; None or empty where there is nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from optotype.pipelines.evaluation.caveats import FEW
from optotype.registry.report.evaluation import plots
from optotype.registry.report.evaluation.grids import grid
from optotype.registry.report.evaluation.verdict import against, fewest_held_out

__all__ = [
    "categories",
    "chronological",
    "end_to_end",
    "families",
    "held_out",
    "intervals",
    "left_out",
    "shelf_life",
    "spectrum",
    "variants",
]

Row = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]


def held_out(tables: Mapping[str, Rows], parameters: Mapping[str, Any]) -> Row | None:
    """Selectors on the random splits: a grid of means, curves, and a table for each retention."""
    rows = [row for row in tables.get("held_out_summary", []) if row["protocol"] == "held-out"]
    if not rows:
        return None
    splits = [row for row in tables["held_out_splits"] if row["protocol"] == "held-out"]
    baseline, fewest = parameters.get("baseline"), fewest_held_out(splits)
    marked = [{**row, "against": against(row, baseline, fewest)} for row in rows]
    span = plots.rho_limits(rows)
    by_selector = {
        name: sorted((row for row in rows if row["selector"] == name), key=lambda row: row["retention"])
        for name in parameters["selectors"]
    }
    curves = [
        {
            "selector": name,
            "plot": Markup(
                plots.curve_plot(name, own, by_selector.get(str(baseline), []), span, name=f"curve{number}")
            ),
        }
        for number, (name, own) in enumerate(by_selector.items())
        if own and (name != baseline or len(by_selector) == 1)
    ]
    tables_by_retention = [
        {
            "retention": retention,
            "rows": sorted(
                (row for row in marked if row["retention"] == retention),
                key=lambda row: (row["mean"] is None, -(row["mean"] or 0), row["selector"]),
            ),
            **_counted([row for row in splits if row["retention"] == retention]),
        }
        for retention in parameters["retentions"]
    ]
    return {
        "grid": grid(marked, parameters["selectors"], parameters["retentions"]),
        "curves": curves,
        "tables": tables_by_retention,
        "splits": len({row["split"] for row in splits}),
    }


def _counted(splits: Rows) -> Row:
    """Results of categories over all selectors and splits: how many there are, kept whole, or left out."""
    return {name: sum(row[name] for row in splits) for name in ("categories", "whole", "left_out")}


def categories(tables: Mapping[str, Rows], parameters: Mapping[str, Any]) -> list[Row]:
    """Mean ρ of each category, a table for each retention."""
    rows = [row for row in tables.get("held_out_categories", []) if row["protocol"] == "held-out"]
    found = []
    for retention in parameters["retentions"]:
        here = [row for row in rows if row["retention"] == retention]
        lines = []
        for category in dict.fromkeys(row["category"] for row in here):
            own = {row["selector"]: row for row in here if row["category"] == category}
            first = next(iter(own.values()))
            lines.append(
                {
                    "category": category,
                    "n": first["n"],
                    "K": first["K"],
                    "whole": first["whole"],
                    "left_out": max(row["left_out"] for row in own.values()),
                    "cells": [own.get(name) for name in parameters["selectors"]],
                }
            )
        if lines:
            found.append({"retention": retention, "lines": lines, "whole": sum(line["whole"] for line in lines)})
    return found


def chronological(tables: Mapping[str, Rows], parameters: Mapping[str, Any]) -> Row | None:
    """Selectors on the chronological split."""
    rows = [row for row in tables.get("held_out_splits", []) if row["protocol"] == "chronological"]
    if not rows:
        return None
    return {
        **grid(rows, parameters["selectors"], parameters["retentions"], "rho"),
        "held_out": fewest_held_out(rows),
        **_counted(rows),
    }


def end_to_end(tables: Mapping[str, Rows], parameters: Mapping[str, Any], order: Sequence[str]) -> list[Row]:
    """Selectors with all stages refitted, with stage 3 and without."""
    rows = tables.get("end_to_end_summary", [])
    found = []
    for stage_3 in (True, False):
        here = [row for row in rows if row["stage_3"] is stage_3]
        defined = any(row["mean"] is not None for row in here)
        if here:
            made = grid(here, order, parameters["retentions"], among=parameters["selectors"])
            reasons = tables.get("end_to_end", [])
            why = next((row["reason"] for row in reasons if stage_3 and row.get("reason")), None)
            found.append({"stage_3": stage_3, "defined": defined, "reason": why, **made})
    return found


def shelf_life(tables: Mapping[str, Rows]) -> Row | None:
    """A frozen subset of categories as the panel grows."""
    rows = tables.get("shelf_life", [])
    if not rows:
        return None
    growing = [row for row in rows if row["panel"] in ("oldest", "all dated")]
    drawn = sum(row["rho"] is not None for row in growing) > 1
    return {"rows": rows, "few": FEW, "plot": Markup(plots.shelf_plot(growing, name="shelf")) if drawn else None}


def left_out(tables: Mapping[str, Rows]) -> Row | None:
    """Errors of predicting each benchmark from the others, and their mean."""
    rows = tables.get("left_out", [])
    if not rows:
        return None
    sizes = sorted({row["training"] for row in rows})
    at = {(row["target"], row["training"]): row for row in rows}
    targets = list(dict.fromkeys(row["target"] for row in rows))
    whole = [target for target in targets if all((target, size) in at for size in sizes)]
    mean = [
        {
            "training": size,
            **{key: sum(at[target, size][key] for target in whole) / len(whole) for key in ("mae", "mae_of_mean")},
        }
        for size in sizes
        if whole
    ]
    return {
        "plot": Markup(plots.left_out_plot(rows, mean, name="leftout")),
        "sizes": sizes,
        "lines": [{"target": target, "cells": [at.get((target, size)) for size in sizes]} for target in targets],
        "mean": mean,
        "whole": len(whole),
        "targets": len(targets),
    }


def families(
    tables: Mapping[str, Rows], parameters: Mapping[str, Any], order: Sequence[str], main: float
) -> Row | None:
    """Shifts of left-out families, and agreement between families at one retention."""
    shifts = tables.get("leave_one_family_out_summary", [])
    pairs = tables.get("cross_family_agreement", [])
    if not shifts and not pairs:
        return None
    here = [row for row in pairs if row["retention"] == main or row["selector"] not in parameters["selectors"]]
    shown = [name for name in order if any(row["selector"] == name for row in here)]
    lines = []
    for pair in dict.fromkeys((row["family"], row["other"]) for row in here):
        own = {row["selector"]: row for row in here if (row["family"], row["other"]) == pair}
        lines.append({"pair": pair, "cells": [own.get(name) for name in shown]})
    turned = [{**row, "closeness": None if row["rank_shift"] is None else -row["rank_shift"]} for row in shifts]
    return {
        "shifts": grid(turned, parameters["selectors"], parameters["retentions"], "closeness"),
        "families": max((row["families"] for row in shifts), default=0),
        "selectors": shown,
        "lines": lines,
    }


def variants(tables: Mapping[str, Rows], parameters: Mapping[str, Any]) -> Row | None:
    """Selectors on sets of variants, and how stable these are."""
    rows = tables.get("variants_summary", [])
    if not rows:
        return None
    sets = list({row["set"]: row for row in tables["variants"]}.values())
    return {**grid(rows, parameters["selectors"], parameters["retentions"]), "sets": sets}


def intervals(tables: Mapping[str, Rows], parameters: Mapping[str, Any], main: float) -> list[Row]:
    """Bootstrap intervals of each split, and the difference to the baseline at one retention."""
    rows, baseline = tables.get("intervals", []), parameters.get("baseline")
    found: list[Row] = []
    for split in dict.fromkeys(row["split"] for row in rows):
        own = [row for row in rows if row["split"] == split]
        here = [row for row in own if row["retention"] == main]
        base = next((row["rho"] for row in here if row["selector"] == baseline), None)
        gaps = [
            {
                "selector": row["selector"],
                "gap": row["rho"] - base,
                "low": row[f"minus_{baseline}_low"],
                "high": row[f"minus_{baseline}_high"],
            }
            for row in here
            if base is not None and row["rho"] is not None and row.get(f"minus_{baseline}_low") is not None
        ]
        plot = plots.difference_plot(gaps, str(baseline), name=f"gap{len(found)}") if gaps else None
        lines = [
            {
                **row,
                "gap_low": row.get(f"minus_{baseline}_low"),
                "gap_high": row.get(f"minus_{baseline}_high"),
                "gap_above": row.get(f"minus_{baseline}_above_zero"),
            }
            for row in own
        ]
        lines.sort(key=lambda row: (row["retention"], row["rho"] is None, -(row["rho"] or 0), row["selector"]))
        found.append({"split": split, "models": own[0]["models"], "lines": lines, "plot": plot and Markup(plot)})
    return found


def spectrum(tables: Mapping[str, Rows], parameters: Mapping[str, Any], order: Sequence[str]) -> Row | None:
    """Spectra of all items and of what each selector keeps."""
    rows = tables.get("spectrum", [])
    if not rows:
        return None
    chosen = [row for row in rows if row["selector"] in parameters["selectors"] and not row.get("reason")]
    return {
        "whole": [row for row in rows if row["selector"] not in parameters["selectors"]],
        "grid": grid(chosen, order, parameters["retentions"], "participation_ratio", among=()),
    }
