"""Features and states: one array as ``optotype encode`` and ``import`` write it, or a bundle of layers with graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from optotype.registry.artifacts.kinds.adapter import Description, Rows, inputs_in
from optotype.schemas.errors import OptotypeError, Problem

__all__ = ["ADAPTERS"]

# Of an array's inputs: what it was made of, or the machine, which is not for others; the rest are parameters.
_NOT_PARAMETERS = ("dataset", "model", "platform", "digest")


class _Arrays:
    def __init__(self, kind: Literal["features", "states"], what: str, items: str) -> None:
        self._kind = kind
        self._items = items
        self.what = what
        self.load = f"optotype.open_{kind}(folder)"

    def problems(self, payload: Path) -> list[Problem]:
        from optotype.store.listing import show
        from optotype.store.manifest import read_manifest, verify

        arrays = _arrays(payload)
        if not arrays:
            return [Problem(".", "no-array", f"neither an array nor a folder of arrays ({self._kind}, Zarr)")]
        problems: list[Problem] = []
        for name, folder in arrays.items():
            try:
                problems += [Problem(f"{name}{p.where}", p.kind, p.message) for p in verify(folder)]
                show(self._kind, folder)
            except OptotypeError as error:
                problems.append(Problem(name or ".", "array", error.message.replace(f"{folder.absolute()}/", name)))
        graphs = _graphs(payload)
        digests = {digest for folder in arrays.values() for digest in _digest(folder)}
        for name, folder in graphs.items():
            try:
                problems += [Problem(f"{name}{p.where}", p.kind, p.message) for p in verify(folder)]
                manifest = read_manifest(folder)
                if manifest.kind != "neighbours" or manifest.inputs.get("array") not in digests:
                    problems.append(Problem(name, "graph", f"not a neighbour graph of the {self._kind} beside it"))
            except OptotypeError as error:
                problems.append(Problem(name, "graph", error.message.replace(f"{folder.absolute()}/", name)))
        members = {**arrays, **graphs}
        known = {f"{name}{path}" for name, folder in members.items() for path in _listed(folder)}
        problems += [
            Problem(path.relative_to(payload).as_posix(), "extra-file", "belongs to no array")
            for path in sorted(payload.rglob("*"))
            if path.is_file() and path.relative_to(payload).as_posix() not in known and len(members) > 1
        ]
        return problems

    def describe(self, payload: Path) -> Description:
        from optotype.store.listing import show

        shown = {name.rstrip("/"): show(self._kind, folder) for name, folder in _arrays(payload).items()}
        first = next(iter(shown.values()))
        made_of = {
            (each.role, each.digest): each
            for row in shown.values()
            for each in inputs_in(row["inputs"], own=row["digest"])
        }
        facts: dict[str, Any] = {
            self._items: first[self._items],
            "channels": first["channels"],
            "dtype": first["dtype"],
            "arrays": {name or "": row["digest"] for name, row in shown.items()},
            "content_digests": sorted(row["digest"] for row in shown.values()),
        }
        graphs = [name.split("/")[1] for name in _graphs(payload)]
        if graphs:
            facts["neighbours"] = graphs
        if first["tokens"] is not None:
            facts["tokens"] = first["tokens"]
        parameters = {key: value for key, value in first["inputs"].items() if key not in _NOT_PARAMETERS}
        if len(shown) > 1:
            parameters["layer"] = [row["inputs"].get("layer") for row in shown.values()]
        layers = f" in {len(shown)} arrays" if len(shown) > 1 else ""
        title = (
            f"{self._kind.capitalize()} of {first[self._items]:,} {self._items}, {first['channels']} channels{layers}"
        )
        limits = ("The same bytes come again only on the same type of machine with the same number of threads.",)
        inputs = tuple(made_of[key] for key in sorted(made_of))
        return Description(title, parameters, None, inputs, facts, limits=limits)

    def rows(self, payload: Path) -> Rows:
        """The items of the first array, by id; values are compared as files."""
        from optotype.store.features import open_features
        from optotype.store.states import open_states

        folder = next(iter(_arrays(payload).values()))
        if self._kind == "features":
            array = open_features(folder)
            ids, sizes = array["image"].values, array["row_size"].values
            return Rows(("id",), "images", {(str(i),): {"tokens": int(n)} for i, n in zip(ids, sizes, strict=True)})
        return Rows(("id",), "texts", {(str(i),): {} for i in open_states(folder)["text"].values})

    def ranks(self, payload: Path) -> None:
        return None


def _arrays(payload: Path) -> dict[str, Path]:
    """Prefix of the paths of an array -> its folder: the payload itself, or the arrays of a bundle."""
    if (payload / "zarr.json").is_file():
        return {"": payload}
    folders = sorted(path.parent for path in payload.glob("*/zarr.json"))
    return {f"{folder.name}/": folder for folder in folders}


def _graphs(payload: Path) -> dict[str, Path]:
    """Prefix of the paths of a neighbour graph -> its folder, ``neighbours/<array>.<prenorm>/`` beside the arrays.

    As ``optotype neighbours build`` writes them: who has the graph need not compute it from the array.
    """
    folders = sorted(path.parent for path in payload.glob("neighbours/*/zarr.json"))
    return {} if (payload / "zarr.json").is_file() else {f"neighbours/{folder.name}/": folder for folder in folders}


def _digest(folder: Path) -> list[str]:
    from optotype.store.manifest import read_manifest

    try:
        return [read_manifest(folder).digest]
    except OptotypeError:
        return []


def _listed(folder: Path) -> list[str]:
    from optotype.store.manifest import MANIFEST, read_manifest

    try:
        return [MANIFEST, *(entry.path for entry in read_manifest(folder).files)]
    except OptotypeError:
        return []


ADAPTERS = {
    "features": _Arrays("features", "Patch features of images by one vision encoder.", "images"),
    "states": _Arrays("states", "States of texts in one language model.", "texts"),
}
