"""What each command does with good input, and with input that is merely odd."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

import sapwood as package
from sapwood.cli.main import run
from sapwood.cli.options import common as _common
from sapwood.inference import decode
from sapwood.trees import Tree

COMMANDS = (
    "train",
    "parse",
    "tag",
    "tokenise",
    "eval",
    "compare",
    "inspect",
    "sample",
    "diagnose",
    "serve",
    "check",
    "agree",
    "annotate",
    "select",
    "convert",
    "split",
    "import",
    "package",
    "models",
    "search",
    "rewrite",
    "corpus",
    "minimise",
    "plot",
    "anchors",
    "lm",
    "identify",
    "induce",
)


def words_of(line: str) -> list[str]:
    return Tree.parse(line).words()


# -- all commands ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_an_example(command: str, sapwood: Any) -> None:
    outcome = sapwood([*command.split(), "--help"])
    assert (outcome.code, outcome.err) == (0, "")
    examples = outcome.out.split("Examples:\n")[1].split("Options:")[0]
    assert f"    sapwood {command}" in "  " + examples


def test_decoders_are_those_that_there_are() -> None:
    assert _common.DECODERS == decode.DECODERS


@pytest.mark.parametrize(("command", "setting"), [("train", "--cycles"), ("induce", "--iterations")])
def test_settings_of_single_methods_are_in_the_long_help_alone(command: str, setting: str, sapwood: Any) -> None:
    short, long = (sapwood([command, f"--{name}"]).out for name in ("help", "help-all"))
    assert setting not in short
    assert setting in long
    (count,) = re.findall(r"(\d+) more options belong to single methods; see \S+ \w+ --help-all", short)
    options = r"^  (?:-\w, )?(--[\w-]+)"
    assert (
        int(count) == len(re.findall(options, long, re.MULTILINE)) - len(re.findall(options, short, re.MULTILINE)) > 5
    )
    assert "more options" not in long


def test_every_command_is_listed(sapwood: Any) -> None:
    listed = sapwood(["--help"]).out.split("Commands:\n")[1]
    assert [line.split()[0] for line in listed.strip().splitlines()] == list(COMMANDS)
    assert "..." not in listed, "a short help text that is cut off"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("(S (NP (NNS Dogs)) (VP (VBP bark)))", "sapwood convert --to tokens"),
        ("The dog sleeps.", "use --raw to split"),
        ("The dog sleeps .", ""),
        ("( Why ? )", ""),
        ("He left at 5 p.m.", ""),
    ],
)
def test_input_that_does_not_look_like_tokens_is_remarked_on(
    line: str, hint: str, sapwood: Any, tmp_path: Path
) -> None:
    path = tmp_path / "in.txt"
    path.write_text(f"\n{line}\n{line}\n")
    outcome = sapwood(["parse", str(path)])
    assert (outcome.code, outcome.out.count("\n")) == (0, 3)
    assert outcome.err.count("\n") == bool(hint)
    assert hint in outcome.err
    assert not sapwood(["parse", str(path), "-q"]).err


def test_a_sentence_in_place_of_a_file_is_remarked_on(sapwood: Any) -> None:
    outcome = sapwood(["parse", "The dog sleeps."])
    assert (outcome.code, outcome.err) == (
        3, "sapwood: The dog sleeps.: no such file or directory; to parse a sentence, use -s\n"
    )  # fmt: skip


def test_version(sapwood: Any) -> None:
    outcome = sapwood(["--version"])
    assert (outcome.code, outcome.out, outcome.err) == (0, f"sapwood, version {package.__version__}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        "train none.mrg trees.mrg --dev trees.mrg -o new",
        "parse sentences.txt -m m",
        "eval trees.mrg -m m",
        "eval trees.mrg trees.mrg",
        "inspect trees.mrg",
        "inspect m",
        "minimise m -o new",
        "minimise m --trees trees.mrg --dev trees.mrg --distance -o new",
        "convert none.mrg --normalise",
        "convert none.mrg --skip-bad",
    ],
)
def test_quiet_leaves_standard_error_empty(arguments: str, folder: Path, sapwood: Any) -> None:
    (folder / "none.mrg").write_text("(S (-NONE- *))\n")
    outcome = sapwood([*arguments.split(), "--quiet"])
    assert (outcome.code, outcome.err) == (0, "")


@pytest.mark.parametrize(
    "command",
    ["convert -", "inspect -", "eval - trees.mrg", "eval trees.mrg -", "train - -o new", "minimise m --trees - -o new"],
)
def test_trees_from_standard_input(command: str, folder: Path, sapwood: Any) -> None:
    outcome = sapwood(command.split(), (folder / "trees.mrg").read_bytes())
    assert outcome.code == 0, outcome


def test_same_trees_same_model(folder: Path, sapwood: Any, model_bytes: bytes) -> None:
    assert sapwood(["train", "trees.mrg", "--method", "pcfg", "-o", "again"]).code == 0
    assert (folder / "again").read_bytes() == model_bytes


# -- parse -------------------------------------------------------------------------------------------------------------


def test_one_line_out_for_each_line_in(folder: Path, sapwood: Any) -> None:
    text = b"the dog barks .\n\n   \ncats sleep\n\xe2\x80\xa8 x\ndinner"
    for arguments in (["parse", "-m", "m"], ["parse", "-m", "m", "-"], ["parse", "-m", "m", "--threads", "3"]):
        outcome = sapwood(arguments, text)
        assert outcome.code == 0
        lines = outcome.out.split("\n")
        assert [line and words_of(line) for line in lines] == [
            ["the", "dog", "barks", "."],
            "",
            "",
            ["cats", "sleep"],
            ["\u2028", "x"],
            ["dinner"],
            "",
        ]


def test_known_sentences_get_their_trees(folder: Path, sapwood: Any) -> None:
    gold = (folder / "trees.mrg").read_text()
    tokens = sapwood(["convert", "trees.mrg", "--to", "tokens"]).out
    for decoder in ("max-rule", "recall", "viterbi"):
        assert sapwood(["parse", "-m", "m", "--decoder", decoder, "--exact"], tokens.encode()).out == gold


def test_json_lines(folder: Path, sapwood: Any) -> None:
    outcome = sapwood(["parse", "-m", "m", "--json", "--max-words", "5"], b"cats sleep\n\na b c d e f g\n")
    first, blank, long = map(json.loads, outcome.out.splitlines())
    assert set(first) == set(blank) == {"words", "tree", "log_probability", "status"}
    assert (first["words"], first["status"]) == (["cats", "sleep"], "parsed")
    assert words_of(first["tree"]) == ["cats", "sleep"]
    assert first["log_probability"] < 0
    assert blank == {"words": [], "tree": None, "log_probability": None, "status": "empty"}
    assert (long["status"], long["log_probability"], words_of(long["tree"])) == ("too long", None, list("abcdefg"))


def test_one_sentence_too_many_does_not_end_the_run(folder: Path, sapwood: Any) -> None:
    """What does not fit, or takes too long, gets a flat tree, and the sentences behind it their own."""
    text = f"cats sleep\n{'the dog sleeps ' * 100}\ncats sleep\n".encode()
    for option, status in ((["--max-memory", "2M"], "out of memory"), (["--timeout", "0.002"], "timed out")):
        outcome = sapwood(["parse", "-m", "m", "--json", *option], text)
        results = list(map(json.loads, outcome.out.splitlines()))
        assert (outcome.code, len(results)) == (0, 3)
        assert (results[1]["status"], len(words_of(results[1]["tree"]))) == (status, 300)
        if status == "out of memory":
            assert results[0] == results[2] == json.loads(sapwood(["parse", "-m", "m", "--json"], b"cats sleep").out)


def test_evaluation_counts_what_was_too_much(folder: Path, sapwood: Any) -> None:
    for option in (["--max-memory", "1K"], ["--timeout", "1e-7"]):
        found = json.loads(sapwood(["eval", "trees.mrg", "-m", "m", "--json", "-q", *option]).out)
        assert (found["sentences"], found["failed"]) == (6, 6)


def test_max_words_gives_a_flat_tree(folder: Path, sapwood: Any) -> None:
    sentence = b"the dog with spots sleeps\n"
    for limit, flat in ((4, True), (5, False)):
        tree = Tree.parse(sapwood(["parse", "-m", "m", "--max-words", limit], sentence).out)
        assert all(child.is_preterminal for child in tree.children) == flat
        assert len(tree) == 5


def test_output_formats(folder: Path, sapwood: Any) -> None:
    def parse(form: str) -> str:
        outcome = sapwood(["parse", "-m", "m", "--to", form], b"cats sleep (\n")
        assert outcome.code == 0
        return str(outcome.out)

    tree = parse("brackets")
    assert words_of(tree) == ["cats", "sleep", "("]
    assert parse("tokens") == "cats sleep -LRB-\n"
    assert [token.rpartition("/")[0] for token in parse("tagged").split()] == ["cats", "sleep", "-LRB-"]
    assert parse("pretty").split() == tree.split()
    assert parse("draw").splitlines()[-2].split() == ["cats", "sleep", "("]
    assert parse("export").startswith("#FORMAT 3\n#BOS 1\ncats\t")
    assert sapwood(["convert"], parse("export").encode()).out == tree


def test_output_file_and_compression(folder: Path, sapwood: Any) -> None:
    expected = sapwood(["parse", "-m", "m", "sentences.txt"]).out
    assert expected.count("\n") == 4
    for name in ("out.mrg", "out.mrg.gz"):
        outcome = sapwood(["parse", "-m", "m", "sentences.txt", "-o", name])
        assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    assert (folder / "out.mrg").read_text() == expected
    assert gzip.decompress((folder / "out.mrg.gz").read_bytes()).decode() == expected
    assert sapwood(["convert", "out.mrg.gz"]).out == expected.replace("\n\n", "\n")


def test_output_follows_links(folder: Path, sapwood: Any) -> None:
    (folder / "old").write_text("")
    (folder / "link").symlink_to("old")
    expected = sapwood(["parse", "-m", "m", "sentences.txt"]).out
    assert sapwood(["parse", "-m", "m", "sentences.txt", "-o", "link"]).code == 0
    assert (folder / "link").is_symlink()
    assert (folder / "old").read_text() == expected


@pytest.mark.parametrize("name", ["sentences.txt", "m"])
def test_parsing_replaces_none_of_its_inputs(folder: Path, sapwood: Any, name: str) -> None:
    (folder / "link").symlink_to(name)
    before = (folder / name).read_bytes()
    outcome = sapwood(["parse", "-m", "m", "sentences.txt", "-o", "link"])
    assert (outcome.code, outcome.out) == (2, "")
    assert "-o link: is one of the input files" in outcome.err
    assert (folder / name).read_bytes() == before


def test_trees_can_be_converted_in_place(folder: Path, sapwood: Any) -> None:
    expected = sapwood(["convert", "trees.mrg", "--to", "pretty"]).out
    assert sapwood(["convert", "trees.mrg", "--to", "pretty", "-o", "trees.mrg"]).code == 0
    assert (folder / "trees.mrg").read_text() == expected


def test_compressed_input(folder: Path, sapwood: Any) -> None:
    (folder / "s.gz").write_bytes(gzip.compress((folder / "sentences.txt").read_bytes()))
    (folder / "t.gz").write_bytes(gzip.compress((folder / "trees.mrg").read_bytes()))
    assert sapwood(["parse", "-m", "m", "s.gz"]).out == sapwood(["parse", "-m", "m", "sentences.txt"]).out
    assert sapwood(["convert", "t.gz"]).out == (folder / "trees.mrg").read_text()
    assert sapwood(["train", "t.gz", "--method", "pcfg", "-o", "new"]).code == 0
    assert (folder / "new").read_bytes() == (folder / "m").read_bytes()


def test_given_tags_hold(folder: Path, sapwood: Any) -> None:
    tagged = "the/NN dog/VBZ barks/DT and/or/CC -LRB-/IN ./."
    outcome = sapwood(["parse", "-m", "m", "--tags"], f"{tagged}\n\ncats/NNS\n".encode())
    assert outcome.code == 0
    first, blank, last = outcome.out.splitlines()
    assert Tree.parse(first).tags() == ["NN", "VBZ", "DT", "CC", "IN", "."]
    assert Tree.parse(first).words() == ["the", "dog", "barks", "and/or", "(", "."]
    assert (blank, Tree.parse(last).tags()) == ("", ["NNS"])
    again = sapwood(["parse", "-m", "m", "--tags", "--to", "tagged"], tagged.encode())
    assert again.out == tagged + "\n"


def test_plain_text_is_split_into_sentences_and_tokens(folder: Path, sapwood: Any) -> None:
    text = "The dog barks.  She feeds\nthe cats (and the dog)!\n\n\nDinner"
    expected = ["The dog barks .", "She feeds the cats ( and the dog ) !", "Dinner"]
    (folder / "text").write_text(text)
    for arguments in (["-s", text], ["--raw", "text"], ["--raw", "-s", text]):
        outcome = sapwood(["parse", "-m", "m", *arguments])
        assert outcome.code == 0
        assert [" ".join(words_of(line)) for line in outcome.out.splitlines()] == expected
    assert sapwood(["parse", "-m", "m", "--raw"], text.encode()).out == outcome.out
    for arguments in (["-s", text], ["--raw", "text"]):
        found = [json.loads(line) for line in sapwood(["parse", "-m", "m", "--json", *arguments]).out.splitlines()]
        surfaces = [[text[start:end] for start, end in line["offsets"]] for line in found]
        assert [" ".join(words) for words in surfaces] == expected
    assert "offsets" not in json.loads(sapwood(["parse", "-m", "m", "--json"], b"the dog\n").out)
    for nothing in ("", "  \n "):
        assert sapwood(["parse", "-m", "m", "-s", nothing]).out == ""


def test_a_long_text_without_blank_lines_is_split_the_same(
    folder: Path, sapwood: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "The dog barks.\nCats sleep under\nthe table. She\nfeeds Mr.\nSmith. Dinner!\n" * 5
    arguments = ["parse", "-m", "m", "--raw", "--lines", "free"]
    expected = sapwood(arguments, text.encode()).out
    assert len(expected.splitlines()) == 20
    for limit in (1, 20, 100):
        monkeypatch.setattr("sapwood.trees.tokenise.sentences._MUCH", limit)
        assert sapwood(arguments, text.encode()).out == expected


ODD = {
    "other scripts": "собака лает 。 犬 が 吠える कुत्ता भौंकता है الكلب ينبح",
    "emoji": "the 😀 👩‍👩‍👧‍👦 🏳️‍🌈 barks 🐕 .",
    "control characters": "the \x01 \x7f\x1b[31m dog\x1c\x85 \u200b \u202e barks \ufeff",
    "no-break space": "the\u00a0dog barks\u3000.",
    "combining": "e\u0301 \u0301\u0301 x",
    "brackets": "( ) -LRB- -RRB- [ ] { } ()",
    "signs of the formats": "@ | ^ ~ \\ / /* */ # *x* * 0 *T*-1 -NONE- #BOS <s> & \" '",
    "one word": "cats",
    "an unknown word": "zzyzx",
    "a long token": "x" * 100_000,
    "a long sentence": " ".join(["the dog sees the cats and"] * 75),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_sentences_come_out_whole(name: str, folder: Path, sapwood: Any) -> None:
    sentence = ODD[name]
    expected = [word.replace("-LRB-", "(").replace("-RRB-", ")") for word in sentence.split(" ")]
    outcome = sapwood(["parse", "-m", "m", "--json"], f"{sentence}\n".encode())
    assert (outcome.code, outcome.err) == (0, "")
    (line,) = outcome.out.split("\n")[:-1]
    result = json.loads(line)
    assert result["words"] == expected
    assert words_of(result["tree"]) == expected
    # Through the other ways in and out as well.
    tree = sapwood(["parse", "-m", "m"], f"{sentence}\r\n".encode()).out
    assert tree == result["tree"] + "\n"
    back = sapwood(["convert", "--to", "tokens"], tree.encode()).out
    assert [word.replace("-LRB-", "(").replace("-RRB-", ")") for word in back[:-1].split(" ")] == expected
    assert sapwood(["parse", "-m", "m", "--to", "draw"], sentence.encode()).code == 0
    assert sapwood(["parse", "-m", "m", "-s", sentence]).code == 0


def test_threads_change_nothing(folder: Path, sapwood: Any) -> None:
    (folder / "many.txt").write_text((folder / "sentences.txt").read_text() * 30)
    one, four = (sapwood(["parse", "-m", "m", "many.txt", "--threads", threads]) for threads in (1, 4))
    assert one.out == four.out
    assert one.out.count("\n") == 120


class Endless(io.RawIOBase):
    """A stream that hands out one line a read and keeps count."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self.lines = lines
        self.read_lines = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        line = next(self.lines)
        self.read_lines += 1
        buffer[: len(line)] = line
        return len(line)


