"""L-PCFG learning problem: a corpus prepared for latent states, and the conversion of weights to a grammar."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from sapwood import kernels
from sapwood.errors import UsageError
from sapwood.grammar.emissions import Emissions
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.estep.trees import Expectations
from sapwood.learn.lpcfg.lexical import Leaves, LexicalModel, LexicalSettings
from sapwood.learn.lpcfg.unary import expected_steps, fold, fold_weights, folded_rules, share_emissions, unfold
from sapwood.learn.lpcfg.weights import EMData, LatentWeights, WeightLayout, ranges
from sapwood.learn.semi_supervised.forests import WeightedForests, joint_vocabulary, pack_for_estep
from sapwood.runtime.executor import LOCAL, Executor
from sapwood.runtime.params import as_json
from sapwood.storage.shapes import Array, Bool, Float, Int, Int32, Int64, Shaped
from sapwood.trees.corpus import Corpus

Unaries = Literal["explicit", "collapsed"]
# Rule probabilities below this are dropped from grammars.
_TRACE = 1e-8
# Tolerance of sums of probabilities in single precision.
_TOLERANCE = 1e-4
# States of the reduced version of a real-valued grammar that is used for pruning.
_FIRST = 4


class LPCFGProblem:
    """A corpus prepared for latent states, and the conversion of weights to a grammar.

    Parameters
    ----------
    corpus
        The trees.
    unaries
        `explicit`: the last step of a unary chain is a rule with a matrix of its own (see `learn.unary`); `collapsed`:
        every chain is a symbol of its own.
    rare
        Words seen at most this often are replaced by their signature while states are learned.
    lexical
        Smoothing of lexical weights in the resulting grammar.
    workers
        Executor for computations over the corpus.
    sources
        Additional training data: forests over the corpus' symbols.

    Attributes
    ----------
    lost
        Number of sentences of each source without a tree under the rules of the trees.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        unaries: Unaries,
        rare: int,
        lexical: LexicalSettings,
        workers: Executor = LOCAL,
        sources: Sequence[WeightedForests] = (),
    ) -> None:
        self.corpus, self.workers = corpus, workers
        joint = replace(corpus, words=joint_vocabulary(corpus, sources)) if sources else corpus
        unfolded = unfold(joint) if unaries == "explicit" else None
        self.unfolded = unfolded if unfolded is not None and unfolded.has_steps else None
        packed = [pack_for_estep(source, joint, self.unfolded) for source in sources]
        self.lost = [source.lost for source in packed]
        trained, leaves = joint, Leaves.of_trees(joint)
        if self.unfolded is not None:
            trained = self.unfolded.corpus
            tags = self.unfolded.bottom[joint.symbol[joint.word >= 0]] - trained.n_interminals
            leaves = leaves._replace(preterminal=tags)
        for source in packed:
            found = source.leaves
            leaves = leaves.joined(Leaves(found.symbol - trained.n_interminals, *found[1:]))
        names = trained.symbols[trained.n_interminals : None if self.unfolded is None else -1]
        self.lexical = LexicalModel(joint, lexical, leaves, names)
        self.word_classes = self.lexical.word_classes(rare)
        if self.unfolded is not None:
            self.word_classes = np.append(self.word_classes, self.word_classes.max() + 1)
        self.trees = EMData(trained, self.word_classes, workers, packed)

    def expectations(self, weights: LatentWeights) -> Expectations:
        """Return expected counts and likelihoods."""
        return self.trees.expectations(weights)

    def splittable(self) -> Bool[Array, "symbols"]:
        """Return a mask of the symbols that can have hidden states."""
        possible = np.ones(len(self.trees.corpus.symbols), bool)
        if self.unfolded is not None:
            possible[self.unfolded.empty] = False
        return possible

    def wanted_states(self, states: int | Mapping[str, int], support: int) -> Int64[Array, "symbols"]:
        """Return the maximum number of states of each symbol, as `wanted_states`; one if it cannot have more."""
        wanted = wanted_states(states, self.trees.corpus.symbols, self.trees.symbol_counts(), support)
        return np.where(self.splittable(), wanted, 1)

    def grammar(
        self, weights: LatentWeights, info: Mapping[str, Any], levels: Sequence[Int[Array, "all_states"]] = ()
    ) -> TensorGrammar:
        """Return the grammar with these weights; lexical weights come from a last E-step over the corpus.

        `levels` are those of `TrainingState`.
        """
        expected = self.expectations(weights)
        corpus = self.corpus
        parts: dict[str, Any]
        if self.unfolded is None:
            emissions = self._emissions(weights.states[corpus.n_interminals :], expected.lexical)
            parts = {
                "states": weights.states,
                "rules": corpus.rules,
                "tensors": weights.tensors.copy(),
                "rule_counts": self.trees.rule_counts(),
                "root": weights.root,
                "occupancy": expected.occupancy,
                "levels": levels,
            }
        else:
            inner = self.unfolded.corpus.n_interminals
            tags = self._emissions(weights.states[inner:-1], expected.lexical[:-1])
            emissions = share_emissions(self.unfolded, tags)
            steps, occupancy = expected_steps(self.unfolded, weights, expected), expected.occupancy
            del expected  # larger than all that follows, but for the grammar itself
            rules = folded_rules(self.unfolded, self.trees.rule_counts())
            parts = vars(fold(self.unfolded, weights, steps, occupancy, rules))
            states = ranges(weights.state_offsets[self.unfolded.bottom], parts["states"])
            parts["levels"] = [level[states] for level in levels]
        # Most of the weights that EM leaves are negligible.
        kernels.drop_small(WeightLayout(parts["rules"], parts["states"]), _TRACE, parts["tensors"])
        parts["levels"] = tuple(level.astype(np.int32) for level in parts["levels"] if level.any())
        return build_grammar(corpus, self.lexical.settings, emissions, info, **parts, probabilistic=True).validate(
            _TOLERANCE
        )

    def _emissions(self, states: np.ndarray, counts: np.ndarray) -> Emissions:
        """Return lexical weights, given expected counts of states by pairs of preterminal and word."""
        model = self.lexical.recounted(states, counts) if self.trees.sources else self.lexical
        return model.emissions(states, counts)

    def real_grammar(
        self,
        states: Int32[Array, "symbols"],
        tensors: Sequence[Float[Array, "m_a m_b m_c"]],
        root: Sequence[Float[Array, "m_a"]],
        words: Float[Array, "word_weights"],
        means: Sequence[Float[Array, "m_a"]],
        info: Mapping[str, Any],
    ) -> TensorGrammar:
        """Return a real-valued grammar from weights over the symbols and rules of `trees.corpus`.

        Parameters
        ----------
        tensors, root
            By rule and by symbol.
        words
            Sums of outside vectors over the leaves of each pair of preterminal and word, one after another.
        means
            By symbol, the mean inside vector.
        """
        corpus = self.corpus
        parts: dict[str, Any]
        if self.unfolded is None:
            emissions = self.lexical.emissions(states[corpus.n_interminals :], words, real=True)
            counts = corpus.symbol_counts()
            parts = {
                "states": states,
                "rules": corpus.rules,
                "tensors": np.concatenate([tensor.ravel() for tensor in tensors] or [np.zeros(0)]),
                "rule_counts": corpus.rule_counts().astype(float),
                "root": np.concatenate(root),
                "occupancy": np.concatenate([count * mean for count, mean in zip(counts, means, strict=True)]),
            }
        else:
            inner = self.unfolded.corpus.n_interminals
            tags = self.lexical.emissions(states[inner:-1], words[:-1], real=True)
            emissions = share_emissions(self.unfolded, tags)
            parts = vars(fold_weights(self.unfolded, states, tensors, root, means))
        parts["tensors"] = parts["tensors"].astype(np.float32)
        # States are sorted by decreasing singular value: the first few are a grammar of their own.
        within = ranges(np.zeros_like(parts["states"]), parts["states"])
        parts["levels"] = (np.where(within < _FIRST, within, -1).astype(np.int32),)
        return build_grammar(corpus, self.lexical.settings, emissions, info, **parts, probabilistic=False).validate(
            _TOLERANCE
        )


