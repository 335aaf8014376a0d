"""`sapwood plot`: the series in training logs, and pictures of them."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.made_up import made_up_treebank
from sapwood.plots.curves import draw_curves, make_curves
from sapwood.runtime.log import TrainingLog, read_log
from sapwood.trees import Corpus, Tree

USAGE, INPUT, MODEL = 2, 3, 4
SVG = "{http://www.w3.org/2000/svg}"


def split_merge(
    log: TrainingLog, *, cycles: int = 3, length: int = 5, first: int = 1, seed: int = 0, **more: Any
) -> int:
    """Report what split-merge training might, and return the next step."""
    step, states = first, 10
    for cycle in range(1, cycles + 1):
        for iteration in range(1, length + 1):
            # Splitting doubles the states, and merging takes some of them back.
            shown = 2 * states if iteration < length else 2 * states - seed - 1
            log.write(
                "iteration",
                step=step,
                cycle=cycle,
                iteration=iteration,
                log_likelihood=-5000.0 / step - seed,
                states=shown,
                seconds=2.0 * step + seed,
                **more,
            )
            step += 1
        states = shown
        log.write("dev", step=step - 1, cycle=cycle, f1=70.0 + cycle + seed, seconds=2.0 * step + seed, **more)
    return step


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with the logs `one`, `two`, `longer`, `em` and `ensemble`."""
    monkeypatch.chdir(tmp_path)
    for name, options in (("one", {}), ("two", {"seed": 3}), ("longer", {"length": 8, "cycles": 2})):
        with TrainingLog(f"{name}.jsonl") as log:
            log.write("start", step=0, method="split-merge", trees=10, words=100)
            end = split_merge(log, **options)
            log.write("end", step=end - 1)
    with TrainingLog("em.jsonl") as log:
        for step, value in enumerate((-60.0, float("nan"), -50.0), 1):
            log.write("iteration", step=step, phase="em", iteration=step, log_likelihood=value, seconds=step * 3000.0)
    with TrainingLog("ensemble.jsonl") as log:
        step = 1
        for member in range(3):
            step = split_merge(log, first=step, seed=member, member=member)
        log.write("dev", step=step - 1, f1=88.0, seconds=500.0)
    return tmp_path


def curves_of(outcome: Any) -> list[dict[str, Any]]:
    assert (outcome.code, outcome.err) == (0, "")
    return list(json.loads(outcome.out)["curves"])


def texts_of(path: Path) -> list[str]:
    """Return the texts in an SVG picture."""
    return ["".join(text.itertext()).strip() for text in ElementTree.parse(path).iter(f"{SVG}text")]


# -- the series --------------------------------------------------------------------------------------------------------


def test_series_of_one_log(logs: Path, sapwood: Any) -> None:
    (curve,) = curves_of(sapwood(["plot", "one.jsonl", "--json"]))
    assert (curve["log"], curve["member"], curve["name"]) == ("one.jsonl", None, "one")
    assert curve["log_likelihood"]["x"] == list(range(1, 16))
    assert curve["log_likelihood"]["y"] == [-5000.0 / step for step in range(1, 16)]
    assert curve["f1"] == {"x": [5, 10, 15], "y": [71.0, 72.0, 73.0]}
    # Ten states, doubled and one merged in each cycle; a cycle begins between two iterations.
    assert curve["cycles"] == [
        {"cycle": 1, "x": 0.5, "states": 19},
        {"cycle": 2, "x": 5.5, "states": 37},
        {"cycle": 3, "x": 10.5, "states": 73},
    ]


def test_series_by_seconds(logs: Path, sapwood: Any) -> None:
    outcome = sapwood(["plot", "one.jsonl", "--json", "--x", "seconds"])
    (curve,) = curves_of(outcome)
    assert json.loads(outcome.out)["x"] == "seconds"
    assert curve["log_likelihood"]["x"] == [2.0 * step for step in range(1, 16)]
    assert curve["f1"]["x"] == [12.0, 22.0, 32.0]
    assert [cycle["x"] for cycle in curve["cycles"]] == [0.0, 10.0, 20.0]


def test_numbers_that_are_missing(logs: Path, sapwood: Any) -> None:
    (curve,) = curves_of(sapwood(["plot", "em.jsonl", "--json"]))
    assert curve["log_likelihood"] == {"x": [1, 2, 3], "y": [-60.0, None, -50.0]}
    assert (curve["cycles"], curve["f1"]) == ([], {"x": [], "y": []})


