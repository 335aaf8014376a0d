"""The record of a run: what a run remembers, and what it depends on when it is resumed."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from helpers.elsewhere import Elsewhere
from helpers.made_up import made_up_treebank
from helpers.notes import rewrite_notes
from helpers.training_helpers import Interrupted, PullThePlug
from sapwood import train
from sapwood.errors import InputError, ModelError, UsageError
from sapwood.learn import EM, PCFG
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.components.span_scorer import SpanScorerTrainer
from sapwood.model.parser_model import ParserModel
from sapwood.pipeline.recipe import make_recipe
from sapwood.pipeline.record import RunRecord, run_inputs
from sapwood.runtime.checkpoint import RunFiles
from sapwood.runtime.log import read_log
from sapwood.runtime.progress import Silent

TREES = made_up_treebank(90)
GIVEN, TEXT, DEV = TREES[:40], [tree.words() for tree in TREES[40:80]], TREES[80:]
QUICK: dict[str, Any] = {"method": "em", "states": 2, "min_support": 5, "iterations": 2}
ALL = QUICK | {
    "ensemble": 2,
    "crf": ForestCRFTrainer(folds=2, epochs=1, bits=12),
    "span_scorer": SpanScorerTrainer(embedding=8, hidden=8, layers=1, span_hidden=8, epochs=3),
}
RUNS: dict[str, dict[str, Any]] = {
    "ensemble with components": ALL,
    "methods with and without iterations": {
        "ensemble": ["spectral", "em", "spectral"],
        "states": 2,
        "min_support": 5,
        "iterations": 2,
        "span_scorer": ALL["span_scorer"],
    },
    "self-training": ALL | {"self_train_on": TEXT},
    "semi-supervised": QUICK | {"text": TEXT, "text_use": "em-forests", "ensemble": 2},
}


class Plug(PullThePlug):
    """Counts only steps that can be resumed from."""

    @contextlib.contextmanager
    def stage(self, name, total=None, unit="it"):
        with Silent().stage(name, total, unit) as silent:
            yield self if name in ("learning", "span scorer") else silent


@pytest.mark.parametrize("name", RUNS)
def test_resuming_does_not_depend_on_notes(name, tmp_path):
    settings, output = RUNS[name], tmp_path / "m"
    train(GIVEN, **settings, dev=DEV, output=tmp_path / "whole", log=tmp_path / "whole.log")
    notes, kinds = 0, set()
    for turn in range(100):
        try:
            train(
                GIVEN, **settings, dev=DEV, output=output, log=tmp_path / "log", resume=turn > 0,
                progress=Plug(2 + turn % 3),
            )  # fmt: skip
            break
        except Interrupted:
            for path in tmp_path.glob("m.*"):
                if ".checkpoint" not in path.name or path.name.endswith(".teacher"):
                    notes += rewrite_notes(path)
                    kinds.add(path.name)
    assert notes > 5
    assert len(kinds) > 2
    assert ParserModel.load(output) == ParserModel.load(tmp_path / "whole")
    assert lines(tmp_path / "log") == lines(tmp_path / "whole.log")


def test_stages_have_names_and_files_of_their_own(tmp_path):
    seen = set()
    for turn in range(100):
        try:
            train(GIVEN, **ALL, output=tmp_path / "m", resume=turn > 0, progress=Plug(3 + turn % 3))
            break
        except Interrupted:
            seen |= {path.name for path in tmp_path.glob("m.*")}
    grammars = {"member-1", "member-2", *(f"fold-{fold}-member-{member}" for fold in (1, 2) for member in (1, 2))}
    assert {name.removeprefix("m.stage-") for name in seen if name.startswith("m.stage-")} == grammars
    checkpoints = {name.removeprefix("m.checkpoint-") for name in seen if name.startswith("m.checkpoint")}
    assert checkpoints <= grammars | {"span-scorer"}
    assert "span-scorer" in checkpoints
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m"]


def lines(path):
    return [{key: value for key, value in line.items() if key != "seconds"} for line in read_log(path)]


@pytest.mark.parametrize("plug", [3, 6, 9])
def test_a_run_goes_on_elsewhere(tmp_path, plug):
    """Grammars are whole tasks there: an unfinished one starts again, and is logged once."""
    settings = ALL | {"iterations": 4, "dev": DEV}
    whole = train(GIVEN, **settings, output=tmp_path / "whole", log=tmp_path / "whole.log")
    with pytest.raises(Interrupted):
        train(GIVEN, **settings, output=tmp_path / "m", log=tmp_path / "log", progress=Plug(plug))
    assert RunFiles(tmp_path / "m").checkpoints()
    settings["workers"] = Elsewhere()
    train(GIVEN, **settings, output=tmp_path / "m", log=tmp_path / "log", resume=True)
    assert ParserModel.load(tmp_path / "m") == whole
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()
    assert lines(tmp_path / "log") == lines(tmp_path / "whole.log")


def inputs(trees=GIVEN, dev=None, text=None, **settings):
    recipe = make_recipe("em", **({"states": 2} | settings))
    return run_inputs([recipe], EM.prepare(trees), dev, text)


class Dev:
    """Held-out data with a digest, and without."""

    def __init__(self, digest: str | None) -> None:
        if digest is not None:
            self.digest = digest

    def __call__(self, grammar):
        return {"f1": 1.0}


def test_a_record_knows_the_inputs_of_its_run(tmp_path):
    with RunRecord.open(RunFiles(tmp_path / "m"), inputs(dev=Dev("one"))) as record:
        record.finish("member-1", iterations=12, log_lines=20)
    (tmp_path / "m.stage-member-1").touch()
    files = RunFiles(tmp_path / "m", resume=True)
    with RunRecord.open(files, inputs(dev=Dev("one"))) as record:
        assert record.finished == {"member-1": {"iterations": 12, "log_lines": 20}}
    for other, message in (
        ({"dev": Dev("one"), "states": 3}, "with other settings or trees; give the same ones again"),
        ({"dev": Dev("one"), "random_state": 3}, "with other settings or trees; give the same ones again"),
        ({"dev": Dev("one"), "ensemble": 2}, "with other settings or trees"),
        ({"dev": Dev("one"), "crf": True}, "with other settings or trees"),
        ({"dev": Dev("one"), "span_scorer": True}, "with other settings or trees"),
        ({"dev": Dev("one"), "trees": GIVEN[1:]}, "with other settings or trees"),
        ({"dev": Dev("two")}, "with another development set; give the same --dev again"),
        ({"dev": Dev(None)}, "with another development set; give the same --dev again"),
        ({}, "with another development set; give the same --dev again"),
        ({"dev": Dev("one"), "text": TEXT}, "without self-training; omit the text"),
    ):
        whole = f"m.stage-member-1: of a training run {message}"
        with pytest.raises(UsageError, match=whole), RunRecord.open(files, inputs(**other)):
            pytest.fail("another run")
    with RunRecord.open(files, inputs(dev=Dev("one"))) as record:
        assert record.finished


def test_members_of_one_method_with_other_settings_are_other_members(tmp_path):
    ensembles = [[EM(states=2), EM(states=states)] for states in (3, 4)]
    one, two = (run_inputs([make_recipe(ensemble=members)], EM.prepare(GIVEN), None) for members in ensembles)
    assert one != two


def test_a_record_alone_is_nothing_to_resume(tmp_path):
    files = RunFiles(tmp_path / "m")
    with RunRecord.open(files, inputs()):
        pass
    assert files.leftover() == []
    files.check()
    with RunRecord.open(RunFiles(tmp_path / "m", resume=True), inputs(states=3)) as record:
        assert record.finished == {}
    files.clear()
    assert not list(tmp_path.iterdir())


def test_a_run_that_fails_leaves_no_record(tmp_path):
    with pytest.raises(InputError, match="at least as many trees"):
        train(TREES[:2], method="pcfg", crf=True, output=tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_grammars_without_a_record_are_refused(tmp_path):
    PCFG().fit(PCFG.prepare(GIVEN)).save(tmp_path / "m.stage-member-1")
    with pytest.raises(UsageError, match=r"m\.stage-member-1: its run has no record m\.run, so it cannot be resumed"):
        train(GIVEN, **ALL, output=tmp_path / "m", resume=True)


@pytest.mark.parametrize("name", ["m.run", "m.stage-member-1"])
def test_damaged_files_are_told_of(name, tmp_path):
    with pytest.raises(Interrupted):
        train(GIVEN, **ALL, output=tmp_path / "m", progress=Plug(6))
    (tmp_path / name).write_bytes(b"nothing")
    with pytest.raises(ModelError, match=rf"{name}: not a sapwood file.*\(or remove this file to start over\)"):
        train(GIVEN, **ALL, output=tmp_path / "m", resume=True)


def test_a_stage_whose_file_is_gone_is_run_again(tmp_path):
    whole = train(GIVEN, **ALL, dev=DEV)
    with pytest.raises(Interrupted):
        train(GIVEN, **ALL, dev=DEV, output=tmp_path / "m", progress=Plug(20))
    assert (tmp_path / "m.stage-fold-1-member-1").exists()
    (tmp_path / "m.stage-member-2").unlink()
    train(GIVEN, **ALL, dev=DEV, output=tmp_path / "m", resume=True)
    assert ParserModel.load(tmp_path / "m") == whole


def test_a_finished_run_leaves_partial_files_of_others_alone(tmp_path):
    for name in (".m.{}.part", ".m.checkpoint.{}.part", ".m.run.{}.part", ".m2.{}.part", ".model.{}.part"):
        (tmp_path / name.format("abcd1234")).touch()
    RunFiles(tmp_path / "m").clear()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".m2.abcd1234.part", ".model.abcd1234.part"]
