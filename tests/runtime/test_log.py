"""The training log: what is written is read, and a crash costs at most the line that was being written."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.errors import InputError, UsageError
from sapwood.runtime.log import Log, NoLog, TrainingLog, read_log


class Clock:
    """Takes the place of the clock."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr("sapwood.runtime.log.time", fake)
    return fake


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "train.jsonl"


def train(log: Log, steps: range) -> None:
    """Report some iterations, and an evaluation after every third one."""
    for step in steps:
        log.write("iteration", step=step, cycle=1 + (step - 1) // 3, log_likelihood=-100.0 / step)
        if step % 3 == 0:
            log.write("dev", step=step, f1=50.0 + step)


def test_lines_are_as_written(path: Path, clock: Clock) -> None:
    with TrainingLog(path) as log:
        log.write("start", step=0, settings={"states": 8, "names": ("a", "é")})
        clock.now += 1.23456
        log.write("iteration", step=1, log_likelihood=-3.5, states=16, member=2)
        log.write("end", step=1, seconds=99.5)
    assert path.read_bytes().decode("ascii").splitlines() == [
        r'{"event": "start", "step": 0, "seconds": 0.0, "settings": {"states": 8, "names": ["a", "\u00e9"]}}',
        '{"event": "iteration", "step": 1, "seconds": 1.235, "log_likelihood": -3.5, "states": 16, "member": 2}',
        '{"event": "end", "step": 1, "seconds": 99.5}',
    ]
    assert read_log(path)[0]["settings"] == {"states": 8, "names": ["a", "é"]}


def test_a_line_is_there_as_soon_as_it_is_written(path: Path) -> None:
    log = TrainingLog(path)
    for step in range(5):
        log.write("iteration", step=step)
        assert len(read_log(path)) == step + 1
    log.close()


def test_numbers_that_are_none(path: Path) -> None:
    with TrainingLog(path) as log:
        log.write("iteration", step=np.int64(1), log_likelihood=math.nan, f1=-math.inf, settings={"a": [math.inf, 1.5]})
        log.write(
            "iteration", step=2, log_likelihood=np.float32("nan"), states=np.int32(7), row=np.array([1.0, np.nan])
        )
        log.write("iteration", step=3, seconds=math.nan, flag=np.True_, where=Path("x"))
    assert "NaN" not in path.read_text()
    assert "Infinity" not in path.read_text()
    first, second, third = read_log(path)
    assert (first["log_likelihood"], first["f1"], first["settings"]) == (None, None, {"a": [None, 1.5]})
    assert (second["log_likelihood"], second["states"], second["row"]) == (None, 7, [1.0, None])
    assert (third["seconds"], third["flag"], third["where"]) == (None, True, "x")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.tuples(st.text(), st.integers(0, 10**12), st.dictionaries(st.text(min_size=1), VALUES)), max_size=4))
def test_any_figures_come_back(tmp_path_factory: pytest.TempPathFactory, events: list[Any]) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    known = {"event", "step", "seconds", "member", "self"}
    events = [
        (f"my {event}", step, {name: value for name, value in figures.items() if name not in known})
        for event, step, figures in events
    ]
    with TrainingLog(path) as log:
        for event, step, figures in events:
            log.write(event, step=step, seconds=1, **figures)
    assert read_log(path) == [{"event": event, "step": step, "seconds": 1, **rest} for event, step, rest in events]


@pytest.mark.parametrize(
    "figures",
    [
        {"step": -1},
        {"step": 1.0},
        {"step": True},
        {"step": 1, "seconds": -1},
        {"step": 1, "log_likelihood": "-3"},
        {"step": 1, "states": 1.5},
        {"step": 1, "member": -1},
    ],
)
def test_what_could_not_be_read_is_not_written(path: Path, figures: dict[str, Any]) -> None:
    with TrainingLog(path) as log, pytest.raises(ValueError):
        log.write("iteration", **figures)
    assert path.read_bytes() == b""


def test_no_log(tmp_path: Path) -> None:
    log: Log = NoLog()
    train(log, range(1, 4))
    assert list(tmp_path.iterdir()) == []


