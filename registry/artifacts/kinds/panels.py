"""Scores: a panel of models x items, in parts, as ``optotype scores import`` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optotype.registry.artifacts.kinds.adapter import Description, Input, Rows
from optotype.schemas.errors import OptotypeError, Problem

__all__ = ["ADAPTERS", "panel_inputs", "read_panel"]

DOCUMENT = "panel.json"


class _Scores:
    what = "Scores of models on the items of benchmarks, with the items' and models' own columns."
    load = "optotype.open_panel(folder)"

    def problems(self, payload: Path) -> list[Problem]:
        from optotype.store.manifest import read_manifest, verify

        if not (payload / DOCUMENT).is_file():
            return [Problem(DOCUMENT, "missing-file", "it belongs to a panel and is not there")]
        try:
            document = read_panel(payload)
        except OptotypeError as error:
            return [Problem(DOCUMENT, "document", _without(payload, error.message))]
        problems: list[Problem] = []
        for part in document["parts"]:
            name = str(part["name"])
            try:
                problems += [Problem(f"{name}/{p.where}", p.kind, p.message) for p in verify(payload / name)]
                digest = read_manifest(payload / name).digest
                if digest != part["digest"]:
                    problems.append(Problem(name, "digest", f"{digest}, {DOCUMENT} says {part['digest']}"))
            except OptotypeError as error:
                problems.append(Problem(name, "part", _without(payload, error.message)))
        if not document["parts"]:
            problems.append(Problem(DOCUMENT, "empty", "a panel without scores"))
        return problems

    def describe(self, payload: Path) -> Description:
        from optotype.store.panels import open_panel

        document = read_panel(payload)
        panel = open_panel(payload)
        facts: dict[str, Any] = {
            "models": panel.sizes["model"],
            "items": panel.sizes["item"],
            "benchmarks": len(set(panel["benchmark"].values.tolist())),
            "blind_runs": panel.sizes.get("blind_model", 0),
            "content_digests": [document["digest"]],
        }
        title = "Scores of {models} models on {items:,} items of {benchmarks} benchmarks".format(**facts)
        limits = ("Missing scores are missing, never 0: means of different models may be over different items.",)
        return Description(title, {}, None, tuple(panel_inputs(payload)), facts, limits=limits)

    def rows(self, payload: Path) -> Rows:
        from optotype.store.panels import open_panel

        panel = open_panel(payload)
        pairs = zip(panel["benchmark"].values.tolist(), panel["item"].values.tolist(), strict=True)
        return Rows(("benchmark", "item_id"), "items", {(str(benchmark), str(item)): {} for benchmark, item in pairs})

    def ranks(self, payload: Path) -> None:
        return None


def read_panel(folder: Path) -> dict[str, Any]:
    """The document of a panel.

    Raises
    ------
    NotFoundError, FormatError, IntegrityError
        There is none, it cannot be read, or it was changed.
    """
    from optotype.store.panels.parts import read_document

    return read_document(folder)


def panel_inputs(folder: Path) -> list[Input]:
    """The parts of a panel: each is what one import brought, which is where its lineage ends."""
    return [Input("part", "scores", str(part["name"]), str(part["digest"])) for part in read_panel(folder)["parts"]]


def _without(payload: Path, message: str) -> str:
    """A message that names files from the payload on."""
    return message.replace(f"{payload.absolute()}/", "").replace(f"{payload}/", "")


ADAPTERS = {"scores": _Scores()}
