"""How fast an E-step on observed trees is, beside the matrix product of the same machine.

    python benchmarks/observed.py TREEBANK [--states 1 2 4 8 16] [--threads 1 2]

The grammars have the treebank's rules and random weights; times are the best of three, without compiling.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the matrix product is to show one core's limit

import numpy as np

from _machine import best_time, matrix_product_speed
from _requirements import require
from sapwood.grammar.tensor_grammar import TensorGrammar, plain_emissions
from sapwood.inference.estep.trees import TreeEStep
from sapwood.runtime.executor import Threads
from sapwood.trees.corpus import Corpus
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.transform import TreeTransform


def random_weights(corpus: Corpus, states: int) -> TensorGrammar:
    """Return a grammar with the corpus' rules, the same number of states everywhere and random weights."""
    rng = np.random.default_rng(states)
    sizes = np.full(len(corpus.symbols), states, np.int32)
    tags = corpus.symbols[corpus.n_interminals :]
    return TensorGrammar(
        symbols=corpus.symbols,
        n_interminals=corpus.n_interminals,
        states=sizes,
        rules=corpus.rules,
        tensors=rng.random(len(corpus.rules) * states**3),
        root=rng.random(len(corpus.symbols) * states),
        emissions=plain_emissions([], tags, sizes[corpus.n_interminals :], {}),
        probabilistic=False,
        occupancy=np.ones(len(corpus.symbols) * states),
        rule_counts=corpus.rule_counts().astype(float),
    )


def operations(corpus: Corpus, states: int) -> float:
    """Return the floating-point operations of one E-step at the inner nodes."""
    cube, square = states**3, states**2
    inside = square + 2 * cube
    outside = 2 * cube + 4 * square
    expected = square + 2 * cube
    return float((corpus.rule >= 0).sum()) * (inside + outside + expected)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="How fast an E-step on observed trees is.")
    parser.add_argument("treebank")
    parser.add_argument("--states", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--vertical", type=int, default=1)
    parser.add_argument("--horizontal", type=int, default=0)
    options = parser.parse_args()
    require(files=[options.treebank])
    transform = TreeTransform(vertical=options.vertical, horizontal=options.horizontal)
    corpus = Corpus.from_trees(read_trees(options.treebank), transform=transform)
    begin = time.perf_counter()
    observed = TreeEStep(corpus)
    print(corpus)
    print(f"{corpus.n_nodes:,} nodes in {observed.n_shards} shards, prepared in {time.perf_counter() - begin:.2f} s")
    peak = matrix_product_speed()
    print(f"float32 matrix product, 512 x 512, one core: {peak:.0f} Gflop/s")
    print(f"{'states':>6} {'threads':>7} {'inside, s':>10} {'E-step, s':>10} {'Gflop/s':>8} {'of the product':>15}")
    for states in options.states:
        grammar = random_weights(corpus, states)
        table = np.random.default_rng(0).random(observed.lexical_offsets(grammar)[-1])
        for threads in options.threads:
            trees = TreeEStep(corpus, workers=Threads(threads))
            inside = best_time(lambda: trees.inside(grammar, lexical=table))  # noqa: B023
            whole = best_time(lambda: trees.expectations(grammar, lexical=table))  # noqa: B023
            speed = operations(corpus, states) / whole / 1e9
            share = speed / (peak * threads)
            print(f"{states:>6} {threads:>7} {inside:>10.3f} {whole:>10.3f} {speed:>8.1f} {share:>14.0%}")


if __name__ == "__main__":
    main()
