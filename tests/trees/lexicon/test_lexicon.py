"""Known words, signatures of unknown ones, and the chains between them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from sapwood.errors import ModelError
from sapwood.storage.arrays import pack_strings
from sapwood.trees.lexicon.lexicon import Lexicon, canonical
from sapwood.trees.lexicon.signatures import UNKNOWN, BerkeleySignatures, SignatureModel, count_tags, shape

MODEL = SignatureModel(frozenset({"g", "ng", "ing", "s", "ed"}), frozenset({"un", "re"}))
RARE = [
    "walking",
    "unseeing",
    "Anna",
    "Oslo",
    "1984",
    "e-mail",
    "boats",
    "NATO",
    "McX",
    "redone",
    "d'or",
    "%",
    "Å",
]
anything = st.text(st.characters(), max_size=20)
many = examples(300)


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    tokens = [(word, initial) for word in RARE for initial in (True, False)] * 10
    return Lexicon.build(["the", "anna", "dog", "Oslo", "(", "1/2", "'s"], tokens, MODEL)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("-LSB-", "["), ("-RSB-", "]"), ("-LCB-", "{"), ("-RCB-", "}"), ("“", "``"), ("”", "''"), ("’", "'"),
        ("‘", "`"), ("’s", "'s"), ("don’t", "don't"), ("1\\/2", "1/2"), ("\\*", "*"), ("a\\/b\\/c", "a/b/c"),
        ("dog", "dog"), ("(", "("), ("\\", "\\"), ("C:\\x", "C:\\x"), ("", ""),
    ],
)  # fmt: skip
def test_canonical(word, expected):
    assert canonical(word) == expected


@many
@given(anything | st.text("\\/*’'“-LSB[", max_size=10))
def test_canonical_is_settled(word):
    assert canonical(canonical(word)) == canonical(word)


@many
@given(anything, st.booleans(), st.booleans())
def test_chain_ends_in_unknown(word, initial, lower_known):
    chain = MODEL.chain(word, initial, lower_known)
    assert chain[-1] == UNKNOWN
    assert len(chain) >= 2
    assert len(set(chain)) == len(chain)


@many
@given(anything, anything, st.booleans())
def test_coarser_signatures_hold_for_more_words(word, other, initial):
    """Two words that share a signature share all coarser ones, in the same order."""
    one, two = MODEL.chain(word, initial), MODEL.chain(other, initial)
    for signature in set(one) & set(two):
        assert one[one.index(signature) :] == two[two.index(signature) :]


def test_chain_by_example():
    assert MODEL.chain("unseeing", False) == ["a *ing un*", "a *ing", "a *ng", "a *g", "a", "UNK"]
    assert MODEL.chain("ing", False) == ["a *ng", "a *g", "a", "UNK"]  # an ending leaves a letter before it
    assert MODEL.chain("1984", False) == ["#", "UNK"]
    assert SignatureModel().chain("unseeing", False) == ["a", "UNK"]
    assert MODEL.chain("The", True, lower_known=True)[-2] == "Aa<~"


@pytest.mark.parametrize(
    ("word", "initial", "expected"),
    [
        ("dog", False, "a"), ("Dog", False, "Aa"), ("Dog", True, "Aa<"), ("dog", True, "a"),
        ("DOG", False, "AA"), ("D", False, "A"), ("McX", False, "aA"), ("iPod", False, "aA"),
        ("3rd", False, "a#"),
        ("1,000", False, "#"), ("10:30", False, "#:"), ("mid-May", False, "aA-"), ("o'clock", False, "a'"),
        ("etc.", False, "a."),
        ("me@here.org", False, "a@"), ("...", False, "punctuation"), ("$", False, "punctuation"),
        ("日本", False, "xCJK"), ("Москва", False, "AaCYRILLIC"), ("ørsted", False, "a"),
        ("\u200b", False, "other"),
    ],
)  # fmt: skip
def test_shape(word, initial, expected):
    assert shape(word, initial) == expected


def test_order_of_signatures(lexicon):
    assert lexicon.signatures[-1] == UNKNOWN
    assert len(set(lexicon.signatures)) == len(lexicon.signatures)
    last = len(lexicon.signatures) - 1
    assert lexicon.parent[last] == last
    assert (lexicon.parent[:-1] > np.arange(last)).all()
    for number, signature in enumerate(lexicon.signatures[:-1]):
        above = lexicon.signatures[lexicon.parent[number]]
        # Coarser: the tail of a chain in which the finer one stands just before.
        chains = [
            MODEL.chain(word, initial, flag) for word in RARE for initial in (True, False) for flag in (True, False)
        ]
        assert any((signature, above) in pairwise(chain) for chain in chains)
    for signature in range(last + 1):
        chain = list(lexicon.chain(signature))
        assert chain[0] == signature
        assert chain[-1] == last
        assert len(set(chain)) == len(chain)


def test_terminals(lexicon):
    n = lexicon.n_words
    assert n == 7
    assert lexicon.n_terminals == 7 + len(lexicon.signatures)
    for number, word in enumerate(lexicon.words):
        assert lexicon.terminal(word, False) == lexicon.terminal(word, True) == number
        assert lexicon.name(number) == word
    assert lexicon.name(lexicon.terminal("talking", False)) == "<a *ing>"
    assert lexicon.name(lexicon.terminal("unfeeling", False)) == "<a *ing un*>"
    assert lexicon.name(lexicon.terminal("Berta", False)) == "<Aa>"
    assert lexicon.name(lexicon.terminal("Berta", True)) == "<Aa<>"
    assert lexicon.name(lexicon.terminal("2024", False)) == "<#>"
    assert lexicon.name(lexicon.terminal("Anna", True)) == "<Aa<~>"  # "anna" is known
    assert lexicon.name(lexicon.terminal("日本", False)) == "<UNK>"  # never seen among the rare words
    assert lexicon.terminal("1\\/2", False) == lexicon.words.index("1/2")
    assert lexicon.terminal("’s", False) == lexicon.words.index("'s")
    np.testing.assert_array_equal(
        lexicon.terminals(["Berta", "Berta", "dog"]),
        [lexicon.terminal("Berta", True), lexicon.terminal("Berta", False), lexicon.words.index("dog")],
    )
    assert lexicon.terminals([]).shape == (0,)


def test_known_words_have_the_signature_they_would_have(lexicon):
    names = {word: lexicon.signatures[lexicon.word_signature[number]] for number, word in enumerate(lexicon.words)}
    assert names["dog"] == "a *g"
    assert names["Oslo"] == "Aa"
    assert names["the"] == "a"


@many
@given(anything, st.booleans())
def test_odd_words_never_fail(lexicon, word, initial):
    terminal = lexicon.terminal(word, initial)
    assert 0 <= terminal < lexicon.n_terminals
    assert lexicon.name(terminal)
    model = SignatureModel.learn(count_tags([(word, "N", 1.0), (word, "V", 2.0), ("dog", "N", 1.0)]))
    again = Lexicon.build(["dog"], [(word, initial), ("dog", True)] * 5, model)
    assert again.signatures[-1] == UNKNOWN
    assert again.signature(word, initial) < len(again.signatures)


def test_no_rare_words():
    lexicon = Lexicon.build(["a"], [], SignatureModel())
    assert lexicon.signatures == [UNKNOWN]
    assert lexicon.terminal("anything", False) == 1


def test_arrays_round_trip(lexicon):
    again = Lexicon.from_arrays(lexicon.to_arrays())
    assert again.words == lexicon.words
    assert again.signatures == lexicon.signatures
    assert again.model == lexicon.model
    np.testing.assert_array_equal(again.parent, lexicon.parent)
    np.testing.assert_array_equal(again.word_signature, lexicon.word_signature)
    for word in (*RARE, "singing", "Zoë"):
        assert again.terminal(word, True) == lexicon.terminal(word, True)


def test_endings_are_learned_where_they_tell_tags_apart():
    stems = ["bal", "cor", "dun", "fel", "gam", "hop", "jun", "kel", "lor", "mip"] * 2
    stems = [stem + letter for stem, letter in zip(stems, "aeiouaeiouyaeiouyaei", strict=True)]
    pairs = [(stem + "zed", "V", 1.0) for stem in stems] + [(stem + "tor", "N", 1.0) for stem in stems]
    model = SignatureModel.learn(count_tags(pairs))
    assert {"d", "r"} <= model.endings
    assert not any(len(ending) > 1 for ending in model.endings)  # longer ones say nothing more
    assert model.beginnings == frozenset()
    noise = SignatureModel.learn(count_tags([(word, tag, 1.0) for word, _, _ in pairs for tag in ("N", "V")]))
    assert noise == SignatureModel(stand_ins=True)


def test_count_tags():
    assert count_tags([("a", "N", 1.0), ("a", "N", 2.0), ("b", "V", 1.0)]) == {
        "a": {"N": 3.0},
        "b": {"V": 1.0},
    }


@pytest.mark.parametrize(
    ("word", "initial", "lower_known", "signature"),
    [
        ("rebuilding", False, False, "UNK-LC-ing"),
        ("Rebuilding", True, False, "UNK-INITC-ing"),
        ("Rebuilding", True, True, "UNK-INITC-KNOWNLC-ing"),
        ("Rebuilding", False, True, "UNK-CAPS-ing"),
        ("McDonald", True, False, "UNK-CAPS"),
        ("1990s", False, False, "UNK-LC-NUM-s"),
        ("3-D", False, False, "UNK-CAPS-NUM-DASH"),
        ("12", False, False, "UNK-NUM"),
        ("--", False, False, "UNK-DASH"),
        ("?!", False, False, "UNK-OTHER"),
        ("class", False, False, "UNK-LC"),
        ("this", False, False, "UNK-LC"),
        ("bus", False, False, "UNK-LC"),
        ("cats", False, False, "UNK-LC-s"),
        ("is", False, False, "UNK-LC"),
        ("quickly", False, False, "UNK-LC-ly"),
        ("city", False, False, "UNK-LC"),
        ("obscurity", False, False, "UNK-LC-ity"),
        ("re-opened", False, False, "UNK-LC-DASH"),
        ("B2Bing", False, False, "UNK-CAPS-NUM"),
        ("", False, False, "UNK-OTHER"),
    ],
)
def test_signatures_of_berkeleyparser(word, initial, lower_known, signature):
    assert BerkeleySignatures().chain(word, initial, lower_known) == [signature, UNKNOWN]


def test_the_scheme_of_signatures_is_stored_by_name():
    lexicon = Lexicon.build(["dogs"], [("cats", False)] * 3, BerkeleySignatures())
    arrays = lexicon.to_arrays()
    again = Lexicon.from_arrays(arrays)
    assert again.model == BerkeleySignatures()
    assert again.name(again.terminal("hats", False)) == "<UNK-LC-s>"
    assert "lexicon.scheme" not in Lexicon.build(["dogs"], [], MODEL).to_arrays()
    with pytest.raises(ModelError, match="no scheme of signatures is called 'mine'"):
        Lexicon.from_arrays({**arrays, "lexicon.scheme": pack_strings(["mine"])})
