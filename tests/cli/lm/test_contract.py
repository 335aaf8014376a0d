"""What `sapwood lm` does is what the library does: the same model bytes by every method, the same figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Sapwood
from helpers.lm_texts import made_up_text
from sapwood.errors import ModelError, UsageError
from sapwood.lm import (
    Counts,
    MixedOrderMarkov,
    count_text,
    evaluate_text,
    load_model,
    read_counts,
    save_model,
    score_lines,
    train,
)
from sapwood.lm.registry import METHODS, default_method
from sapwood.lm.training import fit, read_training_text, resolved_settings
from sapwood.runtime.config import read_config

# Settings by method, as the library takes them.
SETTINGS: dict[str, dict[str, Any]] = {
    "em": {"states": 3, "iterations": 4, "prior": 1, "word_prior": 2.5, "stepwise_batches": 2},
    "pivot": {"states": 3, "iterations": 4, "anchor_count": 5, "anchor_shrinkage": 20.0, "patience": 2},
    "pivot+em": {"states": 3, "iterations": 4, "anchor_count": 5.0, "word_prior": 10, "pivot_iterations": 2},
    "mixed-order": {"states": 2, "iterations": 3, "lags": 2},
    "kn": {"order": 2},
    "mkn": {"order": 4},
    "mix": {"states": 2, "iterations": 3, "anchor_count": 5.0, "lags": 2, "order": 2},
}
every_method = pytest.mark.parametrize("method", list(METHODS))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current directory, with two made-up texts."""
    for name, count, seed in (("train.txt", 100, 0), ("dev.txt", 30, 1)):
        (tmp_path / name).write_text(made_up_text(count, seed))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(sapwood: Sapwood, *arguments: object) -> str:
    outcome = sapwood(["lm", *arguments])
    assert outcome.code == 0, outcome.err
    return outcome.out


