"""`sapwood lm count` and `sapwood lm show`, and what all commands of `sapwood lm` have in common."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cli.conftest import Sapwood
from helpers.lm_texts import made_up_text
from sapwood.cli.lm import group as lm
from sapwood.lm import Counts, count_text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory, the current one, with a text in two parts and as a whole."""
    texts = {"one.txt": made_up_text(40, 0), "two.txt": made_up_text(30, 1)}
    texts["all.txt"] = texts["one.txt"] + texts["two.txt"]
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def same(first: Counts, second: Counts) -> bool:
    assert (first.order, first.boundaries, first.tokens) == (second.order, second.boundaries, second.tokens)
    assert first.vocabulary.words == second.vocabulary.words
    np.testing.assert_array_equal(first.vocabulary.counts, second.vocabulary.counts)
    for ours, theirs in zip(first.tables, second.tables, strict=True):
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_array_equal(ours[1], theirs[1])
    return True


class TestHelp:
    @pytest.mark.parametrize("name", list(lm.command.commands))
    def test_every_command_has_examples_of_itself(self, sapwood: Sapwood, name: str) -> None:
        outcome = sapwood(["lm", name, "--help"])
        assert outcome.code == 0
        assert "Examples:" in outcome.out
        assert f"sapwood lm {name} " in outcome.out.partition("Examples:")[2]

    def test_the_group_lists_its_commands(self, sapwood: Sapwood) -> None:
        outcome = sapwood(["lm", "--help"])
        assert all(f"\n  {name} " in outcome.out for name in lm.command.commands)
        assert "  lm " in sapwood(["--help"]).out
        assert sapwood(["lm", "guess"]).code == 2

    def test_help_imports_nothing_heavy(self) -> None:
        script = (
            "import sys\nfrom sapwood.cli.main import main\n"
            "for call in (['--help'], ['lm', '--help'], ['lm', 'train', '--help']):\n"
            "    main.main(call, standalone_mode=False)\n"
            "loaded = {name for name in sys.modules if name.startswith('sapwood.lm.')} - {'sapwood.lm.registry'}\n"
            "print(sorted({'scipy'} & set(sys.modules) | loaded))"
        )
        ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, timeout=120)
        assert ended.stdout.decode().splitlines()[-1] == "[]"


