"""Taggers on a treebank's tags, all in one run: ours, hmmlearn's HMM, and NLTK's TnT, CRF and perceptron.

    python benchmarks/tagging.py DIRECTORY [--methods ...] [--seeds N ...] [--sentences N] [--results FILE]

The directory has train.mrg, dev.mrg and test.mrg; words and tags are read off the trees. Needs
`pip install nltk hmmlearn python-crfsuite`. Every row: accuracy on all words, on those that were in the training
sentences and on the others, each with an interval of 95 % (10,000 resamples of the sentences), processor seconds of
training, and test sentences a processor second, on one thread. What is random has a row for each seed. Done rows are
kept in the file of results and not made again.

    bigram             sapwood, --method pcfg: the HMM whose states are the tags
    em, spectral, pivot+em, split-merge
                       sapwood, right-branching trees with hidden states; best of dev where the method chooses
    split-merge+text   the same, with the words of the dev sentences as --text
    hmmlearn           CategoricalHMM with relative frequencies, 0.1 added; words seen once are known by sapwood's
                       signatures, because it has nothing for unknown words
    hmmlearn+em        the same after 5 iterations of EM on the training sentences without their tags
    tnt                nltk.tag.tnt.TnT, unknown words by nltk's AffixTagger (last three letters)
    crf                nltk.tag.crf.CRFTagger with its own features
    perceptron         nltk.tag.perceptron.PerceptronTagger, 5 iterations
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from _requirements import require
from sapwood.evaluate.tags import KINDS, TaggingResult
from sapwood.inference import Parser
from sapwood.learn.registry import make_learner
from sapwood.learn.semi_supervised.learner import SemiSupervised, UnlabelledText
from sapwood.learn.tagging import held_out_sequences, tagged_corpus
from sapwood.runtime.params import params_of
from sapwood.trees import Normaliser
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.lexicon.lexicon import Lexicon
from sapwood.trees.lexicon.signatures import SignatureModel, count_tags

Tagged = list[tuple[str, str]]
# From training and dev sequences to a function that tags sentences.
Tagger = Callable[[Sequence[list[str]]], list[list[str]]]
Trainer = Callable[[list[Tagged], list[Tagged], int], Tagger]


def read(path: Path, most: int | None) -> list[Tagged]:
    """Return the words and tags of a treebank's trees."""
    clean = (tree for tree in map(Normaliser(), read_trees(path)) if tree is not None)
    found = [list(zip(tree.words(), tree.tags(), strict=True)) for tree in clean]
    return found[:most]


def ours(method: str, text: bool = False, **settings: Any) -> Trainer:
    """Return how sapwood learns a tagger by a method."""

    def train(sequences: list[Tagged], dev: list[Tagged], seed: int) -> Tagger:
        learner = make_learner(method, **settings)
        if "random_state" in params_of(learner):
            learner = learner.replace(random_state=seed)
        corpus = tagged_corpus(learner, sequences)
        held_out = held_out_sequences(learner, dev, corpus)
        if text:
            learner = SemiSupervised.of(learner, text=UnlabelledText([[word for word, _ in pairs] for pairs in dev]))
        parser = Parser(learner.fit(corpus, dev=held_out))
        return lambda sentences: [result.tree.tags() for result in parser.parse(sentences)]  # type: ignore[union-attr]

    return train


def hmmlearn(iterations: int) -> Trainer:
    """Return how hmmlearn's categorical HMM is made of counts, and refined by EM."""

    def train(sequences: list[Tagged], dev: list[Tagged], seed: int) -> Tagger:  # noqa: ARG001
        from hmmlearn.hmm import CategoricalHMM

        counts = Counter(word for pairs in sequences for word, _ in pairs)
        once = [
            (word, place == 0, tag)
            for pairs in sequences
            for place, (word, tag) in enumerate(pairs)
            if counts[word] < 2
        ]
        model = SignatureModel.learn(count_tags((word, tag, 1.0) for word, _, tag in once))
        lexicon = Lexicon.build([w for w in counts if counts[w] > 1], [(w, first) for w, first, _ in once], model)

        def symbols(words: Sequence[str]) -> np.ndarray:
            return np.array([lexicon.terminal(word, place == 0) for place, word in enumerate(words)])

        tags = sorted({tag for pairs in sequences for _, tag in pairs})
        number = {tag: place for place, tag in enumerate(tags)}
        start = np.full(len(tags), 0.1)
        steps = np.full((len(tags), len(tags)), 0.1)
        emitted = np.full((len(tags), lexicon.n_terminals), 0.1 / lexicon.n_terminals)
        for pairs in sequences:
            states = [number[tag] for _, tag in pairs]
            start[states[0]] += 1
            np.add.at(steps, (states[:-1], states[1:]), 1)
            np.add.at(emitted, (states, symbols([word for word, _ in pairs])), 1)
        hmm = CategoricalHMM(len(tags), n_features=lexicon.n_terminals, init_params="", n_iter=iterations, tol=-np.inf)
        hmm.startprob_ = start / start.sum()
        hmm.transmat_ = steps / steps.sum(axis=1, keepdims=True)
        hmm.emissionprob_ = emitted / emitted.sum(axis=1, keepdims=True)
        if iterations:
            observed = [symbols([word for word, _ in pairs]) for pairs in sequences]
            hmm.fit(np.concatenate(observed)[:, None], [len(each) for each in observed])
        return lambda sentences: [
            [tags[state] for state in hmm.predict(symbols(words)[:, None]).tolist()] for words in sentences
        ]

    return train


