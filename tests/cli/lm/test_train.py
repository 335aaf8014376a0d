"""`sapwood lm train`."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from cli.conftest import Sapwood
from helpers.lm_texts import made_up_text
from sapwood.lm import (
    AggregateMarkov,
    KneserNey,
    LatentBigram,
    MixedOrder,
    Mixture,
    NgramModel,
    count_text,
    encode_text,
    load_model,
    read_arpa,
)
from sapwood.runtime.log import read_log

SMALL = ["--states", 4, "--iterations", 8]
PIVOT = [*SMALL, "--anchor-count", 5]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory, the current one, with two made-up texts."""
    for name, count, seed in (("train.txt", 150, 0), ("dev.txt", 40, 1)):
        (tmp_path / name).write_text(made_up_text(count, seed))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(sapwood: Sapwood, *arguments: object, code: int = 0, stdin: bytes = b"") -> str:
    outcome = sapwood(["lm", "train", *arguments], stdin)
    assert outcome.code == code, outcome.err
    return outcome.out if code == 0 else outcome.err


@pytest.mark.parametrize(
    ("method", "options", "kind"),
    [
        ("em", SMALL, LatentBigram),
        ("pivot", PIVOT, LatentBigram),
        ("pivot+em", PIVOT, LatentBigram),
        ("mixed-order", [*SMALL, "--lags", 2], MixedOrder),
        ("kn", ["--order", 2], NgramModel),
        ("mkn", [], NgramModel),
        ("mix", [*PIVOT, "--lags", 2, "--order", 4], Mixture),
    ],
)
@pytest.mark.parametrize("boundaries", ["sentence", "stream"])
def test_methods(
    sapwood: Sapwood, folder: Path, method: str, options: list[object], kind: type, boundaries: str
) -> None:
    call = ["train.txt", "--dev", "dev.txt", "--method", method, *options, "--boundaries", boundaries, "-o", "m"]
    report = json.loads(train(sapwood, *call, "--json", "-q"))
    model = load_model("m")
    assert isinstance(model, kind)
    assert model.boundaries == report["boundaries"] == boundaries
    assert report["method"] == method
    assert report["words"] == len(model.vocabulary)
    # Names are seen once, and words seen once are unknown by default.
    assert report["unknown"] == 17
    found = model.evaluate(encode_text("dev.txt", model.vocabulary, boundaries))
    assert report["dev"]["perplexity"] == pytest.approx(found.perplexity)
    assert (report["dev"]["tokens"], report["dev"]["unknown"]) == (found.tokens, found.unknown)
    assert found.unknown == 5
    if method == "mix":
        assert [type(member) for member in model.models] == [LatentBigram, MixedOrder, NgramModel]
        assert sum(member["weight"] for member in report["members"]) == pytest.approx(1)
        assert model.models[0].info["method"] == "pivot+em"
        assert model.models[2].order == 4
        ids = list(encode_text("dev.txt", model.vocabulary, boundaries))
        # Its weights have a prior, which tells in so short a text.
        assert found.perplexity < 1.05 * min(member.perplexity(ids) for member in model.models)


@pytest.mark.parametrize("method", ["em", "pivot+em", "mix"])
@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes(sapwood: Sapwood, folder: Path, method: str) -> None:
    call = ["train.txt", "--dev", "dev.txt", "--method", method, *(SMALL if method == "em" else PIVOT), "-q"]
    for name, more in (("a", ["--threads", 1]), ("b", ["--threads", 2]), ("c", ["--seed", 1])):
        train(sapwood, *call, *more, "-o", name)
    assert Path("a").read_bytes() == Path("b").read_bytes()
    assert Path("a").read_bytes() != Path("c").read_bytes()


def test_settings_reach_the_learner(sapwood: Sapwood, folder: Path) -> None:
    settings = [
        "--states",
        3,
        "--iterations",
        5,
        "--prior",
        0.5,
        "--word-prior",
        2,
        "--stepwise-batches",
        2,
        "--seed",
        7,
    ]
    words = ["--min-count", 3, "--vocabulary", 12]
    train(sapwood, "train.txt", "--method", "em", *settings, *words, "-o", "m", "-q")
    counts = count_text("train.txt", min_count=3, max_words=12)
    learner = AggregateMarkov(states=3, iterations=5, prior=0.5, word_prior=2.0, stepwise_batches=2, random_state=7)
    wanted, model = learner.fit(counts), load_model("m")
    assert model.vocabulary.words == counts.vocabulary.words
    assert len(model.vocabulary) == 15
    np.testing.assert_array_equal(model.given, wanted.given)
    np.testing.assert_array_equal(model.emitted, wanted.emitted)
    assert model.info["settings"] == wanted.info["settings"]


def test_iterations_of_pivot_are_those_of_its_problem(sapwood: Sapwood, folder: Path) -> None:
    train(sapwood, "train.txt", "--method", "pivot", *PIVOT, "-o", "m", "-q")
    assert load_model("m").info["settings"]["pivot_iterations"] == 8


