"""Picks the items of a suite out of a task's data set, by their stable ids; fails loudly where one is missing.

A copy of this file stands beside every exported task and is loaded by lmms-eval from there, so it needs nothing but the
standard library. What it picks is in ``suite.json`` beside it.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
_SHOWN = 5


def pick(dataset: Any) -> Any:
    """The rows of the suite, in its order; ``process_docs`` of the base task runs first.

    Splits that are not evaluated are left as the base task has them.

    Raises
    ------
    ValueError
        No column holds all ids, or an id stands in several rows.
    """
    plan = json.loads((_HERE / "suite.json").read_text(encoding="utf-8"))
    base = _base(plan["include"])
    process = base.get("process_docs")
    if callable(process):
        dataset = process(dataset)
    split, evaluated = getattr(dataset, "split", None), base.get("test_split") or base.get("validation_split")
    if split is not None and evaluated is not None and str(split) != str(evaluated):
        return dataset
    return dataset.select(_positions(dataset, plan))


def no_images(doc: Any, lmms_eval_specific_kwargs: Any = None) -> list[Any]:
    """The images of a blind run: none."""
    return []


def _base(include: str) -> dict[str, Any]:
    """The base task's settings; empty where lmms-eval is not there to read them."""
    try:
        harness = import_module("lmms_eval.utils")
    except ImportError:
        return {}
    found: dict[str, Any] = harness.load_yaml_config(yaml_path=str(_HERE / include), mode="full")
    return found


def _positions(dataset: Any, plan: dict[str, Any]) -> list[int]:
    wanted = plan["ids"]
    columns = [name for name in plan["columns"] if name in dataset.column_names]
    best: tuple[int, str, list[str]] = (-1, "", wanted)
    for column in columns:
        places: dict[str, list[int]] = {}
        for row, value in enumerate(dataset[column]):
            places.setdefault(_text(value), []).append(row)
        missing = [each for each in wanted if each not in places]
        if not missing:
            twice = [each for each in wanted if len(places[each]) > 1]
            if twice:
                raise ValueError(
                    f"{plan['task']}: {len(twice)} ids of {plan['suite']} stand in several rows of the data set, in "
                    f"column {column!r}: {', '.join(twice[:_SHOWN])}"
                )
            return [places[each][0] for each in wanted]
        best = max(best, (len(wanted) - len(missing), column, missing), key=lambda entry: entry[0])
    _, column, missing = best
    tried = f"columns tried: {', '.join(columns)}" if columns else f"none of the columns {', '.join(plan['columns'])}"
    by = f", by column {column!r}" if column else ""
    raise ValueError(
        f"{plan['task']}: {len(missing)} of {len(wanted)} items of {plan['suite']} are not in the data set ({tried}; "
        f"it has {', '.join(dataset.column_names)}). Missing{by}: {', '.join(missing[:_SHOWN])}. Is "
        "it another revision or split? optotype export --id-column names the column that holds the ids."
    )


def _text(value: Any) -> str:
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