def as_options(settings: dict[str, Any]) -> list[object]:
    return [part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", value)]


@every_method
def test_command_and_library_give_the_same_bytes(sapwood: Sapwood, folder: Path, method: str) -> None:
    options = as_options(SETTINGS[method])
    call = ["train", "train.txt", "--dev", "dev.txt", "--method", method, *options, "--seed", 3, "--threads", 2]
    run(sapwood, *call, "-q", "-o", "command")
    model = train("train.txt", dev="dev.txt", method=method, random_state=3, **SETTINGS[method])
    save_model(model, "library")
    assert Path("command").read_bytes() == Path("library").read_bytes()


@every_method
@pytest.mark.slow
def test_defaults_are_the_same(sapwood: Sapwood, folder: Path, method: str) -> None:
    few = {"states": 2, "iterations": 2} if "states" in METHODS[method] else {}
    small = {**few, "anchor_count": 5.0} if "anchor_count" in METHODS[method] else few
    run(
        sapwood, "train", "train.txt", "--dev", "dev.txt", "--method", method, *as_options(small), "-q", "-o", "command"
    )
    save_model(train(["train.txt"], dev=Path("dev.txt"), method=method, **small), "library")
    assert Path("command").read_bytes() == Path("library").read_bytes()


def test_the_method_where_none_is_named(sapwood: Sapwood, folder: Path) -> None:
    assert (default_method(True), default_method(False)) == ("mix", "mkn")
    small = ["--states", 2, "--iterations", 2]
    for name, options in (("with", ["--dev", "dev.txt", *small]), ("without", [])):
        report = json.loads(run(sapwood, "train", "train.txt", *options, "-q", "--json", "-o", name))
        assert report["method"] == default_method(name == "with")
    save_model(train("train.txt", dev="dev.txt", states=2, iterations=2), "library")
    assert Path("library").read_bytes() == Path("with").read_bytes()
    save_model(train("train.txt"), "library")
    assert Path("library").read_bytes() == Path("without").read_bytes()


@every_method
@pytest.mark.slow
def test_saved_settings_give_the_same_model_again(sapwood: Sapwood, folder: Path, method: str) -> None:
    few = {"states": 2, "iterations": 2} if "states" in METHODS[method] and method != "pivot" else {}
    small = {**few, "anchor_count": 5.0} if "anchor_count" in METHODS[method] else few
    call = ["train", "train.txt", "--dev", "dev.txt", "--method", method, *as_options(small), "--seed", 2, "-q"]
    run(sapwood, *call, "-o", "first", "--save-config", "run.toml")
    of_method = [name.replace("_", "-") for name in METHODS[method]]
    saved = read_config(
        "run.toml", [*of_method, "method", "output", "dev", "min-count", "boundaries", "seed", "memory"]
    )
    resolved = resolved_settings(method, **small)
    wanted = {name.replace("_", "-"): value for name, value in resolved.items() if value is not None}
    assert wanted.items() <= saved.items()
    assert (saved["method"], saved["min-count"], saved["boundaries"], saved["seed"]) == (method, 2, "sentence", 2)
    before = Path("first").read_bytes()
    run(sapwood, "train", "train.txt", "--config", "run.toml", "-q", "-o", "second")
    assert Path("second").read_bytes() == Path("first").read_bytes() == before


def test_the_command_line_goes_before_settings_files(sapwood: Sapwood, folder: Path) -> None:
    Path("run.toml").write_text('method = "em"\nstates = 5\niterations = 2\nvocabulary = 12\n')
    run(sapwood, "train", "train.txt", "--config", "run.toml", "--states", 3, "-q", "-o", "m")
    assert load_model("m").states == 3
    assert len(load_model("m").vocabulary) == 15
    Path("run.toml").write_text("states = 5\nanchors = 2\n")
    outcome = sapwood(["lm", "train", "train.txt", "--config", "run.toml", "-o", "m"])
    assert (outcome.code, outcome.err) == (3, outcome.err)
    assert "run.toml:2: there is no setting 'anchors'" in outcome.err
    Path("run.toml").write_text('method = "kn"\nstates = 5\n')
    outcome = sapwood(["lm", "train", "train.txt", "--config", "run.toml", "-o", "m"])
    assert outcome.code == 2
    assert "states requires method em" in outcome.err


def test_counts_are_the_same(sapwood: Sapwood, folder: Path) -> None:
    run(sapwood, "count", "train.txt", "--order", 3, "-q", "-o", "part")
    run(sapwood, "count", "part", "dev.txt", "--min-count", 2, "--vocabulary", 14, "-q", "-o", "command")
    read_counts(["part", "dev.txt"], min_count=2, max_words=14).save("library")
    assert Path("command").read_bytes() == Path("library").read_bytes()
    shown = json.loads(run(sapwood, "show", "command", "--top", 3, "--json"))["top"][1]["ngrams"]
    counts = Counts.load("library")
    assert [(row["ngram"], row["count"]) for row in shown] == counts.most_frequent(2, 3)
    ngrams, numbers = counts.table(2)
    best = max(zip(numbers.tolist(), [tuple(-ngrams[x]) for x in range(len(ngrams))], strict=True))
    assert counts.most_frequent(2, 1) == [(" ".join(counts.vocabulary.words[-x] for x in best[1]), best[0])]


@pytest.mark.parametrize("boundaries", ["sentence", "stream"])
def test_figures_are_the_same(sapwood: Sapwood, folder: Path, boundaries: str) -> None:
    model = train("train.txt", boundaries=boundaries, order=2)
    save_model(model, "m")
    found = json.loads(run(sapwood, "eval", "m", "dev.txt", "--json"))
    wanted = evaluate_text(model, "dev.txt")
    assert (found["perplexity"], found["tokens"]) == (wanted.perplexity, wanted.tokens)
    lines = [json.loads(line) for line in run(sapwood, "score", "m", "dev.txt", "--json").splitlines()]
    scored = list(score_lines(model, "dev.txt", batch=7))
    assert [line["words"] for line in lines] == [line.words for line in scored]
    assert [line["log_probabilities"] for line in lines] == [line.log_probabilities for line in scored]
    assert sum(line.evaluation.tokens for line in scored) == wanted.tokens
    assert sum(line.evaluation.log_probability for line in scored) == pytest.approx(wanted.log_probability)
    assert json.loads(run(sapwood, "show", "m", "--json")) == {"file": "m", **model.describe()}


def test_what_cannot_be(folder: Path) -> None:
    with pytest.raises(UsageError, match="states requires method em, pivot, pivot\\+em, mixed-order, mix; this is"):
        train("train.txt", method="kn", states=3)
    with pytest.raises(UsageError, match="states requires method em"):
        fit(read_training_text("train.txt", method="kn"), "kn", states=3)
    with pytest.raises(UsageError, match="guess is not a setting; there are anchor_count, anchor_shrinkage"):
        train("train.txt", guess=3)
    with pytest.raises(UsageError, match="states must be at least 1, not 0"):  # before it reads the text
        train("missing.txt", method="em", states=0)
    with pytest.raises(UsageError, match="method must be one of em, pivot"):
        train("train.txt", method="guess")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="method mix needs dev"):
        train("train.txt", method="mix")
    count_text("train.txt").save("c")
    with pytest.raises(ModelError, match="c: holds counts, not text"):
        train("train.txt", dev="c")
    with pytest.raises(UsageError, match="ARPA files hold n-gram models only"):
        save_model(train("train.txt", method="em", states=2, iterations=1), "m.arpa")


def test_the_defaults_of_lags_are_said_once() -> None:
    assert resolved_settings("mixed-order")["lags"] == MixedOrderMarkov().lags
