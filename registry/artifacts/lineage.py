"""What a payload was made of, and what that was made of, down to raw files: found by digest, never by name alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from optotype.registry.artifacts.index import Registry
from optotype.registry.artifacts.kinds.adapter import Input, inputs_in
from optotype.schemas.errors import OptotypeError

__all__ = ["Tracer", "licences_of", "lines"]

_ARRAYS = ("features", "states", "embeddings", "neighbours")


class Tracer:
    """Finds the inputs of inputs among a project's arrays, panels and pairs, and among published versions.

    Parameters
    ----------
    root : Path
        The project.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def trace(self, inputs: Iterable[Input], above: frozenset[str] = frozenset()) -> list[dict[str, Any]]:
        """Lineage nodes of inputs, each with its own inputs below it.

        Returns
        -------
        list of dict
            ``role``, ``kind``, ``name``, ``digest``, ``inputs`` and, where it states one, ``licence``. Ends where
            nothing here has the digest; a digest is not followed below itself.
        """
        nodes = []
        for each in inputs:
            below: list[dict[str, Any]] = []
            kind, name = each.kind, each.name
            if each.digest not in above:
                kind, name, made_of = self._found(each)
                inside = above | {each.digest}
                below = [dict(node) for node in made_of] if _is_nodes(made_of) else self.trace(made_of, inside)
            node: dict[str, Any] = {
                "role": each.role,
                "kind": kind,
                "name": name,
                "digest": each.digest,
                "inputs": below,
            }
            nodes.append(node if each.licence is None else {**node, "licence": each.licence})
        return nodes

    def _found(self, each: Input) -> tuple[str, str, Sequence[Any]]:
        """Kind, name and inputs of what has this digest, as far as it is here."""
        if each.digest in self._stored:
            return self._stored[each.digest]
        if each.digest in self._published:
            version = self._published[each.digest]
            return version.kind, version.name, version.manifest.lineage
        if each.role == "dataset" and each.digest in self._datasets:
            return self._datasets[each.digest]
        return each.kind, each.name, ()

    @cached_property
    def _stored(self) -> dict[str, tuple[str, str, Sequence[Input]]]:
        """Digest -> kind, name and inputs, of the arrays and panels in the project."""
        from optotype.registry.artifacts.kinds.panels import DOCUMENT, panel_inputs, read_panel
        from optotype.store.manifest import MANIFEST, read_manifest

        found: dict[str, tuple[str, str, Sequence[Input]]] = {}
        data = self._root / "data"
        for kind in _ARRAYS:
            for path in sorted([*data.glob(f"{kind}/*/{MANIFEST}"), *data.glob(f"{kind}/*/*/{MANIFEST}")]):
                try:
                    manifest = read_manifest(path.parent)
                except OptotypeError:
                    continue  # damaged: its digest would say nothing
                made_of = list(inputs_in(dict(manifest.inputs), own=manifest.digest))
                found.setdefault(manifest.digest, (kind, path.parent.name, made_of))
        for path in sorted(data.glob(f"scores/*/{DOCUMENT}")):
            try:
                digest = read_panel(path.parent).get("digest")
                made_of = panel_inputs(path.parent)
            except OptotypeError:
                continue
            if isinstance(digest, str):
                found.setdefault(digest, ("scores", path.parent.name, made_of))
        return found

    @cached_property
    def _published(self) -> dict[str, Any]:
        return Registry(self._root).contents()

    @cached_property
    def _datasets(self) -> dict[str, tuple[str, str, Sequence[Input]]]:
        """Digest of the images or texts -> the pairs in the project that hold them."""
        from optotype.registry.artifacts.kinds import adapter
        from optotype.registry.artifacts.kinds.pairs import TABLE, content_digests

        found: dict[str, tuple[str, str, Sequence[Input]]] = {}
        for path in sorted((self._root / "data").glob(f"*/{TABLE}")):
            try:
                digests = content_digests(path.parent)
                made_of = adapter("pairs").describe(path.parent).inputs
            except (OptotypeError, ValueError):
                continue
            for digest in digests.values():
                found.setdefault(digest, ("pairs", path.parent.name, made_of))
        return found


def licences_of(nodes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Every licence that is stated in a lineage."""
    for node in nodes:
        if node.get("licence"):
            yield str(node["licence"])
        yield from licences_of(node["inputs"])


def lines(nodes: Sequence[Mapping[str, Any]], depth: int = 0) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The nodes of a lineage with their depth, as a list to print. What occurs again is printed again."""
    for node in nodes:
        yield depth, node
        yield from lines(node["inputs"], depth + 1)


def _is_nodes(made_of: Sequence[Any]) -> bool:
    return bool(made_of) and isinstance(made_of[0], Mapping)
