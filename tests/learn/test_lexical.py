"""Lexical statistics against the formulas of the module's text, computed one by one."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_up import STEMS, made_up_treebank
from sapwood.grammar.emissions import Emissions
from sapwood.learn.lexical import LexicalSettings, learn_emissions, learn_lexicon
from sapwood.learn.pcfg import PCFG
from sapwood.trees.corpus import Corpus
from sapwood.trees.lexicon import Lexicon, canonical
from sapwood.trees.transform import TreeTransform, symbol_labels
from sapwood.trees.tree import Tree

DEFAULT = LexicalSettings()
SETTINGS = [
    DEFAULT,
    LexicalSettings(rare=1, frequent=2),
    LexicalSettings(rare=0),
    LexicalSettings(rare=100, frequent=0),
    LexicalSettings(word_strength=0.0),
    LexicalSettings(composite_strength=0.0),
    LexicalSettings(word_strength=10.0, signature_strength=0.1, composite_strength=100.0),
]


def corpus_of(*texts: str) -> Corpus:
    return Corpus.from_trees([Tree.parse(text) for text in texts])


class ByHand:
    """All that the module's text defines, with dictionaries and loops over tokens.

    Preterminals are named by their symbols. Signatures are looked up in the lexicon, which has tests of its own.
    """

    def __init__(self, corpus: Corpus, settings: LexicalSettings, lexicon: Lexicon) -> None:
        self.settings, self.lexicon = settings, lexicon
        # (preterminal, tag, word, first word of its sentence)
        self.tokens = [
            (node.label, symbol_labels(node.label)[-1], canonical(str(node.word)), index == 0)
            for number in range(corpus.n_trees)
            for index, node in enumerate(corpus.tree(number).preterminals())
        ]
        self.tag_of = {a: t for a, t, _, _ in self.tokens}
        self.c_w = Counter(w for _, _, w, _ in self.tokens)
        self.c_a = Counter(a for a, _, _, _ in self.tokens)
        self.c_t = Counter(t for _, t, _, _ in self.tokens)
        self.c_aw = Counter((a, w) for a, _, w, _ in self.tokens)
        self.c_tw = Counter((t, w) for _, t, w, _ in self.tokens)
        # Rare words teach the signatures: a token counts for its finest signature (f), and for all it has (c).
        self.f_s: Counter[int] = Counter()
        self.f_ts: Counter[tuple[str, int]] = Counter()
        self.c_s: Counter[int] = Counter()
        self.c_ts: Counter[tuple[str, int]] = Counter()
        once: Counter[int] = Counter()
        for _, t, w, initial in self.tokens:
            if self.c_w[w] <= settings.rare:
                signature = lexicon.signature(w, initial)
                once[signature] += self.c_w[w] == 1
                self.f_s[signature] += 1
                self.f_ts[t, signature] += 1
                for s in lexicon.chain(signature):
                    self.c_s[s] += 1
                    self.c_ts[t, s] += 1
        if not self.c_s:
            unknown = len(lexicon.signatures) - 1
            self.f_s[unknown] = self.c_s[unknown] = len(self.tokens)
            for t, count in self.c_t.items():
                self.f_ts[t, unknown] = self.c_ts[t, unknown] = count
        self.unseen = min(max(once.total(), 1) / len(self.tokens), 0.5)
        weights = [once[s] + 0.1 for s in range(len(lexicon.signatures))]
        self.spread = [weight / sum(weights) for weight in weights]

    def tag_of_signature(self, t: str, s: int) -> float:
        """Return P(t | s)."""
        above = int(self.lexicon.parent[s])
        strength = self.settings.signature_strength
        if above == s:
            every = self.c_ts[t, s] / self.c_s[s]
        else:
            every = (self.c_ts[t, s] + strength * self.tag_of_signature(t, above)) / (self.c_s[s] + strength)
        return (self.f_ts[t, s] + strength * every) / (self.f_s[s] + strength)

    def k(self, w: str) -> float:
        return self.settings.word_strength if self.c_w[w] <= self.settings.frequent else 0.0

    def tag_of_word(self, t: str, w: str) -> float:
        """Return P(t | w)."""
        signature = self.lexicon.signature(w, False)
        k = self.k(w)
        return (self.c_tw[t, w] + k * self.tag_of_signature(t, signature)) / (self.c_w[w] + k)

    def joint(self, a: str, terminal: int) -> float:
        """Return P(a, x) for a known word or a signature."""
        t = self.tag_of[a]
        division = self.c_a[a] / self.c_t[t]
        if terminal >= self.lexicon.n_words:
            s = terminal - self.lexicon.n_words
            return self.unseen * self.spread[s] * self.tag_of_signature(t, s) * division
        w = self.lexicon.words[terminal]
        word = (1 - self.unseen) * self.c_w[w] / len(self.tokens)
        k, strength = self.k(w), self.settings.composite_strength
        found = 0.0
        if self.c_tw[t, w]:
            own = self.c_tw[t, w] / (self.c_w[w] + k)
            found += own * (self.c_aw[a, w] + strength * division) / (self.c_tw[t, w] + strength)
        signature = self.lexicon.signature(w, False)
        return word * (found + k / (self.c_w[w] + k) * self.tag_of_signature(t, signature) * division)


def table(emissions: Emissions) -> np.ndarray:
    """Return `q(a -> x)`, terminals by preterminals."""
    return np.array([emissions.row(x) for x in range(emissions.lexicon.n_terminals)])


def check(corpus: Corpus, settings: LexicalSettings) -> None:
    emissions = learn_emissions(corpus, settings)
    lexicon = emissions.lexicon
    slow = ByHand(corpus, settings, lexicon)
    names = corpus.symbols[corpus.n_interminals :]
    joint = np.array([[slow.joint(a, x) for a in names] for x in range(lexicon.n_terminals)])
    assert joint.sum() == pytest.approx(1, abs=1e-12)  # a joint distribution over preterminals and terminals
    found = table(emissions)
    np.testing.assert_allclose(found, joint / joint.sum(axis=0), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found.sum(axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose(emissions.totals(), 1, rtol=1e-12)
    # P(t | w), from the weights and each preterminal's mass, is what the formula says.
    mass = joint.sum(axis=0)
    for x, word in enumerate(lexicon.words):
        by_tag: dict[str, float] = defaultdict(float)
        for a, weight in zip(names, found[x] * mass, strict=True):
            by_tag[slow.tag_of[a]] += weight
        total = sum(by_tag.values())
        for tag, weight in by_tag.items():
            assert weight / total == pytest.approx(slow.tag_of_word(tag, word), rel=1e-12, abs=1e-15)


TINY = [
    "(ROOT (S (NP (DT the) (N dog)) (VP (V barks))))",
    "(ROOT (S (NP (DT the) (N barks)) (VP (V annoy) (NP (N dog)))))",
    "(ROOT (S (NP (NNP Anna)) (VP (V runs) (ADV fast) (PP (P to) (NP (NNP Oslo))))))",
    "(ROOT (S (NP (N runs)) (VP (V are) (ADJ fast))))",
    "(ROOT (NP (CD 12) (N dogs)))",
    "(ROOT (S (NP (CD 12)) (VP (V run) (. .))))",
    "(ROOT (N Dog))",
    "(ROOT (S (NP (PRP I)) (VP (V don’t) (V run))))",
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_tiny_treebank_by_hand(settings):
    check(corpus_of(*TINY), settings)
    check(corpus_of(*TINY * 3), settings)


@pytest.mark.parametrize("settings", [DEFAULT, LexicalSettings(rare=2, frequent=5)])
def test_a_made_up_treebank_by_hand(settings):
    """Large enough for endings to be learned, so that signatures have chains."""
    corpus = Corpus.from_trees(made_up_treebank(120), transform=TreeTransform(vertical=2, annotate_tags=True))
    lexicon = learn_lexicon(corpus, settings)[0]
    assert any("*" in signature for signature in lexicon.signatures)
    check(corpus, settings)


words = st.sampled_from(["a", "b", "Anna", "Oslo", "12", "7", "well-known", "’", "'", "ing", ".", "A"])
leaves = st.builds(lambda tag, word: Tree(tag, word=word), st.sampled_from(["N", "V", "X"]), words)
phrases = st.builds(Tree, st.sampled_from(["S", "N", "P"]), st.lists(leaves, min_size=1, max_size=4))
small_trees = st.builds(Tree, st.just("S"), st.lists(leaves | phrases, min_size=1, max_size=4))


@given(st.lists(small_trees, min_size=1, max_size=8), st.sampled_from(SETTINGS))
def test_random_treebanks_by_hand(trees, settings):
    check(Corpus.from_trees(trees), settings)


@pytest.mark.parametrize("settings", SETTINGS)
def test_grammars_are_valid(settings):
    for trees in (made_up_treebank(200), [Tree.parse(TINY[0])], [Tree.parse("(N a)")]):
        grammar = PCFG(lexical=settings).fit(Corpus.from_trees(trees)).validate(tolerance=1e-9)
        np.testing.assert_allclose(grammar.emissions.totals(), 1, rtol=1e-9)


def test_unknown_words_of_different_shapes():
    corpus = Corpus.from_trees(made_up_treebank(400))
    emissions = learn_emissions(corpus, DEFAULT)
    lexicon = emissions.lexicon
    names = corpus.symbols[corpus.n_interminals :]
    counts = corpus.symbol_counts()[corpus.n_interminals :]
    assert "quill" not in STEMS
    for word, initial, tag in [
        ("quillora", False, "N"), ("quillild", False, "V"), ("quilluesk", False, "JJ"), ("Quill", False, "NNP"),
        ("Quill", True, "NNP"), ("31415", False, "CD"),
    ]:  # fmt: skip
        terminal = lexicon.terminal(word, initial)
        assert terminal >= lexicon.n_words, word
        posterior: Counter[str] = Counter()
        for name, weight in zip(names, emissions.row(terminal) * counts, strict=True):
            posterior[symbol_labels(name)[-1]] += weight
        best, _ = posterior.most_common(1)[0]
        assert best == tag, (word, posterior)
        assert posterior[tag] > 0.8 * posterior.total(), (word, posterior)


def weights_of(corpus: Corpus, word: str, settings: LexicalSettings = DEFAULT) -> dict[str, float]:
    emissions = learn_emissions(corpus, settings)
    names = corpus.symbols[corpus.n_interminals :]
    row = emissions.row(emissions.lexicon.terminal(word, False))
    return dict(zip(names, row.tolist(), strict=True))


COMPOSITE = ["(S (NP (DT the) (NN dog)) (VP (V runs)))", "(S (NP (NN rain)) (VP (V falls)))"] * 5


def test_composite_preterminals_share_statistics():
    """A word seen only as NN is possible as NP|NN, and the other way round; less so than where it was seen."""
    corpus = corpus_of(*COMPOSITE)
    plain = LexicalSettings(rare=0, word_strength=0.0)  # nothing but sharing makes this possible
    dog, rain = weights_of(corpus, "dog", plain), weights_of(corpus, "rain", plain)
    assert 0 < dog["NP|NN"] < dog["NN"]
    assert 0 < rain["NN"] < rain["NP|NN"]
    assert dog["VP|V"] == dog["DT"] == 0
    alone = replace(plain, composite_strength=0.0)
    assert weights_of(corpus, "dog", alone)["NP|NN"] == 0
    # The more often a word is seen, the less its tag's usual division counts.
    more = weights_of(corpus_of(*COMPOSITE * 20), "dog", plain)
    assert more["NP|NN"] < dog["NP|NN"]


def test_frequent_words_are_not_smoothed():
    trees = (
        ["(S (N sail) (V sail))"] * 3 + ["(S (N sail) (ADV now))"] * 2 + ["(S (N boat) (V sinks))", "(S (X x) (Y y))"]
    )
    corpus = corpus_of(*trees)
    # "sail" occurs eight times: five as N, three as V.
    smoothed = weights_of(corpus, "sail", LexicalSettings(frequent=8))
    exact = weights_of(corpus, "sail", LexicalSettings(frequent=7))
    assert all(smoothed[tag] > 0 for tag in ("N", "V", "X", "Y"))
    assert all(exact[tag] > 0 for tag in ("N", "V"))
    assert exact["X"] == exact["Y"] == exact["ADV"] == 0
    # A rare word leans on what rare words are.
    assert weights_of(corpus, "boat", LexicalSettings(frequent=7))["X"] > 0


def test_spellings_of_one_word_are_one_word():
    corpus = corpus_of("(S (N ”) (V don’t))", "(S (N '') (V don't))", "(S (N -LSB-) (V 1\\/2))")
    lexicon, word_map, signature = learn_lexicon(corpus, DEFAULT)
    assert sorted(lexicon.words) == ["''", "1/2", "[", "don't"]
    assert [lexicon.words[number] for number in word_map] == [canonical(word) for word in corpus.words]
    assert len(signature) == 6
    weights = weights_of(corpus, "don’t")
    assert weights == weights_of(corpus, "don't")
    assert weights["V"] > weights["N"]