def test_members_begin_together(logs: Path, sapwood: Any) -> None:
    *members, ensemble = curves_of(sapwood(["plot", "ensemble.jsonl", "--json"]))
    assert [(curve["member"], curve["name"]) for curve in members] == [(k, f"member {k}") for k in range(3)]
    for curve in members:
        assert curve["log_likelihood"]["x"] == list(range(1, 16))
        assert curve["f1"] == {"x": [5, 10, 15], "y": [71.0 + curve["member"] + k for k in range(3)]}
    assert (ensemble["member"], ensemble["name"], ensemble["f1"]["y"]) == (None, "all members", [88.0])
    assert ensemble["log_likelihood"]["x"] == []


def test_names_tell_curves_apart(logs: Path, sapwood: Any) -> None:
    (logs / "old").mkdir()
    (logs / "old" / "one.jsonl").write_bytes((logs / "one.jsonl").read_bytes())
    files = ["one.jsonl", "old/one.jsonl", "two.jsonl", "ensemble.jsonl"]
    assert [curve["name"] for curve in curves_of(sapwood(["plot", *files, "--json"]))] == [
        "one.jsonl",
        "old/one.jsonl",
        "two",
        *(f"ensemble, member {k}" for k in range(3)),
        "ensemble, all members",
    ]


def test_a_step_that_was_done_twice_counts_once(logs: Path) -> None:
    with TrainingLog("again.jsonl", append=True) as log:
        for value in (-9.0, -8.0):
            log.write("iteration", step=1, log_likelihood=value)
            log.write("dev", step=1, f1=value + 50)
    (curve,) = make_curves({"again": read_log("again.jsonl")})
    assert (curve.x, curve.log_likelihood, curve.f1_x, curve.f1) == ([1], [-8.0], [1], [42.0])


def test_f1_of_zero_is_a_figure(logs: Path) -> None:
    lines = [{"event": "iteration", "step": 1, "log_likelihood": -1}, {"event": "dev", "step": 1, "f1": 0}]
    assert make_curves({"log": lines})[0].f1 == [0.0]


def test_an_evaluation_before_the_first_iteration(logs: Path) -> None:
    lines = [{"event": "dev", "step": 0, "f1": 60}, {"event": "iteration", "step": 1, "log_likelihood": -1}]
    assert make_curves({"log": lines})[0].f1_x == [0]
    draw_curves({"log": lines}, "a.svg")
    assert "60.00" in texts_of(logs / "a.svg")


def test_logs_from_pipes_and_compressed(logs: Path, sapwood: Any) -> None:
    content = (logs / "one.jsonl").read_bytes()
    (logs / "one.jsonl.gz").write_bytes(gzip.compress(content))
    (expected,) = curves_of(sapwood(["plot", "one.jsonl", "--json"]))
    for name, stdin in (("-", content), ("one.jsonl.gz", b"")):
        (curve,) = curves_of(sapwood(["plot", name, "--json"], stdin))
        assert curve["log_likelihood"] == expected["log_likelihood"]
    assert sapwood(["plot", "-", "-o", "a.svg"], content).code == 0


def test_a_log_that_is_still_being_written(logs: Path, sapwood: Any) -> None:
    whole = curves_of(sapwood(["plot", "one.jsonl", "--json"]))
    with (logs / "one.jsonl").open("ab") as stream:
        stream.write(b'{"event": "iteration", "step": 16, "log_lik')
    assert curves_of(sapwood(["plot", "one.jsonl", "--json"])) == whole


def test_json_needs_no_matplotlib_and_drawing_says_that_it_does(
    logs: Path, sapwood: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert len(curves_of(sapwood(["plot", "one.jsonl", "--json"]))) == 1
    outcome = sapwood(["plot", "one.jsonl", "-o", "a.svg"])
    assert (outcome.code, outcome.out) == (USAGE, "")
    assert outcome.err == "sapwood: drawing needs Matplotlib: pip install matplotlib\n"
    assert not Path("a.svg").exists()


# -- the pictures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG\r\n"), ("pdf", b"%PDF"), ("SVG", b"<?xml")]
)
def test_each_format_and_always_the_same_bytes(ending: str, start: bytes, logs: Path, sapwood: Any) -> None:
    contents = []
    for name in ("a", "b"):
        outcome = sapwood(["plot", "one.jsonl", "ensemble.jsonl", "-o", f"{name}.{ending}"])
        assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
        contents.append((logs / f"{name}.{ending}").read_bytes())
    assert contents[0].startswith(start)
    assert contents[0] == contents[1]