class Reader(io.RawIOBase):
    """An output that goes away after some lines, and notes how far the input was by then."""

    def __init__(self, source: Endless, lines: int) -> None:
        self.source = source
        self.left = lines
        self.ahead: list[int] = []
        self.written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.written += bytes(data).count(b"\n")
        self.ahead.append(self.source.read_lines - self.written)
        if self.written > self.left:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        return len(data)


@pytest.mark.parametrize(
    ("arguments", "line", "most_ahead"),
    [
        ("parse -m m", b"cats sleep .\n", 0),
        ("parse -m m --json", b"\n", 0),
        ("parse -m m --threads 2", b"cats sleep .\n", 64),
        # Without a blank line a paragraph is gathered up to 64 kB.
        ("parse -m m --raw", b"The dog barks. Cats sleep.\n", 4096),
        # The buffer of standard output fills up first.
        ("convert --to tokens", b"(S (A b) (C d))\n", 8192),
    ],
)
def test_input_is_read_only_as_it_is_needed(
    arguments: str, line: bytes, most_ahead: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Endless(repeat(line))
    reader = Reader(source, 40)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(source, 64), encoding="utf-8"))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(reader), encoding="utf-8"))
    monkeypatch.setattr("sapwood.cli.main._abandon_output", lambda: None)
    # The input never ends: that this does is the point.
    with pytest.raises(SystemExit) as ended:
        run(arguments.split())
    assert ended.value.code == 0
    assert max(reader.ahead) <= most_ahead
    reader.left = sys.maxsize  # what is still in the buffers may go


