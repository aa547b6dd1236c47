"""The cut into chunks and shards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optotype.store.shards import plan

MIB = 1 << 20


@given(rows=st.integers(1, 10**9), row_bytes=st.integers(1, 10**8))
def test_limits(rows, row_bytes):
    cut = plan(rows, row_bytes)
    assert cut.shard_rows % cut.inner_rows == 0
    assert cut.inner_rows == 1 or cut.inner_rows * row_bytes <= MIB
    assert cut.inner_rows == rows or row_bytes > MIB or cut.inner_rows * row_bytes > MIB // 2
    inner = cut.shard_rows // cut.inner_rows
    file = cut.shard_rows * row_bytes + 4 * inner + 16 * inner + 4
    assert file <= 64 * MIB or cut.shard_rows == 1
    assert cut.shard_rows - cut.inner_rows < rows  # no chunk of a shard beyond the data
    assert cut.count(rows) * cut.shard_rows >= rows > (cut.count(rows) - 1) * cut.shard_rows


def test_typical_array():
    cut = plan(1_000_000, 768 * 2)
    assert (cut.inner_rows, cut.shard_rows // cut.inner_rows) == (512, 85)


@pytest.mark.parametrize(("rows", "row_bytes"), [(0, 4), (4, 0)])
def test_nothing_to_cut(rows, row_bytes):
    with pytest.raises(ValueError, match="at least 1"):
        plan(rows, row_bytes)
