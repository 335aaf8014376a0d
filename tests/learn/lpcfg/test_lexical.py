"""Lexical statistics against the formulas of the module's text, computed one by one."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.made_up import STEMS, made_up_treebank
from sapwood.grammar.emissions import Emissions
from sapwood.learn.lpcfg.lexical import Leaves, LexicalModel, LexicalSettings, learn_lexicon
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.trees.corpus import Corpus
from sapwood.trees.lexicon.lexicon import Lexicon, canonical
from sapwood.trees.symbols import as_symbol
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree

DEFAULT = LexicalSettings()
SETTINGS = [
    DEFAULT,
    LexicalSettings(rare=1, frequent=2, signature_state_strength=5.0),
    LexicalSettings(rare=0),
    LexicalSettings(rare=0, signature_state_strength=0.0),
    LexicalSettings(rare=100, frequent=0, signature_state_strength=1.0),
    LexicalSettings(word_strength=0.0),
    LexicalSettings(state_strength=0.0),
    LexicalSettings(state_strength=0.0, signature_state_strength=0.0),
    LexicalSettings(word_strength=10.0, signature_strength=0.1, state_strength=100.0, signature_state_strength=0.3),
]


def corpus_of(*texts: str) -> Corpus:
    return Corpus.from_trees([Tree.parse(text) for text in texts])


class ByHand:
    """All that the module's text defines, with dictionaries and loops over tokens.

    Preterminals are named by their symbols, a state `z` is a pair of preterminal and number. `expected[a, w]` are the
    expected counts of the states of `a` with the corpus' word `w`. Signatures are looked up in the lexicon, which has
    tests of its own.
    """

    def __init__(
        self,
        corpus: Corpus,
        settings: LexicalSettings,
        lexicon: Lexicon,
        expected: dict[tuple[str, str], np.ndarray],
    ) -> None:
        self.settings, self.lexicon = settings, lexicon
        # (preterminal, tag, word as it is written, first word of its sentence)
        written = [
            (node.label, as_symbol(node.label).chain[-1], str(node.word), index == 0)
            for number in range(corpus.n_trees)
            for index, node in enumerate(corpus.tree(number).preterminals())
        ]
        self.tokens = [(a, t, canonical(w), initial) for a, t, w, initial in written]
        self.tag_of = {a: t for a, t, _, _ in self.tokens}
        self.c_w = Counter(w for _, _, w, _ in self.tokens)
        self.c_t = Counter(t for _, t, _, _ in self.tokens)
        self.c_tw = Counter((t, w) for _, t, w, _ in self.tokens)
        # Rare words teach the signatures: a token counts for its finest signature (f), and for all it has (c).
        self.f_s: Counter[int] = Counter()
        self.f_ts: Counter[tuple[str, int]] = Counter()
        self.c_s: Counter[int] = Counter()
        self.c_ts: Counter[tuple[str, int]] = Counter()
        self.rare_ts: Counter[tuple[str, int]] = Counter()
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
                    self.rare_ts[t, s] += 1
        if not self.c_s:
            unknown = len(lexicon.signatures) - 1
            self.f_s[unknown] = self.c_s[unknown] = len(self.tokens)
            for t, count in self.c_t.items():
                self.f_ts[t, unknown] = self.c_ts[t, unknown] = count
        self.unseen = min(max(once.total(), 1) / len(self.tokens), 0.5)
        weights = [once[s] + 0.1 for s in range(len(lexicon.signatures))]
        self.spread = [weight / sum(weights) for weight in weights]
        self.count_states(written, expected)

    def count_states(self, written: list, expected: dict[tuple[str, str], np.ndarray]) -> None:
        """Share the expected counts of each pair among its tokens, and add them up by state."""
        self.c_z: dict = defaultdict(float)
        self.c_zw: dict = defaultdict(float)
        self.c_zs: dict = defaultdict(float)
        times = Counter((a, w) for a, _, w, _ in written)
        total: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(1))
        for a, _, w, _ in dict.fromkeys((a, "", w, "") for a, _, w, _ in written):
            total[a] = total[a] + expected[a, w]
        for a, _, raw, initial in written:
            word = canonical(raw)
            for number, all_of_it in enumerate(total[a]):
                # A state that is never expected is like its whole preterminal.
                count = expected[a, raw][number] / times[a, raw] if all_of_it > 0 else 1.0
                z = (a, number)
                self.c_z[z] += count
                self.c_zw[z, word] += count
                if self.c_w[word] <= self.settings.rare:
                    for s in self.lexicon.chain(self.lexicon.signature(word, initial)):
                        self.c_zs[z, s] += count
        self.dead = {(a, number) for a, vector in total.items() for number in range(len(vector)) if vector[number] <= 0}

    def signature_parts(self, t: str, s: int) -> tuple[float, float]:
        """Return `own` and `climb` with P(t | s) = own + climb P(t | coarser signature)."""
        strength = self.settings.signature_strength
        above = strength if int(self.lexicon.parent[s]) != s else 0.0
        below = strength / (self.f_s[s] + strength)
        own = self.f_ts[t, s] / (self.f_s[s] + strength) + below * self.c_ts[t, s] / (self.c_s[s] + above)
        return own, below * above / (self.c_s[s] + above)

    def tag_of_signature(self, t: str, s: int) -> float:
        """Return P(t | s)."""
        own, climb = self.signature_parts(t, s)
        return own + (climb * self.tag_of_signature(t, int(self.lexicon.parent[s])) if climb else 0.0)

    def state_of_signature(self, z: tuple[str, int], s: int) -> float:
        """Return P(z, t | s)."""
        t, strength = self.tag_of[z[0]], self.settings.signature_state_strength
        own, climb = self.signature_parts(t, s)
        usual = self.c_z[z] / self.c_t[t]
        division = usual
        if strength is not None and self.rare_ts[t, s]:
            division = (self.c_zs[z, s] + strength * usual) / (self.rare_ts[t, s] + strength)
        return own * division + (climb * self.state_of_signature(z, int(self.lexicon.parent[s])) if climb else 0.0)

    def k(self, w: str) -> float:
        return self.settings.word_strength if self.c_w[w] <= self.settings.frequent else 0.0

    def tag_of_word(self, t: str, w: str) -> float:
        """Return P(t | w)."""
        signature = self.lexicon.signature(w, False)
        k = self.k(w)
        return (self.c_tw[t, w] + k * self.tag_of_signature(t, signature)) / (self.c_w[w] + k)

    def joint(self, z: tuple[str, int], terminal: int) -> float:
        """Return P(z, x) for a known word or a signature."""
        t = self.tag_of[z[0]]
        if terminal >= self.lexicon.n_words:
            s = terminal - self.lexicon.n_words
            return self.unseen * self.spread[s] * self.state_of_signature(z, s)
        w = self.lexicon.words[terminal]
        word = (1 - self.unseen) * self.c_w[w] / len(self.tokens)
        k, strength = self.k(w), self.settings.state_strength
        found = 0.0
        if self.c_tw[t, w]:
            own = self.c_tw[t, w] / (self.c_w[w] + k)
            division = self.c_zw[z, w] + strength * self.c_z[z] / self.c_t[t]
            found += own * division / (self.c_tw[t, w] + strength)
        signature = self.lexicon.signature(w, False)
        return word * (found + k / (self.c_w[w] + k) * self.state_of_signature(z, signature))


def table(emissions: Emissions) -> np.ndarray:
    """Return `q(a -> x)`, terminals by preterminals."""
    return np.array([emissions.row(x) for x in range(emissions.lexicon.n_terminals)])


def check(
    corpus: Corpus, settings: LexicalSettings, states: np.ndarray | None = None, counts: np.ndarray | None = None
) -> Emissions:
    emissions = LexicalModel(corpus, settings).emissions(states, counts)
    lexicon = emissions.lexicon
    names = corpus.symbols[corpus.n_interminals :]
    symbol, word, often = corpus.lexical_counts()
    sizes = np.ones(len(names), int) if states is None else states
    vectors = np.split(
        often.astype(float) if counts is None else counts, np.cumsum(sizes[symbol - len(corpus.symbols)])
    )
    expected = {
        (corpus.symbols[a], corpus.words[w]): vector for a, w, vector in zip(symbol, word, vectors[:-1], strict=True)
    }
    slow = ByHand(corpus, settings, lexicon, expected)
    every_state = [(a, number) for a, size in zip(names, sizes.tolist(), strict=True) for number in range(size)]
    joint = np.array([[slow.joint(z, x) for z in every_state] for x in range(lexicon.n_terminals)])
    alive = np.array([z not in slow.dead for z in every_state])
    # A joint distribution over states and terminals.
    assert joint[:, alive].sum() == pytest.approx(1, abs=1e-12)
    found = table(emissions)
    np.testing.assert_allclose(found, joint / joint.sum(axis=0), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found.sum(axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose(emissions.totals(), 1, rtol=1e-12)
    assert (found >= 0).all()
    # P(t | w), from the weights and each state's mass, is what the formula says: states do not change it.
    mass = joint.sum(axis=0) * alive
    for x, known in enumerate(lexicon.words):
        by_tag: dict[str, float] = defaultdict(float)
        for (a, _), weight in zip(every_state, found[x] * mass, strict=True):
            by_tag[slow.tag_of[a]] += weight
        total = sum(by_tag.values())
        for tag, weight in by_tag.items():
            assert weight / total == pytest.approx(slow.tag_of_word(tag, known), rel=1e-12, abs=1e-15)
    return emissions


def random_states(corpus: Corpus, seed: int, *, dead: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return one to four states for each preterminal, and each pair's count divided among them at random.

    With `dead`, states after the first are never expected as often as not.
    """
    rng = np.random.default_rng(seed)
    states = rng.integers(1, 5, size=len(corpus.symbols) - corpus.n_interminals).astype(np.int32)
    alive = [np.arange(size) < (rng.integers(1, size + 1) if dead else size) for size in states]
    symbol, _, often = corpus.lexical_counts()
    vectors = []
    for a, count in zip(symbol - corpus.n_interminals, often, strict=True):
        weights = rng.gamma(0.5, size=states[a]) * alive[a] + 1e-3 * (np.arange(states[a]) == 0)
        vectors.append(count * weights / weights.sum())
    return states, np.concatenate(vectors)


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
    emissions = check(corpus, settings)
    assert any("*" in signature for signature in emissions.lexicon.signatures)


