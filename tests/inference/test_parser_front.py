"""What a parser takes and gives: plain text, names of models, results that can be compared, printed and sent away."""

from __future__ import annotations

import copy
import gc
import io
import json
import pickle
import weakref
from dataclasses import replace

import pytest

import sapwood
from helpers.made_up import made_up_treebank
from sapwood.errors import SapwoodError, TreeFormatError, UsageError
from sapwood.inference import Marginal, Parser, ParseResult
from sapwood.inference.decode import find_decoder
from sapwood.trees.tokenise.sentences import tokenise_text

TREES = [
    "(S (NP (DT The) (NN cat)) (VP (VBD saw) (NP (DT the) (NN dog))) (. .))",
    "(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (NP (DT the) (NN cat)) (PP (IN with) (NP (DT the) (NN hat))))) (. .))",
    "(S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT the) (NN dog)) (PP (IN with) (NP (DT a) (NN hat)))) (. .))",
]
TEXT = "The  cat saw the dog.\n\n“It can't be,” she said."


@pytest.fixture(scope="module")
def grammar():
    return sapwood.PCFG().fit(sapwood.Corpus.from_trees(map(sapwood.Tree.parse, TREES)))


@pytest.fixture(scope="module")
def parser(grammar):
    return Parser(grammar, marginals=True, alternatives=2)


def test_plain_text(parser):
    results = list(parser.parse_text(TEXT))
    assert [result.words for result in results] == [
        ["The", "cat", "saw", "the", "dog", "."],
        ["``", "It", "ca", "n't", "be", ",", "''", "she", "said", "."],
    ]
    assert [[TEXT[start:end] for start, end in result.offsets] for result in results] == [
        ["The", "cat", "saw", "the", "dog", "."],
        ["“", "It", "ca", "n't", "be", ",", "”", "she", "said", "."],
    ]
    assert parser(TEXT) == results
    assert list(parser.parse_text(io.StringIO(TEXT))) == results
    assert list(Parser(parser.model, marginals=True, alternatives=2, threads=2).parse_text(TEXT)) == results
    assert parser("") == parser(" \n\n ") == []
    assert parser.parse_one(results[0].words).offsets is None


def test_items_of_an_iterable_are_texts_of_their_own(parser):
    def words(items, **options):
        return [" ".join(result.words) for result in parser.parse_text(items, **options)]

    items = ["She left", "Prices rose", "", "a cat saw"]
    apart = ["She left", "Prices rose", "a cat saw"]
    for lines in (None, "paragraphs", "free"):
        assert words(items, lines=lines) == words(iter(items), lines=lines) == apart
    assert words(items, lines="sentences") == ["She left", "Prices rose", "", "a cat saw"]
    # Long items without stops, which would be wrapped lines in a file.
    assert words(["the cat saw the dog with", "the hat and the dog saw"]) == [
        "the cat saw the dog with",
        "the hat and the dog saw",
    ]
    # Lines of a file go on.
    assert words(["She\n", "left\n", "early\n"], lines="free") == ["She left early"]
    offsets = [result.offsets for result in parser.parse_text(items)]
    assert [["".join(items)[start:end] for start, end in some] for some in offsets] == [one.split() for one in apart]
    assert words([]) == []


@pytest.mark.parametrize(
    ("item", "message"), [(float("nan"), "missing"), (None, "missing"), (b"a", "decode it"), (["a"], "not a string")]
)
def test_items_that_are_not_text_are_named(parser, item, message):
    with pytest.raises(UsageError, match=f"item 2 of the text is .*{message}"):
        list(parser.parse_text(["She left", "a\n", item]))
    with pytest.raises(UsageError, match="not bytes"):
        parser.parse_text(b"She left")


def test_a_light_parser_parses_as_before(grammar):
    parsers = [Parser([grammar] * number, marginals=number == 1) for number in (1, 2)]
    for parser in parsers:
        before, chart = parser("The cat saw the dog."), parser.chart(["the", "cat"])
        parser.release_weights()
        assert not any(len(one.tensors) for one in parser.grammars)
        assert parser("The cat saw the dog.") == before
        assert (parser.chart(["the", "cat"]) is None) == (chart is None)
    assert len(grammar.tensors)
    heavy = replace(grammar, tensors=grammar.tensors.copy())
    weights, parser = weakref.ref(heavy.tensors), Parser(heavy)
    parser("The cat saw the dog.")
    del heavy
    parser.release_weights()
    gc.collect()
    assert weights() is None


def test_text_is_cut_as_the_treebank_does(grammar):
    style = {"rewrite": False, "split_hyphens": True}
    exact = Parser(replace(grammar, info={**grammar.info, "tokeniser": style}))
    [result] = exact("a well-known “dog”")
    assert result.words == ["a", "well", "-", "known", "“", "dog", "”"]
    assert [result.words] == [[token.word for token in s] for s in tokenise_text("a well-known “dog”", **style)]
    [plain] = Parser(replace(grammar, info={}))("a well-known “dog”")
    assert plain.words == ["a", "well-known", "``", "dog", "''"]


def test_the_included_model():
    one, two = Parser(), Parser("en")
    assert one.model == two.model == sapwood.ParserModel.load(sapwood.default_model_path())
    assert [str(result.tree) for result in one("It rains.")] == ["(ROOT (S (NP (PRP It)) (VP (VBZ rains)) (. .)))"]


