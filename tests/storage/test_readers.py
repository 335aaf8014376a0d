"""Every reader of text: a small compressed file that holds much, or one line without end, is refused by all of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import sapwood
from fuzz.grammar_targets import _small
from sapwood.annotation.project import ProjectSettings
from sapwood.automata.wcfg.files import read_grammar
from sapwood.cli.main import main
from sapwood.errors import InputError
from sapwood.evaluate.agreement import compare_annotators
from sapwood.evaluate.evalb_params import EvalbParameters
from sapwood.evaluate.files import score_files
from sapwood.grammar.io.berkeley import read_rules, read_splits, read_words
from sapwood.grammar.io.text import _read_about, _read_backoff, _read_counts
from sapwood.induction.text import read_sentences
from sapwood.inference import Parser
from sapwood.inference.batch import TextIO, read_manifest
from sapwood.interop.arrow import ColumnParser
from sapwood.interop.csv_tables import parse_csv
from sapwood.lm import KneserNey, count_text, load_model
from sapwood.lm.counts.shards import TextShard
from sapwood.lm.scoring import score_lines
from sapwood.lm.vectors import read_vectors
from sapwood.numerics.matrix_files import read_matrix
from sapwood.runtime.config import read_config
from sapwood.runtime.log import read_log
from sapwood.storage import limits
from sapwood.storage.files import COMPRESSED, open_output
from sapwood.treebank.rewriting.rules import RewriteRules
from sapwood.trees.formats.brackets import read_brackets
from sapwood.trees.formats.conllu import read_conllu
from sapwood.trees.formats.export import read_export
from sapwood.trees.formats.registry import file_header, read_tagged, read_tokens, read_trees
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.normalise import read_labels
from sapwood.trees.partial import read_partial
from sapwood.trees.search.macros import read_macros
from sapwood.trees.search.table import read_table

SOURCE = Path(sapwood.__file__).parent
Read = Callable[[Path], object]


def each(read: Callable[[Path], Any]) -> Read:
    """Return a function that reads a file to its end."""
    return lambda path: sum(1 for _ in read(path))


def command(*arguments: str) -> Read:
    def run(path: Path) -> None:
        result = CliRunner().invoke(main, [*(text.replace("FILE", str(path)) for text in arguments)])
        if isinstance(result.exception, SystemExit):
            raise InputError(result.output)
        if result.exception is not None:
            raise result.exception

    return run


def scored(path: Path) -> None:
    for _ in score_lines(KneserNey(order=1).fit(count_text(Path(path.parent, "few"), order=1)), path):
        pass


def parsed(path: Path) -> None:
    parse_csv(ColumnParser(Parser(_small()), "text"), path, path.parent / "out.csv")


TREE = "(S (A a) (B b))\n"
START = '{"event": "start", "step": 0, "seconds": 0.1, "method": "em", "settings": {}, "trees": 3, "words": 9}\n'
# Readers by the module that opens the file; each with the beginning of a file, a piece to repeat, and its ending.
READERS: dict[str, list[tuple[Read, str, str, str]]] = {
    "interop/csv_tables.py": [(parsed, "text\n", "\n", ".csv")],
    "induction/text.py": [(each(read_sentences), "", "a b c\n", "")],
    "trees/partial.py": [(each(read_partial), "", "(S (_ a b) c)\n", "")],
    "trees/heads/rules.py": [(HeadRules.read, "", "# nothing\n", "")],
    "trees/search/macros.py": [(read_macros, "", "# nothing\n", "")],
    "trees/search/table.py": [(read_table, "", TREE, ""), (read_table, "", "a b\n", "")],
    "trees/formats/export.py": [(each(read_export), "#FORMAT 3\n", "%% nothing\n", "")],
    "trees/formats/conllu.py": [(each(read_conllu), "", "# nothing\n", "")],
    "trees/formats/brackets.py": [(each(read_brackets), "", TREE, "")],
    "trees/formats/registry.py": [
        (each(read_trees), "", TREE, ""),
        (each(read_trees), "", TREE.strip(), ""),
        (each(partial(read_trees, format="tiger")), file_header("tiger"), "<!-- nothing -->\n", ""),
        (each(partial(read_trees, format="discbracket")), "", "(S (A 0=a))\n", ""),
        (each(read_tokens), "", "a b c\n", ""),
        (each(read_tagged), "", "a/A b/B\n", ""),
    ],
    "trees/normalise.py": [(read_labels, "", "# nothing\n", "")],
    "runtime/config.py": [(partial(read_config, known=["a"]), "", "# nothing\n", ".toml")],
    "runtime/log.py": [(read_log, START, START.replace("start", "iteration"), "")],
    "evaluate/files.py": [(lambda path: score_files(path, path), "", TREE, "")],
    "evaluate/agreement.py": [(lambda path: compare_annotators(path, path), "", TREE, "")],
    "evaluate/evalb_params.py": [(EvalbParameters.read, "", "# nothing\n", "")],
    "grammar/io/text.py": [
        (_read_about, "", " ", ""),
        (_read_backoff, "", "\n", ""),
        (partial(_read_counts, states={}, rules=[]), "", "\n", ""),
    ],
    "grammar/io/berkeley.py": [
        (partial(read_rules, step=int), "", "A_0 -> B_0 C_0 0.5\n", ""),
        (partial(read_words, states={"A": 1}, step=int), "", "\n", ""),
        (partial(read_splits, states={}), "", "A\t0\n", ""),
    ],
    "automata/wcfg/files.py": [(read_grammar, "", "# nothing\n", "")],
    "inference/batch.py": [
        (each(lambda path: TextIO(raw=True).results(Parser(_small()), path)), "", "\n", ""),
        (each(partial(read_manifest, key="k")), '{"key": "k"}\n', "{}\n", ""),
    ],
    "lm/counts/text.py": [(count_text, "", "a b c\n", "")],
    "lm/counts/shards.py": [(each(lambda path: TextShard(str(path)).pieces()), "", "a b c\n", "")],
    "lm/vectors.py": [(read_vectors, "1 1\n", "a 1\n", "")],
    "lm/scoring.py": [(scored, "", "a b c\n", "")],
    "lm/ngram/arpa.py": [(load_model, "\n\\data\\\nngram 1=2\n", "\n", ".arpa")],
    "numerics/matrix_files.py": [
        (read_matrix, "", "1,2\n", ".csv"),
        (read_matrix, "%%MatrixMarket matrix coordinate real general\n", "% nothing\n", ".mtx"),
        (read_matrix, "", "x", ".npy"),
    ],
    "cli/options/common.py": [
        (command("convert", "FILE", "--binarise", "head", "--heads", "FILE"), "", "# nothing\n", ""),
    ],
    # The text of an induced model, read as that of "inference/batch.py" is.
    "cli/options/induction.py": [],
    "annotation/project.py": [(ProjectSettings.read, "", "\n", "")],
    "treebank/rewriting/rules.py": [(RewriteRules.read, "", "# nothing\n", "")],
    "cli/treebank/annotate.py": [(command("annotate", "FILE.project", "--text", "FILE"), "", "a b\n", "")],
    "cli/treebank/check.py": [(command("check", "FILE"), "", TREE, "")],
    "cli/treebank/tokenise.py": [(command("tokenise", "FILE"), "", "a b\n", "")],
}
CASES = [
    pytest.param(*case, id=f"{module}-{number}") for module in READERS for number, case in enumerate(READERS[module])
]


def test_all_readers_are_here() -> None:
    """What opens text calls one of two functions."""
    callers = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if re.search(r"\b(?:read_lines|open_binary)\(", path.read_text(encoding="utf-8"))
    }
    assert callers - {"storage/files.py"} == set(READERS)


@pytest.mark.parametrize(("read", "begin", "piece", "ending"), CASES)
def test_a_file_that_holds_much_is_refused(
    read: Read, begin: str, piece: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_SMALL", 1 << 15)
    (tmp_path / "few").write_text("a b c\n")
    path = tmp_path / f"x{ending}.gz"
    with open_output(path) as stream:
        stream.write(begin + piece * ((1 << 17) // len(piece)))
    assert path.suffix in COMPRESSED
    with pytest.raises(InputError, match="SAPWOOD_MAX_RATIO"):
        read(path)


# These read all bytes at once, or words, whose length has a limit of its own.
WITHOUT_LINES = ("lm/counts/text.py", "lm/counts/shards.py", "lm/vectors.py", "grammar/io/text.py-0")


@pytest.mark.parametrize(
    ("read", "begin", "piece", "ending"),
    [case for case in CASES if not str(case.id).startswith(WITHOUT_LINES) and case.values[3] not in (".mtx", ".npy")],
)
def test_a_line_without_end_is_refused(
    read: Read, begin: str, piece: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAPWOOD_MAX_LINE", "1K")
    (tmp_path / "few").write_text("a b c\n")
    path = tmp_path / f"x{ending}"
    path.write_text(begin + piece.strip() * 2000 + " a" * 2000)
    with pytest.raises(InputError, match="SAPWOOD_MAX_LINE"):
        read(path)


def test_words_have_a_limit(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a b\n" + b"a" * (1 << 21))
    with pytest.raises(InputError, match=r"x:2:1: a word of more than"):
        count_text(tmp_path / "x")


def test_rows_of_a_table_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row can have many lines, each of them short."""
    monkeypatch.setenv("SAPWOOD_MAX_LINE", "1K")
    (tmp_path / "x.csv").write_text("text,b\n" + 'a,"b\nc"\n' * 1000)
    parse_csv(ColumnParser(Parser(_small()), "text", warn=False), tmp_path / "x.csv", tmp_path / "out.csv")
    (tmp_path / "x.csv").write_text("text,b\n" + '"a\n",' * 1000)
    with pytest.raises(InputError, match=r"x\.csv:\d+: a row of more than 1,024 bytes; .* SAPWOOD_MAX_LINE"):
        parsed(tmp_path / "x.csv")