class TestCounts:
    def test_they_are_as_good_as_text(self, sapwood: Sapwood, folder: Path) -> None:
        assert sapwood(["lm", "count", "train.txt", "--order", 3, "-o", "c", "-q"]).code == 0
        for method, options in (("em", SMALL), ("pivot+em", PIVOT), ("mkn", [])):
            call = ["--method", method, *options, "--dev", "dev.txt", "-q", "-o"]
            train(sapwood, "train.txt", *call, "text")
            train(sapwood, "c", "--min-count", 2, *call, "counts")
            assert Path("text").read_bytes() == Path("counts").read_bytes(), method
            train(sapwood, "c", *call, "uncut")
            assert len(load_model("uncut").vocabulary) == len(load_model("text").vocabulary) + 17

    def test_a_mixture_does_without_several_words_back(self, sapwood: Sapwood, folder: Path) -> None:
        assert sapwood(["lm", "count", "train.txt", "--order", 3, "-o", "c", "-q"]).code == 0
        outcome = sapwood(["lm", "train", "c", "--dev", "dev.txt", "--method", "mix", *PIVOT, "-o", "m"])
        assert outcome.code == 0
        assert "the mixture has no mixed-order model" in outcome.err
        assert [type(member) for member in load_model("m").models] == [LatentBigram, NgramModel]

    def test_they_must_have_what_is_needed(self, sapwood: Sapwood, folder: Path) -> None:
        for order in (1, 2):
            assert sapwood(["lm", "count", "train.txt", "--order", order, "-o", f"c{order}", "-q"]).code == 0
        for call, message in (
            (["c2", "--method", "kn", "--order", 3], "orders up to 2; order 3 needs longer ones"),
            (["c1", "--method", "em"], "method em needs bigrams, and there are none"),
            (["c2", "--method", "mixed-order"], "needs the text itself"),
            (["c2", "--boundaries", "stream"], "made with boundaries sentence, not stream"),
        ):
            assert message in train(sapwood, *call, "-o", "m", code=2)
        train(sapwood, "c2", "--method", "kn", "-o", "m", "-q")
        assert load_model("m").order == 2