def build_grammar(
    corpus: Corpus, lexical: LexicalSettings, emissions: Emissions, info: Mapping[str, Any], **parts: Any
) -> TensorGrammar:
    """Return the grammar of these parts over a corpus' symbols, with metadata of the corpus."""
    return TensorGrammar(
        symbols=corpus.symbols,
        n_interminals=corpus.n_interminals,
        emissions=emissions,
        normaliser=corpus.normaliser,
        transform=corpus.transform,
        info={
            **info,
            "training": {"trees": corpus.n_trees, "words": corpus.n_words, "digest": corpus.digest()},
            "lexical": as_json(lexical),
            "tokeniser": corpus.tokeniser_style(),
        },
        **parts,
    )


def wanted_states(
    states: int | Mapping[str, int], symbols: Sequence[str], counts: Shaped[Array, "symbols"], support: int
) -> Int64[Array, "symbols"]:
    """Return the maximum number of states of each symbol: at most one per `support` occurrences.

    In a mapping, `*` stands for all symbols that it does not name, which have one state otherwise.
    """
    if isinstance(states, Mapping):
        if unknown := sorted(set(states) - {*symbols, "*"}):
            near = difflib.get_close_matches(unknown[0], symbols, 3) or list(symbols)[:3]
            raise UsageError(
                f"states are given for {', '.join(unknown)}, but the trees have no such symbol; "
                f"symbols are, for example, {', '.join(near)}"
            )
        most = np.array([int(states.get(name, states.get("*", 1))) for name in symbols])
    else:
        most = np.full(len(symbols), int(states))
    if most.min() < 1:
        raise UsageError(f"states must be at least 1, not {most.min()}")
    return np.clip(counts // support, 1, most).astype(np.int64)
