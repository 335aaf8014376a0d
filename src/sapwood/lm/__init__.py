"""Language models: counts of n-grams; latent bigram models, Kneser-Ney models, and mixtures of them.

>>> from pathlib import Path
>>> from sapwood.lm import KneserNey, count_text
>>> _ = Path("text.txt").write_text("the dog barks\\nthe cat sleeps\\na dog sleeps\\n")
>>> model = KneserNey(order=2).fit(count_text("text.txt", order=2))
>>> [word for word, _ in model.next_words(["the"], 2)]
['dog', 'cat']

Names are imported when they are first used, so `import sapwood.lm` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sapwood.lm.aggregate import AggregateMarkov
    from sapwood.lm.arpa import read_arpa, write_arpa
    from sapwood.lm.classes import word_classes
    from sapwood.lm.counts import Counts, count_text
    from sapwood.lm.evaluation import Evaluation, evaluate
    from sapwood.lm.kneser_ney import KneserNey
    from sapwood.lm.latent_model import LatentBigram, Topic
    from sapwood.lm.mixed_order import MixedOrder, MixedOrderMarkov
    from sapwood.lm.mixture import Mixture
    from sapwood.lm.models import load_model, save_model
    from sapwood.lm.ngram_model import NgramModel
    from sapwood.lm.reading import read_counts
    from sapwood.lm.scoring import ScoredLine, evaluate_text, score_lines
    from sapwood.lm.text import encode_sentences, encode_text
    from sapwood.lm.training import fit, read_training_text, train
    from sapwood.lm.vectors import read_vectors, write_vectors
    from sapwood.lm.vocabulary import Vocabulary

# Where the names are.
_HOMES = {
    "aggregate": ("AggregateMarkov",),
    "arpa": ("read_arpa", "write_arpa"),
    "classes": ("word_classes",),
    "counts": ("Counts", "count_text"),
    "evaluation": ("Evaluation", "evaluate"),
    "kneser_ney": ("KneserNey",),
    "latent_model": ("LatentBigram", "Topic"),
    "mixed_order": ("MixedOrder", "MixedOrderMarkov"),
    "mixture": ("Mixture",),
    "models": ("load_model", "save_model"),
    "ngram_model": ("NgramModel",),
    "reading": ("read_counts",),
    "scoring": ("ScoredLine", "evaluate_text", "score_lines"),
    "text": ("encode_sentences", "encode_text"),
    "training": ("fit", "read_training_text", "train"),
    "vectors": ("read_vectors", "write_vectors"),
    "vocabulary": ("Vocabulary",),
}

__all__ = [
    "AggregateMarkov", "Counts", "Evaluation", "KneserNey", "LatentBigram", "MixedOrder", "MixedOrderMarkov",
    "Mixture", "NgramModel", "ScoredLine", "Topic", "Vocabulary", "count_text", "encode_sentences", "encode_text",
    "evaluate", "evaluate_text", "fit", "load_model", "read_arpa", "read_counts", "read_training_text",
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