# -- convert -----------------------------------------------------------------------------------------------------------

RAW = """\
( (S (NP-SBJ-1 (DT The) (NN dog)) (VP (VBZ seems) (S (NP-SBJ (-NONE- *-1)) (VP (TO to) (VP (VB sleep))))) (. .)) )
(FRAG (NP (NP (NN dinner))) (: --) (X (-LRB- -LRB-) (SYM @|^~\\) (-RRB- -RRB-)) (CD 0))
"""


def test_convert_to_each_format(folder: Path, sapwood: Any) -> None:
    def convert(*arguments: str) -> str:
        outcome = sapwood(["convert", *arguments], RAW.encode())
        assert (outcome.code, outcome.err) == (0, "")
        return str(outcome.out)

    assert convert() == RAW.replace("( (S", "( (S").replace(")) )\n", ")))\n")
    assert convert("--to", "tokens") == "The dog seems *-1 to sleep .\ndinner -- -LRB- @|^~\\ -RRB- 0\n"
    assert convert("--to", "tokens", "--normalise").startswith("The dog seems to sleep .\n")
    assert convert("--to", "tagged").endswith("dinner/NN --/: -LRB-/-LRB- @|^~\\/SYM -RRB-/-RRB- 0/CD\n")
    assert convert("--normalise").splitlines()[0] == (
        "(ROOT (S (NP (DT The) (NN dog)) (VP (VBZ seems) (S (VP (TO to) (VP (VB sleep))))) (. .)))"
    )
    assert convert("--normalise", "--function-tags", "none", "--keep-empties").startswith("(ROOT (S (NP-SBJ-1 (DT")
    for form in ("pretty", "export"):
        text = convert("--normalise", "--to", form)
        assert sapwood(["convert", "--normalise"], text.encode()).out == convert("--normalise")
    assert convert("--to", "draw").splitlines()[-2].split() == ["dinner", "--", "(", "@|^~\\", ")", "0"]


