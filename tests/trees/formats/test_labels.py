"""Explanations of labels."""

from __future__ import annotations

from collections import Counter

import pytest

import sapwood
from helpers.treebank_files import treebank
from sapwood.errors import UsageError
from sapwood.trees.formats.labels import SCHEMES, explain, explain_all
from sapwood.trees.formats.registry import read_trees


@pytest.mark.parametrize(
    ("label", "scheme", "text"),
    [
        ("SBAR", "penn", "subordinate clause with its conjunction or relative word"),
        ("NP-SBJ=2", "penn", "noun phrase: subject"),
        ("-LRB-", "penn", "opening bracket"),
        ("-TMP", "penn", "time"),
        ("IP-MAT-SPE", "icepahc", "clause: main clause, direct speech"),
        ("HVPS", "icepahc", "the verb have, present subjunctive"),
        ("DAN", "icepahc", "the verb do, passive participle"),
        ("Q+NUM-N", "icepahc", "quantifier and numeral in one word: nominative"),
        ("espec.ms", "cess", "specifier: articles, determiners, numbers, masculine singular"),
        ("grup.nom.fp.co", "cess", "nominal group: the noun and its modifiers, feminine plural, coordinated"),
        ("sn-SUJ", "cess", "noun phrase: subject"),
        ("S.F.C-CD", "cess", "complement clause: direct object"),
        ("vmis3s0", "cess", "main verb, indicative past"),
        ("da0fs0", "cess", "article, feminine singular"),
        ("Fia", "cess", "opening question mark"),
        ("oti", "alpino", "infinitive phrase with om te"),
    ],
)
def test_labels_are_explained_piece_by_piece(label, scheme, text):
    assert explain(label, scheme=scheme) == text
    assert text in str(sapwood.explain(label))


def test_schemes_that_agree_share_an_explanation():
    assert explain("NP-SBJ") == "noun phrase: subject (Penn, IcePaHC)"
    assert explain("conj") == "conjunction (CESS-ECE); coordination (Alpino)"
    assert explain("no such label") is None
    assert explain("") is None
    with pytest.raises(UsageError, match=f"choose from {', '.join(SCHEMES)}"):
        explain("NP", scheme="negra")


def test_a_treebank_is_explained_by_one_scheme():
    assert explain_all(["sn", "conj", "grup.nom", "x y"]) == {
        "sn": "noun phrase", "conj": "conjunction", "grup.nom": "nominal group: the noun and its modifiers",
    }  # fmt: skip
    assert explain_all([]) == {}


@pytest.mark.parametrize(
    ("name", "scheme", "format"),
    [
        ("ours/train.mrg", "penn", "auto"),
        ("wsj-sample/dev.mrg", "penn", "auto"),
        ("gum/dev.mrg", "penn", "auto"),
        ("icepahc/dev.mrg.gz", "icepahc", "auto"),
        ("alpino/dev.dbr.gz", "alpino", "discbracket"),
    ],
)
def test_hardly_any_node_of_a_treebank_has_an_unexplained_label(name, scheme, format):
    labels = Counter(node.label for tree in read_trees(treebank(name), format=format) for node in tree.nodes())
    del labels[""]
    missing = {label: count for label, count in labels.items() if explain(label, scheme=scheme) is None}
    assert sum(missing.values()) < 0.001 * labels.total(), missing
