"""Pairs: images with texts, ``pairs.csv`` and the images that it names; or pairs of images, `pair_suites`."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from typing import Any

from optotype.registry.artifacts.kinds.adapter import Adapter, Description, Rows, inputs_in
from optotype.schemas.errors import InvalidDataError, OptotypeError, Problem

__all__ = ["ADAPTERS", "content_digests"]

TABLE = "pairs.csv"
_SOURCE = "SOURCE.json"
_PARAMETERS = ("n", "seed", "done", "packages")


class _ImageTextPairs:
    what = "Pairs of images and texts, joined by id, on which encoders are compared."
    load = 'optotype.read_images(folder / "pairs.csv"), optotype.read_texts(folder / "pairs.csv")'

    def problems(self, payload: Path) -> list[Problem]:
        from optotype.store.dataset import read_images, read_texts

        problems: list[Problem] = []
        for read in (read_images, read_texts):
            try:
                read(payload / TABLE)
            except InvalidDataError as error:
                problems += [Problem(f"{TABLE}: {p.where}", p.kind, p.message) for p in error.problems]
            except OptotypeError as error:
                problems.append(Problem(TABLE, "unreadable", f"not a table with id, image and text ({error.message})"))
        try:
            _source(payload)
        except (ValueError, RecursionError) as error:
            problems.append(Problem(_SOURCE, "document", f"not a JSON object ({error})"))
        return list(dict.fromkeys(problems))

    def describe(self, payload: Path) -> Description:
        source = _source(payload)
        header, rows = _table(payload)
        groups = {row["group"] for row in rows} - {""} if "group" in header else set()
        facts: dict[str, Any] = {
            "pairs": len(rows),
            "images": len({row["image"] for row in rows}),
            "texts": len({row["text"] for row in rows}),
        }
        if groups:
            facts["groups"] = len(groups)
        facts["columns"] = header
        facts["content_digests"] = sorted(content_digests(payload).values())
        parameters = {key: source[key] for key in _PARAMETERS if key in source}
        rest = {key: value for key, value in source.items() if key not in (*_PARAMETERS, "format_version", "kind")}
        inputs = tuple(inputs_in(rest, role="source"))
        licences = tuple(sorted({each.licence for each in inputs if each.licence}))
        seed = source.get("seed")
        limits = ["A score on pairs is about these images and these words."]
        if facts["images"] < len(rows) or facts["texts"] < len(rows):
            limits.append(f"{facts['images']} different image paths and {facts['texts']} different texts.")
        title = f"{len(rows):,} pairs of an image and a text"
        return Description(
            title, parameters, seed if type(seed) is int else None, inputs, facts, licences, tuple(limits)
        )

    def rows(self, payload: Path) -> Rows:
        header, rows = _table(payload)
        found: dict[tuple[str, ...], dict[str, Any]] = {}
        for row in rows:
            values: dict[str, Any] = {name: row[name] for name in header if name != "id"}
            values["image_sha256"] = hashlib.sha256((payload / row["image"]).read_bytes()).hexdigest()
            found[(row["id"],)] = values
        return Rows(("id",), "pairs", found)

    def ranks(self, payload: Path) -> None:
        return None


def content_digests(payload: Path) -> dict[str, str]:
    """The digests by which arrays made of these pairs name their dataset: of the images, and of each text column."""
    from optotype.store.dataset import read_images, read_texts

    header, _ = _table(payload)
    digests = {"image": read_images(payload / TABLE).digest}
    for column in header:
        if column in ("id", "image"):
            continue
        try:
            digests[column] = read_texts(payload / TABLE, column).digest
        except InvalidDataError:
            continue  # blank somewhere: nothing can have been made of it
    return digests


def _source(payload: Path) -> dict[str, Any]:
    path = payload / _SOURCE
    if not path.is_file():
        return {}
    source = json.loads(path.read_bytes())
    if not isinstance(source, dict):
        raise ValueError(f"got {type(source).__name__}")
    return source


def _table(payload: Path) -> tuple[list[str], list[dict[str, str]]]:
    with (payload / TABLE).open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
        return list(reader.fieldnames or []), rows


class _Pairs:
    """Asks the reader of whatever the payload is: its documents say so."""

    what = (
        "Pairs of images and texts, joined by id, on which encoders are compared; or pairs of images that an encoder "
        "takes for alike, with questions and statements about them, or corrections of the keys of such questions."
    )
    load = (
        "# images with texts\n"
        'optotype.read_images(folder / "pairs.csv"), optotype.read_texts(folder / "pairs.csv")\n'
        "# pairs of images with questions and statements\n"
        "optotype.open_pair_suite(folder)"
    )

    def problems(self, payload: Path) -> list[Problem]:
        return _reader(payload).problems(payload)

    def describe(self, payload: Path) -> Description:
        return _reader(payload).describe(payload)

    def rows(self, payload: Path) -> Rows | None:
        return _reader(payload).rows(payload)

    def ranks(self, payload: Path) -> None:
        return None


def _reader(payload: Path) -> Adapter:
    from optotype.registry.artifacts.kinds.pair_suites import Overlays, PairSuites
    from optotype.store.pair_overlays import OVERLAY
    from optotype.store.pair_suites import DOCUMENT

    if (payload / DOCUMENT).exists():
        return PairSuites()
    return Overlays() if (payload / OVERLAY).exists() else _ImageTextPairs()


ADAPTERS = {"pairs": _Pairs()}