words = st.sampled_from(["a", "b", "Anna", "Oslo", "12", "7", "well-known", "’", "'", "ing", ".", "A"])
leaves = st.builds(lambda tag, word: Tree(tag, word=word), st.sampled_from(["N", "V", "X"]), words)
phrases = st.builds(Tree, st.sampled_from(["S", "N", "P"]), st.lists(leaves, min_size=1, max_size=4))
small_trees = st.builds(Tree, st.just("S"), st.lists(leaves | phrases, min_size=1, max_size=4))


@given(st.lists(small_trees, min_size=1, max_size=8), st.sampled_from(SETTINGS))
def test_random_treebanks_by_hand(trees, settings):
    check(Corpus.from_trees(trees), settings)


@given(
    st.lists(small_trees, min_size=1, max_size=8), st.sampled_from(SETTINGS), st.integers(0, 2**32 - 1), st.booleans()
)
def test_random_states_by_hand(trees, settings, seed, dead):
    corpus = Corpus.from_trees(trees)
    check(corpus, settings, *random_states(corpus, seed, dead=dead))


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("dead", [False, True])
def test_states_of_a_made_up_treebank_by_hand(settings, dead):
    corpus = Corpus.from_trees(made_up_treebank(60))
    check(corpus, settings, *random_states(corpus, 3, dead=dead))


