"""Parts of an unfinished run."""

import multiprocessing
import os
import signal

import numpy as np
import pytest

from optotype.schemas.errors import ConflictError
from optotype.store.staging import Staging

KEY = "0123456789abcdef" * 4


def part(seed, sizes, channels=3):
    return np.random.default_rng(seed).standard_normal((sum(sizes), channels)).astype("float16")


def test_parts_come_back_in_order(tmp_path):
    sizes = [[1, 2], [3], [1, 1, 1]]
    with Staging(tmp_path, KEY) as staging:
        assert staging.done() == 0
        assert staging.outputs is None
        for number, count in enumerate(sizes):
            staging.add([part(number, count), part(number + 9, count, 2)], np.array(count), {"flushed": number})
    with Staging(tmp_path, KEY) as staging:
        assert staging.done() == 6
        assert staging.outputs == 2
        assert staging.row_sizes().tolist() == [1, 2, 3, 1, 1, 1]
        assert staging.row_sizes().dtype == np.int64
        assert staging.notes() == [{"flushed": 0}, {"flushed": 1}, {"flushed": 2}]
        for output, channels in ((0, 3), (1, 2)):
            blocks = list(staging.blocks(output))
            assert [block.dtype for block in blocks] == ["float16"] * 3
            for number, block in enumerate(blocks):
                np.testing.assert_array_equal(block, part(number + 9 * output, sizes[number], channels))


def test_counts_of_their_own_for_each_output(tmp_path):
    with Staging(tmp_path, KEY) as staging:
        staging.add([part(0, [1, 2]), part(1, [2, 2])], [np.array([1, 2]), np.array([2, 2])])
        assert staging.row_sizes(0).tolist() == [1, 2]
        assert staging.row_sizes(1).tolist() == [2, 2]


def test_other_keys_do_not_mix(tmp_path):
    with Staging(tmp_path, KEY) as one, Staging(tmp_path, KEY[::-1]) as other:
        one.add([part(0, [1])], [1])
        assert other.done() == 0


@pytest.mark.parametrize(
    ("values", "counts"),
    [([part(0, [2])], [1]), ([], [1]), ([part(0, [1]), part(0, [1])], [1]), ([part(0, [1])], [[1], [1]])],
)
def test_parts_that_do_not_fit(tmp_path, values, counts):
    with Staging(tmp_path, KEY) as staging:
        staging.add([part(0, [1])], [1])
        with pytest.raises(ValueError, match=r"part|outputs"):
            staging.add(values, counts)
        assert staging.done() == 1


@pytest.mark.parametrize("damage", ["values", "missing", "document", "no-document", "older"])
def test_what_follows_a_damaged_part_is_made_again(tmp_path, damage):
    with Staging(tmp_path, KEY) as staging:
        for number in range(3):
            staging.add([part(number, [1, 1])], [1, 1])
    values, document = (tmp_path / KEY / f"part-000001.{end}" for end in ("0.npy", "json"))
    if damage == "values":
        values.write_bytes(values.read_bytes()[:-1] + b"\x55")
    elif damage == "missing":
        values.unlink()
    elif damage == "document":
        document.write_text("{")
    elif damage == "older":
        document.write_text(document.read_text().replace('"format_version": 1', '"format_version": 99'))
    else:
        document.unlink()
    with Staging(tmp_path, KEY) as staging:
        assert staging.done() == 2
        staging.add([part(7, [1])], [1])
        assert staging.done() == 3
        np.testing.assert_array_equal(list(staging.blocks())[1], part(7, [1]))


def _hold(root, ready, kill):
    with Staging(root, KEY) as staging:
        staging.add([part(0, [1, 2])], [1, 2])
        ready.set()
        kill.wait()


def test_another_process_is_kept_off_and_a_killed_one_is_not_waited_for(tmp_path):
    context = multiprocessing.get_context("fork")
    ready, kill = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path, ready, kill))
    holder.start()
    ready.wait()
    with pytest.raises(ConflictError, match=f"pid {holder.pid}"):
        Staging(tmp_path, KEY).open()
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    with Staging(tmp_path, KEY) as staging:
        assert staging.done() == 2


def test_discard_leaves_nothing(tmp_path, files):
    staging = Staging(tmp_path, KEY)
    staging.add([part(0, [1])], [1])
    with pytest.raises(ConflictError):
        Staging(tmp_path, KEY).done()
    staging.discard()
    assert files(tmp_path) == []
    with Staging(tmp_path, KEY) as again:
        assert again.done() == 0


def test_half_written_values_are_removed(tmp_path, files):
    (tmp_path / KEY).mkdir()
    (tmp_path / KEY / "part-000000.0.npy").write_bytes(b"half")
    (tmp_path / KEY / ".part-000000.0.npy.0123abcd.draft").write_bytes(b"half")
    with Staging(tmp_path, KEY) as staging:
        assert staging.done() == 0
    assert files(tmp_path / KEY) == []


def test_key_is_a_digest(tmp_path):
    with pytest.raises(ValueError, match="64 hex"):
        Staging(tmp_path, "../../etc")


def test_a_run_without_parts_leaves_nothing(tmp_path, files):
    with pytest.raises(RuntimeError, match="stop"), Staging(tmp_path, KEY) as staging:  # noqa: PT012
        assert staging.done() == 0
        raise RuntimeError("stop")
    assert files(tmp_path) == []
    with Staging(tmp_path, KEY) as staging:
        staging.add([np.ones((2, 1))], np.array([1, 1]))
    with Staging(tmp_path, KEY) as staging:
        assert staging.done() == 2
