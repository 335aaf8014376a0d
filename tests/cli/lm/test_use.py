"""`sapwood lm` with a model: eval, score, next, generate, topics, nearest, export, show."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from cli.conftest import Sapwood
from helpers.lm_texts import KINDS, made_up_text
from sapwood.lm import (
    AggregateMarkov,
    KneserNey,
    MixedOrderMarkov,
    Mixture,
    count_text,
    encode_text,
    load_model,
    read_arpa,
    read_vectors,
)

# After <s> always a; after a mostly b; and so on: perplexities that can be computed by hand.
from sapwood.storage.zstd import LIBRARY

ARPA = r"""\data\
ngram 1=5
ngram 2=4

\1-grams:
-99 <s> 0
-1 </s>
-0.30103 a -0.30103
-0.60206 b -0.30103
-0.69897 <unk>

\2-grams:
-0.1 <s> a
-0.2 a b
-0.3 b </s>
-0.4 b b

\end\
"""


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the content of texts and of a model of each kind."""
    folder = tmp_path_factory.mktemp("lm")
    train, dev = folder / "train.txt", folder / "dev.txt"
    train.write_text(made_up_text(300, 0))
    dev.write_text(made_up_text(40, 1))
    for boundaries, end in (("sentence", ""), ("stream", "-stream")):
        counts = count_text(train, order=3, min_count=2, boundaries=boundaries)
        text, held_out = (np.concatenate(list(encode_text(p, counts.vocabulary, boundaries))) for p in (train, dev))
        settings = {"states": 6, "prior": 0.1, "word_prior": 0.1}
        latent = AggregateMarkov(**settings, iterations=60).fit(counts)
        latent.save(folder / f"latent{end}")
        mixed = MixedOrderMarkov(lags=2, iterations=5, **settings).fit(
            text, counts.vocabulary, boundaries=boundaries, dev=held_out
        )
        mixed.save(folder / f"mixed{end}")
        ngrams = KneserNey(order=3).fit(counts)
        ngrams.save(folder / f"ngrams{end}")
        Mixture.fit([ngrams, mixed, latent], held_out, edges=[20]).save(folder / f"mixture{end}")
    (folder / "small.arpa").write_text(ARPA)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


MODELS = [f"{kind}{end}" for kind in ("latent", "mixed", "ngrams", "mixture") for end in ("", "-stream")]
every_model = pytest.mark.parametrize("model", MODELS)