def tnt(sequences: list[Tagged], dev: list[Tagged], seed: int) -> Tagger:  # noqa: ARG001
    """Train NLTK's TnT."""
    from nltk.tag import AffixTagger, DefaultTagger
    from nltk.tag.tnt import TnT

    affixes = AffixTagger(sequences, affix_length=-3, min_stem_length=1, backoff=DefaultTagger("NN"))
    tagger = TnT(unk=affixes, Trained=True, C=False)
    tagger.train(sequences)
    return lambda sentences: [[tag for _, tag in tagger.tag(words)] for words in sentences]


def crf(sequences: list[Tagged], dev: list[Tagged], seed: int) -> Tagger:  # noqa: ARG001
    """Train NLTK's CRF tagger (CRFsuite)."""
    import nltk.data
    from nltk.tag.crf import CRFTagger

    tagger = CRFTagger()
    # NLTK writes only below the folders of its data.
    folder = tempfile.mkdtemp()
    nltk.data.path.append(folder)
    tagger.train(sequences, f"{folder}/model.crf")
    return lambda sentences: [[tag for _, tag in pairs] for pairs in tagger.tag_sents(sentences)]


def perceptron(sequences: list[Tagged], dev: list[Tagged], seed: int) -> Tagger:  # noqa: ARG001
    """Train NLTK's averaged perceptron."""
    import random

    from nltk.tag.perceptron import PerceptronTagger

    random.seed(seed)
    tagger = PerceptronTagger(load=False)
    tagger.train(sequences, nr_iter=5)
    return lambda sentences: [[tag for _, tag in tagger.tag(words)] for words in sentences]


METHODS: dict[str, Trainer] = {
    "bigram": ours("pcfg"),
    "em": ours("em", states={"S": 64}, iterations=40),
    "spectral": ours("spectral", states=32),
    "pivot+em": ours("pivot+em", states=32),
    "split-merge": ours("split-merge"),
    "split-merge+text": ours("split-merge", text=True),
    "hmmlearn": hmmlearn(0),
    "hmmlearn+em": hmmlearn(5),
    "tnt": tnt,
    "crf": crf,
    "perceptron": perceptron,
}


# What depends on a seed.
RANDOM = ("em", "pivot+em", "split-merge", "split-merge+text", "perceptron")


def measure(name: str, sequences: list[Tagged], dev: list[Tagged], test: list[Tagged], seed: int) -> dict[str, Any]:
    """Train and test one tagger."""
    began = time.process_time()
    tag = METHODS[name](sequences, dev, seed)
    trained = time.process_time()
    found = tag([[word for word, _ in pairs] for pairs in test])
    seconds = time.process_time() - trained
    result = TaggingResult.of(test, found, {word for pairs in sequences for word, _ in pairs})
    row: dict[str, Any] = {"method": name, "seed": seed, "train": trained - began, "speed": len(test) / seconds}
    bounds = result.intervals()
    return row | {kind: [figure, *bounds[kind]] for kind, figure in result.figures().items()}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--sentences", type=int, help="train on so many of the training sentences")
    parser.add_argument("--results", type=Path, help="a file with rows that are done (JSON, one a line)")
    options = parser.parse_args()
    require(treebanks=[options.directory])
    sequences = read(options.directory / "train.mrg", options.sentences)
    dev, test = (read(options.directory / f"{part}.mrg", None) for part in ("dev", "test"))
    done: dict[tuple[str, int], dict[str, Any]] = {}
    if options.results is not None and options.results.exists():
        rows = map(json.loads, options.results.read_text().splitlines())
        done = {(row["method"], row["seed"]): row for row in rows}
    print(f"{options.directory.name}: {len(sequences)} training sentences")
    print("| method | seed | all | known | unknown | train CPU-s | sentences/s |\n|---|---|---|---|---|---|---|")
    for seed in options.seeds:
        for name in options.methods:
            key = (name, seed)
            if name not in RANDOM and seed != options.seeds[0]:
                continue
            if key not in done:
                done[key] = measure(name, sequences, dev, test, seed)
                if options.results is not None:
                    with options.results.open("a") as file:
                        file.write(json.dumps(done[key]) + "\n")
            row = done[key]
            cells = " | ".join("{:.2f} [{:.2f}, {:.2f}]".format(*row[kind]) for kind in KINDS)
            print(f"| {name} | {seed} | {cells} | {row['train']:.1f} | {row['speed']:.0f} |", flush=True)


if __name__ == "__main__":
    main()