def test_preterminals_and_names_of_ones_own():
    """What preterminals are can be said from outside: here one for each tag, as in trees without unary chains."""
    corpus = Corpus.from_trees(made_up_treebank(80))
    tags = sorted({as_symbol(name).chain[-1] for name in corpus.symbols[corpus.n_interminals :]})
    leaf_tag = np.array([tags.index(as_symbol(corpus.symbols[a]).chain[-1]) for a in corpus.symbol[corpus.word >= 0]])
    leaves = Leaves.of_trees(corpus)._replace(preterminal=leaf_tag)
    emissions = LexicalModel(corpus, DEFAULT, leaves, tags).emissions()
    plain = [
        Tree(
            "ROOT",
            [Tree(as_symbol(leaf.label).chain[-1], word=leaf.word) for leaf in corpus.tree(index).preterminals()],
        )
        for index in range(corpus.n_trees)
    ]
    flat = Corpus.from_trees(plain)
    names = flat.symbols[flat.n_interminals :]
    expected = LexicalModel(flat, DEFAULT).emissions()
    assert emissions.tags == tags
    assert emissions.lexicon.words == expected.lexicon.words
    order = [names.index(tag) for tag in tags]
    np.testing.assert_allclose(table(emissions), table(expected)[:, order], rtol=1e-12)


