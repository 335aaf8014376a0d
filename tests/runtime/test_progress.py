"""Progress: silence where nobody watches, a bar on a terminal."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import ClassVar

import pytest
import tqdm as tqdm_package

from sapwood.runtime.progress import Bars, Silent, in_notebook, track


class Terminal(io.StringIO):
    """Takes the place of a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch) -> Terminal:
    fake = Terminal()
    monkeypatch.setattr("sapwood.runtime.progress.sys", SimpleNamespace(stderr=fake, modules=sys.modules))
    # No thread that looks after bars: here the clock stands still unless it is moved.
    monkeypatch.setattr(tqdm_package.tqdm, "monitor_interval", 0)
    return fake


@pytest.fixture
def set_clock(monkeypatch) -> Callable[[float], None]:
    """A clock that goes on by so many seconds whenever it is looked at."""
    now = [1000.0, 0.0]

    def time() -> float:
        now[0] += now[1]
        return now[0]

    monkeypatch.setattr(tqdm_package.std, "time", time)
    return lambda step: now.__setitem__(1, step)


class Recorder:
    """A progress that remembers what it was told."""

    def __init__(self) -> None:
        self.events: list[object] = []

    @contextlib.contextmanager
    def stage(self, name: str, total: int | None = None, unit: str = "it") -> Iterator[Recorder]:
        self.events.append((name, total, unit))
        yield self
        self.events.append("end")

    def step(self, amount: int = 1, **figures: object) -> None:
        self.events.append(amount)

    def note(self, message: str) -> None:
        self.events.append(message)


def work(progress, steps: int = 20) -> None:
    with progress.stage("counting", total=steps, unit="trees") as stage:
        for number in range(steps):
            stage.step(1, f1=number)


def test_silent(terminal, capsys, set_clock):
    set_clock(10.0)
    work(Silent())
    Silent().note("something")
    captured = capsys.readouterr()
    assert (terminal.getvalue(), captured.out, captured.err) == ("", "", "")


def test_no_bar_without_a_terminal(capsys, set_clock):
    set_clock(10.0)
    work(Bars())
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_a_bar_on_a_terminal(terminal, capsys, set_clock):
    set_clock(1.0)
    work(Bars())
    shown = terminal.getvalue()
    assert "counting" in shown
    assert "/20" in shown
    assert "trees/s" in shown
    assert "f1=5" in shown
    assert shown.endswith("\r")  # wiped in the end
    assert shown.split("\r")[-2].strip() == ""
    assert "\n" not in shown
    assert capsys.readouterr().out == ""


def test_a_bar_of_unknown_length(terminal, set_clock):
    set_clock(1.0)
    with Bars().stage("reading") as stage:
        for _ in range(10):
            stage.step(5)
    assert "reading: 40 it" in terminal.getvalue()


def test_quick_work_shows_no_bar(terminal, set_clock):
    set_clock(0.001)
    work(Bars())
    assert terminal.getvalue() == ""


def test_errors_pass_and_wipe_the_bar(terminal, set_clock):
    set_clock(1.0)

    def fail() -> None:
        with Bars().stage("counting", total=10) as stage:
            stage.step(3)
            stage.step(3)
            raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        fail()
    assert "counting" in terminal.getvalue()
    assert terminal.getvalue().split("\r")[-2].strip() == ""


def test_notes_are_shown_with_and_without_a_terminal(capsys):
    Bars().note("skipped 3 trees")
    assert capsys.readouterr().err == "skipped 3 trees\n"


def test_notes_beside_a_bar(terminal, set_clock):
    set_clock(1.0)
    progress = Bars()
    with progress.stage("counting", total=10) as stage:
        stage.step(4)
        progress.note("skipped 3 trees")
        stage.step(4)
    assert "skipped 3 trees\n" in terminal.getvalue()


def test_track():
    recorder = Recorder()
    items = track("abc", recorder, "spelling", total=3, unit="letters")
    assert recorder.events == []
    assert next(items) == "a"
    assert recorder.events == [("spelling", 3, "letters")]
    assert list(items) == ["b", "c"]
    assert recorder.events == [("spelling", 3, "letters"), 1, 1, 1, "end"]
    assert list(track([1, 2], Silent(), "x")) == [1, 2]


class Kernel:
    """Stands in for the shell of a notebook."""

    config: ClassVar[dict[str, object]] = {"IPKernelApp": {}}


def test_notebooks_have_bars_of_their_own(monkeypatch):
    made = []

    class Bar(contextlib.nullcontext):
        def __init__(self, **options: object) -> None:
            super().__init__(self)
            made.append(options)

        def update(self, amount: int) -> None:
            made.append(amount)

    assert not in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=Kernel))
    assert in_notebook()
    monkeypatch.setattr("tqdm.auto.tqdm", Bar)
    with Bars().stage("parsing", 9, "sentences") as stage:
        stage.step(3)
    # Not to standard error, which is no terminal there.
    shown = made[0].pop("bar_format")
    assert "{counted}/{whole}" in shown
    assert made == [{"total": 9, "desc": "parsing", "unit": " sentences", "delay": 1, "leave": False}, 3]


def test_notebooks_without_widgets_have_plain_bars(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=Kernel))
    for name in ("tqdm.auto", "tqdm.autonotebook", "tqdm.notebook"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    # No warning, which would be an error here.
    with Bars().stage("parsing", 9, "sentences") as stage:
        stage.step(9)


def test_numbers_on_bars_are_rounded(terminal, set_clock):
    set_clock(0.7)
    with Bars().stage("training", 100) as stage:
        for _ in range(30):
            stage.step(0.1 + 0.2, log_likelihood=-20512.123456, f1=86.523456)
    shown = terminal.getvalue()
    assert "log_likelihood=-20,512, f1=86.52" in shown
    assert "9/100" in shown  # 30 times 0.30000000000000004
    assert "0000" not in shown
    assert "20512" not in shown


def test_counts_and_rates_have_separators_and_no_decimals(terminal, set_clock):
    set_clock(0.3)
    for total in (None, 65700):
        with Bars().stage("searching", total, "trees") as stage:
            for _ in range(6):
                stage.step(10951)
    shown = terminal.getvalue()
    assert "65,706 trees" in shown
    assert "/65,700" in shown
    assert re.search(r", [0-9]{1,3},[0-9]{3} trees/s\]", shown)
    assert not re.search(r"[0-9]\.[0-9]+ ?trees/s", shown)
