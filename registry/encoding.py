"""Encoded arrays as rows: what `optotype.registry.arrays` lists, and how each came about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optotype.pipelines.encode.runs import EncodedArray
    from optotype.registry.arrays import Kind
    from optotype.store.project import Project

__all__ = ["encode_image_arrays", "encode_item_array", "encode_text_array"]


def encode_image_arrays(project: Project, name: str, table: str, source: str, **options: Any) -> list[dict[str, Any]]:
    """`optotype.pipelines.encode.image_features.encode_images`, whose parameters and errors these are.

    Returns
    -------
    list of dict
        For each layer the row that `optotype.registry.arrays.list_arrays` has for the array, with ``resumed``,
        ``skipped`` (bool) and ``notes`` (list of str).
    """
    from optotype.pipelines.encode.image_features import encode_images

    return [_row(project, "features", array) for array in encode_images(project, name, table, source, **options)]


def encode_text_array(project: Project, name: str, table: str, source: str, **options: Any) -> dict[str, Any]:
    """`optotype.pipelines.encode.text_states.encode_texts`, whose parameters and errors these are.

    Returns
    -------
    dict
        As one of `encode_image_arrays`.
    """
    from optotype.pipelines.encode.text_states import encode_texts

    return _row(project, "states", encode_texts(project, name, table, source, **options))


def encode_item_array(project: Project, name: str, source: str, **options: Any) -> dict[str, Any]:
    """`optotype.pipelines.encode.items.encode_items`, whose parameters and errors these are.

    Returns
    -------
    dict
        The row that `optotype.registry.embeddings.list_embeddings` has for the array; else as one of
        `encode_image_arrays`.
    """
    from optotype.pipelines.encode.items import encode_items
    from optotype.registry.embeddings import embedding_row

    array = encode_items(project, name, source, **options)
    row = embedding_row(project, array.path)
    return {**row, "resumed": array.resumed, "skipped": array.skipped, "notes": list(array.notes)}


def _row(project: Project, kind: Kind, array: EncodedArray) -> dict[str, Any]:
    from optotype.registry.arrays import array_row

    row = array_row(project, kind, array.path)
    return {**row, "resumed": array.resumed, "skipped": array.skipped, "notes": list(array.notes)}