@pytest.mark.parametrize("direction", ["right", "left", "head"])
@pytest.mark.parametrize(
    "orders", ["--vertical 1 --horizontal 0", "--vertical 1 --horizontal 2", "--vertical 3 --horizontal 1"]
)
def test_binarise_and_invert(direction: str, orders: str, folder: Path, sapwood: Any) -> None:
    text = RAW + (folder / "trees.mrg").read_text()
    clean = sapwood(["convert", "--normalise"], text.encode()).out
    binary = sapwood(["convert", "--binarise", direction, *orders.split()], text.encode()).out
    assert all(len(node.children) in (0, 2) for line in binary.splitlines() for node in Tree.parse(line).nodes())
    assert sapwood(["convert", "--invert"], binary.encode()).out == clean
    assert clean.count("\n") == 8


def test_empty_trees_are_left_out_and_counted(folder: Path, sapwood: Any) -> None:
    outcome = sapwood(["convert", "--normalise"], b"(S (-NONE- *))\n(S (A b))\n(S (-NONE- 0))\n")
    assert (outcome.code, outcome.out) == (0, "(ROOT (S (A b)))\n")
    assert outcome.err == "skipped 2 tree(s) that are empty after normalisation\n"


def test_no_trees_convert_to_nothing(folder: Path, sapwood: Any) -> None:
    for text in (b"", b"\n \n", b"# a remark\n"):
        outcome = sapwood(["convert"], text)
        assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


