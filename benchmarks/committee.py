"""Committees of induced models, and the parsers distilled from them, on the words of a treebank.

    python benchmarks/committee.py DIRECTORY [--models FOLDER] [--members dmv:48 ...] [--seeds 0 1 2] [--tags]
        [--parts dev test] [--records]

The directory has train.mrg, dev.mrg and test.mrg. All members learn from the sentences of train.mrg, without its trees:
the recommended ones, or those of --members. Their averaged trees train one parser for each seed. Baselines, members,
committee and parsers are scored on the trees of the other parts, which were not learned from: unlabelled F1 of
sentences, without punctuation and spans of whole sentences, and the other figures of `sapwood induce --gold`. Members
and parsers are kept in --models, and those that are there already are used.

With --records each row is written to benchmarks/results.jsonl, as `wsj-sample-committee/committee` and so on
(`wsj-sample-tags-committee/...` with --tags); processor seconds are those of one thread.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import _records
from _requirements import PARTS, require
from sapwood.evaluate.unlabelled import UnlabelledResult
from sapwood.induction.evaluation import (
    Gold,
    InductionScores,
    assess_baselines,
    model_parser,
    score_induction,
    score_spans,
    segments_to_the_right,
)
from sapwood.induction.text import divided_tokens, make_text, read_sentences
from sapwood.induction.tree_averaging import SpanVotes
from sapwood.loading import load
from sapwood.pipeline.ensemble_induction import Member, induce_ensemble, make_members
from sapwood.trees.punctuation import is_punctuation
from sapwood.trees.tree import Tree

FIGURES = ("sentence_f1", "trivial_sentence_f1", "proper_f1", "f1")
LENGTHS = {"": None, "_40": 40, "_10": 10}


def figures_of(result: UnlabelledResult, part: str) -> dict[str, float]:
    """Return the scores of a part for sentences of all lengths, of up to 40 and of up to 10 words."""
    found: dict[str, float] = {}
    for suffix, length in LENGTHS.items():
        some = result if length is None else result.up_to(length)
        found |= {f"{part}{suffix}_{name}": getattr(some, name) for name in FIGURES}
    return found


def all_figures(scores: InductionScores, part: str) -> dict[str, float]:
    """Return unlabelled and labelled scores, and perplexity."""
    found = figures_of(scores.unlabelled, part)
    if scores.labels is not None:
        found[f"{part}_labelled_f1"] = scores.labels.labelled_f1()
        for name, measure in (("labels", scores.labels.labels()), ("tags", scores.labels.tags())):
            if measure is not None:
                found |= {f"{part}_{name}_homogeneity": measure.homogeneity, f"{part}_{name}_v": measure.v_measure}
    if scores.perplexity is not None:
        found[f"{part}_perplexity"] = scores.perplexity
    return found


class Study:
    """Gold standards of a treebank, and the models that are kept in a folder."""

    def __init__(self, directory: Path, folder: Path, parts: Sequence[str], tags: bool) -> None:
        self.name, self.folder, self.tags = f"{directory.name}{'-tags' if tags else ''}", folder, tags
        self.trees = {part: list(read_sentences(directory / f"{part}.mrg")) for part in {"train", *parts}}
        self.gold = {
            part: [one for tree in self.trees[part] if isinstance(tree, Tree) and (one := Gold.of_tree(tree))]
            for part in parts
        }

    def member(self, member: Member, number: int) -> tuple[Any, float]:
        """Return the model of a member and the processor seconds that it took, 0 if it is there already."""
        path, seconds = self.path(member, number), 0.0
        if not path.exists():
            assert member.inducer is not None
            began = time.process_time()
            terminals: Any = {"tags": self.tags, "classes": member.classes, "vocabulary": member.vocabulary}
            member.inducer.fit(make_text(self.trees["train"], **terminals)).save(path)
            seconds = time.process_time() - began
        return load(path), seconds

    def path(self, member: Member, number: int) -> Path:
        """Return the file of a member."""
        return self.folder / f"{self.name}-member-{number}-{member.name.replace(':', '-')}.sapwood"

    def rows(self, part: str) -> list[tuple[list[Any], list[bool]]]:
        """Return the tokens of a part without punctuation, and whether a mark was removed before each."""
        found = []
        for tree in self.trees[part]:
            assert isinstance(tree, Tree)
            tokens = list(zip(tree.words(), tree.tags(), strict=True))
            kept = [place for place, token in enumerate(tokens) if not is_punctuation(*token)]
            if kept:
                row = [(tokens[place][0], tokens[place][1] if self.tags else None) for place in kept]
                found.append((row, divided_tokens(tree.words(), kept)))
        return found


def main() -> None:
    """Learn, average, distil and score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--members", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["dev", "test"])
    parser.add_argument("--tags", action="store_true")
    parser.add_argument("--binary", action="store_true", help="distil from binary trees")
    parser.add_argument("--records", action="store_true")
    options = parser.parse_args()
    require(treebanks=[options.directory])
    data = _records.digest_files(options.directory / f"{part}.mrg" for part in PARTS)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.models or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        study = Study(options.directory, folder, options.parts, options.tags)

        def report(row: str, figures: Mapping[str, float], seed: int = 0) -> None:
            shown = {name: f"{value:.1f}" for name, value in figures.items() if name.endswith("_f1") or "_s" in name}
            print(row, seed, {name: text for name, text in shown.items() if "trivial" not in name}, flush=True)
            if options.records:
                words = ["python benchmarks/committee.py", f"DATA/{options.directory.name}"]
                words += ["--tags"] * options.tags + (["--members", *options.members] if options.members else [])
                command = " ".join([*words, f"--seeds {seed}", "--records"])
                record = _records.measured(
                    f"{study.name}-committee/{row}", figures, seed=seed, command=command, data=data, describes=None
                )
                _records.add(record)

        baselines = {part: assess_baselines(gold, heads=False) for part, gold in study.gold.items()}
        for part, gold in study.gold.items():
            spans = [segments_to_the_right(one.divided or [False] * len(one.tokens)) for one in gold]
            baselines[part]["right-branching segments"] = score_spans(spans, gold)
        for name in next(iter(baselines.values())):
            found = {part: rows[name] for part, rows in baselines.items()}
            report(
                name.replace(" ", "-"), {k: v for part, one in found.items() for k, v in all_figures(one, part).items()}
            )
        members = make_members(options.members, tags=options.tags)
        votes = {part: SpanVotes(np.array([len(one.tokens) for one in gold])) for part, gold in study.gold.items()}
        total = 0.0
        for number, member in enumerate(members, 1):
            model, seconds = study.member(member, number)
            total += seconds
            figures: dict[str, float] = {"train_cpu_s": seconds} if seconds else {}
            for part, gold in study.gold.items():
                scores = score_induction(model, gold, tags=options.tags)
                figures |= all_figures(scores, part)
                voting: Any = model_parser(model)
                own = SpanVotes(votes[part].lengths)
                own.add([voting.span_posteriors(*row) for row in study.rows(part)])
                figures |= figures_of(score_spans(own.binary_trees(), gold).unlabelled, part)
                votes[part].join(own)
            report(f"member-{number}-{member.name.replace(' ', '-').replace(':', '-')}", figures)
        for row, trees_of in (("committee-binary", SpanVotes.binary_trees), ("committee", SpanVotes.trees)):
            figures = {} if total == 0 else {"train_cpu_s": total}
            for part, gold in study.gold.items():
                figures |= all_figures(score_spans(trees_of(votes[part]), gold), part)
            report(row, figures)
        paths = [study.path(member, number) for number, member in enumerate(members, 1)]
        name = "distilled-binary" if options.binary else "distilled"
        for seed in options.seeds:
            path, figures = folder / f"{study.name}-{name}-{seed}.sapwood", {}
            if not path.exists():
                began = time.process_time()
                induce_ensemble(
                    study.trees["train"], ensemble=[str(one) for one in paths], tags=options.tags,
                    binary=options.binary, seed=seed, output=path,
                )  # fmt: skip
                figures["train_cpu_s"] = time.process_time() - began
            student: Any = load(path)
            for part, gold in study.gold.items():
                began = time.process_time()
                scores = score_induction(student, gold, tags=options.tags)
                figures[f"{part}_sentences_per_s"] = len(gold) / (time.process_time() - began)
                figures |= all_figures(scores, part)
            report(name, figures, seed)


if __name__ == "__main__":
    main()
