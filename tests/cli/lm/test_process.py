"""`sapwood lm` as a process: streams, interrupts, pipes and full disks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli.test_cli_process import TIMEOUT, finished, interrupted, send, started, wait_for, writer_to
from helpers.lm_texts import made_up_text
from sapwood.lm import KneserNey, count_text

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and pipes as POSIX has them")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current directory, with a text and a model of it."""
    (tmp_path / "text.txt").write_text(made_up_text(60, 0))
    KneserNey(order=2).fit(count_text(tmp_path / "text.txt")).save(tmp_path / "m")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "call",
    [
        ["count", "pipe", "-o", "out"],
        ["train", "text.txt", "--dev", "pipe", "--states", "4", "--log", "log", "-o", "out"],
    ],
    ids=lambda call: call[0],
)
@pytest.mark.slow
def test_an_interrupt_leaves_nothing_behind(folder: Path, call: list[str]) -> None:
    os.mkfifo(folder / "pipe")
    before = sorted(folder.iterdir())
    with started("lm", *call) as process:
        # Once it reads from the pipe the command is in the middle of its work, and stays there.
        with wait_for(process, lambda: writer_to(folder / "pipe")):
            out, err = interrupted(process)
        assert (out, err.splitlines()[-1:]) == (b"", [b"sapwood: interrupted"])
        assert process.returncode == 130
    assert sorted(folder.iterdir()) == before


@pytest.mark.slow
def test_each_line_is_answered_before_the_next_is_sent(folder: Path) -> None:
    with started("lm", "score", "-q", "m") as process:
        assert process.stdout is not None
        for line in ("the dog sees a cat", "", "the 犬 sleeps"):
            send(process, f"{line}\n".encode())
            assert process.stdout.readline().decode().rstrip("\n").split("\t")[3] == line
        assert process.communicate(timeout=TIMEOUT) == (b"", b"")
        assert process.returncode == 0


@pytest.mark.slow
def test_pipes_in_and_out(folder: Path) -> None:
    # Readers that go away are no error; what comes from a pipe is as good as a file.
    ended = finished(
        "yes the dog sees | sapwood lm score -q m | head -n 1 | cut -f 4; test ${PIPESTATUS[1]} = 0 || exit 9;"
        "sapwood lm eval m <(cat text.txt) | tail -n 1"
    )
    assert ended.returncode == 0
    assert ended.stdout.decode().split() == ["the", "dog", "sees", "unknown", "0"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_an_error(folder: Path) -> None:
    ended = finished("sapwood lm count -q text.txt -o /dev/full")
    assert (ended.returncode, ended.stdout) == (3, b"")
    assert ended.stderr.endswith(b"No space left on device\n")
    assert ended.stderr.count(b"\n") == 1