def test_what_is_in_the_picture(logs: Path, sapwood: Any) -> None:
    assert sapwood(["plot", "one.jsonl", "-o", "a.svg", "--title", "Cats & $dogs$ <3"]).code == 0
    texts = texts_of(logs / "a.svg")
    assert {"Cats & $dogs$ <3", "log-likelihood", "dev F1", "iteration", "cycle", "1", "2", "3", "states"} < set(texts)
    assert {"19", "37", "73"} < set(texts), "the states of the cycles"
    assert "73.00" in texts, "the best F1"
    assert "one" not in texts, "one curve needs no legend"
    assert "<dc:date>" not in (logs / "a.svg").read_text()


def test_the_lower_panel_is_there_if_there_is_something_in_it(logs: Path, sapwood: Any) -> None:
    def panels(*files: str) -> int:
        assert sapwood(["plot", *files, "-o", "a.svg"]).code == 0
        return sum(group.get("id", "").startswith("axes_") for group in ElementTree.parse("a.svg").iter(f"{SVG}g"))

    assert panels("em.jsonl") == 1
    assert panels("em.jsonl", "one.jsonl") == 2


def test_legend_and_bands_of_several_curves(logs: Path, sapwood: Any) -> None:
    assert sapwood(["plot", "one.jsonl", "two.jsonl", "-o", "a.svg"]).code == 0
    texts = texts_of(logs / "a.svg")
    assert {"one", "two", "cycle", "16\u201319"} < set(texts)
    assert "circles: a cycle begins" not in texts
    assert sapwood(["plot", "one.jsonl", "longer.jsonl", "-o", "a.svg"]).code == 0
    texts = texts_of(logs / "a.svg")
    assert {"one", "longer", "circles: a cycle begins"} < set(texts)
    assert "cycle" not in texts


def test_time_has_a_fitting_unit(logs: Path, sapwood: Any) -> None:
    for name, unit in (("one", "seconds"), ("ensemble", "seconds"), ("em", "minutes")):
        assert sapwood(["plot", f"{name}.jsonl", "--x", "seconds", "-o", "a.svg"]).code == 0
        assert f"{unit} of training" in texts_of(logs / "a.svg")


def test_drawing_leaves_matplotlib_as_it_was(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = {"one": read_log("one.jsonl")}
    draw_curves(log, "a.svg")
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # importing it would fail
    with matplotlib.rc_context(
        {"lines.linewidth": 17, "font.size": 30, "svg.fonttype": "path", "text.parse_math": True}
    ):
        before = {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}
        draw_curves(log, "b.svg")
        assert {name: matplotlib.rcParams[name] for name in before} == before
    assert Path("a.svg").read_bytes() == Path("b.svg").read_bytes()


@pytest.mark.slow
def test_odd_names(logs: Path, sapwood: Any) -> None:
    names = ["_hidden", "$x^$", "犬", "a\nb\x01", os.fsdecode(b"caf\xe9"), "-dash", "x" * 100, "<&>"]
    for name in names:
        (logs / name).write_bytes((logs / "two.jsonl").read_bytes())
    for ending in ("svg", "png", "pdf"):
        outcome = sapwood(["plot", "-o", f"a.{ending}", "--title", names[3], "--", *names])
        assert (outcome.code, outcome.err) == (0, "")
    texts = texts_of(logs / "a.svg")
    assert {"_hidden", "$x^$", "犬", "caf\\udce9", "-dash", "<&>"} < set(texts)
    assert any(re.fullmatch("…x{47}", text) for text in texts)


def test_many_curves(logs: Path, sapwood: Any) -> None:
    names = [f"run-{k}.jsonl" for k in range(40)]
    for name in names:
        (logs / name).write_bytes((logs / "two.jsonl").read_bytes())
    assert sapwood(["plot", *names, "-o", "a.svg"]).code == 0
    assert {Path(name).stem for name in names} < set(texts_of(logs / "a.svg"))


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_picture_replaces_an_old_one_and_comes_with_json(ending: str, logs: Path, sapwood: Any) -> None:
    (logs / f"a.{ending}").write_bytes(b"old")
    assert len(curves_of(sapwood(["plot", "one.jsonl", "--json", "-o", f"a.{ending}"]))) == 1
    assert len((logs / f"a.{ending}").read_bytes()) > 1000


NUMBERS = st.none() | st.integers(-(10**30), 10**30) | st.floats(-1e300, 1e300) | st.floats(-100, 0)
COUNTS = st.none() | st.integers(0, 4) | st.integers(0, 10**12)
LINES = st.fixed_dictionaries(
    {
        "event": st.sampled_from(["iteration", "iteration", "dev", "end"]),
        "step": st.integers(0, 10) | COUNTS.map(lambda n: n or 0),
    },
    optional={
        "seconds": st.none() | st.floats(0, 1e300) | st.integers(0, 100),
        "log_likelihood": NUMBERS,
        "f1": NUMBERS,
        "cycle": COUNTS,
        "states": COUNTS,
        "member": st.none() | st.integers(0, 2),
    },
)


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(LINES, max_size=8), min_size=1, max_size=2), st.sampled_from(["step", "seconds"]))
@pytest.mark.slow
def test_whatever_is_in_a_log_is_drawn_or_refused(logs: Path, sapwood: Any, lines: Iterable[Any], x: str) -> None:
    names = []
    for number, log in enumerate(lines):
        names.append(f"any-{number}.jsonl")
        drawn = {"event": "iteration", "step": 3, "log_likelihood": -70.5}
        (logs / names[-1]).write_text("".join(f"{json.dumps({'seconds': 1, **line})}\n" for line in [drawn, *log]))
    outcome = sapwood(["plot", *names, "-o", "any.svg", "--json", "--x", x])
    assert outcome.code in (0, INPUT), outcome
    assert (outcome.err == "") == (outcome.code == 0), outcome


