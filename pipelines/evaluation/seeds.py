"""Seeds of the parts of an evaluation, each from the one seed of the user and the part's name."""

from __future__ import annotations

import hashlib

from optotype.schemas.documents import canonical_json

__all__ = ["derived_seed"]


def derived_seed(seed: int, *parts: str | int) -> int:
    """A seed in [0, 2³²) that depends on ``seed`` and on the names of the part, and on nothing else.

    One more split, selector or retention changes the seed of no other.
    """
    digest = hashlib.sha256(canonical_json([seed, *parts])).digest()
    return int.from_bytes(digest[:4], "big")
