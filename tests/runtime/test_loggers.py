"""Loggers: what they get, how they fail, and the examples of the documentation."""

from __future__ import annotations

import json
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import sapwood
from helpers.made_up import made_up_treebank
from sapwood.cli.main import main
from sapwood.errors import SapwoodError, UsageError
from sapwood.runtime.log import NoLog, read_log
from sapwood.runtime.loggers import also_to

PAGE = Path(__file__).resolve().parents[2] / "docs" / "extending.md"
RECORDER = '''
import json


class Recorder:
    """Writes everything to a file."""

    def __init__(self, path):
        self._stream = open(path, "a")

    def write(self, event, *, step, seconds, **figures):
        self._stream.write(json.dumps({"event": event, "step": step, "seconds": seconds, **figures}) + "\\n")

    def close(self):
        self._stream.write("closed\\n")
        self._stream.close()


class Broken(Recorder):
    def write(self, event, **figures):
        raise ConnectionError("no server")
'''


@pytest.fixture
def recorder(install_plugin, tmp_path) -> Path:
    entries = {"recorder": "recording:Recorder", "broken": "recording:Broken"}
    install_plugin("recording", RECORDER, "sapwood.loggers", **entries)
    return tmp_path / "recorded"


def recorded(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text().splitlines()
    assert lines[-1] == "closed"
    return [json.loads(line) for line in lines[:-1]]


def timeless(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def test_a_logger_gets_the_lines_of_the_log(recorder, tmp_path):
    log = tmp_path / "train.jsonl"
    names = [f"recorder:{recorder}"]
    sapwood.train(made_up_treebank(20), method="em", states=2, iterations=3, log=log, loggers=names)
    found = recorded(recorder)
    assert timeless(found) == timeless(read_log(log))
    assert [line["event"] for line in found][:2] == ["start", "iteration"]
    assert all(isinstance(line["seconds"], float) and line["seconds"] >= 0 for line in found)


def test_a_logger_needs_no_log(recorder):
    names = [f"recorder:{recorder}"]
    sapwood.induce([["dogs", "see", "cats"]] * 9, model="dmv", classes=2, iterations=2, loggers=names)
    events = [line["event"] for line in recorded(recorder)]
    assert (events[0], events[-1]) == ("start", "end")


def test_language_models_are_logged(recorder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("a b c\n" * 50)
    command = ["lm", "train", "text", "--method", "em", "--states", "2", "--iterations", "2", "-o", "m", "-q"]
    main([*command, "--logger", f"recorder:{recorder}"], standalone_mode=False)
    assert {"start", "iteration"} <= {line["event"] for line in recorded(recorder)}
    with pytest.raises(UsageError, match="--logger requires --method"):
        main(["lm", "train", "text", "--method", "kn", "-o", "n", "--logger", "recorder:x"], standalone_mode=False)


def test_unknown_and_broken_loggers(recorder, tmp_path):
    trees = made_up_treebank(20)
    with pytest.raises(UsageError, match=r"no logger 'wandb'; choose from broken, recorder .*sapwood\.loggers"):
        sapwood.train(trees, method="pcfg", loggers=["wandb:x"])
    with pytest.raises(SapwoodError, match=f"logger 'broken:{recorder}' failed: ConnectionError: no server; "):
        sapwood.train(trees, method="pcfg", loggers=[f"broken:{recorder}"])
    assert recorded(recorder) == []  # closed all the same
    with pytest.raises(SapwoodError, match=r"logger .* failed: FileNotFoundError"):
        sapwood.train(trees, method="pcfg", loggers=[f"recorder:{tmp_path}/none/x"])


def test_without_loggers_the_log_is_the_file():
    file = NoLog()
    with also_to([], file) as log:
        assert log is file


@pytest.fixture
def example(monkeypatch):
    """A function that returns a class of the page, with a stand-in for the package that it imports."""

    def find(file: str, name: str, **stand_ins: types.ModuleType) -> type:
        code = re.search(rf'```text file="{file}"\n(.*?)```', PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
        for package, module in stand_ins.items():
            monkeypatch.setitem(sys.modules, package, module)
        space: dict[str, Any] = {}
        exec(compile(code, file, "exec"), space)
        return space[name]

    return find


EVENTS = [
    ("start", 0, {"method": "em", "settings": {"states": 2, "rare": None}, "trees": 9}),
    ("iteration", 1, {"phase": "em", "log_likelihood": -5.5, "member": 1}),
    ("dev", 1, {"f1": None, "exact": 40.0}),
]


def test_the_example_for_mlflow(example):
    calls: list[tuple[Any, ...]] = []
    module = types.ModuleType("mlflow")
    module.set_experiment = lambda name: calls.append(("experiment", name))
    module.start_run = lambda: calls.append(("start",))
    module.log_param = lambda name, value: calls.append((name, value))
    module.log_metrics = lambda metrics, step: calls.append((metrics, step))
    module.end_run = lambda: calls.append(("end",))
    logger = example("mlflow_logger.py", "MLflowLogger", mlflow=module)("mine")
    for event, step, figures in EVENTS:
        logger.write(event, step=step, seconds=1.5, **figures)
    logger.close()
    assert calls == [
        ("experiment", "mine"), ("start",), ("states", 2), ("rare", None),
        ({"start/trees": 9, "seconds": 1.5}, 0), ({"iteration/1/log_likelihood": -5.5, "seconds": 1.5}, 1),
        ({"dev/exact": 40.0, "seconds": 1.5}, 1), ("end",),
    ]  # fmt: skip


def test_the_example_for_tensorboard(example):
    calls: list[tuple[Any, ...]] = []

    class SummaryWriter:
        def __init__(self, folder):
            calls.append((folder,))

        def add_text(self, tag, text, step):
            calls.append((tag, json.loads(text), step))

        def add_scalar(self, tag, value, step):
            calls.append((tag, value, step))

        def close(self):
            calls.append(())

    module = types.ModuleType("tensorboardX")
    module.SummaryWriter = SummaryWriter
    logger = example("tensorboard_logger.py", "TensorBoardLogger", tensorboardX=module)("")
    for event, step, figures in EVENTS:
        logger.write(event, step=step, seconds=1.5, **figures)
    logger.close()
    assert calls == [
        ("runs",), ("settings", {"states": 2, "rare": None}, 0), ("start/trees", 9, 0),
        ("iteration/1/log_likelihood", -5.5, 1), ("dev/exact", 40.0, 1), (),
    ]  # fmt: skip