def test_a_file_goes_before_an_included_model_of_that_name(grammar, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    grammar.save("en")
    assert Parser("en").grammar == grammar


def test_marginals_are_given_as_phrases_are(parser):
    [result] = parser("The cat saw the dog.")
    assert all(isinstance(found, Marginal) for found in result.marginals)
    start, end, label, probability = result.marginals[0]
    assert (start, end, label) == result.tree.spans()[1]
    assert parser.chart(result.words).label_posteriors()[start, end, label] == pytest.approx(probability, rel=1e-4)
    assert parser.parse_one(result.words, phrases=[result.marginals[0][:3]]).tree == result.tree


def test_results_without_a_parse_equal_themselves(grammar):
    parser = Parser(grammar, max_words=3)
    for sentence, status in (([], "empty"), (["a"] * 4, "too long"), (["the", "the"], "flat")):
        result = parser.parse_one(sentence)
        assert (result.status, result.log_probability, result.failed) == (status, None, True)
        assert result == parser.parse_one(sentence)
        assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["log_probability"] is None


def test_as_a_dictionary(parser):
    [result] = parser("The cat saw the dog.")
    value = result.to_dict()
    assert json.loads(json.dumps(value, allow_nan=False)) == value
    assert list(value) == ["words", "offsets", "tree", "log_probability", "status", "marginals", "alternatives"]
    assert value["tree"] == str(result.tree)
    assert value["offsets"][:2] == [[0, 3], [4, 7]]
    assert value["marginals"][0][:3] == [0, 6, "S"]
    assert value["alternatives"][0]["tree"] == value["tree"]
    assert list(Parser(parser.model).parse_one(result.words).to_dict()) == [
        "words", "tree", "log_probability", "status",
    ]  # fmt: skip


def test_representations(parser, grammar):
    [result] = parser("The cat saw the dog.")
    assert (
        repr(result) == f"<ParseResult: 'The cat saw the dog .', parsed, log probability {result.log_probability:.2f}>"
    )
    assert repr(ParseResult(["word"] * 40, None, None, "too long")) == (
        f"<ParseResult: {('word ' * 40)[:57] + '...'!r}, too long>"
    )
    assert repr(parser) == f"<Parser: {grammar!r}, max-rule, threshold 2e-05>"
    assert repr(Parser([grammar] * 2, threshold=0)) == f"<Parser: 2 grammars like {grammar!r}, max-rule, threshold 0>"
    assert repr(parser.chart(result.words)).startswith("<Chart: 6 words, ")
    assert len(repr(Parser([grammar] * 2).chart(result.words))) < 100


COPIES = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_copies(parser, grammar, duplicate):
    tree = sapwood.Tree.parse(TREES[0])
    corpus = sapwood.Corpus.from_trees([tree])
    scorer = sapwood.Scorer()
    scorer.add(tree, tree)
    for value in (grammar, tree, scorer.result(), corpus.normaliser, corpus.transform, *parser(TEXT)):
        assert duplicate(value) == value
    assert duplicate(corpus).digest() == corpus.digest()
    assert duplicate(scorer).result() == scorer.result()
    again = duplicate(parser)
    assert (again.decoder, again.threshold, again.marginals, again.alternatives) == ("max-rule", 2e-5, True, 2)
    assert again(TEXT) == parser(TEXT)
    several = duplicate(Parser([grammar] * 2, threads=2, max_words=5, threshold=0))
    assert (len(several.grammars), several.threads, several.max_words, several.threshold) == (2, 2, 5, 0)


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize(
    "learner",
    [
        sapwood.EM(states=2, iterations=1),
        sapwood.Spectral(states=2),
        sapwood.Pivot(states=2),
        sapwood.SplitMerge(cycles=1, iterations=1),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_copies_of_what_is_learnt(learner, duplicate):
    learned = learner.fit(sapwood.Corpus.from_trees(made_up_treebank(40, 1)))
    assert duplicate(learned) == learned


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_copies_of_errors(duplicate):
    error = TreeFormatError("odd", source="file", line=3, column=4, text="x" * 80)
    again = duplicate(error)
    assert isinstance(again, TreeFormatError)
    assert (str(again), again.line, again.text) == (str(error), 3, error.text)
    assert isinstance(duplicate(UsageError("so not")), UsageError)


def test_wrong_usage_is_a_wrong_value(grammar):
    with pytest.raises(ValueError, match="threads must be at least 1"):
        Parser(grammar, threads=0)


def test_a_decoder_of_another_package(grammar, install_plugin):
    code = (
        "from sapwood.inference.decode import find_decoder\n"
        "def cautious(chart, words):\n"
        "    return find_decoder('recall')(chart, words)\n"
    )
    install_plugin("elsewhere", code, "sapwood.decoders", cautious="elsewhere:cautious", broken="elsewhere:missing")
    words = ["the", "cat", "saw", "the", "dog"]
    for model in (grammar, [grammar] * 2):
        found = Parser(model, decoder="cautious").parse_one(words)
        assert found == Parser(model, decoder="recall").parse_one(words)
    assert find_decoder("cautious").__module__ == "elsewhere"
    with pytest.raises(SapwoodError, match=r"cannot load 'broken' of sapwood\.decoders from elsewhere 1\.5"):
        Parser(grammar, decoder="broken")
    with pytest.raises(UsageError, match=r"no decoder 'best'; choose from max-rule, .*viterbi, broken, cautious"):
        Parser(grammar, decoder="best")
