"""How an array is cut: inner chunks that a reader takes, shards that DVC hashes and links."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ShardPlan", "plan"]

_INNER_BYTES = 1 << 20  # of one inner chunk, at most; halved at worst by the power of two
_SHARD_BYTES = 64 << 20  # of one shard file, at most
_INDEX_ENTRY = 16  # bytes that the index of a shard holds for an inner chunk: offset and length
_CHECKSUM = 4  # crc32c, behind every inner chunk and behind the index


@dataclass(frozen=True)
class ShardPlan:
    """Rows of an inner chunk and rows of a shard; the first divides the second.

    Attributes
    ----------
    inner_rows : int
        Rows of an inner chunk: a power of two, or all rows of a small array.
    shard_rows : int
        Rows of a shard.
    """

    inner_rows: int
    shard_rows: int

    def count(self, rows: int) -> int:
        """Shards that ``rows`` rows take."""
        return -(-rows // self.shard_rows)


def plan(rows: int, row_bytes: int) -> ShardPlan:
    """Cut ``rows`` rows of ``row_bytes`` bytes each.

    Inner chunks hold 512 KiB to 1 MiB (one row, if a row is larger), shard files at most 64 MiB with index and
    checksums. An array smaller than a shard or a chunk gets one of its own size. Depends on nothing but the arguments,
    so equal data is always cut alike.

    Raises
    ------
    ValueError
        ``rows`` or ``row_bytes`` below 1.
    """
    if rows < 1 or row_bytes < 1:
        raise ValueError(f"rows and row_bytes are at least 1, got {rows} and {row_bytes}")
    inner_rows = min(rows, 1 << max(0, (_INNER_BYTES // row_bytes).bit_length() - 1))
    inner_cost = inner_rows * row_bytes + _CHECKSUM + _INDEX_ENTRY
    most = max(1, (_SHARD_BYTES - _CHECKSUM) // inner_cost)
    return ShardPlan(inner_rows, inner_rows * min(most, -(-rows // inner_rows)))
