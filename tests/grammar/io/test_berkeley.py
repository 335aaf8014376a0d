from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from helpers.treebank_files import OTHERS, treebank
from oracles.unary_dump import STATES, WORDS, write_dump
from sapwood import Parser
from sapwood.errors import GrammarError, InputError, UsageError
from sapwood.evaluate import Scorer
from sapwood.grammar.io.berkeley import find_parts, import_berkeley, read_dump
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.trees.formats.registry import read_tokens, read_trees
from sapwood.trees.lexicon.signatures import BerkeleySignatures
from sapwood.trees.tree import Tree

EXAMPLE = OTHERS.parent / "experiments" / "berkeley-wsj-sample"


@pytest.fixture
def prefix(tmp_path) -> Path:
    return write_dump(tmp_path)


def change(prefix: Path, ending: str, old: str, new: str) -> None:
    path = prefix.with_suffix(ending)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_a_model_is_like_any_other(prefix, tmp_path):
    grammar = import_berkeley(prefix, min_expected_count=1e-9)
    grammar.save(tmp_path / "m.sapwood")
    again = TensorGrammar.load(tmp_path / "m.sapwood")
    assert again == grammar
    assert isinstance(again.lexicon.model, BerkeleySignatures)
    assert "BerkeleyParser" in again.describe()
    assert {"NP|N", "X|NP|N", "S|VP", "@S", "N"} <= set(again.symbols)
    assert again.symbols[again.symbol_number("@S")].parts.intermediate
    # Words are known by what they are, not by how the file writes them.
    assert "(" in again.lexicon.words
    for sentence in (["dog", "saw", "cat"], ["(", "Unknowns", "of", "of"], ["unseen", "?!", "dog"]):
        result = Parser(again).parse_one(sentence)
        assert result.tree.label == "ROOT"
        assert result.tree.words() == sentence
        assert not result.failed


def test_the_splits_are_levels(prefix):
    grammar = import_berkeley(prefix)
    (level,) = grammar.levels
    at = grammar.state_offsets[grammar.symbol_number("VP")]
    assert level[at : at + 3].tolist() == [0, 0, 1]
    prefix.with_suffix(".splits").unlink()
    assert import_berkeley(prefix).levels == ()


def test_lexical_weights_are_those_of_the_dump_up_to_their_sums(prefix):
    dump = read_dump(prefix)
    grammar = import_berkeley(prefix)
    tag = grammar.symbol_number("V", preterminal=True)
    saw, dog = grammar.lexical_vector(tag, "saw"), grammar.lexical_vector(tag, "dog")
    np.testing.assert_allclose(saw / dog, dump.words["V"]["saw"] / dump.words["V"]["dog"], rtol=0.05)
    # "saw" never was an N, but it is rare: it can be one.
    noun = grammar.symbol_number("N", preterminal=True)
    unlikely = grammar.lexical_vector(noun, "saw")
    assert (unlikely > 0).all()
    assert (unlikely < 0.2 * grammar.lexical_vector(noun, "dog")).all()
    # A word of which nothing is known can be whatever rare words are, one with a signature what the dump says of it.
    assert (grammar.lexical_vector(noun, "Abc") > 0).all()
    assert (grammar.lexical_vector(noun, "Hats") == 0).all()
    assert (grammar.lexical_vector(tag, "Hats") > 0).all()


def test_frequent_words_have_no_other_tags(tmp_path):
    prefix = write_dump(tmp_path)
    lines = ["N the [0.9, 0.9]", *(f"N n{number} [0.001, 0.001]" for number in range(100))]
    lines += ["V saw [0.5, 0.5, 0.5]", *(f"V v{number} [0.005, 0.005, 0.005]" for number in range(100))]
    lines += ["P of [1.0]"]
    prefix.with_suffix(".lexicon").write_text("\n".join(lines), encoding="utf-8")
    grammar = import_berkeley(prefix)
    verb = grammar.symbol_number("V", preterminal=True)
    assert not grammar.lexical_vector(verb, "the").any()
    assert grammar.lexical_vector(verb, "n7").all()


def test_compressed_files_and_names_of_files(prefix):
    path = prefix.with_suffix(".grammar")
    with gzip.open(f"{path}.gz", "wb") as stream:
        stream.write(path.read_bytes())
    plain = import_berkeley(prefix)
    path.unlink()
    assert import_berkeley(prefix) == plain
    for name in (f"{path}.gz", str(prefix.with_suffix(".splits")), str(prefix)):
        assert find_parts(name)[".grammar"] == Path(f"{path}.gz")
    Path(f"{path}.gz").unlink()
    with pytest.raises(InputError, match=r"tiny.grammar: no such file"):
        import_berkeley(prefix)


def test_ancestors_behind_a_circumflex_are_no_part_of_labels(prefix):
    for ending in (".grammar", ".splits"):
        path = prefix.with_suffix(ending)
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("NP_", "NP^S_").replace("NP\t", "NP^S\t"), encoding="utf-8")
    grammar = import_berkeley(prefix)
    assert "NP^S|N" not in grammar.symbols  # ancestors come behind the whole chain
    assert "NP|N^S" in grammar.symbols
    assert "NP" in {node.label for node in Parser(grammar).parse_one(["dog", "saw", "cat"]).tree.nodes()}


