"""Figures on the pages are those of the records, and the records describe today's defaults."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import _defaults
import _records
import figures
from figures import FigureError, Figures, rendered
from sapwood.pipeline import recipe

REPOSITORY = Path(__file__).resolve().parents[2]
RECORDS = _records.read()
# Pages without figures that are typed by hand: an F1 or a time stands in a block that `render` fills in.
MIGRATED = ("README.md", "docs/results.md")
TYPED = re.compile(r"\b[5-9]\d\.\d\b(?! (or|and) newer)|[\d,]+(\.\d)? (CPU-s|CPU seconds|sentences per second|ms|GB)\b")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def record(name: str = "bank/default", seeds: tuple[int, ...] = (0,), **more):
    made = {"id": name, "seeds": list(seeds), "figures": {"test_f1": 80.0}, "command": "true", "commit": "abc"}
    return {**made, "date": "2026-01-01", "machine": "one", "data": None, "describes": None, **more}


def typed(text: str) -> list[str]:
    """Return the figures outside of blocks and of code."""
    return [found[0] for found in TYPED.finditer(FENCE.sub("", figures.BLOCK.sub("", text)))]


# The repository as it is.


def test_pages_have_the_figures_of_the_records():
    assert not list(figures.stale_pages(Figures(RECORDS))), "run `python benchmarks/figures.py render`"


def test_records_describe_todays_defaults():
    found = list(figures.stale_records(RECORDS))
    assert not found, "run `python benchmarks/figures.py run --stale`, or remove what is no longer true"


@pytest.mark.parametrize("page", MIGRATED)
def test_no_figure_is_typed_by_hand(page):
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    assert figures.BLOCK.search(text)
    assert not typed(text)


def test_records_say_where_they_come_from():
    for one in RECORDS:
        assert one["commit"] or one["source"], one["id"]
        if not one.get("source"):
            assert one["data"], one["id"]
            assert one["command"].startswith("python benchmarks/"), one["id"]
    assert len({(one["id"], seed) for one in RECORDS for seed in one["seeds"]}) == sum(
        len(one["seeds"]) for one in RECORDS
    )


class Reached(Exception):
    """The script has understood its arguments."""


@pytest.mark.parametrize("command", sorted({one["command"] for one in RECORDS if one["command"]}))
def test_scripts_take_the_commands_of_records(command, monkeypatch):
    """So that `figures.py run` can run them."""

    def stop(*_, **__):
        raise Reached

    _, path, *words = shlex.split(command)
    script = importlib.import_module(Path(path).stem)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setattr(script, "require", stop)
    monkeypatch.setattr(script, "enumeration", stop, raising=False)  # of k-best lists, which need no data
    monkeypatch.setattr(sys, "argv", [path, *words])
    with pytest.raises(Reached):
        script.main()


# What finds out that it is not.


def test_a_typed_figure_is_found():
    assert typed("F1 is 88.9.\n<!-- figures\nx\n-->\n86.1\n<!-- /figures -->\n12 CPU-s") == ["88.9", "12 CPU-s"]


def test_a_changed_default_makes_records_stale(monkeypatch):
    described = {"kind": "train", "n_trees": 3396}
    one = record(describes={**described, "digest": _defaults.digest_of(described)})
    other = record(describes={**(small := {"kind": "train", "n_trees": 500}), "digest": _defaults.digest_of(small)})
    assert not list(figures.stale_records([one, other, record()]))
    monkeypatch.setattr(recipe, "_MANY", tuple(learner.replace(cycles=6) for learner in recipe._MANY))
    assert [line.partition(",")[0] for line in figures.stale_records([one, other])] == ["bank/default"]
    assert _records.is_stale(one)
    assert not _records.is_stale(other)


@pytest.mark.parametrize("change", ["crf", "span_scorer", "decoder", "threshold"])
def test_components_and_parsing_are_part_of_a_default(monkeypatch, change):
    described = {"kind": "train", "n_trees": 3396}
    before = _defaults.digest_of(described)
    if change in ("crf", "span_scorer"):
        made = getattr(recipe, f"default_{change}")
        monkeypatch.setattr(
            recipe, f"default_{change}", lambda *a, **k: replace(made(*a, **k), epochs=made(*a, **k).epochs + 1)
        )
    else:
        values = {**_defaults._parsing(True), change: "other"}
        monkeypatch.setattr(_defaults, "_parsing", lambda _: values)
    assert _defaults.digest_of(described) != before


def test_seeds_and_threads_are_not_part_of_a_default():
    described = {"kind": "train", "method": "split-merge"}
    assert _defaults.digest_of(described) == _defaults.digest_of({**described, "seed": 7, "threads": 2})
    assert _defaults.digest_of(described) != _defaults.digest_of({**described, "cycles": 4})


def test_parsing_defaults_are_those_of_the_parser():
    assert (_defaults._parsing(True)["decoder"], _defaults._parsing(False)["decoder"]) == ("f1", "max-rule")
    assert _defaults._parsing(False)["threshold"] == 2e-5


@pytest.mark.parametrize("kind", [{"kind": "minimise"}, {"kind": "self-training", "n_trees": 500, "n_sentences": 9}])
def test_other_defaults_have_digests(kind):
    assert re.fullmatch("[0-9a-f]{12}", _defaults.digest_of(kind))


# Rendering.

THREE = Figures(
    [record(seeds=(n,), figures={"test_f1": f1, "train_cpu_s": 1200 + n}) for n, f1 in enumerate((85, 86, 87))]
)


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ("bank/default test_f1", "86.0 ± 1.0"),
        ("bank/default test_f1:mean", "86.0"),
        ("bank/default test_f1:mean .2f", "86.00"),
        ("bank/default train_cpu_s", "1,201"),
        ("bank/default train_cpu_s:range", "1,200-1,202"),
        ("1201000 / bank/default train_cpu_s:.0f", "1000"),
        ("bank/default train_cpu_s / bank/default train_cpu_s", "1.0"),
        ("bank/default seeds", "3"),
        ("bank/default test_f1?", "86.0 ± 1.0"),
        ("bank/default peak_gb:.2f?", ""),
    ],
)
def test_fields(field, shown):
    assert THREE.show(field) == shown


def test_summaries_of_seeds():
    one = Figures(
        [record(seeds=(0, 1, 2), figures={"test_f1": {"mean": 86.24, "sd": 0.42}, "x_s": {"low": 3, "high": 5}})]
    )
    assert one.show("bank/default test_f1") == "86.2 ± 0.4"
    assert one.show("bank/default x_s:range") == "3-5"
    assert one.show("bank/default x_s") == "4"
    assert one.show("bank/default seeds") == "3"


def test_times_of_different_processors_are_not_averaged():
    def run(seed, machine, seconds):
        took = {"test_f1": 80 + seed, "train_cpu_s": seconds, "parse_ms_warm": seconds / 10}
        return record(seeds=(seed,), figures=took, machine=f"{machine}, 2 cores, fixed workload 0.0{seed}4 s")

    one = Figures([run(0, "fast", 10), run(1, "slow", 30), run(2, "fast", 20)])
    assert one.show("bank/default train_cpu_s:range") == "10-20"
    assert one.show("bank/default parse_ms_warm") == "1.5"
    assert one.show("bank/default test_f1") == "81.0 ± 1.0"
    assert one.show("bank/default seeds") == "3"


PAGE = "a\n<!-- figures\nF1 {bank/default test_f1}\n-->\n\nF1 1.0\n\n<!-- /figures -->\nb\n"


def test_rendering_changes_the_text_and_keeps_the_template():
    new = rendered(PAGE, THREE)
    assert new == PAGE.replace("F1 1.0", "F1 86.0 ± 1.0")
    assert rendered(new, THREE) == new


def test_a_page_that_differs_is_found(monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    monkeypatch.setattr(figures, "pages", lambda: [page])
    assert list(figures.stale_pages(THREE)) == ["page.md:6: the records say: 'F1 86.0 ± 1.0'"]
    page.write_text(rendered(PAGE, THREE))
    assert not list(figures.stale_pages(THREE))


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("bank/other test_f1", "page:3: no record bank/other"),
        ("bank/other test_f1?", "page:3: no record bank/other"),
        ("bank/default exact", "page:3: bank/default has no exact, but test_f1, train_cpu_s"),
        ("bank/default", "page:3: {bank/default} is not an id and a figure"),
    ],
)
def test_an_unknown_figure_is_an_error_with_a_place(field, message):
    with pytest.raises(FigureError, match=re.escape(message)):
        rendered(PAGE.replace("bank/default test_f1", field), THREE)


def test_weak_decisions():
    found = figures.weak_decisions(
        [
            record("a/one", decides={"few seeds": "dev"}),
            record("a/three", (0, 1, 2), decides={"sound": "dev"}),
            record("a/test", (0, 1, 2), decides={"on test": "test"}),
        ]
    )
    assert [(default, reason) for default, _, reason in found] == [
        ("few seeds", "1 seed"),
        ("on test", "test figures had been seen"),
    ]


# The store.


def test_records_are_replaced_by_id_and_seed(tmp_path):
    store = tmp_path / "a.jsonl"
    for one in (record("b/x", (1,)), record("a/x", (0, 1, 2)), record("b/x", (0,)), record("b/x", (1,), note="new")):
        _records.add(one, store)
    assert [(one["id"], one["seeds"], one.get("note")) for one in _records.read(store)] == [
        ("a/x", [0, 1, 2], None), ("b/x", [0], None), ("b/x", [1], "new"),
    ]  # fmt: skip
    _records.add(record("a/x", (1,)), store)  # a summary of seeds is no longer true
    assert [one["seeds"] for one in _records.read(store) if one["id"] == "a/x"] == [[1]]


def test_concurrent_runs_lose_no_record(tmp_path):
    code = (
        f"import sys, json, pathlib; sys.path.insert(0, {str(REPOSITORY / 'benchmarks')!r})\n"
        "import _records\n"
        f"one = json.loads({json.dumps(record())!r})\n"
        "for seed in range(20):\n"
        "    _records.add({**one, 'id': sys.argv[1], 'seeds': [seed]}, pathlib.Path(sys.argv[2]))\n"
    )
    store = tmp_path / "a.jsonl"
    running = [subprocess.Popen([sys.executable, "-c", code, name, str(store)]) for name in ("a/x", "b/x")]
    assert [process.wait() for process in running] == [0, 0]
    assert len(_records.read(store)) == 40


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"commit": None}, "neither a commit nor a source"),
        ({"colour": "red"}, "'colour' is not a field"),
        ({"figures": {"test_f1": {"mean": 1.0}}}, "test_f1 has neither mean and sd nor low and high"),
    ],
)
def test_a_bad_record_is_an_error_with_a_line(change, message, tmp_path):
    store = tmp_path / "a.jsonl"
    store.write_text(json.dumps(record()) + "\n" + json.dumps(record(**change)) + "\n")
    with pytest.raises(ValueError, match=rf"a.jsonl:2: .*{message}"):
        _records.read(store)


def test_a_run_is_current_until_data_or_defaults_change():
    described = {"kind": "train", "n_trees": 3396}
    one = record(data="abc", describes={**described, "digest": _defaults.digest_of(described)})
    assert _records.is_current([one], "bank/default", 0, "abc")
    assert not _records.is_current([one], "bank/default", 1, "abc")
    assert not _records.is_current([one], "bank/default", 0, "other")
    assert not _records.is_current([{**one, "source": "a page"}], "bank/default", 0, "abc")
    assert not _records.is_current([{**one, "describes": {**described, "digest": "old"}}], "bank/default", 0, "abc")


def test_run_runs_each_command_once(capfd, tmp_path):
    command = "python -c 'print(\"DATA/bank\")'"
    ours = [record(seeds=(seed,), command=command, source="a page") for seed in (0, 1)]
    assert figures.run(["bank/default"], ours, tmp_path) == 0
    assert capfd.readouterr().out.splitlines().count(f"{tmp_path}/bank") == 1


def test_run_skips_what_is_up_to_date(capfd, tmp_path):
    described = {"kind": "train", "n_trees": 3396, "digest": "old"}
    ours = [record("a/x", command="python -c 'print(1)'"), record("b/x", command="true", describes=described)]
    assert figures.run(["a/x", "b/x"], ours, tmp_path) == 0
    assert capfd.readouterr().out.splitlines() == ["a/x, seeds [0]: up to date; --again measures it again", "$ true"]
    assert figures.run(["a/x"], ours, tmp_path, again=True) == 0
    assert "1" in capfd.readouterr().out.splitlines()


def test_run_reports_what_cannot_be_run(capfd, tmp_path):
    ours = [
        record("a/x", command="python benchmarks/heads.py DATA/bank DATA/bank", source="a page"),
        record("b/x", command=None, source="another parser"),
    ]
    assert figures.run(["a/x", "b/x", "no/such"], ours, tmp_path) == 3
    said = capfd.readouterr().err
    assert f"{tmp_path}/bank is missing" in said
    assert "b/x has no command: another parser" in said
    assert "no/such is not a record" in said
