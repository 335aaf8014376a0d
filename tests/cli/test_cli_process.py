"""The command as a process: streams, signals, pipes and full disks.

Each start costs about a second, so that there are few of them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from sapwood.trees import Tree

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and pipes as POSIX has them")
COMMAND = [sys.executable, "-m", "sapwood"]
TIMEOUT = 120


def _restore_interrupts() -> None:
    # A background job of a shell ignores interrupts, and hands that down.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start the command with pipes to all its streams."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, preexec_fn=_restore_interrupts
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def interrupted(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Press Ctrl-C, and again if nothing happens, and return what the process wrote.

    A signal that arrives just before a read blocks wakes Python up only when that read ends.
    """
    for _ in range(TIMEOUT // 10):
        process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError("did not end")


def finished(command: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a line of shell in which `sapwood` is the command."""
    script = command.replace("sapwood ", f'"{sys.executable}" -m sapwood ')
    return subprocess.run(["bash", "-c", script], capture_output=True, timeout=TIMEOUT, check=False, **options)


def send(process: subprocess.Popen[bytes], text: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.flush()


def test_each_line_is_answered_before_the_next_is_sent(folder: Path) -> None:
    with started("parse", "-q", "-m", "m") as process:
        assert process.stdout is not None
        for sentence in ("cats sleep .", "", "the dog barks .", "犬 😀"):
            send(process, f"{sentence}\n".encode())
            answer = process.stdout.readline().decode()
            assert answer == "\n" if not sentence else Tree.parse(answer).words() == sentence.split()
        assert process.communicate(timeout=TIMEOUT) == (b"", b"")
        assert process.returncode == 0


@pytest.mark.slow
def test_interrupt_while_parsing_a_stream(folder: Path) -> None:
    before = sorted(folder.iterdir())
    with started("parse", "-q", "-m", "m", "-o", "out.mrg") as process:
        send(process, b"cats sleep .\n")
        # The temporary file beside the output is there, with the first tree in it, before the interrupt.
        wait_for(process, lambda: any(path.stat().st_size for path in folder.glob(".out.mrg.*")))
        assert interrupted(process) == (b"", b"sapwood: interrupted\n")
        assert process.returncode == 130
    assert sorted(folder.iterdir()) == before


@pytest.mark.slow
def test_interrupt_while_parsing_a_file_with_threads(folder: Path) -> None:
    (folder / "many.txt").write_text("she feeds the cats and the dog with spots .\n" * 500_000)
    before = sorted(folder.iterdir())
    with started("parse", "-q", "-m", "m", "many.txt", "-o", "out.mrg", "--threads", "2") as process:
        wait_for(process, lambda: any(path.stat().st_size for path in folder.glob(".out.mrg.*")))
        assert interrupted(process) == (b"", b"sapwood: interrupted\n")
        assert process.returncode == 130
    assert sorted(folder.iterdir()) == before


def test_interrupt_while_training(folder: Path) -> None:
    os.mkfifo(folder / "trees.pipe")
    before = sorted(folder.iterdir())
    with started("train", "trees.pipe", "-o", "out.sapwood") as process:
        # Once it reads from the pipe the command is in the middle of its work, and stays there.
        with wait_for(process, lambda: writer_to(folder / "trees.pipe")):
            assert interrupted(process) == (b"", b"sapwood: interrupted\n")
        assert process.returncode == 130
    assert sorted(folder.iterdir()) == before


def test_interrupt_while_minimizing(folder: Path) -> None:
    os.mkfifo(folder / "trees.pipe")
    before = sorted(folder.iterdir())
    options = ("--by", "projection", "--trees", "trees.pipe", "-o", "out.sapwood", "--plot", "out.svg")
    with started("minimise", "m", *options) as process:
        with wait_for(process, lambda: writer_to(folder / "trees.pipe")):
            assert interrupted(process) == (b"", b"sapwood: interrupted\n")
        assert process.returncode == 130
    assert sorted(folder.iterdir()) == before


def writer_to(pipe: Path) -> BinaryIO | None:
    """Open a pipe for writing, if anyone is there to read from it."""
    try:
        return os.fdopen(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "wb")
    except OSError:
        return None


def wait_for(process: subprocess.Popen[bytes], happened: Callable[[], Any]) -> Any:
    """Wait until it has happened (that is, is true), and return what did; fail if the process ends before."""
    while not (result := happened()):
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(f"ended too early: {process.communicate()}")
    return result


def test_a_reader_that_goes_away_is_no_error(folder: Path) -> None:
    # Bash's PIPESTATUS tells the exit code of the command and not that of `head`.
    parsed = finished("yes cats sleep . | sapwood parse -q -m m | head -1; exit ${PIPESTATUS[1]}")
    assert (parsed.returncode, parsed.stdout.count(b"\n"), parsed.stderr) == (0, 1, b"")
    converted = finished("yes '(S (A b))' | sapwood convert --to tokens | head -2; exit ${PIPESTATUS[1]}")
    assert (converted.returncode, converted.stdout, converted.stderr) == (0, b"b\nb\n", b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(
    "command",
    [
        "sapwood convert trees.mrg > /dev/full",
        "sapwood eval trees.mrg trees.mrg > /dev/full",
        "sapwood parse -q -m m sentences.txt -o /dev/full",
        "sapwood train trees.mrg --method pcfg -o /dev/full",
        "sapwood minimise m -q -o /dev/full",
    ],
)
def test_a_full_disk_is_an_error(command: str, folder: Path) -> None:
    ended = finished(command)
    assert (ended.returncode, ended.stdout) == (3, b"")
    assert ended.stderr.startswith(b"sapwood: ")
    assert ended.stderr.endswith(b"No space left on device\n")
    assert ended.stderr.count(b"\n") == 1
    assert not Path("/dev/full").is_file(), "a device was replaced by a file"


@pytest.mark.slow
def test_pipes_are_read_once_and_devices_written(folder: Path) -> None:
    ended = finished(
        "sapwood parse -q -m m <(cat sentences.txt) -o /dev/stdout; sapwood inspect <(cat trees.mrg) --tree 1 --json"
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    lines = ended.stdout.decode().splitlines()
    assert len(lines) == 5
    assert Tree.parse(lines[0]).words() == ["the", "dog", "barks", "."]


def test_closed_streams_are_empty_ones(folder: Path) -> None:
    ended = finished("sapwood parse -q -m m <&- && sapwood convert trees.mrg -o out 2>&- >&-")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    assert (folder / "out").read_bytes() == (folder / "trees.mrg").read_bytes()


@pytest.mark.parametrize("command", ["parse -q -m m sentences.txt", "eval -q trees.mrg trees.mrg"])
def test_what_cannot_be_written_is_not_lost_in_silence(command: str, folder: Path) -> None:
    ended = finished(f"sapwood {command} >&-")
    assert ended.returncode == 3
    assert ended.stderr.startswith(b"sapwood: standard output: ")


def test_an_interrupt_while_starting(tmp_path: Path) -> None:
    """A module that is imported before anything else presses Ctrl-C."""
    (tmp_path / "click.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(
        [*COMMAND, "parse"], env=environment, capture_output=True, check=False, preexec_fn=_restore_interrupts
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"sapwood: interrupted\n")


# Somebody who may read everything, so that Python is found wherever it is, and write nothing of others.
NOBODY = (
    "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=+dac_read_search --ambient-caps=+dac_read_search"
)


@pytest.mark.skipif(subprocess.getstatusoutput(f"{NOBODY} true")[0] != 0, reason="only root can become nobody")
def test_nothing_is_written_but_what_is_asked_for(folder: Path) -> None:
    """As a user without a home, who may write neither into the package nor into the current directory."""
    # Not in the folder of the tests: every run of pytest that begins beside this one closes that to others.
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(folder, place, dirs_exist_ok=True)
        Path(place).chmod(0o755)
        Path(place, "text").write_text("the dog sleeps\nthe cat sees the dog\n" * 20)
        mine = Path(place, "mine")
        mine.mkdir()
        os.chown(mine, 65534, 65534)
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "TMPDIR": str(mine)}
        assert finished(f"{NOBODY} touch {place}/m", cwd=place, env=environment).returncode != 0
        for arguments in (
            "parse sentences.txt",
            "train trees.mrg --states 2 --iterations 1 --method em -o mine/grammar",
            "lm train text --method em --states 2 -o mine/lm",
            "lm eval mine/lm text",
        ):
            ended = finished(f"{NOBODY} sapwood {arguments} -q", cwd=place, env=environment)
            assert (ended.returncode, ended.stderr) == (0, b""), arguments
        assert sorted(path.name for path in mine.iterdir()) == ["grammar", "lm"]


# The command, on a file system that cannot be written: whatever opens, makes, renames or removes a file fails.
READ_ONLY = """
import errno, os, runpy, sys

CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}

def refuse(event, given):
    written = event == "open" and isinstance(given[0], (str, bytes)) and (
        given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    )
    if (written and given[0] != os.devnull) or event in CHANGES:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), given[0])

sys.addaudithook(refuse)
runpy.run_module("sapwood", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    "arguments",
    ["parse sentences.txt", "parse --raw --threads 2 --json sentences.txt", "eval trees.mrg -m m"],
)
def test_nothing_is_written_on_a_read_only_file_system(folder: Path, arguments: str) -> None:
    """Without a home and a place for temporary files, too."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "TMPDIR": "/nonexistent"}
    command = [sys.executable, "-c", READ_ONLY, *arguments.split()]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    assert ended.stdout


def test_what_is_to_be_written_fails_on_a_read_only_file_system(folder: Path) -> None:
    command = [sys.executable, "-c", READ_ONLY, "parse", "-q", "sentences.txt", "-o", "out"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    assert ended.returncode == 3
    assert b"Read-only file system" in ended.stderr


def test_output_is_utf8_whatever_the_locale(folder: Path) -> None:
    environment = {
        **os.environ,
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONIOENCODING": "ascii",
        "PYTHONCOERCECLOCALE": "0",
    }
    ended = finished("sapwood parse -q -m m --to tokens", input="犬 😀\n".encode(), env=environment)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "犬 😀\n".encode(), b"")