def test_skip_bad_counts_and_reports(folder: Path, sapwood: Any) -> None:
    good = (folder / "trees.mrg").read_text()
    (folder / "bad.mrg").write_text("(S (A b c))\n" * 7 + good + "(S)\n")
    for arguments in (
        ["convert", "bad.mrg"],
        ["train", "bad.mrg", "--method", "pcfg", "-o", "new"],
        ["inspect", "bad.mrg"],
    ):
        assert sapwood(arguments).code == 3
        outcome = sapwood([*arguments, "--skip-bad"])
        assert outcome.code == 0
        assert "skipped 8 malformed tree(s):\n  bad.mrg:1:9: two words below one label 'A'" in outcome.err
        assert "bad.mrg:5:9" in outcome.err
        assert "  ... and 3 more" in outcome.err
    assert sapwood(["convert", "bad.mrg", "--skip-bad"]).out == good
    assert (folder / "new").read_bytes() == (folder / "m").read_bytes()
    outcome = sapwood(["minimise", "m", "--trees", "bad.mrg", "--skip-bad", "-o", "small"])
    assert (outcome.code, "skipped 8 malformed tree(s):" in outcome.err) == (0, True)
    scores = sapwood(["eval", "bad.mrg", "-m", "m", "--skip-bad", "--json"])
    assert json.loads(scores.out)["sentences"] == 6


