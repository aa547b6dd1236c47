"""Retrieval as a whole, against one query and one candidate at a time; ties, copies, and what has no vector."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from task_sets import make_embeddings, make_tasks, states_of, tasks_of

from optotype.pipelines.retrieval import tiles
from optotype.pipelines.retrieval.blocks import Limits
from optotype.pipelines.retrieval.evaluate import MOST_K, Retrieval, evaluate
from optotype.pipelines.retrieval.measures import POLICIES
from optotype.schemas.errors import InvalidDataError, UsageError
from optotype.store.states import open_states, write_states

Vectors = Mapping[str, Sequence[float]]


def _cosine(a: Any, b: Any) -> float:
    a, b = (np.asarray(value, np.float64) for value in (a, b))
    return round(float((a / np.sqrt(a @ a)) @ (b / np.sqrt(b @ b))), 12)


def _usable(vectors: Mapping[str, Any], name: str) -> bool:
    return name in vectors and bool(np.isfinite(vectors[name]).all()) and bool(np.any(vectors[name]))


def _reference(tasks: xr.Dataset, queries: Mapping[str, Any], candidates: Mapping[str, Any]) -> list[dict[str, float]]:
    """P@1 and hit@2 by policy, and expected reciprocal rank (one relevant target), of every query, in plain loops."""
    offsets = np.concatenate([[0], np.cumsum(tasks["list_size"].values)])
    ends = np.concatenate([[0], np.cumsum(tasks["relevance_size"].values)])
    target, name = tasks["target"].values, tasks["candidate_embedding"].values
    result = []
    for query in range(tasks.sizes["query"]):
        number = int(tasks["query_list"].values[query])
        own = tasks["list_candidate"].values[offsets[number] : offsets[number + 1]]
        truths = {target[c] for c in tasks["relevant"].values[ends[query] : ends[query + 1]]}
        best: dict[str, float] = {}
        asked = str(tasks["query_embedding"].values[query])
        if _usable(queries, asked):
            for c in own:
                if _usable(candidates, name[c]):
                    value = _cosine(queries[asked], candidates[name[c]])
                    best[target[c]] = max(best.get(target[c], -2.0), value)
        found = dict.fromkeys(
            ["mrr", *(f"{measure}{policy}" for measure in ("p1", "hit2") for policy in POLICIES)], 0.0
        )
        right = [best[one] for one in truths if one in best]
        if right:
            high = max(right)
            above = sum(value > high for value in best.values())
            size = sum(value == high for value in best.values())
            r = sum(value == high for value in right)
            for measure, k in (("p1", 1), ("hit2", 2)):
                left = k - above
                miss = 0.0 if left >= size else 1.0 if left <= 0 else math.comb(size - r, left) / math.comb(size, left)
                found[f"{measure}expected"] = 1 - miss
                found[f"{measure}optimistic"] = float(left >= 1)
                found[f"{measure}pessimistic"] = float(left >= size - r + 1)
            if r == 1:
                found["mrr"] = sum(1 / (above + j) for j in range(1, size + 1)) / size
        result.append(found)
    return result


def _as_dict(states: xr.Dataset) -> dict[str, Any]:
    return dict(zip(states["text"].values.tolist(), states["states"].values, strict=True))


def _compare(tasks: xr.Dataset, retrieval: Retrieval, reference: list[dict[str, float]]) -> None:
    cells: dict[tuple[str, str], list[dict[str, float]]] = {}
    for task, language, one in zip(tasks["task"].values, tasks["language"].values, reference, strict=True):
        cells.setdefault((task, language), []).append(one)
    assert len(retrieval.cells) == len(cells)
    for row in retrieval.cells:
        own = cells[row["task"], row["language"]]
        assert row["queries"] == len(own)
        for policy in POLICIES:
            p1 = 100 * np.mean([one[f"p1{policy}"] for one in own])
            assert row["p1"][policy] == pytest.approx(p1, abs=1e-9)
            assert row["hit"]["1"] == row["p1"]
            assert row["hit"]["2"][policy] == pytest.approx(100 * np.mean([one[f"hit2{policy}"] for one in own]))
        if all(one["mrr"] for one in own):
            assert row["mrr"]["expected"] == pytest.approx(np.mean([one["mrr"] for one in own]))
    assert retrieval.p1.tolist() == pytest.approx([one["p1expected"] for one in reference])


def _same(a: Retrieval, b: Retrieval) -> None:
    first, second = dataclasses.asdict(a), dataclasses.asdict(b)
    assert first.pop("p1").tolist() == second.pop("p1").tolist()
    assert json.dumps(first) == json.dumps(second)


def _spoilt(rng: np.random.Generator, vectors: dict[str, Any]) -> dict[str, Any]:
    """Some missing, some not finite, some zero; copies and multiples of others."""
    names = sorted(vectors)
    made = {}
    for name in names:
        value = np.array(vectors[name])
        kind = rng.integers(0, 12)
        if kind == 0:
            continue
        if kind == 1:
            value[rng.integers(len(value))] = rng.choice([np.nan, np.inf, -np.inf])
        if kind == 2:
            value[:] = 0
        if kind in (3, 4):
            value = vectors[names[int(rng.integers(len(names)))]] * float(rng.choice([1, 2, 0.5]))
        made[name] = value
    return made


SETS: list[dict[str, Any]] = [
    {},
    {"cells": {("vqa", "it"): 8}, "per_query": True, "candidates": 20, "same_target": 0.4},
    {"cells": {("t2i", "de"): 9}, "relevant": 5, "graded": True, "candidates": 25, "same_target": 0.5},
    {"cells": {("i2t", "en"): 1}, "candidates": 2},
    {"cells": {("c", "en"): 9, ("c", "fr"): 9}, "candidates": 9, "same_target": 1.0},
]
LIMITS = [Limits(queries=7, block=1), Limits(queries=3, block=5, entries=1, codes=1), Limits(query_bytes=1, block=7)]


@pytest.mark.parametrize("options", SETS)
@pytest.mark.parametrize("kind", ["random", "tied", "spoilt", "collapsed"])
def test_brute_force_agrees_whatever_the_blocks(kind: str, options: dict[str, Any]) -> None:
    tasks = make_tasks(**options, seed=len(kind))
    asked, offered = (_as_dict(states) for states in make_embeddings(tasks, channels=6, noise=2.0, seed=1))
    rng = np.random.default_rng(7)
    if kind == "tied":
        asked = {name: np.float32([2, *rng.integers(-1, 2, 5)]) for name in asked}
        offered = {name: np.float32([1, *rng.integers(0, 2, 5)]) for name in offered}
    if kind == "spoilt":
        asked, offered = _spoilt(rng, asked), _spoilt(rng, offered)
        if not asked or len(options.get("cells", "long")) == 1:
            asked = {str(name): np.float32([1, 2, 3, 4, 5, 6]) for name in tasks["query_embedding"].values}
            offered = {str(name): np.float32([1, 0, 0, 0, 0, 2]) for name in tasks["candidate_embedding"].values[:1]}
    if kind == "collapsed":
        offered = {name: np.float32([1, 2, 3, 4, 5, 6]) for name in offered}
    arrays = states_of(asked), states_of(offered)
    found = evaluate(tasks, [arrays[0]], [arrays[1]], at=(1, 2))
    _compare(tasks, found, _reference(tasks, asked, offered))
    for workers, limits in enumerate(LIMITS, 1):
        _same(found, evaluate(tasks, [arrays[0]], [arrays[1]], at=(1, 2), workers=workers, limits=limits))
    # The same arrays lazily, in other chunks, each side cut in two.
    lazy = [array.chunk({"text": 4}) for array in arrays]
    halves = [[array.isel(text=slice(None, None, 2)), array.isel(text=slice(1, None, 2))] for array in lazy]
    _same(found, evaluate(tasks, halves[0], halves[1], at=(1, 2), limits=Limits(block=3)))


def _names(count: int) -> list[str]:
    return [f"c{number:04d}" for number in range(count)]


def _one_list(count: int, truths: Mapping[str, Any], **more: Any) -> xr.Dataset:
    names = _names(count)
    return tasks_of(
        [{"query": name, "list": names, "relevant": truth} for name, truth in truths.items()],
        [
            {"candidate": name, **{key: value(number) for key, value in more.items()}}
            for number, name in enumerate(names)
        ],
    )


def test_all_equal_is_no_win_for_the_first() -> None:
    """Candidate 0 is the truth and all are alike: a rule of the first index would say 100 %."""
    tasks = _one_list(40, {f"q{number}": ["c0000"] for number in range(3)})
    asked = states_of({f"q{number}": np.eye(4)[number] + 1 for number in range(3)})
    offered = states_of({name: [1, 2, 3, 4] for name in _names(40)})
    (cell,) = evaluate(tasks, [asked], [offered]).cells
    assert cell["p1"] == {"expected": pytest.approx(2.5), "optimistic": 100, "pessimistic": 0}
    assert cell["chance"] == pytest.approx(2.5)
    assert cell["hit"]["10"]["expected"] == pytest.approx(25)


def test_equal_targets_are_one_candidate() -> None:
    """Ten ids of five strings, alike in pairs: the truth is right if its string is, by any of its ids."""
    tasks = _one_list(10, {"q": ["c0000"]}, target=lambda number: f"string {number % 5}")
    vectors = {name: [float(number % 5), 1.0] for number, name in enumerate(_names(10))}
    vectors["c0000"] = [-1.0, 0.0]  # the other id of the string wins all the same
    (cell,) = evaluate(tasks, [states_of({"q": [0.0, 1.0]})], [states_of(vectors)]).cells
    assert (cell["candidates"], cell["p_at_1"], cell["chance"]) == (5, 100, 20)
    # Four identical distractors are one: the truth ties with it alone.
    tasks = _one_list(5, {"q": ["c0000"]}, target=lambda number: str(min(number, 1)))
    (cell,) = evaluate(tasks, [states_of({"q": [0, 1]})], [states_of({name: [1, 1] for name in _names(5)})]).cells
    assert (cell["candidates"], cell["p_at_1"]) == (2, 50)


def test_several_truths_share_a_tie() -> None:
    tasks = _one_list(7, {"q": ["c0001", "c0002"]})
    (cell,) = evaluate(tasks, [states_of({"q": [1, 1]})], [states_of({name: [1, 3] for name in _names(7)})]).cells
    assert cell["p1"] == {"expected": pytest.approx(200 / 7), "optimistic": 100, "pessimistic": 0}


def test_a_query_without_a_vector_is_wrong_and_named() -> None:
    tasks = _one_list(2, {name: ["c0000"] for name in ("fine", "gone", "inf", "nan", "zero")})
    asked = {"fine": [1, 0], "inf": [np.inf, 0], "nan": [np.nan, 1], "zero": [0, 0]}
    found = evaluate(tasks, [states_of(asked)], [states_of({"c0000": [1, 0], "c0001": [0, 1]})], at=(1, 2))
    (cell,) = found.cells
    assert (cell["p_at_1"], cell["mrr"]["optimistic"], cell["invalid_queries"]) == (20, 0.2, 4)
    assert cell["hit"]["2"]["optimistic"] == 20
    assert cell["ndcg"]["2"]["optimistic"] == pytest.approx(0.2)
    reasons = {row["id"]: row["reason"] for row in found.invalid}
    assert reasons == {"gone": "no embedding", "inf": "NaN or Inf", "nan": "NaN or Inf", "zero": "all zeros"}
    assert {row["kind"] for row in found.invalid} == {"query"}


@pytest.mark.parametrize("bad", [[np.nan, 1.0], [np.inf, 1.0], [0.0, 0.0], None])
def test_a_candidate_without_a_vector_never_wins(bad: Any) -> None:
    tasks = _one_list(3, {"a": ["c0000"], "b": ["c0001"]})
    vectors: dict[str, Any] = {"c0000": [-1, -1], "c0001": bad, "c0002": [-1, -0.5]}
    offered = states_of({name: value for name, value in vectors.items() if value is not None})
    found = evaluate(tasks, [states_of({"a": [1, 1.1], "b": [1, 1]})], [offered])
    (cell,) = found.cells
    assert (cell["invalid_truths"], cell["invalid_candidates"], cell["invalid_queries"]) == (1, 1, 0)
    assert found.p1.tolist() == [0, 0]  # b's truth has no vector; a's is below c0002, NaN or not
    assert cell["hit"]["5"]["expected"] == 50
    assert [row["id"] for row in found.invalid] == ["c0001"]
    (alone,) = evaluate(_one_list(2, {"a": ["c0000"]}), [states_of({"a": [1, 1]})], [offered]).cells
    assert alone["p1"]["pessimistic"] == 100  # the only one there is


def test_all_rows_nan_is_zero_not_null() -> None:
    tasks = make_tasks()
    asked, offered = make_embeddings(tasks)
    nothing = asked.copy(data={"states": np.full_like(asked["states"].values, np.nan)})
    found = evaluate(tasks, [nothing], [offered], bootstrap=10)
    assert [cell["p_at_1"] for cell in found.cells] == [0] * 4
    assert [cell["interval"] for cell in found.cells] == [[0, 0]] * 4
    assert len(found.invalid) == 24
    assert any("no query has a usable vector" in note for note in found.notes)
    assert evaluate(tasks, [asked], [offered * np.nan]).macro["avg"] == 0


def test_what_a_model_cannot_do_is_null_and_so_is_its_average() -> None:
    cells = {(task, language): 5 for task in ("i2t", "t2i", "c", "vqa") for language in ("en", "it")}
    tasks = make_tasks(cells)
    asked, offered = make_embeddings(tasks, noise=0.3)
    whole = evaluate(tasks, [asked], [offered])
    assert all(row["avg"] is not None and row["avg3"] is not None for row in whole.languages)
    p1 = whole.languages[0]["p1"]
    assert whole.languages[0]["avg3"] == pytest.approx(np.mean([p1[task] for task in ("i2t", "t2i", "c")]))
    assert whole.languages[0]["avg"] == pytest.approx(np.mean(list(p1.values())))
    without = asked.sel(text=[name for name in asked["text"].values if not name.startswith("vqa")])
    less = evaluate(tasks, [without], [offered])
    assert [row["p1"]["vqa"] for row in less.languages] == [None, None]
    assert [row["avg"] for row in less.languages] == [None, None]
    assert less.languages[1]["gap_to_english"]["avg"] is None
    assert less.macro["p1"]["vqa"] is None
    assert less.macro["avg3"] == whole.macro["avg3"]
    assert any("vqa" in note and "cannot" in note for note in less.notes)
    assert not less.invalid
    # The same by declaration, though the embeddings are there.
    declared = evaluate(tasks, [asked], [offered], unable=["vqa"])
    assert [{**cell, "unable": None} for cell in declared.cells] == [{**cell, "unable": None} for cell in less.cells]
    # One of the ten is enough: the others are wrong.
    one = asked.sel(text=[name for name in asked["text"].values if not name.startswith("vqa") or name == "vqa/en/q000"])
    some = evaluate(tasks, [one], [offered])
    assert [row["p1"]["vqa"] is None for row in some.languages] == [False, False]
    assert some.languages[1]["p1"]["vqa"] == 0
    assert sum(row["reason"] == "no embedding" for row in some.invalid) == 9


def test_a_task_that_a_language_lacks_makes_its_average_null() -> None:
    tasks = make_tasks({("i2t", "en"): 4, ("vg", "en"): 4, ("i2t", "de"): 4})
    found = evaluate(tasks, *([side] for side in make_embeddings(tasks)))
    english, german = found.languages
    assert english["avg"] is not None
    assert german["p1"]["vg"] is None
    assert german["avg"] is None
    assert english["avg3"] is None
    assert any(note.startswith("de:") for note in found.notes)


def test_gap_and_agreement_with_english() -> None:
    """Two items; Italian answers the first as English does, and the second otherwise."""
    queries, offered, vectors = [], [], {}
    for language in ("en", "it"):
        names = [f"{language}/{item}" for item in ("x", "y")]
        offered += [{"candidate": name, "candidate_item": name[3:]} for name in names]
        for place, name in enumerate(names):
            queries.append(
                {"query": f"q/{name}", "language": language, "item": name[3:], "list": names, "relevant": [name]}
            )
            vectors[name] = np.eye(2)[place] + 0.1
            vectors[f"q/{name}"] = np.eye(2)[place if language == "en" else 0] + 0.1
    tasks = tasks_of(queries, offered)
    states = states_of(vectors)
    found = evaluate(tasks, [states], [states])
    english, italian = found.languages
    assert (english["p1"], italian["p1"]) == ({"i2t": 100}, {"i2t": 50})
    assert italian["gap_to_english"]["i2t"] == 50
    assert (english["gap_to_english"], english["agreement"]) == (None, None)
    assert italian["agreement"] == {"i2t": 50}
    assert found.macro["agreement"] == {"i2t": 50}
    assert found.macro["gap_to_english"]["i2t"] == 50
    # Both Italian candidates alike: under a tie, agreement is a matter of chance.
    tied = evaluate(tasks, [states], [states_of({**vectors, "it/x": [1, 1], "it/y": [1, 1]})])
    details = tied.languages[1]["agreement_details"]["i2t"]
    assert [details[policy] for policy in POLICIES] == [50, 100, 0]
    assert details["items"] == 2
    for policy in POLICIES:
        row = evaluate(tasks, [states], [states], ties=policy).languages[1]
        assert row["agreement"] == {"i2t": 50}


def test_bfloat16_ties_bracket_the_float32_value(tmp_path: Path) -> None:
    """1,000 candidates, four of a kind that bfloat16 cannot tell apart: the policies hold the float32 value."""
    rng = np.random.default_rng(11)
    names = _names(1000)
    tasks = _one_list(1000, {f"q{name}": [name] for name in names[:300]})
    kinds = rng.normal(size=(250, 32)).astype(np.float32)
    rows = np.repeat((kinds.view(np.uint32) & 0xFFFF0000).view(np.float32), 4, axis=0)
    rows = rows * (1 + rng.uniform(0, 2**-9, rows.shape)).astype(np.float32)  # less than half a step of bfloat16
    asked = rows[:300] * (1 + rng.normal(0, 2**-10, (300, 32))).astype(np.float32)

    def half(values: Any) -> Any:
        bits = values.view(np.uint32).astype(np.uint64)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)

    def stored(name: str, ids: list[str], values: Any, dtype: str) -> xr.Dataset:
        write_states(tmp_path / name, ids=ids, blocks=[values], dtype=dtype, inputs={"operation": "test"})
        return open_states(tmp_path / name)

    ids = [f"q{name}" for name in names[:300]]
    full = evaluate(tasks, [stored("q32", ids, asked, "float32")], [stored("c32", names, rows, "float32")]).cells[0]
    less = evaluate(
        tasks, [stored("q16", ids, half(asked), "bfloat16")], [stored("c16", names, half(rows), "bfloat16")]
    ).cells[0]
    assert len(set(full["p1"].values())) == 1  # float32 has no ties here
    assert less["p1"]["pessimistic"] < full["p_at_1"] < less["p1"]["optimistic"]
    assert less["p1"]["expected"] == pytest.approx(25)
    for k in ("5", "10"):
        assert less["hit"][k]["pessimistic"] <= full["hit"][k]["expected"] <= less["hit"][k]["optimistic"]
    assert less["mrr"]["pessimistic"] <= full["mrr"]["expected"] <= less["mrr"]["optimistic"]


def test_intervals_hang_on_the_seed_alone() -> None:
    tasks = make_tasks({("i2t", "en"): 40}, candidates=40)
    sides = [[side] for side in make_embeddings(tasks, channels=4)]
    first, again, other = (evaluate(tasks, *sides, bootstrap=200, seed=seed).cells[0] for seed in (1, 1, 2))
    assert first["interval"] == again["interval"] != other["interval"]
    assert first["interval"][0] < first["p_at_1"] < first["interval"][1]
    assert evaluate(tasks, *sides).cells[0]["interval"] is None


def test_what_cannot_be_evaluated_is_refused_with_every_reason() -> None:
    tasks = make_tasks()
    asked, offered = make_embeddings(tasks)
    with pytest.raises(InvalidDataError, match="24 ids are in both") as twice:
        evaluate(tasks, [asked, asked.isel(channel=slice(3))], [offered])
    assert [problem.kind for problem in twice.value.problems] == ["channels", "duplicate-id"]
    with pytest.raises(InvalidDataError, match="not of one space"):
        evaluate(tasks, [asked], [offered.isel(channel=slice(3))])
    with pytest.raises(InvalidDataError, match="i2t/en/q000") as ids:
        evaluate(tasks, [states_of({"x": [1.0]})], [states_of({"y": [1.0]})])
    assert [problem.where for problem in ids.value.problems] == ["query", "candidate"]
    with pytest.raises(InvalidDataError, match="there is no array"):
        evaluate(tasks, [], [offered])
    for options in ({"at": (0,)}, {"at": ()}, {"at": (1, 1)}, {"ties": "first"}, {"unable": ["i2"]}, {"bootstrap": -1}):
        with pytest.raises(UsageError):
            evaluate(tasks, [asked], [offered], **options)  # type: ignore[arg-type]
    broken = tasks.assign(relevant=("relevance", np.full(tasks.sizes["relevance"], tasks.sizes["candidate"] - 1)))
    with pytest.raises(InvalidDataError, match="not in the list"):
        evaluate(broken, [asked], [offered])


def test_a_half_of_the_last_decimal_parts_equal_cosines() -> None:
    """Equal means equal after rounding to 12 decimals: 4e-13 apart may be tied, 1e-13 apart may not."""
    base = 0.6
    for shifts, tied in (((-2e-13, 2e-13), True), ((4.5e-13, 5.5e-13), False)):
        first, second = (base + shift for shift in shifts)
        vectors = {name: [x, math.sqrt(1 - x * x)] for name, x in (("a", first), ("b", second))}
        offered = states_of(vectors, "float64")
        tasks = tasks_of([{"query": "q", "list": ["a", "b"], "relevant": ["a"]}], [{"candidate": n} for n in "ab"])
        found = evaluate(tasks, [states_of({"q": [1.0, 0.0]}, "float64")], [offered])
        assert found.cells[0]["p1"] == dict(zip(POLICIES, (50, 100, 0) if tied else (0, 0, 0), strict=True))


def test_swapped_arrays_are_noticed() -> None:
    tasks = make_tasks()
    asked, offered = make_embeddings(tasks)
    with pytest.raises(InvalidDataError, match="swapped") as all_swapped:
        evaluate(tasks, [offered], [asked])
    assert [problem.kind for problem in all_swapped.value.problems] == ["no-embedding"] * 2 + ["swapped"] * 2
    ids = [*asked["text"].values.tolist(), *offered["text"].values.tolist()]
    few = {name: [1.0] for name in (*asked["text"].values[:5], *offered["text"].values)}
    rest = {name: [1.0] for name in ids if name not in few or name in set(offered["text"].values)}
    found = evaluate(tasks, [states_of(few)], [states_of(rest)])
    (note,) = [line for line in found.notes if "ids that are asked for" in line]
    assert note.startswith("queries: 5 of 24 ids that are asked for have a row; the arrays of the candidates have 19")
    assert "swapped?" in note
    alone = evaluate(tasks, [states_of({name: [1.0] for name in asked["text"].values[:5]})], [states_of(rest)])
    assert any("have 19: are --queries" in line for line in alone.notes)
    less = states_of({name: [1.0] for name in offered["text"].values})
    only = evaluate(tasks, [states_of(few)], [less])
    assert any(line.startswith("queries: 5 of 24") and line.endswith("no more than that") for line in only.notes)
    half = asked.isel(text=slice(12))
    assert not any("asked for" in line for line in evaluate(tasks, [half], [offered]).notes)


def test_ties_too_large_for_agreement_are_counted_in_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "MOST_TIED", 3)
    tasks = make_tasks()
    asked, offered = make_embeddings(tasks)
    found = evaluate(tasks, [asked], [offered.copy(data={"states": np.ones(offered["states"].shape)})])
    (left,) = {
        row["agreement_details"][task]["left_out"]["undecided"]
        for row in found.languages
        if row["agreement_details"]
        for task in ("i2t", "t2i")
    }
    assert left > 0
    notes = [line for line in found.notes if "agreement with English leaves" in line]
    assert [line.split(":")[0] for line in notes] == ["i2t, it", "t2i, it"]
    assert all(f"leaves {left} item(s) out" in line for line in notes)


def test_every_task_unable_leaves_nothing() -> None:
    tasks = make_tasks()
    asked, offered = make_embeddings(tasks)
    with pytest.raises(UsageError, match=r"every task is --unable \(i2t, t2i\)"):
        evaluate(tasks, [asked], [offered], unable=["t2i", "i2t"])


@pytest.mark.parametrize("k", [MOST_K + 1, 10**20])
def test_a_k_has_an_upper_end(k: int) -> None:
    tasks = make_tasks()
    with pytest.raises(UsageError, match="1 to 1,000,000"):
        evaluate(tasks, [], [], at=(1, k))