@pytest.mark.parametrize("kind", ["plain", "list", "struct", "map", "nested"])
def test_a_text_that_is_repeated_in_a_table(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parquet stores it once, and in memory each row has its own."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from sapwood.interop.arrow import parse_table

    rows, places = 100, pyarrow.array(range(101), pyarrow.int32())
    text = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * rows, pyarrow.int32()), ["x" * 20_000])
    lists = pyarrow.ListArray.from_arrays(places, text)
    column = {
        "plain": text,
        "list": lists,
        "struct": pyarrow.StructArray.from_arrays([text], ["a"]),
        "map": pyarrow.MapArray.from_arrays(places, pyarrow.array(["k"] * rows), text),
        "nested": pyarrow.ListArray.from_arrays(places, lists),
    }[kind]
    table = pyarrow.table({"text": ["w0"] * rows, "more": column})
    path = tmp_path / "x.parquet"
    parquet.write_table(table, path, compression="zstd", store_schema=False)
    parse = ColumnParser(Parser(_small()), "text")
    parse_table(parse, path, tmp_path / "out.parquet")
    monkeypatch.setattr(limits, "_SMALL", 1 << 20)
    with pytest.raises(InputError, match="holds more than 200 times as many bytes"):
        parse_table(parse, path, tmp_path / "out.parquet")


def test_texts_within_lists_of_large_tables(tmp_path: Path) -> None:
    """A dictionary that becomes too large is abandoned, and there can be several groups of rows."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from sapwood.interop.arrow import parse_table

    table = pyarrow.table({"text": ["w0"] * 100, "more": [[f"{number}" * 50, None, "a"] for number in range(100)]})
    parquet.write_table(table, tmp_path / "x.parquet", row_group_size=60, dictionary_pagesize_limit=1000)
    parse_table(ColumnParser(Parser(_small()), "text"), tmp_path / "x.parquet", tmp_path / "out.parquet", rows=16)
    assert parquet.read_table(tmp_path / "out.parquet").select(["text", "more"]).equals(table)