# -- bad input ---------------------------------------------------------------------------------------------------------

START = b'{"event": "start", "step": 0}\n'
NOTHING = b'{"event": "iteration", "step": 1, "log_likelihood": null, "seconds": 1}\n'
TIMELESS = b'{"event": "iteration", "step": 1, "log_likelihood": -1}\n'


@pytest.mark.parametrize(
    ("arguments", "code", "message", "files"),
    [
        ("", USAGE, "Missing argument 'FILE", {}),
        ("one.jsonl", USAGE, "name an output file with -o .* or print the numbers with --json", {}),
        ("one.jsonl --json --title T", USAGE, "--title requires -o", {}),
        ("one.jsonl -o a.svg --x cycle", USAGE, "'cycle' is not one of 'step', 'seconds'", {}),
        ("one.jsonl -o a.jpeg", USAGE, r"must end in \.svg, \.png or \.pdf, and this one does not: 'a\.jpeg'", {}),
        ("one.jsonl -o picture", USAGE, "must end in .* 'picture'", {}),
        ("one.jsonl -o svg", USAGE, "must end in .* 'svg'", {}),
        ("one.jsonl -o -", USAGE, "must end in .* '-'", {}),
        ("one.jsonl --output=", USAGE, "must end in .* ''", {}),
        ("- - --json", USAGE, "standard input .* only once", {}),
        ("x.svg -o x.svg", USAGE, r"-o x\.svg: is one of the input files", {"x.svg": START + TIMELESS}),
        ("one.jsonl -o nowhere/a.svg", INPUT, "nowhere: no such directory", {}),
        ("one.jsonl -o folder.svg", INPUT, r"folder\.svg: is a directory", {"folder.svg/x": b""}),
        ("none.jsonl -o a.svg", INPUT, r"none\.jsonl: no such file", {}),
        (". --json", INPUT, r"\.: is a directory", {}),
        ("one.jsonl bad -o a.svg", INPUT, "bad: the log is empty", {"bad": b""}),
        ("bad --json", INPUT, "bad: the log is empty", {"bad": b'{"event": "sta'}),
        ("bad -o a.svg", INPUT, "bad: the log has no iterations with a log-likelihood", {"bad": START}),
        ("bad -o a.svg", INPUT, "bad: the log has no iterations with a log-likelihood", {"bad": START + NOTHING}),
        ("bad --x seconds -o a.svg", INPUT, "bad: step 1 has no seconds", {"bad": TIMELESS}),
        ("bad -o a.svg", INPUT, "bad:1:1: not valid UTF-8", {"bad": bytes(range(255, 0, -1))}),
        ("bad -o a.svg", INPUT, "bad:1:1: a zero byte", {"bad": bytes(4000)}),
        ("bad -o a.svg", INPUT, r"bad:1: not a line of a training log, .*\(S \(A b\)\)", {"bad": b"(S (A b))\n"}),
        (
            "bad -o a.svg",
            INPUT,
            "bad:2: .*its step is not a number of iterations",
            {"bad": START + b'{"event": "dev"}\n'},
        ),
        ("bad.gz -o a.svg", INPUT, r"bad\.gz: damaged or truncated gzip", {"bad.gz": b"{}"}),
        ("bad.sapwood -o a.svg", MODEL, r"bad\.sapwood: not a sapwood file", {"bad.sapwood": START + TIMELESS}),
    ],
)
def test_bad_input_gives_a_message_and_an_exit_code(
    arguments: str, code: int, message: str, files: dict[str, bytes], logs: Path, sapwood: Any
) -> None:
    for name, content in files.items():
        (logs / name).parent.mkdir(exist_ok=True)
        (logs / name).write_bytes(content)
    before = {path: path.read_bytes() for path in logs.rglob("*") if path.is_file()}
    outcome = sapwood(["plot", *arguments.split()])
    assert (outcome.code, outcome.out) == (code, ""), outcome
    assert re.search(message, outcome.err), outcome.err
    assert {path: path.read_bytes() for path in logs.rglob("*") if path.is_file()} == before