def test_windows_line_ends_and_a_byte_order_mark(folder: Path, sapwood: Any) -> None:
    text = (folder / "trees.mrg").read_text()
    windows = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    assert sapwood(["convert"], windows).out == text
    sentences = (folder / "sentences.txt").read_text()
    windows = b"\xef\xbb\xbf" + sentences.replace("\n", "\r\n").encode()
    assert sapwood(["parse", "-m", "m"], windows).out == sapwood(["parse", "-m", "m"], sentences.encode()).out


# -- eval --------------------------------------------------------------------------------------------------------------


def test_identical_trees_score_100(folder: Path, sapwood: Any) -> None:
    outcome = sapwood(["eval", "trees.mrg", "trees.mrg", "--json"])
    assert outcome.code == 0
    scores = json.loads(outcome.out)
    for key in ("precision", "recall", "f1", "unlabelled_f1", "exact", "tag_accuracy", "no_crossing"):
        assert scores[key] == 100.0
    assert (scores["sentences"], scores["scored"], scores["failed"], scores["errors"]) == (6, 6, 0, 0)
    assert {"cutoff", "lengths", "labels", "messages", "parameters", "seconds"} <= set(scores)
    table = sapwood(["eval", "trees.mrg", "trees.mrg"]).out
    assert "F1                    100.00        100.00" in table


def test_predictions_in_any_layout_and_format(folder: Path, sapwood: Any) -> None:
    for form in ("pretty", "export", "brackets"):
        sapwood(["convert", "trees.mrg", "--to", form, "-o", "p"])
        scores = json.loads(sapwood(["eval", "trees.mrg", "p", "--json"]).out)
        assert (scores["f1"], scores["scored"]) == (100.0, 6)


@pytest.mark.parametrize("nothing", ["", "()", "(())", "  "])
def test_blank_lines_are_failed_sentences(nothing: str, folder: Path, sapwood: Any) -> None:
    lines = (folder / "trees.mrg").read_text().splitlines()
    lines[1] = lines[5] = nothing
    (folder / "p").write_text("".join(line + "\n" for line in lines))
    scores = json.loads(sapwood(["eval", "trees.mrg", "p", "--json"]).out)
    assert (scores["sentences"], scores["failed"], scores["precision"]) == (6, 2, 100.0)
    assert scores["recall"] < 100.0


def test_sentences_in_error_are_reported(folder: Path, sapwood: Any) -> None:
    lines = (folder / "trees.mrg").read_text().splitlines()
    lines[2] = "(S (A b))"
    (folder / "p").write_text("\n".join(lines))
    outcome = sapwood(["eval", "trees.mrg", "p", "--json"])
    assert outcome.code == 0
    assert outcome.err.startswith("1 sentence(s) in error, not scored:\n  sentence 3: length mismatch")
    assert json.loads(outcome.out)["errors"] == 1


def test_eval_with_a_model_is_parse_then_eval(folder: Path, sapwood: Any) -> None:
    gold = (
        "(S (NP (NNS cats)) (VP (VBP sleep) (PP (IN with) (NP (DT a) (NN table)))) (. .))\n"
        "(S (NP (PRP she)) (VP (VBZ barks)) (. !))\n"
    )
    (folder / "gold").write_text(gold)
    direct = json.loads(sapwood(["eval", "gold", "-m", "m", "--json"]).out)
    tokens = sapwood(["convert", "gold", "--to", "tokens"]).out
    (folder / "parsed").write_text(sapwood(["parse", "-m", "m"], tokens.encode()).out)
    by_hand = json.loads(sapwood(["eval", "gold", "parsed", "--json"]).out)
    assert {**direct, "seconds": 0} == {**by_hand, "seconds": 0}
    assert direct["scored"] == 2
    tagged = json.loads(sapwood(["eval", "gold", "-m", "m", "--json", "--gold-tags"]).out)
    assert tagged["tag_accuracy"] == 100.0


def test_parameter_files(folder: Path, sapwood: Any) -> None:
    (folder / "p.prm").write_text("# no noun phrases, no stops\nDELETE_LABEL NP\nDELETE_LABEL ROOT\nDELETE_LABEL .\n")
    scores = json.loads(sapwood(["eval", "trees.mrg", "trees.mrg", "--params", "p.prm", "--json"]).out)
    assert "NP" not in scores["labels"]
    assert scores["parameters"] == "p.prm"
    collins = json.loads(sapwood(["eval", "trees.mrg", "trees.mrg", "--params", "collins", "--json"]).out)
    assert "NP" in collins["labels"]


# -- inspect and train -------------------------------------------------------------------------------------------------


def test_inspect_a_treebank(folder: Path, sapwood: Any) -> None:
    report = json.loads(sapwood(["inspect", "trees.mrg", "--json", "--top", "2"]).out)
    assert (report["kind"], report["trees"], report["words"], report["longest"]) == ("treebank", 6, 32, 8)
    assert report["top_words"] == {"the": 6, ".": 5}
    assert len(report["top_rules"]) == 2
    assert "trees        6" in sapwood(["inspect", "trees.mrg"]).out


