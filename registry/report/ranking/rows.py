"""The rows of a ranking: read, checked, and put in the order in which a report shows them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from optotype.schemas.documents import parse_document
from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, Problem

__all__ = ["COMBINATIONS", "combination", "main_combination", "read_rows", "tables", "ties", "warning_groups"]

COMBINATIONS = (("none", "l2"), ("none", "none"), ("l2", "l2"), ("l2", "none"))
"""(prenorm of features, prenorm of states), the default first."""

_TEXT = ("encoder", "model", "metric", "prenorm_features", "prenorm_states", "features_digest", "states_digest")
_NUMBERS = ("score", "chance", "adjusted", "n", "k", "eps")
_NEWEST = 1  # format_version of a document of rows, such as the ranking.json of a report
_SIDES = ("n_over_d", "share_below_eps")


def _finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def read_rows(ranking: Path | Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of ``ranking``, a list as `rank` gives it or a JSON file that holds one; best score first.

    Raises
    ------
    NotFoundError
        No such file.
    FormatError
        Not JSON, or neither a list of objects nor a document whose ``rows`` is one.
    InvalidDataError
        Lists every missing or non-finite value, every pair scored twice in the same way, and values of n, k
        or eps that differ between rows: a report shows one ranking.
    """
    if isinstance(ranking, (str, Path)):
        try:
            found = json.loads(Path(ranking).read_bytes())
        except FileNotFoundError as error:
            raise NotFoundError(f"no ranking at {ranking}", hint="Make one: optotype rank ... --out DIR") from error
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{ranking}: not JSON ({error})") from error
        if isinstance(found, dict):
            found = parse_document(json.dumps(found), kind="ranking", where=str(ranking), newest=_NEWEST).get("rows")
    else:
        found = list(ranking)
    if not isinstance(found, list) or not found or not all(isinstance(row, Mapping) for row in found):
        raise FormatError(
            "a ranking is a list of at least one object, or a document whose 'rows' is one",
            hint="Make one: optotype rank ... --json",
        )
    rows = [dict(row) for row in _plain(found)]
    problems: list[Problem] = []
    seen: dict[tuple[object, ...], int] = {}
    for position, row in enumerate(rows):
        where = f"rows[{position}]"
        problems += [
            Problem(where, "value-missing", f"{name} is a string, got {row.get(name)!r}")
            for name in _TEXT
            if not isinstance(row.get(name), str) or not row[name]
        ]
        problems += [
            Problem(where, "value-missing", f"{name} is a finite number, got {row.get(name)!r}")
            for name in _NUMBERS
            if not _finite(row.get(name))
        ]
        for name in _SIDES:
            sides = row.get(name)
            if not isinstance(sides, Mapping) or not all(_finite(sides.get(side)) for side in ("features", "states")):
                message = f"{name} is an object of two numbers, features and states, got {sides!r}"
                problems.append(Problem(where, "value-missing", message))
        key = (row.get("encoder"), row.get("model"), row.get("metric"), *combination(row))
        if key in seen:
            problems.append(Problem(where, "duplicate-row", f"the same as rows[{seen[key]}]: {key}"))
        seen.setdefault(key, position)
    for name in ("metric", "n", "k", "eps"):
        values = sorted({str(row.get(name)) for row in rows})
        if len(values) > 1:
            problems.append(Problem("rows", "mixed-values", f"one {name} for all rows, got {', '.join(values)}"))
    if problems:
        raise InvalidDataError(f"this ranking has {len(problems)} problems", problems)
    for row in rows:
        row["interval"] = _interval(row.get("interval"))
        row["null"] = row.get("null") or None
        row["warnings"] = [str(warning) for warning in row.get("warnings") or ()]
    return sorted(rows, key=lambda row: (-row["score"], row["encoder"], row["model"], *combination(row)))


def _plain(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Of rows by several metrics or under several settings those that this report is about.

    That is RAVEL without post-processing, over the most items, and of k, ε and γ under the default if it is there.

    Raises
    ------
    InvalidDataError
        There are none.
    """
    from optotype.registry.rankings import main_rows

    if not any("kind" in row for row in rows):
        return rows
    plain = [row for row in rows if row.get("metric") == "ravel" and row.get("gamma") in (None, 1)]
    plain = [row for row in plain if {row.get("post_features"), row.get("post_states")} <= {None, "none"}]
    if not plain:
        raise InvalidDataError(
            "This ranking holds nothing that the report shows",
            [Problem("rows", "no-plain-row", f"none of {len(rows)} is by ravel on features and states as they are")],
            hint="Rank by ravel: optotype rank ... --metric ravel --out DIR; other metrics are compared by "
            "optotype report judgement",
        )
    return main_rows(plain, each_prenorm=True)


def _interval(value: Any) -> list[float] | None:
    if isinstance(value, Mapping):
        value = [value.get("low"), value.get("high")]
    if value is None or len(value) != 2 or not all(_finite(end) for end in value):
        return None
    return [float(value[0]), float(value[1])]


def combination(row: Mapping[str, Any]) -> tuple[Any, Any]:
    """(prenorm of features, prenorm of states) of ``row``."""
    return row.get("prenorm_features"), row.get("prenorm_states")


def main_combination(rows: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The combination that the main table shows: the default one, or else the first of `COMBINATIONS` there is."""
    present = {combination(row) for row in rows}
    for wanted in COMBINATIONS:
        if wanted in present:
            return wanted
    return min(present)


def tables(rows: Sequence[dict[str, Any]], shown: tuple[str, str]) -> dict[str, list[dict[str, Any]]]:
    """Rows of one combination per language model (by name), best score first, equal scores by encoder name."""
    result: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (row["model"], -row["score"], row["encoder"])):
        if combination(row) == shown:
            result.setdefault(row["model"], []).append(row)
    return result


def ties(table: Sequence[Mapping[str, Any]]) -> list[str]:
    """Per row of a table (best first): ``best``, ``tie``, ``below``, or ``unknown`` without intervals.

    A row is tied when its bootstrap interval reaches the lower end of the best row's interval. The rule is
    cautious: encoders share the items, so a paired comparison could separate some that it calls tied.
    """
    best = table[0]["interval"]
    marks = ["best"]
    for row in table[1:]:
        if best is None or row["interval"] is None:
            marks.append("unknown")
        else:
            marks.append("tie" if row["interval"][1] >= best[0] else "below")
    return marks


def warning_groups(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each warning once, with the encoders and language models whose rows carry it, in order of first sight."""
    groups: dict[str, dict[str, Any]] = {}
    for row in rows:
        for text in row["warnings"]:
            group = groups.setdefault(text, {"text": text, "encoders": [], "models": []})
            for kind, name in (("encoders", row["encoder"]), ("models", row["model"])):
                if name not in group[kind]:
                    group[kind].append(name)
    return list(groups.values())
