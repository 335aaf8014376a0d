"""What is sent from one process to another: its arrays arrive in place, through messages and through files."""

from __future__ import annotations

import gc
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from sapwood.runtime.dask import serialise as sealed
from sapwood.runtime.dask.array_store import FileTable
from sapwood.runtime.dask.serialise import Serialised

VALUE = {"a": np.arange(300_000.0), "b": [np.arange(3, dtype=np.int32), "text"], "empty": np.zeros((0, 4))}


def check(found: dict) -> None:
    assert np.array_equal(found["a"], VALUE["a"])
    assert np.array_equal(found["b"][0], VALUE["b"][0])
    assert (found["b"][1], found["empty"].shape) == ("text", (0, 4))
    assert all(array.flags.aligned for array in (found["a"], found["b"][0]))


def posted(letter: Serialised, protocol: int = 5) -> Serialised:
    """Send something as Dask does; arrays arrive anywhere."""
    arrays: list[pickle.PickleBuffer] = []
    message = pickle.dumps(letter, protocol, buffer_callback=arrays.append if protocol > 4 else None)
    odd = [np.frombuffer(b"x" + array.raw().tobytes(), np.uint8)[1:] for array in arrays]
    return pickle.loads(message, buffers=odd)


@pytest.mark.parametrize("protocol", [4, 5])
def test_what_is_sent_arrives_in_place(protocol: int) -> None:
    letter = Serialised(VALUE)
    assert sys.getsizeof(letter) > 2_400_000
    check(posted(letter, protocol).value)
    check(posted(posted(letter, protocol), protocol).value)


@pytest.mark.parametrize("mapped", [1, 1 << 40])
def test_large_arrays_go_through_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mapped: int) -> None:
    monkeypatch.setattr(sealed, "_MAPPED", mapped)
    letter = Serialised(VALUE, str(tmp_path))
    message = pickle.dumps(letter, 5)
    assert len(message) < 2000
    (path,) = tmp_path.iterdir()
    arrived = pickle.loads(message)
    check(arrived.value)
    # The file is there as long as something in this process stands for it, and what was mapped for longer.
    del letter
    gc.collect()
    assert path.exists()
    values, content = arrived.value["a"], path.read_bytes()
    values[:5] = 7  # of no consequence to other processes
    assert path.read_bytes() == content
    # Who wants it in this process as well shares the pages.
    assert np.shares_memory(pickle.loads(message).value["a"], values) == (mapped == 1)
    del arrived
    gc.collect()
    assert not path.exists()
    assert values[-1] == 299_999
    with pytest.raises(OSError, match="No such file"):
        pickle.loads(message)


def test_who_has_mapped_a_file_that_is_gone_sends_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    letter = Serialised(VALUE, str(tmp_path))
    monkeypatch.setattr(sealed.MappedFile, "known", {})  # as in another process
    there = pickle.loads(pickle.dumps(letter, 5))
    (path,) = tmp_path.iterdir()
    path.unlink()
    check(pickle.loads(pickle.dumps(there, 5)).value)


def test_what_dask_writes_to_disk_is_whole(tmp_path: Path) -> None:
    protocol = pytest.importorskip("distributed", reason="distributed is not installed").protocol
    letter = Serialised(VALUE, str(tmp_path))
    on_disk = b"".join(protocol.serialize_bytelist(letter))  # as its buffer for too much data does
    header, frames = protocol.serialize(letter, context={"recipient": {}})  # as a message
    assert sum(memoryview(frame).nbytes for frame in frames) < 2000
    check(protocol.deserialize(header, frames).value)
    (path,) = tmp_path.iterdir()
    del letter
    gc.collect()
    assert not path.exists()
    check(protocol.deserialize_bytes(on_disk).value)
    with pytest.raises(OSError, match="No such file"):
        protocol.deserialize(header, frames)


def test_small_things_and_full_disks_need_no_file(tmp_path: Path) -> None:
    check(posted(Serialised(VALUE, str(tmp_path / "nowhere"))).value)
    pickle.dumps(Serialised(np.arange(10), str(tmp_path)), 5)
    assert not list(tmp_path.iterdir())


def test_functions_of_ones_own_can_be_sent() -> None:
    number = 5
    assert posted(Serialised(lambda x: x + number)).value(3) == 8


def test_tables_are_used_again_when_nobody_looks_at_them(tmp_path: Path) -> None:
    free: list[str] = []
    lost: list[int] = []
    table = FileTable(str(tmp_path / "table"), 100, free.append, lambda: bool(lost))
    there = pickle.loads(pickle.dumps(table))
    there.place(0, 40)[:] = 1
    there.place(40, 60)[:] = 2
    array = table.array
    assert array.tolist() == [1] * 40 + [2] * 60
    part = array[50:]
    del array
    gc.collect()
    assert free == []
    part[:] = 3  # of no consequence to the file
    del part
    gc.collect()
    assert free == [str(tmp_path / "table")]
    other = FileTable(free.pop(), 100, free.append, lambda: bool(lost))
    assert other.array.tolist() == [1] * 40 + [2] * 60
    assert table.sound
    assert other.sound
    lost.append(1)  # someone may write to the old file
    assert table.sound
    assert not other.sound
