"""Locks: a run never removes what another one writes, and never writes what another one has claimed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sapwood.errors import InputError
from sapwood.runtime.checkpoint import RunFiles
from sapwood.storage import locks
from sapwood.storage.files import atomic_write
from sapwood.storage.locks import claimed, remove_abandoned

LONG = "split-merge-on-all-trees-with-16-states-seed-"
WRITER = """
import sys, time
from pathlib import Path
from sapwood.storage.files import atomic_write
from sapwood.storage.locks import claimed
with claimed(sys.argv[1]), atomic_write(sys.argv[1]) as stream:
    stream.write(b"begun")
    print("ready", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def writer(tmp_path):
    """A process that has begun to write a file, and waits for a line."""
    started = []

    def start(name: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, tmp_path / name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def parts(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix == ".part"]


def test_what_another_run_writes_stays(tmp_path, writer):
    # Names that begin alike have temporary files that begin alike.
    process = writer(f"{LONG}1")
    RunFiles(tmp_path / f"{LONG}2").clear()
    RunFiles(tmp_path / f"{LONG}1").clear()
    remove_abandoned(tmp_path, f"{LONG}1")
    assert len(parts(tmp_path)) == 1
    process.communicate("\n")
    assert process.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == [f"{LONG}1"]
    assert (tmp_path / f"{LONG}1").read_bytes() == b"begun"


def test_what_a_killed_run_left_goes(tmp_path, writer):
    process = writer("m")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(parts(tmp_path)) == 1
    with claimed(tmp_path / "m"):
        remove_abandoned(tmp_path, "other")
        assert len(parts(tmp_path)) == 1
        remove_abandoned(tmp_path, "m")
    assert list(tmp_path.iterdir()) == []


def test_only_temporary_files_are_removed(tmp_path):
    kept = {
        ".m.part",
        ".m.mine.part",
        ".m.abcdefgh.part.txt",
        ".mm.abcdefgh.part",
        ".m.ABCDEFGH.part",
        "m.checkpointed",
    }
    for name in kept:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / ".m.abcdefgh.part").write_bytes(b"")
    (tmp_path / ".m.checkpoint.abcdefgh.part").write_bytes(b"")
    (tmp_path / "m.checkpoint-01").write_bytes(b"")
    (tmp_path / ".m.aaaaaaaa.part").symlink_to(tmp_path / ".m.part")
    RunFiles(tmp_path / "m").clear()
    assert {path.name for path in tmp_path.iterdir()} == kept | {".m.aaaaaaaa.part"}


def test_one_run_per_output(tmp_path, writer):
    process = writer("m")
    (tmp_path / "link").symlink_to("m")
    for name in ("m", "link"):
        with (
            pytest.raises(InputError, match=rf"/{name}: another run is writing it; wait until it ends"),
            claimed(tmp_path / name),
        ):
            pass
    with claimed(tmp_path / "n"):
        pass
    process.communicate("\n")
    with claimed(tmp_path / "m"):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"m", "link"}


def test_a_temporary_file_that_was_removed_is_made_again(tmp_path, monkeypatch):
    removed = []

    def lock(handle: int) -> bool:
        if not removed:  # by another process, which saw it before it was locked
            removed.extend(parts(tmp_path))
            parts(tmp_path)[0].unlink()
        return True

    monkeypatch.setattr(locks, "_lock", lock)
    with atomic_write(tmp_path / "m") as stream:
        stream.write(b"whole")
    assert len(removed) == 1
    assert (tmp_path / "m").read_bytes() == b"whole"


def test_where_there_are_no_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_lock", lambda _: None)
    (tmp_path / ".m.abcdefgh.part").write_bytes(b"")
    remove_abandoned(tmp_path, "m")
    with claimed(tmp_path / "m"), atomic_write(tmp_path / "m") as stream:
        stream.write(b"whole")
    assert {path.name for path in tmp_path.iterdir()} == {"m", ".m.abcdefgh.part"}


def test_messages_name_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="m: cannot write it: its temporary file was removed"), atomic_write("m"):
        parts(tmp_path)[0].unlink()
    Path("gone").mkdir()
    monkeypatch.chdir("gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(InputError) as caught, atomic_write("m"):
        pass
    assert not str(caught.value).startswith(".:")


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no folder that nobody can write into")
def test_folders_that_cannot_be_written_are_errors(tmp_path):
    with pytest.raises(InputError, match="cannot write in its folder"), claimed("/proc/self/fd/model"):
        pass
    # Nor is a link followed that has the name of a lock.
    with claimed(tmp_path / "model"):
        [lock] = tmp_path.glob(".model.*.lock")
    lock.symlink_to(tmp_path / "other")
    with pytest.raises(InputError, match="cannot write in its folder"), claimed(tmp_path / "model"):
        pass
    assert not (tmp_path / "other").exists()
