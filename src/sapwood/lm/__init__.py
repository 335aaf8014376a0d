"""Language models: n-gram counts, latent bigram models, Kneser-Ney models, and their mixtures.

>>> from pathlib import Path
>>> from sapwood.lm import KneserNey, count_text
>>> _ = Path("text.txt").write_text("the dog barks\\nthe cat sleeps\\na dog sleeps\\n")
>>> model = KneserNey(order=2).fit(count_text("text.txt", order=2))
>>> [word for word, _ in model.next_words(["the"], 2)]
['dog', 'cat']

Names are imported on first use, so `import sapwood.lm` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sapwood.lm.base import Evaluation, evaluate
    from sapwood.lm.clusters.latent import word_classes
    from sapwood.lm.counts.counts import Counts, count_text
    from sapwood.lm.counts.load import read_counts
    from sapwood.lm.counts.merge import merge_counts
    from sapwood.lm.counts.text import encode_sentences, encode_text
    from sapwood.lm.counts.vocabulary import Vocabulary
    from sapwood.lm.io import load_model, save_model
    from sapwood.lm.latent.aggregate import AggregateMarkov
    from sapwood.lm.latent.bigram import LatentBigram, Topic
    from sapwood.lm.latent.mixed_order import MixedOrder, MixedOrderMarkov
    from sapwood.lm.mixture import Mixture
    from sapwood.lm.ngram.arpa import read_arpa, write_arpa
    from sapwood.lm.ngram.kneser_ney import KneserNey
    from sapwood.lm.ngram.model import NgramModel
    from sapwood.lm.scoring import ScoredLine, evaluate_text, score_lines
    from sapwood.lm.training import fit, read_training_text, train
    from sapwood.lm.vectors import read_vectors, write_vectors

# Modules of the names.
_HOMES = {
    "latent.aggregate": ("AggregateMarkov",),
    "ngram.arpa": ("read_arpa", "write_arpa"),
    "clusters.latent": ("word_classes",),
    "counts.counts": ("Counts", "count_text"),
    "base": ("Evaluation", "evaluate"),
    "ngram.kneser_ney": ("KneserNey",),
    "latent.bigram": ("LatentBigram", "Topic"),
    "latent.mixed_order": ("MixedOrder", "MixedOrderMarkov"),
    "mixture": ("Mixture",),
    "io": ("load_model", "save_model"),
    "ngram.model": ("NgramModel",),
    "counts.load": ("read_counts",),
    "counts.merge": ("merge_counts",),
    "scoring": ("ScoredLine", "evaluate_text", "score_lines"),
    "counts.text": ("encode_sentences", "encode_text"),
    "training": ("fit", "read_training_text", "train"),
    "vectors": ("read_vectors", "write_vectors"),
    "counts.vocabulary": ("Vocabulary",),
}

__all__ = [
    "AggregateMarkov", "Counts", "Evaluation", "KneserNey", "LatentBigram", "MixedOrder", "MixedOrderMarkov",
    "Mixture", "NgramModel", "ScoredLine", "Topic", "Vocabulary", "count_text", "encode_sentences", "encode_text",
    "evaluate", "evaluate_text", "fit", "load_model", "merge_counts", "read_arpa", "read_counts", "read_training_text",
    "read_vectors", "save_model", "score_lines", "train", "word_classes", "write_arpa",
    "write_vectors",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"sapwood.lm.{module}"), name)
    raise AttributeError(f"module 'sapwood.lm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
