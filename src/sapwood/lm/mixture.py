"""Mixtures of language models: `p(w | context) = sum_i weight_i(context) p_i(w | context)`.

The weights are estimated on held-out text by EM, one set for each *bucket* of contexts: by how often the last word of
the context was seen in training. Models that generalise get larger weights where contexts are rare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypedDict

import numpy as np

from sapwood.errors import InputError, ModelError, UsageError
from sapwood.lm.base import LanguageModel, Parts
from sapwood.lm.counts.vocabulary import ARRAYS, VOCABULARY, Vocabulary
from sapwood.lm.latent.bigram import LatentBigram
from sapwood.lm.latent.bigram_data import Ids, id_arrays, is_scored
from sapwood.lm.latent.mixed_order import MixedOrder
from sapwood.lm.ngram.model import NgramModel
from sapwood.lm.registry import Boundaries
from sapwood.storage.schema import Column, Notes, Schema
from sapwood.storage.shapes import Array, Float64, Num, Shaped

# Models that can be saved as members.
_MEMBERS: dict[str, type[LanguageModel]] = {member.kind: member for member in (LatentBigram, MixedOrder, NgramModel)}
# Stop when the gain in log-likelihood per word is smaller.
_GAIN = 1e-7


class _Member(TypedDict):
    kind: str
    metadata: dict[str, Any]


class _Metadata(TypedDict):
    members: list[_Member]
    info: Notes


@dataclass(eq=False)
class Mixture(LanguageModel):
    """A mixture of models over the same words.

    Attributes
    ----------
    models
        The members.
    weights
        Weights of each bucket: rows are distributions.
    edges
        Rising thresholds: the bucket of a context whose last word was seen `n` times is the number of edges that are at
        most `n`. A text's first word has the context of an unseen word.
    info
        Provenance.
    vocabulary, boundaries
        Those of the members.
    """

    schema: ClassVar[Schema] = Schema(
        kind="mixture",
        version=1,
        title="mixture",
        remedy="train it again",
        columns=(
            *VOCABULARY,
            Column("weights", "float64", "buckets members", least=0, sums=1),
            Column("edges", "int64", "buckets-1", rises=True),
        ),
        metadata=_Metadata,
        parts="/",
    )
    models: Sequence[LanguageModel]
    weights: Float64[Array, "buckets members"]
    edges: Num[Array, "buckets-1"]
    info: Mapping[str, Any] = field(default_factory=dict)
    vocabulary: Vocabulary = field(init=False, repr=False)
    boundaries: Boundaries = field(init=False)

    def __post_init__(self) -> None:
        if not self.models:
            raise UsageError("a mixture needs models")
        self.vocabulary, self.boundaries = self.models[0].vocabulary, self.models[0].boundaries
        for model in self.models[1:]:
            if model.vocabulary.words != self.vocabulary.words or model.boundaries != self.boundaries:
                raise UsageError(
                    "models can be mixed if they have the same words, numbered alike, and the same boundaries: "
                    "train them on the same counts"
                )
        if self.weights.shape != (len(self.edges) + 1, len(self.models)):
            raise ModelError(
                f"{len(self.models)} models and {len(self.edges) + 1} buckets do not match weights of shape "
                f"{self.weights.shape}"
            )

    @classmethod
    def fit(
        cls,
        models: Sequence[LanguageModel],
        text: Ids,
        *,
        edges: Sequence[int] = (),
        prior: float = 1.0,
        iterations: int = 200,
    ) -> Mixture:
        """Return the mixture that maximises the likelihood of held-out text: a concave problem that EM solves.

        Parameters
        ----------
        models
            The members, over the same words.
        text
            Held-out ids that no member was fitted to.
        edges
            Edges of the buckets; empty: the same weights everywhere.
        prior
            Pseudo-count of words predicted by each member in each bucket.
        iterations
            Maximum number of iterations.
        """
        if not 0 <= prior < float("inf"):
            raise UsageError(f"prior must be 0 or more, not {prior}")
        if list(edges) != sorted(set(edges)):
            raise UsageError(f"edges of buckets must rise: {list(edges)}")
        weights = np.full((len(edges) + 1, len(models)), 1 / max(len(models), 1))
        mixture = cls(models, weights, np.asarray(edges, np.int64))
        arrays = id_arrays(text)
        scored = [is_scored(array) for array in arrays]
        if not any(each.any() for each in scored):
            raise InputError("the held-out text has no word that the models know")
        members = np.concatenate([mixture._members(a)[:, k] for a, k in zip(arrays, scored, strict=True)], axis=1)
        buckets = np.concatenate([mixture._buckets(a)[k] for a, k in zip(arrays, scored, strict=True)])
        # Only ratios between members matter.
        chances = np.exp(members - np.maximum(members.max(axis=0), -1e300)).T
        before, done = -np.inf, 0
        while done < iterations:
            done += 1
            joint = weights[buckets] * chances
            total = joint.sum(axis=1)
            value = float(np.log(total[total > 0]).mean())
            if value - before < _GAIN:
                break
            before = value
            shares = np.divide(joint, total[:, None], out=np.zeros_like(joint), where=total[:, None] > 0)
            seen = np.stack([np.bincount(buckets, column, len(weights)) for column in shares.T], axis=1) + prior
            whole = seen.sum(axis=1, keepdims=True)
            weights = np.divide(seen, whole, out=weights.copy(), where=whole > 0)
        mixture.weights = weights
        mixture.info = {"method": "mixture", "iterations": done, "prior": prior, "tokens": len(buckets)}
        return mixture

    @property
    def reach(self) -> int:
        """Maximum number of preceding words that affect a prediction."""
        return max(model.reach for model in self.models)

    def _members(self, text: np.ndarray, first: int = 0) -> np.ndarray:
        """Return the members' log-probabilities of `text[first:]`, `(members, n)`."""
        before, ids = text[:first], text[first:]
        return np.stack([model.log_probabilities(ids, context=before) for model in self.models])

    def _buckets(self, text: np.ndarray, first: int = 0) -> np.ndarray:
        """Return the bucket of the context of each word of `text[first:]`, `(n,)`."""
        seen = np.concatenate([[0], self.vocabulary.counts[text[:-1]]])[first : len(text)]
        return np.searchsorted(self.edges, seen, side="right")

    def _log_probabilities(self, text: np.ndarray, first: int) -> np.ndarray:
        members = self._members(text, first)
        largest = np.maximum(members.max(axis=0), -1e300)
        mixed = (self.weights[self._buckets(text, first)].T * np.exp(members - largest)).sum(axis=0)
        return np.asarray(np.log(mixed) + largest)

    def _distribution(self, context: np.ndarray) -> np.ndarray:
        last = int(self.vocabulary.counts[context[-1]]) if len(context) else 0
        weights = self.weights[np.searchsorted(self.edges, last, side="right")]
        parts = (w * model.distribution(context) for w, model in zip(weights, self.models, strict=True))
        return np.asarray(sum(parts))

    def parts(self) -> Parts:
        """Return the arrays and JSON values from which `from_parts` restores the mixture with all its members."""
        arrays = {**self.vocabulary.arrays(), "weights": self.weights, "edges": np.asarray(self.edges, np.int64)}
        members = []
        for number, model in enumerate(self.models):
            if model.kind not in _MEMBERS:
                raise UsageError(f"a mixture with a {type(model).__name__} in it cannot be saved")
            own, metadata = model.parts()
            arrays |= {f"{number}/{name}": array for name, array in own.items() if name not in ARRAYS}
            members.append({"kind": model.kind, "metadata": metadata})
        return arrays, {"members": members, "info": dict(self.info)}

    @classmethod
    def from_parts(cls, arrays: Mapping[str, Shaped[Array, "..."]], metadata: Mapping[str, Any]) -> Self:
        """Restore a mixture from `parts`."""
        words = {name: arrays[name] for name in ARRAYS}
        members, models = metadata["members"], []
        for number, own in enumerate(cls.schema.all_parts(arrays, len(members))):
            member = members[number]
            if member["kind"] not in _MEMBERS:
                raise ModelError(f"a member is a {member['kind']!r}, which this version does not know")
            model = _MEMBERS[member["kind"]]
            model.schema.check(own | words, member["metadata"], prefix=f"{number}/")
            models.append(model.from_parts(own | words, member["metadata"]))
        return cls(models, arrays["weights"], arrays["edges"], metadata["info"])

    def _figures(self) -> dict[str, Any]:
        """Return the members with their mean weights over contexts, weighted by frequency."""
        seen = np.maximum(self.vocabulary.counts, 0)
        totals = np.bincount(np.searchsorted(self.edges, seen, side="right"), seen, len(self.weights))
        mean = (totals @ self.weights / totals.sum()) if totals.sum() else self.weights.mean(axis=0)
        members = [
            {**model.describe(), "weight": share} for model, share in zip(self.models, mean.tolist(), strict=True)
        ]
        for member in members:
            del member["boundaries"], member["words"]
        return {"members": members}