@pytest.mark.parametrize(
    ("ending", "old", "new", "message"),
    [
        (".grammar", "S_0 -> S_0 1.0", "S_0 -> S_0", r"tiny.grammar:2: a line is 'A_0 -> B_0 C_0 p'"),
        (".grammar", "S_0 -> S_0 1.0", "S_0 => S_0 1.0", r"tiny.grammar:2: a line is"),
        (".grammar", "S_0 -> S_0 1.0", "S -> S_0 1.0", r"tiny.grammar:2: 'S' is not a state"),
        (".grammar", "S_0 -> S_0 1.0", "S_0 -> S_0 NaN", r"tiny.grammar:2: 'NaN' is not a probability"),
        (".grammar", "S_0 -> S_0 1.0", "S_0 -> S_0 -0.1", r"tiny.grammar:2: '-0.1' is not a probability"),
        (".grammar", "S_0 -> S_0 1.0", "S_0 -> S_0 1_0", r"is not a probability"),
        (".grammar", "S_0 -> S_0 1.0", "S_0 -> S_99999 1.0", r"tiny.grammar:2: state 99999 of S"),
        (".grammar", "S_0 -> S_0 1.0", "S_2000 -> S_2000 X_2000 1.0", r"room for .* weights"),
        (".grammar", "S_0 -> S_0 1.0", "S_0 -> ROOT_0 1.0", r"the start symbol ROOT cannot be a child"),
        (".grammar", "S_0 -> S_0 1.0", "@S_0 -> NP_0 0.1", r"an intermediate symbol, @..., has no unary rule"),
        (".grammar", "S_0 -> S_0 1.0", "ROOT_1 -> S_0 0.1", r"ROOT has 2 states, not one"),
        (".grammar", "S_0 -> S_0 1.0", "N_0 -> V_0 0.1", r"N has both rules and words"),
        (".lexicon", "N dog [", "N dog (", r"tiny.lexicon:1: a line is 'TAG word"),
        (".lexicon", "N dog [", "N dog [0.5, ", r"tiny.lexicon:1: 3 probabilities, and the grammar has 2 states of N"),
        (".lexicon", "N dog [", "Q dog [", r"tiny.lexicon:1: no rule of the grammar has the tag Q"),
        (".lexicon", "N cat [", "N dog [", r"tiny.lexicon:2: the word 'dog' of N occurs twice"),
        (".lexicon", "N dog [", "N dog [x", r"tiny.lexicon:1: 'x0"),
        (".splits", "VP\t", "VP ", r"tiny.splits:3: a line is 'SYMBOL<TAB>"),
        (".splits", "(0 (0 0 1) (1 2))", "(0 (0 0 1) (1 2)", r"tiny.splits:3: a tree of splits that does not end"),
        (".splits", "(0 (0 0 1) (1 2))", "(0 (0 0 1) (1 2)))", r"tiny.splits:3: a tree of splits is like"),
        (".splits", "(0 (0 0 1) (1 2))", "(0 (0 0 x) (1 2))", r"tiny.splits:3: a tree of splits is like"),
        (".splits", "(0 (0 0 1) (1 2))", "(0 (0 0 2) (1 1))", r"tiny.splits:3: the leaves are not the states 0 to 2"),
        (".splits", "(0 (0 0 1) (1 2))", "(" * 500, r"tiny.splits:3"),
    ],
)  # fmt: skip
def test_what_is_malformed_is_refused_with_its_place(prefix, ending, old, new, message):
    change(prefix, ending, old, new)
    with pytest.raises(InputError, match=message):
        import_berkeley(prefix)


def test_files_without_content_are_refused(prefix):
    for ending, message in ((".lexicon", "no words in it"), (".grammar", "no rules in it")):
        prefix.with_suffix(ending).write_text("\n\n")
        with pytest.raises(InputError, match=message):
            import_berkeley(prefix)


def test_rules_that_are_there_twice_are_refused(prefix):
    path = prefix.with_suffix(".grammar")
    lines = path.read_text().splitlines()
    twice = next(line for line in lines if line.startswith("VP_1 -> V_1 NP_1"))
    path.write_text("\n".join([*lines, twice]))
    with pytest.raises(InputError, match="the rule VP_1 -> V_1 NP_1 occurs twice"):
        import_berkeley(prefix)


def test_a_state_without_words_is_refused(prefix):
    path = prefix.with_suffix(".lexicon")
    path.write_text("N dog [0.0, 0.5]\nV saw [0.1, 0.1, 0.1]\nP of [1.0]\n")
    with pytest.raises(GrammarError, match="a state of the tag N has no words"):
        import_berkeley(prefix)


def test_least_is_a_part():
    with pytest.raises(UsageError, match="between 0 and 1"):
        import_berkeley("x", min_expected_count=0.0)


def test_the_dump_of_the_oracle_is_what_is_read(prefix):
    dump = read_dump(prefix)
    assert dict(dump.states) == STATES
    assert {tag: list(words) for tag, words in dump.words.items()} == WORDS
    assert dump.levels["VP"].tolist() == [[0, 0, 0], [0, 0, 1]]


def score(gold: list[Tree], trees: list[Tree]) -> float:
    scorer = Scorer()
    for one, other in zip(gold, trees, strict=True):
        scorer.add(one, other)
    return scorer.result().f1


@pytest.mark.slow
def test_a_real_grammar_parses_as_its_parser_does():
    """What BerkeleyParser returns with its grammar, and what we do."""
    if not EXAMPLE.is_dir():
        pytest.skip("no grammar of BerkeleyParser in ../shared/experiments")
    gold = list(read_trees(treebank("wsj-sample/test.mrg")))
    theirs = list(read_trees(EXAMPLE / "test.max-rule.mrg"))
    grammar = import_berkeley(EXAMPLE / "sm5")
    ours = [result.tree for result in Parser(grammar).parse(read_tokens(EXAMPLE / "test.tok"))]
    there, here = (score(gold, trees) for trees in (theirs, ours))
    assert abs(there - here) < 0.5
    # Most of their trees are found again, bracket by bracket.
    assert score(theirs, ours) > 96