def test_a_new_log_replaces_an_old_one_and_append_does_not(path: Path) -> None:
    for append, steps in ((False, [1]), (True, [1, 1]), (True, [1, 1, 1]), (False, [1])):
        with TrainingLog(path, append=append) as log:
            log.write("iteration", step=1)
        assert [line["step"] for line in read_log(path)] == steps


def test_append_begins_a_log_where_there_is_none(path: Path) -> None:
    with TrainingLog(path, append=True) as log:
        log.write("start", step=0)
    assert len(read_log(path)) == 1


# -- crashes -----------------------------------------------------------------------------------------------------------


def test_a_line_cut_short_anywhere_is_left_out_and_cut_off(path: Path) -> None:
    with TrainingLog(path) as log:
        train(log, range(1, 3))
    whole = path.read_bytes()
    begin = whole.rindex(b"\n", 0, -1) + 1
    for end in range(begin, len(whole) + 1):
        path.write_bytes(whole[:end])
        # If nothing but the line end is missing, nothing is lost.
        kept = [1, 2] if end >= len(whole) - 1 else [1]
        assert [line["step"] for line in read_log(path)] == kept
        with TrainingLog(path, append=True) as log:
            log.write("iteration", step=7)
        assert [line["step"] for line in read_log(path)] == [*kept, 7]


def test_nothing_of_another_file_is_cut_off(path: Path) -> None:
    for content in (b"(S (A b))", b"precious", b"\x93NUMPY", b"[1, 2", b'{"a": 1}', b"1\n{"):
        path.write_bytes(content)
        for go_on in (lambda: TrainingLog(path, append=True), lambda: TrainingLog.resume(path, step=3)):
            with pytest.raises(InputError):
                go_on()
            assert path.read_bytes() == content


def test_seconds_go_on(path: Path, clock: Clock) -> None:
    with TrainingLog(path) as log:
        clock.now += 10
        log.write("iteration", step=1)
        clock.now += 10
        log.write("iteration", step=2)
    clock.now = 5.0  # another day, another machine
    with TrainingLog(path, append=True) as log:
        clock.now += 1
        assert log.seconds == 21.0
        log.write("iteration", step=3)
    with TrainingLog.resume(path, step=1) as log:
        clock.now += 2
        log.write("iteration", step=2, seconds=math.nan)
        clock.now += 3
        log.write("iteration", step=3)
    with TrainingLog.resume(path, step=2) as log:  # the last line has no seconds, the one before has
        log.write("iteration", step=3)
    assert [line["seconds"] for line in read_log(path)] == [10.0, None, 10.0]


@pytest.mark.parametrize("torn", [b"", b'{"event": "iter'])
@pytest.mark.parametrize("step", range(8))
def test_a_log_resumed_is_like_one_that_was_never_interrupted(
    step: int, torn: bytes, tmp_path: Path, clock: Clock
) -> None:
    for name in ("straight", "resumed"):
        with TrainingLog(tmp_path / name) as log:
            log.write("start", step=0)
            train(log, range(1, 8))
    with (tmp_path / "resumed").open("ab") as stream:
        stream.write(torn)
    with TrainingLog.resume(tmp_path / "resumed", step=step) as log:
        assert [line["step"] for line in read_log(tmp_path / "resumed")][-1] == step
        train(log, range(step + 1, 8))
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "straight").read_bytes()
    assert sorted(item.name for item in tmp_path.iterdir()) == ["resumed", "straight"]


def test_resume_begins_a_log_where_there_is_none(path: Path) -> None:
    with TrainingLog.resume(path, step=40) as log:
        log.write("iteration", step=41)
    assert [line["step"] for line in read_log(path)] == [41]


def test_a_log_that_cannot_be_cut_is_left_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with TrainingLog(path) as log:
        train(log, range(1, 8))
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sapwood.storage.files.os.fsync", full)
    with pytest.raises(InputError, match=r"train\.jsonl: cannot write it: No space left on device"):
        TrainingLog.resume(path, step=3)
    assert path.read_bytes() == before


def test_a_line_that_the_system_takes_in_pieces_is_whole(path: Path) -> None:
    log = TrainingLog(path)
    stream = log._stream
    log._stream = SimpleNamespace(write=lambda data: stream.write(data[:3]), close=stream.close)  # type: ignore[assignment]
    log.write("iteration", step=1, log_likelihood=-1.5)
    log.close()
    assert read_log(path)[0]["log_likelihood"] == -1.5