def test_inspect_one_tree(folder: Path, sapwood: Any) -> None:
    drawn = sapwood(["inspect", "trees.mrg", "--tree", "6"]).out
    assert drawn.splitlines()[-1].split() == ["dinner", "."]
    report = json.loads(sapwood(["inspect", "trees.mrg", "--tree", "6", "--json"]).out)
    assert report == {"tree": "(ROOT (NP (NN dinner) (. .)))", "words": ["dinner", "."], "tags": ["NN", "."]}


def test_inspect_a_model(folder: Path, sapwood: Any) -> None:
    report = json.loads(sapwood(["inspect", "m", "--json"]).out)
    assert (report["kind"], report["probabilistic"], report["info"]["method"]) == ("model", True, "pcfg")
    assert report["transform"]["vertical"] == 2
    text = sapwood(["inspect", "m"]).out
    assert text.startswith("model        m\n")
    assert "most frequent rules" in text


def test_train_reports(folder: Path, sapwood: Any) -> None:
    arguments = ["train", "trees.mrg", "trees.mrg", "--dev", "trees.mrg", "-o", "new", "--binarise", "head"]
    outcome = sapwood([*arguments, "--json"])
    assert outcome.code == 0
    report = json.loads(outcome.out)
    method = "pivot+em, spectral, cluster"
    assert (report["model"], report["method"], report["trees"], report["dropped"]) == ("new", method, 12, 0)
    assert report["dev"]["sentences"] == 6
    assert {"words", "symbols", "rules", "seconds"} <= set(report)
    assert "new: 3 grammars, the first <TensorGrammar" in outcome.err
    assert "F1" in sapwood(arguments).out


def test_one_word_sentences_are_enough_to_train_on(folder: Path, sapwood: Any) -> None:
    assert sapwood(["train", "-", "-o", "new"], b"(S (NN x))\n").code == 0
    outcome = sapwood(["parse", "-m", "new"], b"x\nx y\n")
    assert outcome.code == 0
    assert [words_of(line) for line in outcome.out.splitlines()] == [["x"], ["x", "y"]]


def test_marginals_and_alternatives(folder: Path, sapwood: Any) -> None:
    arguments = ["parse", "-m", str(folder / "m"), "--json", "--marginals", "--alternatives", "2"]
    outcome = sapwood(arguments, b"the dog barks .\n\n")
    first, blank = (json.loads(line) for line in outcome.out.splitlines())
    labels = {(start, end, label) for start, end, label, _ in first["marginals"]}
    assert (1, 2, "NN") in labels
    assert all(0 <= posterior <= 1 for *_, posterior in first["marginals"])
    assert first["alternatives"][0]["tree"] == first["tree"]
    assert "marginals" not in blank
    assert sapwood(["parse", "-s", "x", "--marginals"]).code == 2


def test_decoder_names_are_those_of_the_library() -> None:
    from sapwood.cli.options import common as _common
    from sapwood.inference.decode import DECODERS

    assert _common.DECODERS == DECODERS


def test_other_names_of_commands(folder: Path, sapwood: Any) -> None:
    named = sapwood(["eval", "trees.mrg", "trees.mrg"])
    assert (named.code, sapwood(["evaluate", "trees.mrg", "trees.mrg"])) == (0, named)
    assert "evaluate" not in sapwood(["--help"]).out.split()


def test_the_included_model_by_name(folder: Path, sapwood: Any) -> None:
    text = ["parse", "-s", "It rains."]
    assert sapwood([*text, "-m", "en"]).out == sapwood(text).out == "(ROOT (S (NP (PRP It)) (VP (VBZ rains)) (. .)))\n"


def test_formats_and_decoders_of_other_packages(folder: Path, sapwood: Any, install_plugin: Any) -> None:
    code = (
        "from sapwood.inference.decode import find_decoder\n"
        "from sapwood.trees.tree import Tree\n"
        "class Upper:\n"
        "    def read(self, lines, source):\n"
        "        return (Tree.parse(line.lower()) for _, line in lines)\n"
        "    def write(self, tree, number):\n"
        "        return f'{number} {tree}'.upper()\n"
        "upper = Upper()\n"
        "def same(chart, words):\n"
        "    return find_decoder('max-rule')(chart, words)\n"
    )
    install_plugin("elsewhere", code, "sapwood.formats", upper="elsewhere:upper")
    found = sapwood(["parse", "-m", "m", "--to", "upper"], b"the dog barks .\n")
    assert (found.code, found.out) == (0, "1 (ROOT (S (NP (DT THE) (NN DOG)) (VP (VBZ BARKS)) (. .)))\n")
    (folder / "loud").write_text("(S (A B))\n")
    assert sapwood(["convert", "loud", "--from", "upper"]).out == "(s (a b))\n"
    assert json.loads(sapwood(["eval", "loud", "loud", "--from", "upper", "--json"]).out)["matched"] == 1
    assert "png|upper]" in "".join(sapwood(["parse", "--help"]).out.split())
    (folder / "elsewhere-1.5.dist-info" / "entry_points.txt").write_text("[sapwood.decoders]\nsame = elsewhere:same\n")
    plain = sapwood(["parse", "-m", "m", "sentences.txt"])
    assert sapwood(["parse", "-m", "m", "sentences.txt", "--decoder", "same"]) == plain
    assert sapwood(["parse", "-m", "m", "--decoder", "sane"]).err.rstrip().endswith("did you mean 'same'?")


