"""SimplePCFG without trees: unlabelled F1 from words and from word classes, next to right-branching trees.

    python benchmarks/simple_pcfg.py DIRECTORY [DIRECTORY ...] [--configurations words ...] [--seeds 0 1 2]
        [--text brown.txt.gz] [--text-sentences N] [--records]
    python benchmarks/simple_pcfg.py DIRECTORY --speed [--nonterminals 256]

A model is learned from the sentences of all trees of a directory (train, dev and test), without their brackets, and
with `words-text` from those of a plain text, too. It is scored on the test trees and on all of them. F1 is the mean of
the sentences, without punctuation, spans of whole sentences and single words. Settings were chosen on dev.mrg of
wsj-sample. `words-no-marks` ignores punctuation. Seconds are the processor's, one thread.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from _records import add, digest_files, is_current, measured, read
from _requirements import require
from sapwood.evaluate.unlabelled import UnlabelledResult, UnlabelledScorer
from sapwood.induction.estep import SpanFactors
from sapwood.induction.evaluation import Gold, right_branching, score_model, segments_to_the_right
from sapwood.induction.gradient_training import TrainingSettings, train_network
from sapwood.induction.learners import SimplePCFG
from sapwood.induction.models.rule_network import initial_parameters
from sapwood.induction.text import make_text, read_sentences
from sapwood.runtime.executor import LOCAL
from sapwood.trees.tree import Tree

PARTS = ("train", "dev", "test")
# How the text is made, and settings of the learner.
CONFIGURATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "words": ({"vocabulary": 10_000}, {}),
    "words-text": ({"vocabulary": 10_000}, {}),
    "words-no-marks": ({"vocabulary": 10_000}, {"across_begin": 1.0, "across_end": 1.0}),
    "words-random-start": ({"vocabulary": 10_000}, {"start": "random", "elsewhere": 1.0}),
    "words-256": ({"vocabulary": 10_000}, {"nonterminals": 256, "preterminals": 256}),
    "classes": ({}, {}),
}
BASELINES = ("right-branching", "right-branching-segments")


def figures_of(name: str, result: UnlabelledResult) -> dict[str, float]:
    """Return the figures of all sentences and of those of up to 10 and 40 words."""
    found = {}
    for suffix, part in (("", result), ("_40", result.up_to(40)), ("_10", result.up_to(10))):
        found[f"{name}{suffix}_f1"] = part.sentence_f1
        found[f"{name}{suffix}_corpus_f1"] = part.f1
    return found


def baseline(name: str, gold: list[Gold]) -> UnlabelledResult:
    """Return the scores of trees that nothing was learned for."""
    scorer = UnlabelledScorer()
    for one in gold:
        segments = name.endswith("segments") and one.divided is not None
        spans = segments_to_the_right(one.divided or []) if segments else right_branching(len(one.tokens))
        scorer.add(len(one.tokens), spans=(one.spans or set(), spans))
    return scorer.result()


def speed(directory: Path, nonterminals: int, records: bool) -> None:
    """Print the seconds and the memory of an epoch; with `records`, write them."""
    sentences = [one for part in PARTS for one in read_sentences(directory / f"{part}.mrg")]
    text = make_text(sentences, vocabulary=10_000).up_to(40)
    frequency = np.bincount(text.terminal, minlength=len(text.terminals)).astype(float)
    parameters = initial_parameters(
        nonterminals, 2 * nonterminals, SimplePCFG.embedding, frequency, np.random.default_rng(0)
    )
    settings = TrainingSettings(
        (40,), 1, 0, SimplePCFG.batch_sentences, SimplePCFG.learning_rate, 0, SpanFactors(0.2, 0.02)
    )
    began = time.process_time()
    train_network(text, parameters, settings, LOCAL)
    seconds = time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{nonterminals} nonterminals, {text.n_sentences:,} sentences: {seconds:.0f} s, {memory:.2f} GB")
    if records:
        name, command = f"{directory.name}/simple-pcfg-epoch-{nonterminals}", "python benchmarks/simple_pcfg.py DATA/"
        command += f"{directory.name} --speed --nonterminals {nonterminals} --records"
        figures = {"epoch_cpu_s": seconds, "memory_gb": memory, "sentences": float(text.n_sentences)}
        digest = digest_files([directory / f"{part}.mrg" for part in PARTS])
        add(measured(name, figures, seed=0, command=command, data=digest, describes=None))


def main() -> None:
    """Learn, score and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="+", type=Path)
    parser.add_argument("--configurations", nargs="+", choices=[*BASELINES, *CONFIGURATIONS], default=["words"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--text", type=Path, help="plain text to learn from as well, for words-text")
    parser.add_argument("--text-sentences", type=int, default=10_000, help="evenly spaced sentences of it")
    parser.add_argument("--records", action="store_true", help="write the figures to benchmarks/results.jsonl")
    parser.add_argument("--speed", action="store_true", help="time one epoch")
    parser.add_argument("--nonterminals", type=int, default=256, help="for --speed")
    options = parser.parse_args()
    require(treebanks=options.directory, parts=PARTS)
    for directory in options.directory:
        if options.speed:
            speed(directory, options.nonterminals, options.records)
            continue
        sentences = {part: list(read_sentences(directory / f"{part}.mrg")) for part in PARTS}
        gold = {
            part: [one for tree in trees if isinstance(tree, Tree) and (one := Gold.of_tree(tree)) is not None]
            for part, trees in sentences.items()
        }
        gold = {"dev": gold["dev"], "test": gold["test"], "all": [one for part in PARTS for one in gold[part]]}
        gold["all"] = gold["all"][:: -(-len(gold["all"]) // 1000)]
        for name in options.configurations:
            for seed in options.seeds[:1] if name in BASELINES else options.seeds:
                paths = [directory / f"{part}.mrg" for part in PARTS]
                paths += [options.text] if name == "words-text" else []
                digest = digest_files(paths)
                record = f"{directory.name}/simple-pcfg-{name}"
                if options.records and is_current(read(), record, seed, digest):
                    continue
                figures: dict[str, float] = {}
                if name in BASELINES:
                    for part, rows in gold.items():
                        figures |= figures_of(part, baseline(name, rows))
                else:
                    made, settings = CONFIGURATIONS[name]
                    whole = [one for part in PARTS for one in sentences[part]]
                    if name == "words-text":
                        more = list(read_sentences(options.text))
                        whole += more[:: -(-len(more) // options.text_sentences)]
                    began = time.process_time()
                    model = SimplePCFG(random_state=seed, **settings).fit(make_text(whole, **made))
                    figures["train_cpu_s"] = time.process_time() - began
                    for part, rows in gold.items():
                        figures |= figures_of(part, score_model(model, rows, tags=False))
                print(record, seed, {key: round(value, 1) for key, value in figures.items()}, flush=True)
                if options.records:
                    command = f"python benchmarks/simple_pcfg.py DATA/{directory.name} --configurations {name}"
                    command += " --text DATA/brown/brown.txt.gz" if name == "words-text" else ""
                    describes = {"kind": "induce", "model": "simple-pcfg"}
                    add(
                        measured(
                            record, figures, seed=seed, command=f"{command} --seeds {seed} --records", data=digest,
                            describes=None if name in BASELINES else describes,
                        )
                    )  # fmt: skip


if __name__ == "__main__":
    main()