@pytest.fixture
def folder(tmp_path: Path, files: dict[str, bytes], model_bytes: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current directory, with all those files and a grammar."""
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "grammar").write_bytes(model_bytes)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(sapwood: Sapwood, *arguments: object, stdin: bytes = b"", code: int = 0) -> str:
    outcome = sapwood(["lm", *arguments], stdin)
    assert outcome.code == code, outcome.err
    if code == 0:
        assert outcome.err == "", "nothing to remark"
        return outcome.out
    assert outcome.out == ""
    assert outcome.err.startswith("sapwood: ") or code == 2
    assert outcome.err.count("\n") == 1 or code == 2
    return outcome.err


def read(sapwood: Sapwood, *arguments: object, stdin: bytes = b"") -> dict:
    return json.loads(run(sapwood, *arguments, "--json", stdin=stdin))


class TestEval:
    def test_by_hand(self, sapwood: Sapwood, folder: Path) -> None:
        (folder / "t").write_text("a b\nb b x a\n\n")
        found = read(sapwood, "eval", "small.arpa", "t")
        # <s> a | a b | b </s>, then with back-off <s> b | b b | (x) | a after <unk> | a </s>
        logs = [-0.1, -0.2, -0.3, 0 - 0.60206, -0.4, -0.30103, -0.30103 - 1]
        assert (found["tokens"], found["unknown"], found["boundaries"]) == (7, 1, "sentence")
        assert found["log_probability"] == pytest.approx(sum(logs) * math.log(10))
        assert found["perplexity"] == pytest.approx(10 ** (-sum(logs) / 7))
        no_ends = read(sapwood, "eval", "small.arpa", "t", "--no-ends")
        assert no_ends["tokens"] == 5
        assert no_ends["perplexity"] == pytest.approx(10 ** (-(sum(logs) + 0.3 + 1.30103) / 5))
        stream = read(sapwood, "eval", "small.arpa", "t", "--boundaries", "stream")
        assert (stream["tokens"], stream["boundaries"]) == (5, "stream")
        logs = [-0.30103, -0.2, -0.4, -0.4, -0.30103]
        assert stream["log_probability"] == pytest.approx(sum(logs) * math.log(10))

    @every_model
    def test_all_kinds(self, sapwood: Sapwood, folder: Path, model: str) -> None:
        loaded = load_model(model)
        wanted = loaded.evaluate(encode_text("dev.txt", loaded.vocabulary, loaded.boundaries))
        found = read(sapwood, "eval", model, "dev.txt")
        assert found["perplexity"] == pytest.approx(wanted.perplexity)
        assert (found["tokens"], found["unknown"]) == (wanted.tokens, wanted.unknown)
        assert found["unknown"] == 5
        text = run(sapwood, "eval", model, "dev.txt")
        assert text == f"perplexity  {wanted.perplexity:.2f}\ntokens      {wanted.tokens:,}\nunknown     5\n"
        assert read(sapwood, "eval", model, stdin=Path("dev.txt").read_bytes()) == found

    def test_several_texts_are_one(self, sapwood: Sapwood, folder: Path) -> None:
        one = read(sapwood, "eval", "ngrams", "dev.txt")
        two = read(sapwood, "eval", "ngrams", "dev.txt", "dev.txt")
        assert two["tokens"] == 2 * one["tokens"]
        assert two["perplexity"] == pytest.approx(one["perplexity"])

    def test_arpa_files_by_their_beginning(self, sapwood: Sapwood, folder: Path) -> None:
        import gzip

        (folder / "other.lm").write_text("\n" + ARPA)
        (folder / "small.arpa.gz").write_bytes(gzip.compress(ARPA.encode()))
        (folder / "other.lm.gz").write_bytes(gzip.compress(ARPA.encode()))
        wanted = read(sapwood, "eval", "small.arpa", "dev.txt")
        for name in ("other.lm", "small.arpa.gz", "other.lm.gz"):
            assert read(sapwood, "eval", name, "dev.txt") == {**wanted, "model": name}
        (folder / "hidden.lm").write_bytes(gzip.compress(ARPA.encode()))
        assert "give it a name that ends in .gz" in run(sapwood, "eval", "hidden.lm", "dev.txt", code=3)

    def test_nothing_to_predict(self, sapwood: Sapwood, folder: Path) -> None:
        (folder / "strange").write_text("qqq zzz\n")
        assert read(sapwood, "eval", "latent", "strange")["tokens"] == 1
        outcome = sapwood(["lm", "eval", "latent-stream", "strange", "--json"])
        assert outcome.code == 0
        assert json.loads(outcome.out)["perplexity"] is None
        assert json.loads(outcome.out)["unknown"] == 2
        assert outcome.err == "the perplexity is undefined: the model knows none of the words\n"
        assert run(sapwood, "eval", "latent-stream", "strange", "-q").startswith("perplexity  none\n")
        assert "<stdin>: no words in it" in run(sapwood, "eval", "latent", code=3)

    def test_an_impossible_word(self, sapwood: Sapwood, folder: Path) -> None:
        (folder / "m.arpa").write_text(ARPA.replace("-0.30103 a ", "-99 a ").replace("-0.1 <s> a", "-0.1 <s> b"))
        outcome = sapwood(["lm", "eval", "m.arpa", "--json"], b"b a\n")
        assert json.loads(outcome.out)["perplexity"] is None
        assert outcome.err == "the perplexity is infinite: a known word has probability 0\n"
        assert sapwood(["lm", "eval", "m.arpa", "-q"], b"b a\n").out.startswith("perplexity  inf\n")

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["grammar", "dev.txt"], 4, "grammar: holds a grammar, not a language model"),
            (["c", "dev.txt"], 4, "c: holds counts, not a language model"),
            (["dev.txt", "dev.txt"], 4, "dev.txt: not a language model, or damaged at its start"),
            (["cut", "dev.txt"], 4, "cut: damaged or truncated"),
            (["changed", "dev.txt"], 4, "changed: damaged"),
            (["empty", "dev.txt"], 4, "empty: not a language model"),
            (["cut.arpa", "dev.txt"], 3, "cut.arpa:8: the file ends here"),
            (["none", "dev.txt"], 3, "none: no such file"),
            ([".", "dev.txt"], 3, ".: is a directory"),
            (["-", "dev.txt"], 2, "a model is read from a file"),
            (["latent", "latent"], 4, "latent: holds a latent bigram model, not text"),
            (["latent", "latin"], 3, "latin:1:2: not valid UTF-8"),
            (["latent", "none"], 3, "none: no such file"),
            (["latent", "-", "-"], 2, "can be read only once"),
            (["latent-stream", "dev.txt", "--boundaries", "sentence"], 2, "knows no ends of sentences"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_done(
        self, sapwood: Sapwood, folder: Path, files: dict[str, bytes], arguments: list[str], code: int, message: str
    ) -> None:
        count_text("dev.txt").save("c")
        changed = bytearray(files["latent"])
        changed[-1000] ^= 1
        (folder / "changed").write_bytes(changed)
        (folder / "cut").write_bytes(files["latent"][:-100])
        (folder / "empty").write_bytes(b"")
        (folder / "cut.arpa").write_text("".join(ARPA.splitlines(keepends=True)[:7]))
        (folder / "latin").write_bytes(b"b\xe9 a\n")
        assert message in run(sapwood, "eval", *arguments, code=code)
        if "latent" not in arguments[0]:
            for name, more in (("topics", []), ("next", ["the"]), ("nearest", ["dog"]), ("generate", []), ("show", [])):
                if arguments[0] != "c" or name != "show":
                    assert message in run(sapwood, name, arguments[0], *more, code=code)


class TestScore:
    @every_model
    def test_lines_add_up_to_the_whole(self, sapwood: Sapwood, folder: Path, model: str) -> None:
        whole = read(sapwood, "eval", model, "dev.txt")
        lines = Path("dev.txt").read_text().splitlines()
        # More lines than are scored at a time, with blank ones between.
        (folder / "many.txt").write_text("\n\n".join(lines * 20) + "\n")
        rows = [row.split("\t") for row in run(sapwood, "score", model, "dev.txt").splitlines()]
        assert [row[3] for row in rows] == lines
        assert math.fsum(float(row[0]) for row in rows) == pytest.approx(whole["log_probability"], abs=1e-3)
        assert sum(int(row[1]) for row in rows) == whole["tokens"]
        assert sum(int(row[2]) for row in rows) == whole["unknown"]
        many = [row.split("\t") for row in run(sapwood, "score", model, "many.txt").splitlines()]
        assert [row[3] for row in many[::2]] == lines * 20
        assert many[1] == ["0.000000", "0", "0", ""]
        whole = read(sapwood, "eval", model, "many.txt")
        assert math.fsum(float(row[0]) for row in many) == pytest.approx(whole["log_probability"], abs=1e-2)
        # A stream goes on from line to line; sentences do not.
        assert (many[2 * len(lines)] == rows[0]) == ("stream" not in model)

    def test_words_and_json(self, sapwood: Sapwood, folder: Path) -> None:
        text = b"a  b\t\n\nx b </s> <s> a\n"
        ten = math.log(10)
        rows = run(sapwood, "score", "small.arpa", "--words", stdin=text)
        values = [[-0.1, -0.2, -0.3], [], [-0.69897, -0.60206, -0.3, -0.1, -1.30103]]
        words = [["a", "b", "</s>"], [], ["x", "b", "</s>", "a", "</s>"]]
        wanted = "".join(
            "".join(f"{w}\t{v * ten:.6f}{'*' * (w == 'x')}\n" for w, v in zip(ws, vs, strict=True)) + "\n"
            for ws, vs in zip(words, values, strict=True)
        )
        assert rows == wanted.replace("*", "\tunknown")
        objects = [json.loads(line) for line in run(sapwood, "score", "small.arpa", "--json", stdin=text).splitlines()]
        assert [found["words"] for found in objects] == words
        for found, logs in zip(objects, values, strict=True):
            assert found["log_probabilities"] == pytest.approx([value * ten for value in logs])
        assert [found["unknown"] for found in objects] == [0, 0, 1]
        assert [found["tokens"] for found in objects] == [3, 0, 4]
        assert objects[2]["log_probability"] == pytest.approx(sum(values[2][1:]) * ten)
        plain = run(sapwood, "score", "small.arpa", stdin=text).splitlines()
        assert [row.split("\t")[3] for row in plain] == ["a b", "", "x b </s> <s> a"]

    def test_files(self, sapwood: Sapwood, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        run(sapwood, "score", "ngrams", "dev.txt", "-o", "out")
        assert Path("out").read_text() == run(sapwood, "score", "ngrams", stdin=Path("dev.txt").read_bytes())
        zstd = pytest.importorskip(LIBRARY)
        (folder / "dev.txt.zst").write_bytes(zstd.compress(Path("dev.txt").read_bytes()[:-1]))
        assert run(sapwood, "score", "ngrams", "dev.txt.zst") == Path("out").read_text()
        (folder / "dev.txt.zst").write_bytes(zstd.compress(b"a\nb\xff\n"))
        assert "dev.txt.zst:2:2: not valid UTF-8" in run(sapwood, "score", "ngrams", "dev.txt.zst", "-o", "n", code=3)
        for arguments, code, message in (
            (["ngrams", "dev.txt", "-o", "dev.txt"], 2, "-o dev.txt: is one of the input files"),
            (["ngrams", "dev.txt", "-o", "ngrams"], 2, "-o ngrams: is one of the input files"),
            (["ngrams", "grammar"], 4, "grammar: holds a grammar, not text"),
            (["ngrams", "dev.txt", "--words", "--json"], 2, "--words cannot be used with --json"),
            (["ngrams-stream", "dev.txt", "--boundaries", "sentence"], 2, "knows no ends of sentences"),
        ):
            assert message in run(sapwood, "score", *arguments, code=code)


class TestWords:
    @every_model
    def test_next(self, sapwood: Sapwood, folder: Path, model: str) -> None:
        found = read(sapwood, "next", model, "the old", "--top", 5)
        wanted = load_model(model).next_words(["the", "old"], 5)
        assert found["context"] == ["the", "old"]
        assert [(item["word"], item["probability"]) for item in found["next"]] == wanted
        assert {word for word, _ in wanted} == set(KINDS["noun"])
        rows = run(sapwood, "next", model, "the", "old", "--top", 5)
        assert rows == "".join(f"{probability:.6f}\t{word}\n" for word, probability in wanted)

    def test_next_after_nothing_or_unknown_words(self, sapwood: Sapwood, folder: Path) -> None:
        first = [item["word"] for item in read(sapwood, "next", "mixture", "--top", 3)["next"]]
        assert set(first) == set(KINDS["determiner"])
        outcome = sapwood(["lm", "next", "ngrams", "the qqq", "--json"])
        assert outcome.err == "the model does not know: qqq\n"
        assert json.loads(outcome.out)["unknown"] == ["qqq"]
        assert "not valid UTF-8" in run(sapwood, "next", "ngrams", "\udcff", code=3)

    @every_model
    def test_generate(self, sapwood: Sapwood, folder: Path, model: str) -> None:
        lines = run(sapwood, "generate", model, "-n", 4, "--seed", 3, "--max-words", 9).splitlines()
        drawn = load_model(model).sample(4, random_state=3, max_words=9)
        assert [line.split() for line in lines] == drawn
        assert lines != run(sapwood, "generate", model, "-n", 4, "--seed", 4, "--max-words", 9).splitlines()
        objects = [json.loads(line) for line in run(sapwood, "generate", model, "--json").splitlines()]
        assert len(objects) == 5
        assert "<unk>" not in {word for found in objects for word in found["words"]}
        many = run(sapwood, "generate", model, "-n", 60, "--unknown", "--max-words", 9)
        assert "<unk>" in many.split()

    @pytest.mark.parametrize("model", ["latent", "mixed", "mixture", "latent-stream"])
    def test_topics(self, sapwood: Sapwood, folder: Path, model: str) -> None:
        found = read(sapwood, "topics", model, "--top", 3)["states"]
        assert len(found) == 6
        assert sum(topic["probability"] for topic in found) == pytest.approx(1)
        probabilities = [topic["probability"] for topic in found]
        assert probabilities == sorted(probabilities, reverse=True)
        assert all(len(topic["words"]) <= 3 for topic in found)
        text = run(sapwood, "topics", model, "--top", 3)
        assert text.startswith(f"state {found[0]['state']}: {100 * probabilities[0]:.1f}% of all words\n  words: ")
        assert text.count("state ") == 6

    def test_topics_are_kinds_of_words(self, sapwood: Sapwood, folder: Path) -> None:
        tops = [
            {item["word"] for item in topic["words"]}
            for topic in read(sapwood, "topics", "latent", "--top", 3)["states"]
        ]
        assert any(top == set(KINDS["determiner"]) for top in tops)
        assert any(top <= set(KINDS["noun"]) for top in tops)

    def test_topics_by_lift(self, sapwood: Sapwood, folder: Path) -> None:
        topic = read(sapwood, "topics", "latent", "--by", "lift", "--min-count", 0, "--top", 2)["states"][0]
        assert topic["words"][0]["lift"] >= topic["words"][1]["lift"] > 1
        assert read(sapwood, "topics", "latent", "--by", "lift", "--min-count", 10**6)["states"][0]["words"] == []
        assert "--min-count requires --by lift" in run(sapwood, "topics", "latent", "--min-count", 3, code=2)

    def test_nearest(self, sapwood: Sapwood, folder: Path) -> None:
        for model in ("latent", "mixture"):
            found = read(sapwood, "nearest", model, "dog", "--top", 4)
            assert {item["word"] for item in found["nearest"]} == set(KINDS["noun"]) - {"dog"}
            assert 1.001 > found["nearest"][0]["likeness"] > found["nearest"][3]["likeness"] > 0.9
        cosine = read(sapwood, "nearest", "latent", "dog", "--top", 4, "--likeness", "cosine")
        assert cosine["nearest"] != read(sapwood, "nearest", "latent", "dog", "--top", 4)["nearest"]
        rows = run(sapwood, "nearest", "latent", "dog", "--top", 2).splitlines()
        assert [row.split("\t")[1] for row in rows] == [
            item["word"] for item in read(sapwood, "nearest", "latent", "dog", "--top", 2)["nearest"]
        ]
        assert "latent: the model does not know the word 'qqq'" in run(sapwood, "nearest", "latent", "qqq", code=3)

    @pytest.mark.parametrize("name", ["topics", "nearest"])
    def test_n_grams_have_no_states(self, sapwood: Sapwood, folder: Path, name: str) -> None:
        for model in ("ngrams", "small.arpa"):
            more = ["dog"] if name == "nearest" else []
            assert f"{model}: an n-gram model, which has no hidden states" in run(sapwood, name, model, *more, code=4)

    def test_show(self, sapwood: Sapwood, folder: Path) -> None:
        found = read(sapwood, "show", "mixture")
        assert found["kind"] == "mixture"
        assert [member["kind"] for member in found["members"]] == [
            "n-gram model",
            "mixed-order model",
            "latent bigram model",
        ]
        assert sum(member["weight"] for member in found["members"]) == pytest.approx(1)
        assert read(sapwood, "show", "latent")["info"]["settings"]["states"] == 6
        assert read(sapwood, "show", "small.arpa")["ngrams"] == [5, 4]
        odd = load_model("latent")
        odd.info = {"dev_perplexity": math.inf, "settings": {"prior": [1.0, math.nan]}}
        odd.save("odd")
        assert read(sapwood, "show", "odd")["info"] == {"dev_perplexity": None, "settings": {"prior": [1.0, None]}}
        text = run(sapwood, "show", "latent")
        assert "kind               latent bigram model\n" in text
        assert "\nmethod             em\n" in text
        assert "n-gram model: order 3, ngrams " in run(sapwood, "show", "mixture")


class TestExport:
    def test_arpa(self, sapwood: Sapwood, folder: Path) -> None:
        for name in ("out.arpa", "out.arpa.gz"):
            assert sapwood(["lm", "export", "ngrams", "-o", name]).err.startswith(f"{name}: ")
            wanted = read(sapwood, "eval", "ngrams", "dev.txt")["perplexity"]
            assert read(sapwood, "eval", name, "dev.txt")["perplexity"] == pytest.approx(wanted, rel=1e-6)
        assert run(sapwood, "export", "ngrams", "-o", "-") == Path("out.arpa").read_text()
        run(sapwood, "export", "small.arpa", "-o", "again.arpa", "-q")
        assert read_arpa("again.arpa").vocabulary.words == read_arpa("small.arpa").vocabulary.words

    def test_vectors(self, sapwood: Sapwood, folder: Path) -> None:
        latent = load_model("latent")
        run(sapwood, "export", "latent", "-o", "v.txt", "-q")
        run(sapwood, "export", "mixture", "--to", "word2vec-binary", "-o", "v.bin", "-q")
        for name, model, binary in (("v.txt", latent, False), ("v.bin", load_model("mixture").models[1].lags[0], True)):
            words, vectors = read_vectors(name, binary=binary)
            assert words == model.vocabulary.words
            np.testing.assert_array_equal(vectors, model.given)
        run(sapwood, "export", "latent", "--likeness", "hellinger", "-o", "v.txt", "-q")
        words, vectors = read_vectors("v.txt")
        place = words.index("dog")
        nearest = read(sapwood, "nearest", "latent", "dog", "--top", 1)["nearest"][0]
        assert vectors[words.index(nearest["word"])] @ vectors[place] == pytest.approx(nearest["likeness"], abs=1e-5)

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["latent", "--to", "arpa", "-o", "x"], 4, "latent: not an n-gram model"),
            (["mixture", "--to", "arpa", "-o", "x"], 4, "mixture: not an n-gram model"),
            (["ngrams", "--to", "word2vec", "-o", "x"], 4, "ngrams: an n-gram model, which has no hidden states"),
            (["latent", "-o", "latent"], 2, "-o latent: is one of the input files"),
            (["latent", "--to", "word2vec-binary", "-o", "-"], 2, "requires a regular file"),
            (["latent", "--to", "word2vec-binary", "-o", "x.gz"], 2, "requires a regular file"),
            (["ngrams", "--likeness", "cosine", "-o", "x"], 2, "--likeness requires word vectors"),
            (["latent", "-o", "nowhere/x"], 3, "nowhere: no such directory"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_done(
        self, sapwood: Sapwood, folder: Path, arguments: list[str], code: int, message: str
    ) -> None:
        before = sorted(path.name for path in folder.iterdir())
        assert message in run(sapwood, "export", *arguments, code=code)
        assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize("command", [["inspect"], ["parse", "-m"]])
def test_commands_for_grammars_say_how_to_look_at_language_models(
    sapwood: Sapwood, folder: Path, command: list[str]
) -> None:
    count_text("train.txt").save("counts")
    for name, kind in {
        "latent": "latent-bigram", "mixed": "mixed-order", "mixture": "mixture", "ngrams": "ngram-model",
        "counts": "counts",
    }.items():  # fmt: skip
        outcome = sapwood([*command, name])
        hint = f"`sapwood lm show {name}` tells what is in it"
        assert (outcome.code, outcome.err) == (4, f"sapwood: {name}: holds a {kind}, not a model; {hint}\n")
        assert run(sapwood, "show", name).startswith("kind ")
