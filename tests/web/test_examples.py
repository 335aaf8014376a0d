"""Examples: a sentence of the model's language, and patterns of the treebank's labels."""

from __future__ import annotations

import pytest

import sapwood
from helpers.made_treebank import made_treebank
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.spectral import Spectral
from sapwood.trees.corpus import Corpus
from sapwood.trees.search.searcher import Searcher
from sapwood.trees.search.table import TreeTable
from sapwood.trees.tree import Tree
from sapwood.web.examples import example_patterns, example_sentence
from sapwood.web.service import Service

ICELANDIC = ["og", "í", "að", "er", "sem", "á", "við", "um", "til", "var"]
SPANISH = [
    "(sentence (sn (spec.ms (da0ms0 El)) (grup.nom.ms (ncms000 perro))) (grup.verb (vmip3s0 ladra)) (fp .))",
    "(sentence (sn (spec.fs (da0fs0 La)) (grup.nom.fs (ncfs000 casa))) (grup.verb (vmip3s0 arde)) (fp .))",
    "(sentence (sn (grup.nom (np0000 Ana) (sp (prep (sps00 de)) (sn (np0000 Lugo))))) (grup.verb (vmip3s0 ríe)))",
]


def parser_of(words: dict[str, str]) -> sapwood.Parser:
    """Return a parser of sentences of a noun, an adverb, a verb and a full stop."""
    rules = {("S", "A", "B"): 1.0, ("A", "N", "R"): 1.0, ("B", "V", "P"): 1.0}
    weights = {(tag, word): 1.0 / list(words.values()).count(tag) for word, tag in words.items()}
    return sapwood.Parser(TensorGrammar.from_parts(root={"S": 1.0}, rules=rules, words={**weights, ("P", "."): 1.0}))


def test_the_included_model_has_an_english_sentence():
    assert example_sentence(sapwood.Parser()) == {"text": "She saw the man with the telescope.", "input": "text"}


def test_the_language_is_known_by_its_frequent_words():
    parser = parser_of({**dict.fromkeys(ICELANDIC, "N"), "vel": "R", "sefur": "V"})
    assert example_sentence(parser) == {"text": "Hún sá mann með sjónauka.", "input": "text"}


def test_other_languages_have_a_sentence_of_the_grammar():
    parser = parser_of({"mbwa": "N", "paka": "N", "sana": "R", "analala": "V", "anakula": "V"})
    found = example_sentence(parser)
    first, second, third, stop = next(parser.tokenise(found["text"]))
    assert first.word in ("mbwa", "paka")
    assert (second.word, third.word in ("analala", "anakula"), stop.word) == ("sana", True, ".")
    assert example_sentence(parser) == found


def test_words_that_a_tokeniser_would_split_are_given_as_tokens():
    parser = parser_of({"mbwa,paka": "N", "sana": "R", "analala": "V"})
    assert example_sentence(parser) == {"text": "mbwa,paka sana analala .", "input": "tokens"}


def test_a_grammar_without_probabilities_has_a_sentence_too():
    trees = [Tree.parse(f"(S (NP (N {noun})) (VP (R sana) (V {verb})))") for noun in ("mbwa", "paka", "ndege")
             for verb in ("analala", "anakula", "anaimba")] * 4  # fmt: skip
    parser = sapwood.Parser(Spectral(states=2).fit(Corpus.from_trees(trees)))
    assert not parser.grammar.probabilistic
    words = example_sentence(parser)["text"].split()
    assert len(words) == 3
    assert all(parser.grammar.lexicon.knows(word) for word in words)


def test_a_service_describes_its_examples():
    found = Service.load().describe()["models"][0]["example"]
    assert found["text"].startswith("She saw")


FUNCTIONS = "(S (NP-SBJ (DT the) (NN dog)) (VP (VBZ barks) (PP-LOC (IN at) (NP (PRP us)))))"
ODD = '(S (N"P (D$ the) (N= dog)) (V/P (Z\\ barks) (__ (IN at) (N"P (<b> us)))))'
TREEBANKS = {"functions": [FUNCTIONS], "spanish": SPANISH, "odd": [ODD]}


@pytest.mark.parametrize("name", ["made up", *TREEBANKS])
def test_patterns_match_the_treebank(name):
    trees = [Tree.parse(text) for text in TREEBANKS[name]] if name in TREEBANKS else made_treebank()
    table = TreeTable.from_trees(trees)
    found = example_patterns(table)
    assert len(found["patterns"]) >= 2
    assert len(set(found["patterns"])) == len(found["patterns"])
    for pattern in [*found["patterns"], *found["phrases"], *found["tags"]]:
        assert len(Searcher(pattern).nodes(table)), pattern


def test_patterns_of_a_treebank_without_phrases():
    found = example_patterns(TreeTable.from_trees([Tree.parse("(ROOT (N dogs))")]))
    assert found == {"patterns": [], "phrases": [], "tags": ["N"]}


def test_patterns_have_the_labels_of_their_treebank():
    spanish = example_patterns(TreeTable.from_trees([Tree.parse(text) for text in SPANISH]))
    assert "sn" in spanish["phrases"]
    assert not any("NP" in pattern for pattern in spanish["patterns"])
    assert any('"grup.nom.' in pattern for pattern in [*spanish["patterns"], *spanish["phrases"]])