class TestCount:
    def test_counts_are_those_of_the_library(self, sapwood: Sapwood, folder: Path) -> None:
        outcome = sapwood(["lm", "count", "one.txt", "two.txt", "-o", "c", "--order", 3, "--min-count", 2, "--json"])
        assert outcome.code == 0
        assert outcome.err.startswith("c: ")
        counts = Counts.load("c")
        assert same(counts, count_text("all.txt", order=3, min_count=2))
        report = json.loads(outcome.out)
        assert (report["tokens"], report["unknown"], report["sentences"]) == (counts.tokens, 9, 70)
        assert [row["distinct"] for row in report["ngrams"]] == [len(counts.table(k)[1]) for k in (1, 2, 3)]

    @pytest.mark.parametrize("boundaries", ["sentence", "stream"])
    def test_texts_and_counts_are_merged(self, sapwood: Sapwood, folder: Path, boundaries: str) -> None:
        for name in ("one", "two"):
            call = ["lm", "count", f"{name}.txt", "-o", f"{name}.counts", "--boundaries", boundaries, "-q"]
            assert sapwood(call).code == 0
        wanted = Counts.load("one.counts").merge(Counts.load("two.counts"))
        for inputs in (["one.counts", "two.counts"], ["one.counts", "two.txt"]):
            outcome = sapwood(["lm", "count", *inputs, "-o", "both.counts", "-q"])
            assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
            assert same(Counts.load("both.counts"), wanted)
        if boundaries == "sentence":
            assert same(wanted, count_text("all.txt"))

    def test_a_file_named_twice_counts_twice(self, sapwood: Sapwood, folder: Path) -> None:
        count_text("one.txt").save("one.counts")
        for inputs in (["one.txt", "one.txt"], ["one.counts", "one.counts"], ["one.txt", "one.counts"]):
            assert sapwood(["lm", "count", *inputs, "-o", "c", "-q"]).code == 0
            assert same(Counts.load("c"), count_text(["one.txt", "one.txt"]))

    def test_words_are_cut_by_what_all_parts_have(self, sapwood: Sapwood, folder: Path) -> None:
        (folder / "more.txt").write_text("a name0x9 sings\n")
        for name in ("one", "more"):
            assert sapwood(["lm", "count", f"{name}.txt", "-o", f"{name}.counts", "--order", 3]).code == 0
        call = ["lm", "count", "one.counts", "more.counts", "-o", "both.counts", "--min-count", 2, "--order", 2]
        assert sapwood(call).code == 0
        (folder / "together.txt").write_text(Path("one.txt").read_text() + Path("more.txt").read_text())
        counts = Counts.load("both.counts")
        assert same(counts, count_text("together.txt", min_count=2))
        assert "name0x9" in counts.vocabulary
        assert "sings" not in counts.vocabulary

    @pytest.mark.parametrize("boundaries", ["sentence", "stream"])
    @pytest.mark.parametrize(
        ("min_count", "words"), [(1, None), (2, None), (10, None), (1, 5), (3, 100), (10**6, None)]
    )
    def test_cutting_is_counting_with_fewer_words(
        self, folder: Path, boundaries: str, min_count: int, words: int | None
    ) -> None:
        options = {"order": 3, "boundaries": boundaries}
        whole = count_text("all.txt", **options)
        seen = whole.vocabulary.counts.copy()
        wanted = count_text("all.txt", min_count=min_count, max_words=words, **options)
        assert same(whole.cut(min_count, words), wanted)
        np.testing.assert_array_equal(whole.vocabulary.counts, seen)

    def test_standard_input_and_compressed_files(self, sapwood: Sapwood, folder: Path) -> None:
        Path("two.txt.gz").write_bytes(gzip.compress(Path("two.txt").read_bytes()))
        outcome = sapwood(["lm", "count", "-", "two.txt.gz", "-o", "c", "-q"], Path("one.txt").read_bytes())
        assert (outcome.code, outcome.err) == (0, "")
        assert same(Counts.load("c"), count_text("all.txt"))

    def test_little_memory_gives_the_same(self, sapwood: Sapwood, folder: Path) -> None:
        for name, memory in (("small", 0.001), ("large", 1)):
            assert sapwood(["lm", "count", "all.txt", "--memory", memory, "--threads", 2, "-o", name, "-q"]).code == 0
        assert Path("small").read_bytes() == Path("large").read_bytes()

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["one.txt", "-o", "one.txt"], 2, "-o one.txt: is one of the input files and would be overwritten"),
            (["one.counts", "-o", "one.counts"], 2, "-o one.counts: is one of the input files"),
            (["one.txt", "-o", "-"], 2, "counts cannot be written to standard output; name a file"),
            (["one.txt", "-o", "nowhere/c"], 3, "nowhere: no such directory; make it first"),
            (["one.txt", "-o", "."], 3, ".: is a directory; name a file"),
            (["none.txt", "-o", "c"], 3, "none.txt: no such file or directory"),
            (["-", "-", "-o", "c"], 2, "standard input (-) can be read only once"),
            (["empty.txt", "-o", "c"], 3, "empty.txt: no words in it"),
            (["-", "-o", "c"], 3, "<stdin>: no words in it"),
            (["latin.txt", "-o", "c"], 3, "latin.txt:2:4: not valid UTF-8 (byte 0xe9)"),
            (["zero.txt", "-o", "c"], 3, "zero.txt:1:2: a zero byte"),
            (["one.counts", "--order", 3, "-o", "c"], 2, "orders up to 2; order 3 needs longer ones"),
            (["one.counts", "--boundaries", "stream", "-o", "c"], 2, "made with boundaries sentence, not stream"),
            (["one.counts", "stream.counts", "-o", "c"], 2, "with boundaries sentence and stream, not sentence"),
            (["m", "-o", "c"], 4, "m: holds a grammar, neither text nor counts"),
            (["cut.sapwood", "-o", "c"], 4, "cut.sapwood: not a sapwood file (damaged or truncated within its header)"),
            (["bad.counts", "-o", "c"], 4, "bad.counts: damaged"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_counted(
        self, sapwood: Sapwood, folder: Path, model_bytes: bytes, arguments: list[object], code: int, message: str
    ) -> None:
        (folder / "empty.txt").write_bytes(b"\n \n\n")
        (folder / "latin.txt").write_bytes(b"a b\ncaf\xe9 c\n")
        (folder / "zero.txt").write_bytes(b"a\0b\n")
        (folder / "m").write_bytes(model_bytes)
        (folder / "cut.sapwood").write_bytes(model_bytes[:100])
        count_text("one.txt").save("one.counts")
        count_text("one.txt", boundaries="stream").save("stream.counts")
        content = bytearray((folder / "one.counts").read_bytes())
        content[-5] ^= 1
        (folder / "bad.counts").write_bytes(content)
        before = {path: path.read_bytes() for path in folder.iterdir()}
        outcome = sapwood(["lm", "count", *arguments])
        assert (outcome.code, outcome.out) == (code, "")
        assert message in outcome.err
        assert outcome.err.startswith("sapwood: ")
        assert outcome.err.count("\n") == 1
        assert {path: path.read_bytes() for path in folder.iterdir()} == before


class TestShow:
    def test_counts(self, sapwood: Sapwood, folder: Path) -> None:
        (folder / "t.txt").write_text("a b a b\nb a b\n")
        assert sapwood(["lm", "count", "t.txt", "-o", "c", "-q"]).code == 0
        shown = json.loads(sapwood(["lm", "show", "c", "--top", 2, "--json"]).out)
        assert (shown["kind"], shown["tokens"], shown["sentences"], shown["words"]) == ("counts", 7, 2, 5)
        assert shown["top"][1] == {
            "order": 2,
            "ngrams": [{"ngram": "a b", "count": 3}, {"ngram": "b </s>", "count": 2}],
        }
        text = sapwood(["lm", "show", "c", "--top", 1]).out
        assert "tokens             7\n" in text
        assert text.endswith("the most frequent bigrams\n             3 a b\n")

    def test_what_is_nothing_to_show(self, sapwood: Sapwood, folder: Path, model_bytes: bytes) -> None:
        (folder / "m").write_bytes(model_bytes)
        for name, message in (("m", "holds a grammar, not a language model"), ("one.txt", "not a language model")):
            outcome = sapwood(["lm", "show", name])
            assert (outcome.code, outcome.out, outcome.err.count("\n")) == (4, "", 1)
            assert f"{name}: {message}" in outcome.err
        assert sapwood(["lm", "show", "none"]).code == 3
        assert sapwood(["lm", "show", "-"]).code == 2