@pytest.mark.parametrize("rare", [0, 1, 3, 1000])
def test_word_classes(rare):
    """Frequent words have a class of their own, rare ones of the same signature share one."""
    corpus = Corpus.from_trees(made_up_treebank(60) + [Tree.parse("(S (V don’t) (V don't))")] * 2)
    model = LexicalModel(corpus, DEFAULT)
    classes = model.word_classes(rare)
    counts = Counter(canonical(word) for index in range(corpus.n_trees) for word in corpus.sentence(index))
    by_class = defaultdict(set)
    for word, number in zip(corpus.words, classes.tolist(), strict=True):
        spelling = canonical(word)
        often = counts[spelling] > rare
        by_class[number].add(("word", spelling) if often else ("rare", model.lexicon.signature(spelling, False)))
    assert all(len(members) == 1 for members in by_class.values())
    assert len(set.union(*by_class.values())) == len(by_class)  # and no two classes are the same
    assert sorted(by_class) == list(range(len(by_class)))
    kinds = {kind for members in by_class.values() for kind, _ in members}
    assert kinds == ({"word"} if rare == 0 else {"rare"} if rare == 1000 else {"word", "rare"})


@pytest.mark.parametrize("settings", SETTINGS)
def test_grammars_are_valid(settings):
    for trees in (made_up_treebank(200), [Tree.parse(TINY[0])], [Tree.parse("(N a)")]):
        grammar = PCFG(lexical=settings).fit(Corpus.from_trees(trees)).validate(tolerance=1e-9)
        np.testing.assert_allclose(grammar.emissions.totals(), 1, rtol=1e-9)


def test_unknown_words_of_different_shapes():
    corpus = Corpus.from_trees(made_up_treebank(400))
    emissions = LexicalModel(corpus, DEFAULT).emissions()
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
            posterior[as_symbol(name).chain[-1]] += weight
        best, _ = posterior.most_common(1)[0]
        assert best == tag, (word, posterior)
        assert posterior[tag] > 0.8 * posterior.total(), (word, posterior)


def weights_of(corpus: Corpus, word: str, settings: LexicalSettings = DEFAULT) -> dict[str, float]:
    emissions = LexicalModel(corpus, settings).emissions()
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
    alone = replace(plain, state_strength=0.0)
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
    tags = np.arange(len(corpus.symbols) - corpus.n_interminals)
    lexicon, word_map, signature = learn_lexicon(corpus.words, DEFAULT, Leaves.of_trees(corpus), tags)
    assert sorted(lexicon.words) == ["''", "1/2", "[", "don't"]
    assert [lexicon.words[number] for number in word_map] == [canonical(word) for word in corpus.words]
    assert len(signature) == 6
    weights = weights_of(corpus, "don’t")
    assert weights == weights_of(corpus, "don't")
    assert weights["V"] > weights["N"]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("times", [0.5, 2.0, 3.0])
@pytest.mark.parametrize("trees", [5, 40])
def test_a_leaf_that_counts_more_than_once_is_as_many_leaves(settings, times, trees):
    """And two halves of a leaf are one."""
    corpus = Corpus.from_trees(made_up_treebank(trees))
    names = corpus.symbols[corpus.n_interminals :]
    leaves = Leaves.of_trees(corpus)
    weighted = leaves._replace(times=leaves.times * times)
    if times < 1:
        weighted, repeated = weighted.joined(weighted), leaves
    else:
        repeated = leaves.joined(*[leaves] * (int(times) - 1))
    one, other = (LexicalModel(corpus, settings, each, names) for each in (weighted, repeated))
    assert one.lexicon.signatures == other.lexicon.signatures
    assert one.lexicon.word_signature.tolist() == other.lexicon.word_signature.tolist()
    assert one.word_classes(2).tolist() == other.word_classes(2).tolist()
    found, expected = (each.emissions() for each in (one, other))
    assert found.values == pytest.approx(expected.values, rel=1e-9, abs=0)
    assert found.symbol.tolist() == expected.symbol.tolist()