def test_the_input_is_not_replaced_by_way_of_a_link(logs: Path, sapwood: Any) -> None:
    (logs / "link.svg").symlink_to("one.jsonl")
    outcome = sapwood(["plot", "one.jsonl", "-o", "link.svg"])
    assert outcome.code == USAGE
    assert "-o link.svg: is one of the input files" in outcome.err
    assert len(read_log("one.jsonl")) == 20


def test_there_is_nothing_to_draw_for_some_files(folder: Path, sapwood: Any) -> None:
    Corpus.from_trees([Tree.parse("(S (A b) (C d))")]).save(folder / "corpus.sapwood")
    outcome = sapwood(["plot", "corpus.sapwood", "-o", "a.svg"])
    assert outcome.code == USAGE
    message = "corpus.sapwood: there is nothing to draw for this kind of file (corpus) yet; name training logs"
    assert outcome.err == f"sapwood: {message}\n"
    outcome = sapwood(["plot", "m", "-o", "a.svg"])
    assert outcome.code == INPUT
    assert (
        outcome.err == "sapwood: m: the model has no singular values: only models made by spectral learning have them\n"
    )
    assert not (folder / "a.svg").exists()


@pytest.mark.slow
def test_singular_values_of_a_model(folder: Path, sapwood: Any) -> None:
    (folder / "made-up.mrg").write_text("".join(f"{tree}\n" for tree in made_up_treebank(150)))
    assert sapwood(["train", "made-up.mrg", "--method", "spectral", "--states", 4, "-q", "-o", "spectral"]).code == 0
    outcome = sapwood(["plot", "spectral", "-o", "a.svg", "--title", "made up", "--json"])
    assert outcome.code == 0
    records = json.loads(outcome.out)["symbols"]
    assert [record["count"] for record in records] == sorted((record["count"] for record in records), reverse=True)
    assert all(record["singular_values"][0] > 0 for record in records)
    picture = (folder / "a.svg").read_text()
    assert "made up" in picture
    assert all(record["symbol"] in picture for record in records)
    assert sapwood(["plot", "spectral", "spectral", "-o", "b.svg"]).code == 0
    assert sapwood(["plot", "spectral", "m", "-o", "b.svg"]).code == USAGE


def test_one_picture_is_of_one_kind(folder: Path, sapwood: Any) -> None:
    (folder / "log").write_bytes(START + TIMELESS)
    assert sapwood(["plot", "log", "--json"]).code == 0
    outcome = sapwood(["plot", "m", "log", "--json"])
    assert outcome.code == USAGE
    assert "files of different kinds" in outcome.err


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read and write everything")
def test_a_directory_without_permission(logs: Path, sapwood: Any) -> None:
    (logs / "closed").mkdir(mode=0o500)
    outcome = sapwood(["plot", "one.jsonl", "-o", "closed/a.svg"])
    assert outcome.code == INPUT
    assert "closed: no permission to write there" in outcome.err


def test_a_failure_while_drawing_leaves_the_old_picture(
    logs: Path, sapwood: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (logs / "a.svg").write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sapwood.storage.files.os.fsync", full)
    outcome = sapwood(["plot", "one.jsonl", "-o", "a.svg"])
    assert (outcome.code, outcome.err) == (INPUT, "sapwood: a.svg: cannot write it: No space left on device\n")
    assert (logs / "a.svg").read_bytes() == b"old"
    assert not list(logs.glob(".*"))


def test_it_works_without_a_screen(logs: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    ended = subprocess.run(
        [sys.executable, "-m", "sapwood", "plot", "one.jsonl", "-o", "a.png"],
        env={**environment, "MPLBACKEND": "tkagg"},
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, b"")
    assert (logs / "a.png").read_bytes().startswith(b"\x89PNG")
