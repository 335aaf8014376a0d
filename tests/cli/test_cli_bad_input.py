"""Bad input of every kind: the exit code, a message that says where and what, and nothing left behind."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from safetensors.numpy import save

from helpers.effort import examples
from sapwood.trees import Corpus, Tree

USAGE, INPUT, MODEL = 2, 3, 4
Content = bytes | Callable[[bytes], bytes]


def flipped(model: bytes) -> bytes:
    """Return the model with one bit changed in the middle of its numbers."""
    start = 8 + int.from_bytes(model[:8], "little")
    place = (start + len(model)) // 2
    return model[:place] + bytes([model[place] ^ 1]) + model[place + 1 :]


def newer(model: bytes) -> bytes:
    """Return the model with a format number that is not known yet."""
    size = int.from_bytes(model[:8], "little")
    header = json.loads(model[8 : 8 + size])
    entry = json.loads(header["__metadata__"]["sapwood"])
    header["__metadata__"]["sapwood"] = json.dumps({**entry, "format": 999})
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + model[8 + size :]


def somebody_elses(_: bytes) -> bytes:
    """Return a safetensors file that has nothing to do with sapwood."""
    return save({"weights": np.ones(3, np.float32)}, {"format": "pt"})


def random_bytes(_: bytes) -> bytes:
    """Return noise."""
    return np.random.default_rng(5).bytes(3000)


@dataclass(frozen=True)
class Case:
    """A run that must fail: arguments in one string, the exit code, a pattern in the message."""

    arguments: str
    code: int
    message: str
    files: Mapping[str, Content] = field(default_factory=dict)
    stdin: bytes = b""


def bad_tree(text: str, message: str) -> list[Case]:
    """Return the cases of a malformed tree in a file that each command reads."""
    files = {"bad.mrg": text.encode()}
    return [
        Case(f"{command} bad.mrg {rest}", INPUT, r"bad\.mrg" + message, files)
        for command, rest in (
            ("convert", ""),
            ("inspect", ""),
            ("train", "-o out"),
            ("eval", "-m m"),
            ("minimise m -o out --trees", ""),
            ("minimise m -o out --tolerance 0 --trees trees.mrg --dev", ""),
        )
    ]


def bad_model(content: Content, code: int, message: str) -> list[Case]:
    """Return the cases of a bad model in a file that each command reads."""
    files = {"bad.sapwood": content}
    return [
        Case(arguments, code, r"bad\.sapwood: " + message, files)
        for arguments in (
            "parse sentences.txt -m bad.sapwood",
            "eval trees.mrg -m bad.sapwood",
            "inspect bad.sapwood",
            "minimise bad.sapwood -o out",
        )
    ]


NINES = b"9" * 5000
EXPORT = "#FORMAT 3\n#BOS 1\n"
CASES: dict[str, list[Case]] = {
    # Brackets, with file, line and column.
    "never closed": bad_tree("(S (A b))\n(S (A b)\n", r":2:1: .*1 bracket\(s\)"),
    "closed twice": bad_tree("(S (A b)))\n", ":1:10: a closing bracket without an opening one"),
    "only a closing one": bad_tree(")", ":1:1: a closing bracket without an opening one"),
    "text outside": bad_tree("(S (A b))\nhello there\n", ":2:1: text outside any bracket: 'hello there'"),
    "plain text": bad_tree("The dog barks .\n", ":1:1: text outside any bracket"),
    "empty tree": bad_tree("(S (A b))\n ()\n", r":2:2: an empty tree \(\)"),
    "nested empty tree": bad_tree("(())\n", r":1:2: an empty tree \(\)"),
    "label alone": bad_tree("(S (NP) (A b))\n", ":1:4: the label 'NP' has no word or subtree below it"),
    "two words": bad_tree("(S (NP the dog))\n", ":1:12: two words below one label 'NP'"),
    "word then bracket": bad_tree("(S the (A b))\n", ":1:8: a word and a bracket side by side"),
    "bracket then word": bad_tree("(S (A b) the)\n", ":1:10: a word and a bracket side by side"),
    "comment not closed": bad_tree("/* begins\n(S (A b))\n", r":1: a comment /\* is never closed"),
    "Windows line ends": bad_tree("(S (A b))\r\n(S (A))\r\n", ":2:4: the label 'A'"),
    "latin-1": [
        Case(f"{start} bad.mrg {rest}", INPUT, r"bad\.mrg:2:7: not valid UTF-8 \(byte 0xe9\)", {"bad.mrg": content})
        for content in [b"(S (A b))\n(S (A \xe9))\n"]
        for start, rest in (("convert", ""), ("train", "-o out"), ("eval trees.mrg", ""), ("parse", "-m m"))
    ],
    "utf-16": [
        Case("convert bad.mrg", INPUT, r"bad\.mrg:1:1: .*UTF-16", {"bad.mrg": "(S (A b))".encode("utf-16")}),
        Case("convert bad.mrg", INPUT, r"bad\.mrg:1:2: a zero byte", {"bad.mrg": "(S (A b))".encode("utf-16-le")}),
        Case("parse -m m", INPUT, r"<stdin>:2:3: a zero byte: this is not a text file", stdin=b"cats\nab\0c d\n"),
    ],
    # Nothing to work on.
    "no trees": [
        Case(arguments, INPUT, message, {"none.mrg": content})
        for content in (b"", b" \n\t\n\n", b"# a remark\n/* another\n */\n*x* one more\n", b"\xef\xbb\xbf")
        for arguments, message in (
            ("train none.mrg -o out", r"none\.mrg: no trees"),
            ("inspect none.mrg", r"none\.mrg: no trees"),
            ("eval none.mrg -m m", r"none\.mrg: no trees"),
            ("minimise m --trees none.mrg -o out", r"none\.mrg: no trees"),
            ("minimise m --dev none.mrg -o out", r"none\.mrg: no trees"),
            ("train trees.mrg --dev none.mrg -o out", r"none\.mrg: no trees"),
            ("eval none.mrg none.mrg", r"none\.mrg: no trees"),
            ("eval trees.mrg none.mrg", r"trees\.mrg has 6 trees, none\.mrg has 0"),
        )
    ],
    "trees emptied by normalising": [
        Case(f"{command} none.mrg {rest}", INPUT, r"none\.mrg: no trees", {"none.mrg": b"(S (NP (-NONE- *T*-1)))\n"})
        for command, rest in (("train", "-o out"), ("inspect", ""), ("eval", "-m m"), ("eval", "none.mrg"))
    ],
    # Files that are not there, or are something else.
    "missing": [
        Case("convert nothing.mrg", INPUT, r"^sapwood: nothing\.mrg: no such file"),
        Case("inspect nothing.mrg", INPUT, r"^sapwood: nothing\.mrg: no such file"),
        Case("train trees.mrg nothing.mrg -o out", INPUT, r"^sapwood: nothing\.mrg: no such file"),
        Case("train trees.mrg --dev nothing.mrg -o out", INPUT, r"^sapwood: nothing\.mrg: no such file"),
        Case("train trees.mrg --binarise head --heads none -o out", INPUT, r"^sapwood: none: no such file"),
        Case("parse nothing.txt -m m", INPUT, r"^sapwood: nothing\.txt: no such file"),
        Case("parse sentences.txt -m nothing", INPUT, r"^sapwood: nothing: no such file"),
        Case("eval nothing.mrg -m m", INPUT, r"^sapwood: nothing\.mrg: no such file"),
        Case("eval trees.mrg nothing.mrg", INPUT, r"^sapwood: nothing\.mrg: no such file"),
        Case("eval trees.mrg -m nothing", INPUT, r"^sapwood: nothing: no such file"),
        Case("minimise nothing -o out", INPUT, r"^sapwood: nothing: no such file"),
        Case("minimise m --trees nothing.mrg -o out", INPUT, r"^sapwood: nothing\.mrg: no such file"),
        Case("minimise m --dev nothing.mrg -o out", INPUT, r"^sapwood: nothing\.mrg: no such file"),
        Case("eval trees.mrg trees.mrg --params colins", INPUT, "colins: neither a file nor a built-in set"),
    ],
    "a file as a folder": [
        Case("parse m/x -m m", INPUT, "m/x: cannot read it: Not a directory"),
        Case("convert trees.mrg -o m/x", INPUT, "m: no such directory; make it first"),
    ],
    "directory": [
        Case(arguments, INPUT, "is a directory; name a file")
        for arguments in (
            "convert .",
            "inspect .",
            "train . -o out",
            "train trees.mrg -o .",
            "parse . -m m",
            "parse sentences.txt -m .",
            "convert trees.mrg -o .",
            "eval . -m m",
            "eval trees.mrg .",
            "minimise . -o out",
            "minimise m -o .",
            "minimise m --trees . -o out",
        )
    ],
    "output in no directory": [
        Case(f"{arguments} -o no/where/out", INPUT, "no/where: no such directory; make it first")
        for arguments in ("train trees.mrg", "parse sentences.txt -m m", "convert trees.mrg", "minimise m")
    ],
    "name too long": [
        Case(f"convert {'x' * 5000}", INPUT, "File name too long"),
        Case(f"convert trees.mrg -o {'x' * 5000}", INPUT, "File name too long"),
    ],
    "gzip": [
        Case("convert cut.mrg.gz", INPUT, r"cut\.mrg\.gz: damaged or truncated gzip file", {"cut.mrg.gz": content})
        for content in [gzip.compress(b"(S (A b) (C d))\n" * 50)[:-12], b"(S (A b))\n", b"\x1f\x8b\x08"]
    ]
    + [
        Case(
            "parse -m m cut.gz",
            INPUT,
            r"cut\.gz: damaged",
            {"cut.gz": gzip.compress(os.urandom(900).hex().encode())[:500]},
        ),
        Case("convert", INPUT, "<stdin>:1:2: not valid UTF-8 .*gzip", stdin=gzip.compress(b"(S (A b))")),
    ],
    "a tree too deep to draw": [
        Case("convert t --to draw", INPUT, "too large to draw", {"t": b"(S (A a) " * 9000 + b"(A a)" + b")" * 9000})
    ],
    "numbers of thousands of digits": [
        Case("lm show n.arpa", INPUT, r"n\.arpa:2: expected a line such as", {"n.arpa": b"\\data\\\nngram 1=" + NINES}),
        Case(
            "lm show n.arpa",
            INPUT,
            r"n\.arpa:2: expected a line such as",
            {"n.arpa": b"\\data\\\nngram " + NINES + b"=1"},
        ),
        Case(
            "eval trees.mrg trees.mrg --params n.prm",
            INPUT,
            r"n\.prm:1: MAX_ERROR takes",
            {"n.prm": b"MAX_ERROR " + NINES},
        ),
        Case(
            f"identify --model pcfg-i --words 3 --states 2 --length 3 --moments 123eta --eta {NINES.decode()}",
            USAGE,
            "--eta is",
        ),
    ],
    "limits": [
        Case("parse -m m --max-memory 5X", USAGE, "'5X' is not a size; give a number and K, M or G, such as 500M"),
        Case("parse -m m --max-memory 0", USAGE, "'0' is not a size"),
        Case("parse -m m --timeout 0", USAGE, "0.0 is not in the range x>0"),
        Case("eval trees.mrg trees.mrg --timeout 1", USAGE, "--timeout requires -m"),
        Case("eval trees.mrg trees.mrg --max-memory 1G", USAGE, "--max-memory requires -m"),
        Case("train trees.mrg --method em --prior 1e308 -o out", USAGE, "--prior must be at least 0 and below"),
    ],
    # Models.
    "model is text": bad_model(b"(S (A b) (C d))\n" * 9, MODEL, "not a sapwood file"),
    "model is empty": bad_model(b"", MODEL, "not a sapwood file"),
    "model is random": bad_model(random_bytes, MODEL, "not a sapwood file"),
    "model of somebody else": bad_model(somebody_elses, MODEL, "not a sapwood file"),
    "model cut in its header": bad_model(lambda model: model[:100], MODEL, "not a sapwood file"),
    "model cut in its numbers": bad_model(lambda model: model[:-40], MODEL, "damaged or truncated"),
    "model with a bit flipped": bad_model(flipped, MODEL, "damaged: its content does not match its digest"),
    "model with more at its end": bad_model(lambda model: model + b"more", MODEL, "damaged or truncated"),
    "model of a newer version": bad_model(newer, MODEL, "written by sapwood .* in format 999"),
    "model as a treebank": [
        Case(
            "train m -o out",
            INPUT,
            r"m: a model written by sapwood, not a text file or treebank; pass it where a model is expected \(-m\)",
        ),
        Case(
            "convert m",
            INPUT,
            r"m: a model written by sapwood, not a text file or treebank; pass it where a model is expected \(-m\)",
        ),
        Case("inspect m --tree 1", USAGE, "--tree is for treebanks"),
    ],
    "model from a stream": [
        Case("parse sentences.txt -m -", USAGE, "a model cannot be read from standard input"),
        Case("eval trees.mrg -m -", USAGE, "a model cannot be read from standard input"),
        Case("train trees.mrg -o -", USAGE, "a model cannot be written to standard output"),
        Case("minimise - -o out", USAGE, "models cannot be read from standard input"),
        Case("minimise m -o -", USAGE, "models cannot .* written to standard output"),
    ],
    "model without a name": [Case("parse sentences.txt --model=", USAGE, "the name of the model is empty")],
    # Options.
    "wrong values": [
        Case("parse -m m --threads 0", USAGE, "'--threads': 0 is not in the range"),
        Case("parse -m m --threads many", USAGE, "'--threads': 'many' is not a valid integer"),
        Case("parse -m m --threshold 1", USAGE, "'--threshold': 1.0 is not in the range"),
        Case("parse -m m --threshold nan", USAGE, "'nan' is not a number that can be used"),
        Case("parse -m m --max-words 0", USAGE, "'--max-words': 0 is not in the range"),
        Case(
            "parse -m m --decoder best",
            USAGE,
            "'best' is not one of 'max-rule', 'max-rule-sum', 'recall', 'f1', 'max-rule-absolute', 'viterbi'",
        ),
        Case("parse -m m --to xml", USAGE, "'xml' is not one of 'brackets'"),
        Case("convert trees.mrg --from xml", USAGE, "'xml' is not one of 'auto'"),
        Case("convert trees.mrg --binarise up", USAGE, "'up' is not one of 'right', 'left', 'head'"),
        Case("convert trees.mrg --binarise right --horizontal -1", USAGE, "-1 is not in the range"),
        Case("inspect trees.mrg --tree 0", USAGE, "'--tree': 0 is not in the range"),
        Case("inspect trees.mrg --top -1", USAGE, "'--top': -1 is not in the range"),
        Case("train trees.mrg -o out --vertical 0", USAGE, "0 is not in the range"),
        Case("train trees.mrg -o out --seed -1", USAGE, "'--seed': -1 is not in the range"),
        Case("train trees.mrg -o out --method magic", USAGE, "'magic' is not"),
        Case(
            "train trees.mrg -o out --method split-merge --states 8",
            USAGE,
            "--states requires --method pivot.em or em",
        ),
        Case("train trees.mrg -o out --function-tags some", USAGE, "'some' is not one of"),
        Case("minimise m -o out --cost-of-states 0", USAGE, "0 is not in the range"),
        Case("minimise m -o out --budget 2", USAGE, "2.0 is not in the range"),
        Case("minimise m -o out --weighting some", USAGE, "'some' is not one of 'l2', 'gamma', 'trees'"),
    ],
    "wrong calls": [
        Case("", USAGE, "Usage: sapwood"),
        Case("grow", USAGE, "no command 'grow'$"),
        Case("pars", USAGE, r"no command 'pars'; did you mean 'parse'\?"),
        Case("evalute trees.mrg", USAGE, r"no command 'evalute'; did you mean 'evaluate'\?"),
        Case("parse --treads 2", USAGE, r"--treads.*(Did you mean|ossible options).*--threads"),
        Case("parse -m m --to bracket", USAGE, r"'bracket' is not one of .*; did you mean 'brackets'\?"),
        Case("parse sentences.txt -m m -o sentences.txt", USAGE, "-o sentences.txt: is one of the input files"),
        Case("parse sentences.txt -m m -o m", USAGE, "-o m: is one of the input files and would be overwritten"),
        Case("parse -s cats -m trees.mrg -m m -o ./m", USAGE, "-o ./m: is one of the input files"),
        Case("parse -m m -o .", USAGE, "-o .: an output folder requires input files"),
        Case("parse --nonsense", USAGE, "No such option:? '?--nonsense"),
        Case("train", USAGE, "Missing argument 'TREEBANK"),
        Case("train trees.mrg", USAGE, "Missing option '-o' / '--output'"),
        Case("train trees.mrg -o trees.mrg", USAGE, "-o trees.mrg: is one of the input files"),
        Case("minimise m", USAGE, "Missing option '-o' / '--output'"),
        Case("minimise m -o m", USAGE, "-o m: is one of the input files"),
        Case("convert trees.mrg trees.mrg", USAGE, "unexpected extra argument"),
        Case("eval", USAGE, "Missing argument 'GOLD'"),
    ],
    "options that do not go together": [
        Case("parse sentences.txt -s cats -m m", USAGE, "either -s TEXT or a FILE"),
        Case("parse -s cats/NNS --tags -m m", USAGE, "--tags is for tokens"),
        Case("parse --raw --tags -m m", USAGE, "--tags is for tokens"),
        Case("parse --json --to draw -m m", USAGE, "--to cannot be used with --json"),
        Case("parse --exact --threshold 0.1 -m m", USAGE, "--threshold cannot be used with --exact"),
        Case("eval trees.mrg trees.mrg -m m", USAGE, "either PREDICTED trees or a model"),
        Case("eval trees.mrg trees.mrg --skip-bad", USAGE, "--skip-bad would shift"),
        Case("eval trees.mrg trees.mrg --gold-tags", USAGE, "--gold-tags requires -m"),
        Case("eval trees.mrg trees.mrg --decoder recall", USAGE, "--decoder requires -m"),
        Case("eval trees.mrg -m m --no-normalise", USAGE, "--no-normalise cannot be used with -m"),
        Case("eval trees.mrg -m m --keep-empties", USAGE, "--keep-empties cannot be used with -m"),
        Case("eval trees.mrg trees.mrg --no-normalise --keep-empties", USAGE, "cannot be used with --no-normalise"),
        Case("eval - -", USAGE, "standard input .* only once"),
        Case("train - trees.mrg --dev - -o out", USAGE, "standard input .* only once"),
        Case("minimise m -o out --cost-of-states 1 --tolerance 0", USAGE, "each set how many states to keep"),
        Case("minimise m -o out --weighting trees", USAGE, "--weighting trees needs --trees"),
        Case("minimise m -o out --dev -", USAGE, "--dev -: is read twice"),
        Case("convert trees.mrg --invert --normalise", USAGE, "--invert undoes --binarise"),
        Case("convert trees.mrg --vertical 2", USAGE, "--vertical requires --binarise"),
        Case("convert trees.mrg --keep-empties", USAGE, "--keep-empties requires --normalise"),
        Case("train trees.mrg -o out --heads m", USAGE, "--heads requires --binarise head"),
    ],
    # What the commands read besides trees and models.
    "tagged tokens": [
        Case("parse --tags -m m", INPUT, "<stdin>:2: expected word/TAG, found 'dog'", stdin=b"the/DT\nthe/DT dog\n"),
        Case("parse --tags -m m", INPUT, "<stdin>:1: expected word/TAG, found '/NN'", stdin=b"/NN\n"),
        Case("parse --tags -m m", INPUT, "<stdin>:1: expected word/TAG, found 'dog/'", stdin=b"dog/\n"),
        Case("parse --tags -m m", INPUT, "<stdin>:1: the model has no tag 'XX'; it has: .*NNS", stdin=b"dog/XX\n"),
    ],
    "predictions that do not match": [
        Case("eval trees.mrg p", INPUT, "trees.mrg has 6 trees, p has 1; they must line up", {"p": b"(S (A b))\n"}),
        Case("eval trees.mrg p", INPUT, r"p:2:1: .*1 bracket", {"p": b"(S (A b))\n(S (A b)\n"}),
        Case("eval g p", INPUT, "g: no sentence has the words", {"g": b"(S (A b))\n", "p": b"(S (A c))\n"}),
        Case("eval g p", INPUT, "1 gold words, 2 predicted", {"g": b"(S (A b))\n", "p": b"(S (A b) (A c))\n"}),
    ],
    "parameters": [
        Case("eval trees.mrg trees.mrg --params p", INPUT, "p:1: unknown key 'DELETE'", {"p": b"DELETE NP\n"}),
        Case("eval trees.mrg trees.mrg --params p", INPUT, "p:2: LABELED", {"p": b"# ok\nLABELED 7\n"}),
        Case("eval trees.mrg trees.mrg --params p", INPUT, "p:1: EQ_LABEL takes 2 values", {"p": b"EQ_LABEL ADVP\n"}),
        Case("eval trees.mrg trees.mrg --params p", INPUT, "p:1: CUTOFF_LEN takes a", {"p": b"CUTOFF_LEN -3\n"}),
        Case("eval trees.mrg trees.mrg --params p", INPUT, "p:1:1: not valid UTF-8", {"p": b"\xff\n"}),
        Case("eval trees.mrg trees.mrg --params .", INPUT, "is a directory"),
        Case(
            "eval g p --params prm",
            INPUT,
            "more errors than the 0 that MAX_ERROR",
            {"g": b"(S (A b))\n", "p": b"(S (A c))\n", "prm": b"MAX_ERROR 0\n"},
        ),
    ],
    "head tables": [
        Case("train trees.mrg -o out --binarise head --heads h", INPUT, message, {"h": content})
        for content, message in (
            (b"", "h: no head rules in it"),
            (b"# only\n\n# comments\n", "h: no head rules in it"),
            (b"NP left NN\nVP upward VB\n", "h:2: unknown direction 'upward'"),
            (b"NP left NN NN\n", "h:1: the candidate 'NN' stands twice"),
            (b"NP left\nNP right NN\n", "h:2: this rule for 'NP' is never reached"),
            (b"\x80 left\n", "h:1:1: not valid UTF-8"),
        )
    ],
    "export format": [
        Case("convert e", INPUT, message, {"e": content.encode()})
        for content, message in (
            ("#FORMAT 9\n", "e:1: only the export formats 3 and 4"),
            (EXPORT + "dog NN -- -- 0\n", "e:2: sentence 1: the file ends before its #EOS"),
            (EXPORT + "dog NN --\n#EOS 1\n", r"e:3: sentence 1: 3 column\(s\)"),
            (EXPORT + "dog NN -- -- x\n#EOS 1\n", "e:3: sentence 1: the parent 'x' is not a number"),
            (EXPORT + "dog NN -- -- 500\n#EOS 1\n", "e:3: sentence 1: there is no node #500"),
            (EXPORT + "#500 NP -- -- 0\n#EOS 1\n", "e:2: sentence 1: no words"),
            (EXPORT + "dog NN -- -- 0\n#500 NP -- -- 500\n#EOS 1\n", "e:4: sentence 1: node #500 is its own ancestor"),
            (EXPORT + "dog NN -- -- 0\n#EOS 2\n", "e:4: sentence 1: expected #EOS 1"),
            ("#BOS one\n", "e:1: #BOS without a sentence number"),
            ("#FORMAT 3\n#EOS 1\n", "e:2: #EOS without #BOS"),
        )
    ]
    + [
        Case("convert trees.mrg --from export", INPUT, r"trees\.mrg:1: text outside #BOS and #EOS"),
        Case("convert e --from brackets", INPUT, "e:3:1: text outside", {"e": b"#BOS 1\n\ndog NN -- -- 0\n#EOS 1\n"}),
    ],
    "number of a tree": [
        Case("inspect trees.mrg --tree 7", INPUT, r"trees\.mrg: there is no tree 7; it has 6"),
        Case("inspect - --tree 1", INPUT, "<stdin>: there is no tree 1; it has 0"),
    ],
    "not from --binarise": [
        Case("convert --invert", INPUT, "<stdin>: tree 2: the label '@A' does not come", stdin=b"(S (A b))(S (@A b))"),
        Case("convert --invert", INPUT, "<stdin>: tree 1: the label 'A@B' does not come", stdin=b"(S (A@B b) (C d))"),
    ],
    "every tree malformed": [
        Case("train bad.mrg -o out --skip-bad", INPUT, r"skipped 2 malformed tree\(s\):", {"bad.mrg": b"(S)\n(S\n"}),
        Case("inspect bad.mrg --skip-bad", INPUT, r"bad\.mrg: no trees", {"bad.mrg": b"(S)\n(S\n"}),
    ],
}
ALL = [pytest.param(case, id=f"{name}: {case.arguments[:60]}") for name, cases in CASES.items() for case in cases]


@pytest.mark.parametrize("case", ALL)
def test_bad_input_gives_a_message_and_an_exit_code(case: Case, folder: Path, sapwood: Any, model_bytes: bytes) -> None:
    for name, content in case.files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content(model_bytes))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    outcome = sapwood(case.arguments.split(), case.stdin)
    assert outcome.code == case.code, outcome
    assert re.search(case.message, outcome.err), outcome.err
    assert "Traceback" not in outcome.err
    assert "internal error" not in outcome.err
    # Neither an output file nor a temporary one is left, and no input was touched.
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_there_are_many_cases() -> None:
    assert len(ALL) > 150


def test_a_corpus_file_is_no_model(folder: Path, sapwood: Any) -> None:
    Corpus.from_trees([Tree.parse("(S (A b) (C d))")]).save(folder / "corpus.sapwood")
    outcome = sapwood(["parse", "-m", "corpus.sapwood", "sentences.txt"])
    assert (outcome.code, outcome.err) == (MODEL, "sapwood: corpus.sapwood: holds a corpus, not a model\n")
    assert sapwood(["inspect", "corpus.sapwood"]).code == MODEL
    outcome = sapwood(["minimise", "corpus.sapwood", "-o", "out"])
    assert (outcome.code, outcome.err) == (MODEL, "sapwood: corpus.sapwood: holds a corpus, not a model\n")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read and write everything")
def test_files_without_permission(folder: Path, sapwood: Any) -> None:
    (folder / "trees.mrg").chmod(0)
    assert "trees.mrg: no permission to read it" in sapwood(["convert", "trees.mrg"]).err
    (folder / "m").chmod(0)
    assert "m: no permission to read it" in sapwood(["parse", "-m", "m", "sentences.txt"]).err
    (folder / "closed").mkdir(mode=0o500)
    outcome = sapwood(["convert", "-o", "closed/out"], b"(S (A b))")
    assert outcome.code == INPUT
    assert "closed: no permission to write there" in outcome.err


def test_messages_name_files_whose_names_are_not_unicode(folder: Path, sapwood: Any) -> None:
    outcome = sapwood(["convert", os.fsdecode(b"caf\xe9.mrg")])
    assert (outcome.code, outcome.err) == (INPUT, "sapwood: caf\\udce9.mrg: no such file or directory\n")


def test_a_sentence_on_the_command_line_must_be_utf8(folder: Path, sapwood: Any) -> None:
    outcome = sapwood(["parse", "-m", "m", "-s", os.fsdecode(b"caf\xe9")])
    assert (outcome.code, outcome.out) == (INPUT, "")
    assert "-s: not valid UTF-8 at character 4" in outcome.err


def test_a_bug_is_called_a_bug(folder: Path, sapwood: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr("sapwood.cli.options.output.format_as", broken)
    outcome = sapwood(["convert", "trees.mrg"])
    assert outcome.code == 70
    assert outcome.err.startswith("sapwood: internal error: ZeroDivisionError: of all things\n")
    assert "Traceback" not in outcome.err
    monkeypatch.setenv("SAPWOOD_DEBUG", "1")
    assert "Traceback" in sapwood(["convert", "trees.mrg"]).err


def test_out_of_memory_says_what_helps(folder: Path, sapwood: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("sapwood.cli.options.output.format_as", greedy)
    outcome = sapwood(["convert", "trees.mrg", "-o", "out"])
    assert (outcome.code, outcome.out) == (1, "")
    assert "out of memory" in outcome.err
    assert not (folder / "out").exists()


BRACKETS = ("(", "(", ")", ")", " ", "\n", "\r\n", "# ", "/*", "*/", "\u00a0", "\x1c", "\u2028", "\ufeff")
NAMES = ("S", "NP-SBJ", "@X", "A|B", "^", "~", "\\", "-NONE-", "*T*-1", "0", "-LRB-", "dog", "/", "ROOT", "%%", "é")
LINES = ("(A b)", "(S (A b) (C d))\n", "(@S (A b) (C d))\n", "#BOS 1\n", "dog\tNN\t--\t--\t0\n", "#500\t", "#EOS 1\n")
PIECES = st.sampled_from([*BRACKETS, *NAMES, *LINES])


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PIECES, max_size=40).map("".join))
def test_no_text_is_an_internal_error(folder: Path, sapwood: Any, text: str) -> None:
    (folder / "any.mrg").write_text(text, encoding="utf-8", newline="")
    for arguments in (
        "convert any.mrg --to draw",
        "convert any.mrg --to export --skip-bad",
        "convert any.mrg --binarise head --vertical 2",
        "convert any.mrg --invert",
        "inspect any.mrg --json",
        "eval any.mrg any.mrg",
        "eval trees.mrg any.mrg",
        "train any.mrg -o any.model --skip-bad",
        "minimise any.mrg -o any.small",
        "minimise m --trees any.mrg -o any.small --skip-bad",
        "parse any.mrg -m m --json",
        "parse any.mrg -m m --raw",
        "parse any.mrg -m m --tags",
    ):
        outcome = sapwood(arguments.split())
        assert outcome.code in (0, INPUT), (arguments, outcome)


@pytest.mark.parametrize(
    "arguments",
    [
        "train trees.mrg --text trees.mrg -o m.sapwood",
        "annotate project --text trees.mrg",
        "select trees.mrg trees.mrg",
        "lm count trees.mrg -o text.counts",
        "lm train trees.mrg -o text.lm",
    ],
)
def test_a_treebank_is_not_text(sapwood: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trees.mrg").write_text("( (S (NP (PRP it))\n     (VP (VBD rained))) )\n", encoding="utf-8")
    outcome = sapwood(arguments.split())
    assert outcome.code == 3
    assert "sapwood convert trees.mrg --to tokens" in outcome.err
    assert ("--trees trees.mrg" in outcome.err) == arguments.startswith("annotate")
    assert [path.name for path in tmp_path.iterdir()] == ["trees.mrg"]