# -- bad input ---------------------------------------------------------------------------------------------------------


GOOD = '{"event": "start", "step": 0}\n'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("\n", 'not a line of a training log, which is a JSON object: ""'),
        ("(S (A b))\n", r"not a line of a training log, which is a JSON object: \"\(S \(A b\)\)\""),
        ("(S (A b))", "not a line of a training log"),
        ('{"event": "iteration", "step": \n', "not a line of a training log"),
        ("[1, 2]\n", "not a line of a training log"),
        ("null", "not a line of a training log"),
        ("[" * 100_000 + "\n", "not a line of a training log.*\\.\\.\\."),
        ('{"step": 1}\n', "it has no event"),
        ('{"event": 3, "step": 1}\n', "it has no event"),
        ('{"event": "end"}\n', "its step is not a number of iterations: null"),
        ('{"event": "end", "step": "1"}\n', 'its step is not a number of iterations: "1"'),
        ('{"event": "end", "step": -1}\n', "its step is not a number of iterations: -1"),
        ('{"event": "end", "step": true}\n', "its step is not a number of iterations: true"),
        ('{"event": "end", "step": 1%s}\n' % ("0" * 400), "its step is not a number"),
        ('{"event": "end", "step": 1, "seconds": "now"}\n', 'seconds must be a number: "now"'),
        ('{"event": "end", "step": 1, "seconds": -0.5}\n', "seconds must be 0 or more: -0.5"),
        ('{"event": "end", "step": 1, "member": "a"}\n', 'member must be a whole number, 0 or more: "a"'),
        ('{"event": "iteration", "step": 1, "log_likelihood": [1]}\n', r"log_likelihood must be a number: \[1\]"),
        ('{"event": "iteration", "step": 1, "log_likelihood": NaN}\n', "not a line of a training log"),
        ('{"event": "iteration", "step": 1, "log_likelihood": 1e999}\n', "log_likelihood is too large"),
        ('{"event": "iteration", "step": 1, "log_likelihood": -1%s}\n' % ("0" * 400), "log_likelihood is too large"),
        ('{"event": "iteration", "step": 1, "states": 2.5}\n', "states must be a whole number, 0 or more: 2.5"),
        ('{"event": "dev", "step": 1, "f1": {}}\n', "f1 must be a number: {}"),
    ],
    ids=range(23),
)
def test_malformed_lines_are_named(line: str, message: str, path: Path) -> None:
    path.write_text(GOOD + line)
    with pytest.raises(InputError, match=rf"train\.jsonl:2: .*{message}"):
        read_log(path)
    # In the middle of a file even a line that was cut short is an error.
    path.write_text(GOOD + line.rstrip("\n") + "\n" + GOOD)
    with pytest.raises(InputError, match=r"train\.jsonl:2: "):
        read_log(path)


def test_figures_that_are_not_known_can_be_anything(path: Path) -> None:
    line = {"event": "end", "step": 3, "states": [1, 2], "f1": "high", "more": {"deep": None}}
    path.write_text(json.dumps(line) + "\r\n")
    assert read_log(path) == [line]


def test_an_empty_log_has_no_lines(path: Path) -> None:
    path.write_bytes(b"")
    assert read_log(path) == []


def test_files_that_are_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none: no such file"):
        read_log(tmp_path / "none")
    with pytest.raises(InputError, match="is a directory"):
        read_log(tmp_path)
    (tmp_path / "noise").write_bytes(b"{\xff\xfe\x00")
    with pytest.raises(InputError, match="noise:1:2: not valid UTF-8"):
        read_log(tmp_path / "noise")


def test_places_that_cannot_hold_a_log(tmp_path: Path) -> None:
    for name in ("-", tmp_path / "log.gz"):
        with pytest.raises(UsageError, match="regular file"):
            TrainingLog(name)
    with pytest.raises(InputError, match="nowhere: no such file or directory"):
        TrainingLog(tmp_path / "nowhere" / "log")
    with pytest.raises(InputError, match="is a directory"):
        TrainingLog(tmp_path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_an_error() -> None:
    with TrainingLog("/dev/full") as log, pytest.raises(InputError, match="/dev/full: cannot write it: No space left"):
        log.write("start", step=0)
