"""Versioned JSON documents: canonical bytes, keys made of them, and refusal of newer formats."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from optotype.schemas.errors import FormatError

__all__ = ["cache_key", "canonical_json", "parse_document"]


def canonical_json(value: object) -> bytes:
    """``value`` as UTF-8 JSON whose bytes depend on the value alone: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def cache_key(inputs: Mapping[str, Any]) -> str:
    """The key of a cached array: SHA-256 (64 hex digits) of all its inputs, never of a name alone."""
    return hashlib.sha256(canonical_json(dict(inputs))).hexdigest()


def parse_document(text: str | bytes, *, kind: str, where: str, newest: int) -> dict[str, Any]:
    """Parse a persisted document and refuse what this version cannot read.

    Parameters
    ----------
    text : str or bytes
        JSON of an object with ``format_version`` (int >= 1).
    kind : str
        What the document is, for the message (``"array manifest"``).
    where : str
        The file, for the message.
    newest : int
        The newest ``format_version`` that this version of optotype reads.

    Raises
    ------
    FormatError
        Not JSON, nested too deep, not an object, no ``format_version``, or a newer one.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:  # the latter of brackets nested too deep
        raise FormatError(f"{where}: not a JSON {kind} ({error})") from error
    article = "an" if kind[:1] in "aeiou" else "a"
    if not isinstance(document, dict):
        raise FormatError(f"{where}: {article} {kind} is a JSON object, got {type(document).__name__}")
    version = document.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FormatError(f"{where}: this {kind} has no format_version, got {version!r}")
    if version > newest:
        raise FormatError(
            f"{where}: this {kind} has format_version {version}; this optotype reads up to {newest}",
            hint=f"It takes an optotype that reads {kind} format {version}: pip install --upgrade optotype",
        )
    return document
