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
    from sapwood.lm.counts import Counts, count_text
    from sapwood.lm.evaluation import Evaluation, evaluate
    from sapwood.lm.kneser_ney import KneserNey
    from sapwood.lm.latent_model import LatentBigram, Topic
    from sapwood.lm.mixed_order import MixedOrder, MixedOrderMarkov
    from sapwood.lm.mixture import Mixture
    from sapwood.lm.models import load_model
    from sapwood.lm.ngram_model import NgramModel
    from sapwood.lm.text import encode_sentences, encode_text
    from sapwood.lm.vectors import read_vectors, write_vectors
    from sapwood.lm.vocabulary import Vocabulary

_HOMES = {
    "AggregateMarkov": "aggregate",
    "Counts": "counts",
    "Evaluation": "evaluation",
    "KneserNey": "kneser_ney",
    "LatentBigram": "latent_model",
    "MixedOrder": "mixed_order",
    "MixedOrderMarkov": "mixed_order",
    "Mixture": "mixture",
    "NgramModel": "ngram_model",
    "Topic": "latent_model",
    "Vocabulary": "vocabulary",
    "count_text": "counts",
    "encode_sentences": "text",
    "encode_text": "text",
    "evaluate": "evaluation",
    "load_model": "models",
    "read_arpa": "arpa",
    "read_vectors": "vectors",
    "write_arpa": "arpa",
    "write_vectors": "vectors",
}

__all__ = [
    "AggregateMarkov",
    "Counts",
    "Evaluation",
    "KneserNey",
    "LatentBigram",
    "MixedOrder",
    "MixedOrderMarkov",
    "Mixture",
    "NgramModel",
    "Topic",
    "Vocabulary",
    "count_text",
    "encode_sentences",
    "encode_text",
    "evaluate",
    "load_model",
    "read_arpa",
    "read_vectors",
    "write_arpa",
    "write_vectors",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sapwood.lm' has no attribute {name!r}")
    return getattr(importlib.import_module(f"sapwood.lm.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