def test_diagnosing_a_treebank(folder: Path, sapwood: Any) -> None:
    from helpers.made_up import made_up_treebank

    Path("many.mrg").write_text("\n".join(map(str, made_up_treebank(80))), "utf-8")
    options = ["--states", "3", "--min-count", "20", "--resamples", "20", "-q"]
    found = sapwood(["diagnose", "many.mrg", *options])
    assert found.code == 0
    assert found.out.startswith("80 trees, ")
    assert "Conditions 1 and 2 can hold with 3 states for" in found.out
    report = json.loads(sapwood(["diagnose", "many.mrg", *options, "--json"]).out)
    assert report["trees"] == 80
    assert all(1 <= each["states"] <= 3 for each in report["symbols"])
    needed = report["sample_complexity"]
    assert 0 < needed["lower"] <= needed["sigma"]
    assert f"it requires {needed['required']:.0e} nodes of every symbol" in found.out
    Path("none.mrg").write_text("", "utf-8")
    assert sapwood(["diagnose", "none.mrg", "-q"]).code == 3


def test_empty_elements_of_other_conventions(folder: Path, sapwood: Any) -> None:
    trees = "(S (sn.e-SUJ *0*) (grup.verb (v llueve)) (. .))\n(S (sn ∅) (grup.verb (v llueve)) (. .))\n" * 9
    (folder / "es.mrg").write_text(trees)
    remark = "look like empty elements but count as words: ∅ (9); remove them with --empty '∅'"
    outcome = sapwood(["inspect", "es.mrg"])
    assert "9 empty elements removed: *0* 9" in outcome.out
    assert remark in outcome.out
    found = json.loads(sapwood(["inspect", "es.mrg", "--json"]).out)
    assert found["empty_elements"] == {"removed": {"*0*": 9}, "unknown": {"∅": 9}}
    assert found["words"] == 45
    removed = json.loads(sapwood(["inspect", "es.mrg", "--json", "--empty", "∅"]).out)
    assert removed["empty_elements"] == {"removed": {"*0*": 9, "∅": 9}, "unknown": {}}
    assert removed["words"] == 36
    trained = sapwood(["train", "es.mrg", "--method", "pcfg", "-o", "es.sapwood"])
    assert (trained.code, remark in trained.err) == (0, True)
    again = sapwood(["train", "es.mrg", "--method", "pcfg", "-o", "es.sapwood", "--empty", "∅"])
    assert (again.code, "empty elements" in again.err) == (0, False)
    assert json.loads(sapwood(["inspect", "es.sapwood", "--json"]).out)["normaliser"]["empty"] == ["∅"]


def test_the_included_model_is_named_if_it_does_not_fit(sapwood: Any, tmp_path: Path) -> None:
    gold = tmp_path / "gold.mrg"
    gold.write_text("(S (NP (PRO hún)) (VBD sá) (NP (N manninn)) (PP (P með) (NP (N kíkinum))))\n", encoding="utf-8")
    for arguments in (["eval", str(gold)], ["parse", "-s", "hún sá manninn með kíkinum"]):
        noted = sapwood(arguments)
        assert noted.code == 0
        assert "no model is named (-m); it does not know 100% of the words" in noted.err
        for silent in (sapwood([*arguments, "-q"]), sapwood([*arguments, "-m", "en"])):
            assert "no model is named" not in silent.err
            assert silent.out.splitlines()[0] == noted.out.splitlines()[0]
    assert "no model is named" not in sapwood(["parse", "-s", "She saw the man with the telescope."]).err


def test_a_treebank_that_is_parsed_as_words_is_noted(sapwood: Any, tmp_path: Path) -> None:
    (tmp_path / "wide.mrg").write_text("(ROOT\n  (S (NP (PRP it)) (VP (VBD rained))))\n", encoding="utf-8")
    for more in ([], ["--raw"]):
        outcome = sapwood(["parse", str(tmp_path / "wide.mrg"), *more])
        assert "looks like a tree, but is parsed as words" in outcome.err