class TestFiles:
    def test_arpa(self, sapwood: Sapwood, folder: Path) -> None:
        wanted = KneserNey(order=2).fit(count_text("train.txt", min_count=2))
        ids = list(encode_text("dev.txt", wanted.vocabulary))
        for name in ("m.arpa", "m.arpa.gz"):
            train(sapwood, "train.txt", "--method", "mkn", "--order", 2, "-o", name, "-q")
            assert read_arpa(name).vocabulary.words == wanted.vocabulary.words
            assert read_arpa(name).perplexity(ids) == pytest.approx(wanted.perplexity(ids), rel=1e-6)
        assert "ARPA files hold n-gram models only" in train(
            sapwood, "train.txt", "--method", "em", "-o", "em.arpa", code=2
        )

    def test_standard_input(self, sapwood: Sapwood, folder: Path) -> None:
        content = Path("train.txt").read_bytes()
        train(sapwood, "-", "--method", "em", *SMALL, "-o", "piped", "-q", stdin=content)
        train(sapwood, "train.txt", "--method", "em", *SMALL, "-o", "named", "-q")
        assert Path("piped").read_bytes() == Path("named").read_bytes()
        call = ["-", "--dev", "dev.txt", "--method", "mix", "-o", "m"]
        assert "-: is read more than once with method mix; name a file" in train(sapwood, *call, code=2)

    @pytest.mark.slow
    def test_several_texts_are_one(self, sapwood: Sapwood, folder: Path) -> None:
        lines = Path("train.txt").read_text().splitlines(keepends=True)
        Path("a.txt").write_text("".join(lines[:50]))
        Path("b.txt").write_text("".join(lines[50:]))
        call = ["--dev", "dev.txt", "--method", "mix", *PIVOT, "-q", "-o"]
        train(sapwood, "a.txt", "b.txt", *call, "parts")
        train(sapwood, "train.txt", *call, "whole")
        assert Path("parts").read_bytes() == Path("whole").read_bytes()

    def test_a_log(self, sapwood: Sapwood, folder: Path) -> None:
        call = ["train.txt", "--dev", "dev.txt", "--method", "em", *SMALL, "--log", "log", "-o", "m", "-q"]
        train(sapwood, *call)
        log = read_log("log")
        assert (log[0]["event"], log[0]["method"], log[0]["settings"]["states"]) == ("start", "em", 4)
        assert log[0]["tokens"] == count_text("train.txt").tokens
        steps = [line["step"] for line in log if line["event"] == "iteration"]
        assert steps == list(range(1, len(steps) + 1))
        assert log[-1]["event"] == "end"
        assert log[-1]["step"] == steps[-1]
        best = min(line["perplexity"] for line in log if line["event"] == "dev")
        assert load_model("m").info["dev_perplexity"] == pytest.approx(best)
        assert not any("member" in line for line in log)

    @pytest.mark.slow
    def test_a_log_of_several_trainings(self, sapwood: Sapwood, folder: Path) -> None:
        train(
            sapwood, "train.txt", "--dev", "dev.txt", "--method", "mix", *PIVOT, "--lags", 2, "--log", "log", "-o", "m"
        )
        log = read_log("log")
        steps = [line["step"] for line in log if line["event"] == "iteration"]
        assert steps == list(range(1, len(steps) + 1))
        # The latent bigram model, two lags, and both together, which has measurements only.
        assert {line["member"] for line in log if line["event"] == "iteration"} == {0, 1, 2}
        assert {line["member"] for line in log if line["event"] == "dev"} == {0, 1, 2, 3}
        assert log[-1]["step"] == max(line["step"] for line in log)
        assert sapwood(["plot", "log", "--json"]).code == 0

    def test_files_are_not_written_over_each_other(self, sapwood: Sapwood, folder: Path) -> None:
        before = {path: path.read_bytes() for path in folder.iterdir()}
        for call, message in (
            (["-o", "train.txt"], "-o train.txt: is one of the input files and would be overwritten"),
            (["-o", "dev.txt"], "-o dev.txt: is one of the input files"),
            (["-o", "m", "--log", "dev.txt"], "--log dev.txt: is one of the input files"),
            (["-o", "m", "--log", "m"], "--log m: is also the output of -o"),
            (["-o", "m", "--log", "./m"], "--log ./m: is also the output of -o"),
            (["-o", "-"], "a model cannot be written to standard output; name a file"),
        ):
            assert message in train(sapwood, "train.txt", "--dev", "dev.txt", *call, code=2)
        assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "em", "--order", 3], "--order requires method kn, mkn, mix; this is method em"),
        (["--method", "kn", "--states", 3], "--states requires method em, pivot, pivot+em, mixed-order, mix; this is"),
        (["--method", "mkn", "--log", "log"], "--log requires --method em"),
        (["--method", "pivot", "--word-prior", 3], "--word-prior requires method em, pivot+em"),
        (["--anchor-count", 3], "--anchor-count requires method pivot, pivot+em, mix; this is method mkn"),
        (["--lags", 3], "--lags requires method mixed-order, mix"),
        (["--method", "mix"], "method mix needs dev"),
        (["--method", "pivot"], "no word was seen 30 times or more"),
        (["--method", "mkn", "--order", 9], "9 is not in the range 1<=x<=8"),
        (["--method", "em", "--states", 0], "--states must be at least 1, not 0"),
        (["--method", "guess"], "'guess' is not one of"),
        (["--dev", "-"], "(-) can be read only once"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together(sapwood: Sapwood, folder: Path, options: list[object], message: str) -> None:
    (folder / "short.txt").write_text("the cat sees the dog\n")
    text = "-" if "-" in options else "short.txt"
    assert message in train(sapwood, text, *options, "-o", "m", code=2)
    assert sorted(path.name for path in folder.iterdir()) == ["dev.txt", "short.txt", "train.txt"]


@pytest.mark.parametrize(
    ("text", "dev", "code", "message"),
    [
        (b"", b"a b\n", 3, "t: no words in it"),
        (b"a b\n", b"\n", 3, "d: no words in it"),
        (b"a b\na b\n", b"x y\n", 0, ""),
        (b"caf\xe9 b\n", b"a b\n", 3, "t:1:4: not valid UTF-8 (byte 0xe9)"),
        (b"a b\n", b"b \xff\n", 3, "d:1:3: not valid UTF-8 (byte 0xff)"),
        (b"word\n", b"word\n", 0, ""),
        (b"word\n", b"word\n", 2, "method em needs bigrams, and there are none"),
        (b"a b a b\n", b"x y\n", 3, "d: the held-out text has no two words behind each other"),
    ],
)  # fmt: skip
def test_odd_texts(sapwood: Sapwood, folder: Path, text: bytes, dev: bytes, code: int, message: str) -> None:
    (folder / "t").write_bytes(text)
    (folder / "d").write_bytes(dev)
    # What has no words to learn from as a stream still has the ends of sentences.
    boundaries = ["--boundaries", "stream"] if "bigrams" in message or "held-out" in message else []
    outcome = sapwood(["lm", "train", "t", "--dev", "d", "--method", "em", "--states", 2, *boundaries, "-o", "m"])
    assert outcome.code == code
    if code:
        assert outcome.out == ""
        assert outcome.err.count("\n") == 1
        assert message in outcome.err
        assert not (folder / "m").exists()
    else:
        assert math.isfinite(load_model("m").info["dev_perplexity"])


def test_other_kinds_of_files(sapwood: Sapwood, folder: Path, model_bytes: bytes) -> None:
    (folder / "grammar").write_bytes(model_bytes)
    assert "grammar: holds a grammar, neither text" in train(sapwood, "grammar", "-o", "m", code=4)
    assert "grammar: holds a grammar, not text" in train(sapwood, "train.txt", "--dev", "grammar", "-o", "m", code=4)


@pytest.mark.slow
def test_a_mixture_of_rare_words_begins_at_random(sapwood: Sapwood, folder: Path) -> None:
    (folder / "short.txt").write_text("the cat sees the dog\nthe dog hears the cat\n")
    train(sapwood, "short.txt", "--dev", "dev.txt", "--method", "mix", "--states", 2, "-o", "m", "-q")
    assert load_model("m").models[0].info["method"] == "em"
