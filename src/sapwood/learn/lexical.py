"""Lexical probabilities that hold for rare and unknown words too.

Everything is built from a joint distribution over tags and words. For a known word `w` seen `c(w)`
times the tag is smoothed towards the signature `s` that the word would have if it were unknown,

    P(t | w) = (c(t, w) + k P(t | s)) / (c(w) + k),

where `P(t | s)` is estimated on the treebank's rare words and itself smoothed towards the coarser
signatures of the chain. The share of unseen words is Good and Turing's: as large as that of words
seen once, spread over signatures as those are. Composite preterminals `a` of a tag (`NN`, `NP|NN`,
...) divide the mass that is the word's own by `P(a | t, w) = (c(a, w) + k' P(a | t)) / (c(t, w) + k')`,
and what comes from the signature by `P(a | t)`.
Each preterminal's weights sum to one over all words and signatures (checked by `validate`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sapwood.grammar.emissions import Emissions, run_offsets
from sapwood.trees.corpus import Corpus
from sapwood.trees.lexicon import Lexicon, canonical
from sapwood.trees.signatures import SignatureModel, count_tags
from sapwood.trees.transform import symbol_labels


@dataclass(frozen=True)
class LexicalSettings:
    """How lexical statistics are smoothed; the defaults were chosen on development data.

    Parameters
    ----------
    rare
        Words seen at most this often teach the signatures.
    frequent
        Words seen more often than this are not smoothed by their signature.
    word_strength
        `k`: how many observations the signature is worth beside the word's own.
    signature_strength
        The same for a signature beside the next coarser one.
    composite_strength
        `k'`: the same for a tag's usual division among composites beside the word's own.
    """

    rare: int = 2
    frequent: int = 100
    word_strength: float = 0.5
    signature_strength: float = 2.0
    composite_strength: float = 20.0


def learn_lexicon(corpus: Corpus, settings: LexicalSettings) -> tuple[Lexicon, np.ndarray, np.ndarray]:
    """Choose signatures and number the words.

    Returns the lexicon; `(words of the corpus,)` int32, the lexicon's number for each corpus word;
    and `(leaves,)` int32, the signature of each leaf whose word is rare, -1 for the others.
    """
    spellings = [canonical(word) for word in corpus.words]
    numbers: dict[str, int] = {}
    word_map = np.array([numbers.setdefault(spelling, len(numbers)) for spelling in spellings], np.int32)
    names = list(numbers)
    leaves = np.flatnonzero(corpus.word >= 0)
    leaf_word = word_map[corpus.word[leaves]]
    counts = np.bincount(leaf_word, minlength=len(names))
    symbol_tag = [symbol_labels(name)[-1] for name in corpus.symbols[corpus.n_interminals :]]
    rare = np.flatnonzero(counts[leaf_word] <= settings.rare)
    rare_words = [names[number] for number in leaf_word[rare]]
    rare_tags = [symbol_tag[number - corpus.n_interminals] for number in corpus.symbol[leaves[rare]]]
    model = SignatureModel.learn(count_tags((w, t, 1.0) for w, t in zip(rare_words, rare_tags, strict=True)))
    initial = (corpus.start[leaves[rare]] == 0).tolist()
    lexicon = Lexicon.build(names, zip(rare_words, initial, strict=True), model)
    signature = np.full(len(leaves), -1, np.int32)
    signature[rare] = [lexicon.signature(w, first) for w, first in zip(rare_words, initial, strict=True)]
    return lexicon, word_map, signature


def learn_emissions(corpus: Corpus, settings: LexicalSettings) -> Emissions:
    """Estimate the lexical weights of a one-state grammar."""
    lexicon, word_map, leaf_signature = learn_lexicon(corpus, settings)
    preterminals = corpus.symbols[corpus.n_interminals :]
    tag_names = sorted({symbol_labels(name)[-1] for name in preterminals})
    tag_ids = {name: number for number, name in enumerate(tag_names)}
    tag_of = np.array([tag_ids[symbol_labels(name)[-1]] for name in preterminals], np.int32)
    n_tags, n_words, n_leaf = len(tag_names), lexicon.n_words, len(preterminals)

    leaves = np.flatnonzero(corpus.word >= 0)
    leaf_symbol = corpus.symbol[leaves] - corpus.n_interminals
    leaf_tag = tag_of[leaf_symbol]
    leaf_word = word_map[corpus.word[leaves]]
    word_counts = np.bincount(leaf_word, minlength=n_words).astype(float)
    total = float(len(leaves))

    sig, sig_tag, sig_value, climb = signature_tags(
        lexicon, leaf_signature, leaf_tag, n_tags, settings.signature_strength
    )

    # The share of unseen words, and how it is spread over signatures.
    once = (word_counts[leaf_word] == 1) & (leaf_signature >= 0)
    unseen = min(max(once.sum(), 1.0) / total, 0.5)
    spread = np.bincount(leaf_signature[once], minlength=len(lexicon.signatures)) + 0.1
    spread = spread / spread.sum()

    strength = np.where(word_counts <= settings.frequent, settings.word_strength, 0.0)
    word_share = (1 - unseen) * word_counts / total
    backoff = np.concatenate([word_share * strength / (word_counts + strength), unseen * spread])

    # Joint weights of (tag, word) from the word's own observations, sorted by word.
    pair_word, pair_tag, pair_count = _count_pairs(leaf_word, leaf_tag, n_tags)
    own = word_share[pair_word] * pair_count / (word_counts + strength)[pair_word]
    k = settings.composite_strength
    tag_part = own * k / (pair_count + k)
    symbol_word, symbol, symbol_count = _count_pairs(leaf_word, leaf_symbol, n_leaf)
    at = np.searchsorted(pair_word * n_tags + pair_tag, symbol_word * n_tags + tag_of[symbol])
    own_part = own[at] * symbol_count / (pair_count + k)[at]

    # Mass of each tag through its shared part, of each preterminal in all; then conditional weights.
    used = np.bincount(lexicon.word_signature, weights=backoff[:n_words], minlength=len(lexicon.signatures))
    used += backoff[n_words:]
    for signature, above in enumerate(lexicon.parent[:-1]):
        used[above] += used[signature] * climb[signature]
    shared_mass = np.bincount(pair_tag, weights=tag_part, minlength=n_tags)
    shared_mass += np.bincount(sig_tag, weights=used[sig] * sig_value, minlength=n_tags)
    symbol_total = np.bincount(leaf_symbol, minlength=n_leaf)
    division = symbol_total / np.bincount(leaf_tag, minlength=n_tags)[tag_of]
    mass = np.bincount(symbol, weights=own_part, minlength=n_leaf) + shared_mass[tag_of] * division

    tag_terminal = np.concatenate([pair_word, n_words + sig])
    return Emissions(
        lexicon=lexicon,
        states=np.ones(n_leaf, np.int32),
        offsets=run_offsets(symbol_word, lexicon.n_terminals),
        symbol=symbol.astype(np.int32),
        values=own_part / mass[symbol],
        backoff=backoff,
        climb=climb,
        tags=tag_names,
        tag_of=tag_of,
        share=division / mass,
        tag_offsets=run_offsets(tag_terminal, lexicon.n_terminals),
        tag=np.concatenate([pair_tag, sig_tag]).astype(np.int32),
        tag_values=np.concatenate([tag_part, sig_value]),
    )


def signature_tags(
    lexicon: Lexicon, leaf_signature: np.ndarray, leaf_tag: np.ndarray, n_tags: int, strength: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return `P(t | s)` as a chain: the sparse own parts `(signature, tag, value)` and `climb`.

    `P(t | s) = own(t, s) + climb(s) P(t | parent(s))`. Words whose finest signature is `s` count most: a word in `-t`
    that is not in `-est` says more about other such words than superlatives do. They are smoothed towards all words
    that have the signature, and those towards the next coarser one.
    """
    rare = leaf_signature >= 0
    if not rare.any():  # no rare words at all: unknown words may have any tag
        leaf_signature, rare = np.full_like(leaf_signature, len(lexicon.signatures) - 1), ~rare
    tokens, tags = leaf_signature[rare].astype(np.int64), leaf_tag[rare]
    keys = []
    while len(tokens):  # climb the chain of all tokens at once
        keys.append(tokens * n_tags + tags)
        above = lexicon.parent[tokens]
        tokens, tags = above[above != tokens].astype(np.int64), tags[above != tokens]
    n_signatures = len(lexicon.signatures)
    distinct, own = np.unique(np.concatenate(keys), return_inverse=True)
    everything = np.bincount(own).astype(float)
    finest = np.bincount(own[: len(keys[0])], minlength=len(distinct)).astype(float)
    signature, tag = distinct // n_tags, distinct % n_tags
    all_total = np.bincount(signature, weights=everything, minlength=n_signatures)
    own_total = np.bincount(signature, weights=finest, minlength=n_signatures)
    strengths = np.full(n_signatures, strength)
    strengths[-1] = 0.0
    below = strength / (own_total + strength)
    part = (everything / (all_total + strengths)[signature]) * below[signature] + finest / (own_total + strength)[
        signature
    ]
    return signature, tag, part, below * strengths / (all_total + strengths)


def _count_pairs(first: np.ndarray, second: np.ndarray, n_second: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct pairs in order and their counts."""
    keys, counts = np.unique(first.astype(np.int64) * n_second + second, return_counts=True)
    return keys // n_second, keys % n_second, counts.astype(float)
