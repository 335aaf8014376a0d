"""The trained model of a parser: grammars, their preparation, the components on top of them, and defaults.

Equality and digest cover everything that changes a parse. `meta`, and the `info` of the grammars, are informational and
change nothing.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sapwood.encoders.encoder import Encoder
from sapwood.errors import GrammarError, ModelError, SapwoodError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.model.cell_pruner import CellPruner
from sapwood.model.cp_decomposition import CPDecomposition
from sapwood.model.file import COMPONENTS, Component, ModelContent, check_components, read_model, write_model
from sapwood.model.forest_crf import ForestCRF
from sapwood.model.installed import find_model
from sapwood.model.plugged_scorer import PluggedScorer
from sapwood.model.span_scorer import SpanScorer
from sapwood.storage.arrays import content_digest
from sapwood.trees.heads.learned import LEARNED
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.normalise import Normaliser
from sapwood.trees.tokenise.registry import PENN
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree

# Entries of a grammar's `info` that are parts of a model: a bare grammar has none of them.
_META = ("layer", "network")
_PARTS_IN_INFO = ("tokeniser", "threshold", "induced", *_META)


_COMPONENT_NAMES = {"crf": "CRF", "cp": "CP decomposition"}


@dataclass(frozen=True)
class TokeniserStyle:
    """The way plain text is split into sentences and words.

    Attributes
    ----------
    name
        Name of the tokeniser (`sapwood.trees.tokenise.registry`).
    rewrite, split_hyphens
        Arguments of `tokenise_text`, for the tokeniser `penn`.
    """

    name: str = PENN
    rewrite: bool = True
    split_hyphens: bool = False


@dataclass(frozen=True)
class InducedText:
    """The text that a grammar was induced from.

    Attributes
    ----------
    terminals
        Kind of its terminals: `words`, `tags` or `classes`.
    punctuation
        Treatment of punctuation; `drop` sets it aside.
    """

    terminals: str
    punctuation: str

    @classmethod
    def from_info(cls, told: Mapping[str, Any]) -> InducedText:
        """Build from an entry of a grammar's `info`."""
        return cls(str(told.get("terminals", "")), str(told.get("punctuation", "")))


@dataclass(frozen=True)
class Preparation:
    """The way from text to tokens, and from trees to skeletal trees and back.

    Attributes
    ----------
    normaliser, transform
        Preparation of the training trees, and so of parses on their way back; the same in all grammars.
    tokeniser
        Style of plain text.
    induced
        Text of a grammar that was learned without trees.
    heads
        Table of head rules learned from the trees (`sapwood.trees.heads.learned`), if no built-in one fits. It changes
        no parse, and is not part of the digest.
    """

    normaliser: Normaliser
    transform: TreeTransform
    tokeniser: TokeniserStyle = TokeniserStyle()
    induced: InducedText | None = None
    heads: str = ""

    def __post_init__(self) -> None:
        if self.heads:
            HeadRules.parse(self.heads, source=LEARNED)


@dataclass(frozen=True)
class ParsingDefaults:
    """Default settings of a parser.

    Attributes
    ----------
    decoder
        Name of the decoder; None leaves the choice to the parser.
    threshold
        Posterior below which the coarse pass prunes; None leaves the choice to the parser.
    """

    decoder: str | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None and not 0 <= self.threshold < 1:
            raise UsageError(f"the threshold must be at least 0 and below 1, not {self.threshold}")


@dataclass(frozen=True, eq=False, repr=False)
class ParserModel:
    """Grammars that parse together, and everything that is trained or set along with them.

    Attributes
    ----------
    grammars
        Members of the ensemble, with the same symbols, rules and words.
    preparation
        Normaliser, transform and tokeniser.
    crf
        Weights of features on top of the members' posteriors.
    span_scorer
        Neural scorer of labelled spans.
    cell_pruner
        Classifier that prunes cells of the chart before any rule is applied.
    cp
        CP decomposition of the rules, which parsers use in place of the rules.
    plugged_scorer
        Span scorer of another package, instead of `span_scorer`.
    defaults
        Default decoder and threshold of parsers.
    meta
        Notes on how the model was trained, informational only: JSON values.

    Examples
    --------
    >>> from sapwood.model.installed import default_model_path
    >>> model = ParserModel.load(default_model_path())
    >>> model
    <ParserModel: <TensorGrammar: ... symbols (... states), ... rules, ... words>, CRF, span scorer>
    >>> model.preparation.tokeniser.name
    'penn'
    """

    grammars: tuple[TensorGrammar, ...]
    preparation: Preparation
    crf: ForestCRF | None = None
    span_scorer: SpanScorer | None = None
    cell_pruner: CellPruner | None = None
    cp: CPDecomposition | None = None
    plugged_scorer: PluggedScorer | None = None
    defaults: ParsingDefaults = ParsingDefaults()
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "grammars", tuple(self.grammars))
        if not self.grammars:
            raise UsageError("a model needs at least one grammar")
        for name in ("normaliser", "transform"):
            if getattr(self.grammar, name) != getattr(self.preparation, name):
                raise GrammarError(f"the {name} of the grammar is not that of the model")
        if self.plugged_scorer is not None and self.span_scorer is not None:
            raise UsageError("a model has one span scorer: its own, or a plugged one")
        if self.cp is not None:
            if len(self.grammars) > 1:
                raise GrammarError("a CP decomposition is for a model with one grammar")
            if len(self.cp.parent) != len(self.grammar.root):
                raise GrammarError(
                    f"the CP decomposition has {len(self.cp.parent)} states, the grammar {len(self.grammar.root)}"
                )

    @classmethod
    def from_grammars(cls, grammars: TensorGrammar | Iterable[TensorGrammar]) -> ParserModel:
        """Build a model from learners' grammars; parsing settings come from the first grammar's `info`."""
        members = [grammars] if isinstance(grammars, TensorGrammar) else list(grammars)
        if not members:
            raise UsageError("a model needs at least one grammar")
        first = members[0]
        told, induced = first.info.get("tokeniser", {}), first.info.get("induced")
        return cls(
            grammars=tuple(map(_bare, members)),
            preparation=Preparation(
                normaliser=first.normaliser,
                transform=first.transform,
                tokeniser=TokeniserStyle(**told),
                induced=InducedText.from_info(induced) if isinstance(induced, dict) else None,
            ),
            defaults=ParsingDefaults(threshold=first.info.get("threshold")),
            meta={name: first.info[name] for name in _META if name in first.info},
        )

    @property
    def info(self) -> dict[str, Any]:
        """All metadata of the model: the `info` of its first grammar, settings of parsing, and `meta`."""
        threshold = self.defaults.threshold
        own = {**self.meta, **({} if threshold is None else {"threshold": threshold})}
        return {**self.grammar.info, **self._shared_info, **own}

    @property
    def _shared_info(self) -> dict[str, Any]:
        induced = self.preparation.induced
        about = {} if induced is None else {"induced": asdict(induced)}
        return {"tokeniser": asdict(self.preparation.tokeniser), **about}

    def to_grammars(self) -> list[TensorGrammar]:
        """Return the grammars without components, and with the settings of parsing in their `info`.

        It is the inverse of `from_grammars`.
        """
        _, *others = self.grammars
        first = dataclasses.replace(self.grammar, info=self.info)
        return [first, *(grammar.with_info(**self._shared_info) for grammar in others)]

    @classmethod
    def gather(cls, sources: Sources) -> ParserModel:
        """Combine one or more grammars, models, file paths or model names into one model.

        All parts but the grammars are those of the first. Raises `GrammarError` if the grammars cannot be combined.
        """
        given = [sources] if isinstance(sources, TensorGrammar | ParserModel | str | os.PathLike) else list(sources)
        named: list[tuple[str, TensorGrammar]] = []
        first: ParserModel | None = None
        for number, source in enumerate(given, 1):
            if isinstance(source, TensorGrammar | ParserModel):
                name = f"grammar {number}"
            elif isinstance(source, str | os.PathLike):
                name = str(source)
            else:
                raise UsageError(f"a model is a grammar or the path of one, not {source!r}")
            model = cls._of(source)
            first = first or model
            several = len(model.grammars) > 1
            named += [
                (f"{name} (grammar {place})" if several else name, grammar)
                for place, grammar in enumerate(model.grammars, 1)
            ]
        if first is None:
            raise UsageError("no model is given; name at least one")
        _refuse_strangers(named)
        return first if len(given) == 1 else first.replace(grammars=tuple(grammar for _, grammar in named))

    @classmethod
    def _of(cls, source: Source) -> ParserModel:
        if isinstance(source, ParserModel):
            return source
        return cls.from_grammars(source) if isinstance(source, TensorGrammar) else cls.load(find_model(source))

    @property
    def grammar(self) -> TensorGrammar:
        """The first grammar, whose symbols, rules and words are those of all."""
        grammar, *_ = self.grammars
        return grammar

    def replace(self, **parts: Any) -> ParserModel:
        """Return the model with other parts."""
        return dataclasses.replace(self, **parts)

    def with_grammars(self, grammars: Iterable[TensorGrammar]) -> ParserModel:
        """Return the model with other grammars, with their normaliser and transform, and without factors of the old."""
        first, *others = map(_bare, grammars)
        prepared = dataclasses.replace(self.preparation, normaliser=first.normaliser, transform=first.transform)
        return self.replace(grammars=(first, *others), preparation=prepared, cp=None)

    def with_plugged_scorer(self, name: str, argument: str = "", *, weight: float = 0.2) -> ParserModel:
        """Return the model with a span scorer of another package in place of its own (docs/extending.md).

        Parameters
        ----------
        name, argument
            Name of its entry point in the group `sapwood.span_scorers`, and the text that it is made with.
        weight
            Weight of its scores relative to the log posteriors of the grammar.
        """
        crf = (ForestCRF.identity() if self.crf is None else self.crf).with_scorer_weight(weight)
        return self.replace(span_scorer=None, plugged_scorer=PluggedScorer(name, argument), crf=crf)

    def with_encoder(self, encoder: Encoder | None) -> ParserModel:
        """Return the model with the encoder of its span scorer at hand, if it is this one; saving forgets it."""
        scorer = self.span_scorer
        if scorer is None or scorer.encoder is None or encoder is None or scorer.encoder.digest != encoder.digest:
            return self
        features = dataclasses.replace(scorer.encoder, source=encoder)
        return self.replace(span_scorer=dataclasses.replace(scorer, encoder=features))

    @property
    def components(self) -> dict[str, Component]:
        """The components that there are, by their names."""
        found = {name: getattr(self, name) for name in COMPONENTS}
        return {name: component for name, component in found.items() if component is not None}

    def __repr__(self) -> str:
        many = f"{len(self.grammars)} grammars like " if len(self.grammars) > 1 else ""
        names = "".join(f", {_COMPONENT_NAMES.get(name, name.replace('_', ' '))}" for name in self.components)
        return f"<ParserModel: {many}{self.grammar!r}{names}>"

    def __eq__(self, other: object) -> bool:
        """Compare everything that changes a parse, weights to the last bit; not `meta`, nor the grammars' `info`."""
        if not isinstance(other, ParserModel):
            return NotImplemented
        (ours, about), (theirs, about_theirs) = self._content(), other._content()
        return about == about_theirs and all(
            ours[name].dtype == theirs[name].dtype and np.array_equal(ours[name], theirs[name]) for name in ours
        )

    __hash__ = None  # type: ignore[assignment]

    def digest(self) -> str:
        """Return a fingerprint of everything that changes a parse."""
        return content_digest(*self._content())

    def _content(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return everything that changes a parse, as arrays and JSON values."""
        arrays: dict[str, np.ndarray] = {}
        members = []
        for number, grammar in enumerate(self.grammars):
            own, metadata = grammar._content()
            arrays |= {f"{number}.{name}": array for name, array in own.items()}
            members.append(metadata)
        preparation, induced = self.preparation, self.preparation.induced
        about: dict[str, Any] = {
            "members": members,
            "tokeniser": asdict(preparation.tokeniser),
            "induced": None if induced is None else asdict(induced),
            "defaults": asdict(self.defaults),
        }
        for name, component in self.components.items():
            arrays |= component.to_arrays()
            about[name] = component.metadata()
        return arrays, about

    def sample(
        self,
        count: int,
        *,
        random_state: int | np.random.Generator | None = None,
        max_words: int = 200,
        unknown: bool = True,
    ) -> list[Tree]:
        """Sample trees, labelled as in the treebank, from the mean of the grammars' distributions.

        Parameters
        ----------
        count
            Number of trees.
        random_state
            Seed, or a random generator.
        max_words
            Trees with more words are rejected.
        unknown
            Whether to sample unknown words, shown as their signature, `<Aa *ing>`.

        Examples
        --------
        >>> import sapwood
        >>> for tree in sapwood.load("en").sample(2, random_state=0, max_words=5, unknown=False):
        ...     print(tree)
        (ROOT ...)
        (ROOT ...)
        """
        from sapwood.grammar.sampling import Sampler

        rng = np.random.default_rng(random_state)
        samplers = [Sampler(grammar, unknown=unknown) for grammar in self.grammars]
        invert = self.preparation.transform.invert
        return [invert(samplers[int(rng.integers(len(samplers)))].accepted_tree(rng, max_words)) for _ in range(count)]

    def validate(self, tolerance: float = 1e-6) -> ParserModel:
        """Check all grammars (`TensorGrammar.validate`) and components; returns the model itself."""
        for grammar in self.grammars:
            grammar.validate(tolerance)
        check_components(self.grammar, self.components)
        return self

    def describe(self, *, top: int = 10) -> str:
        """Return a readable summary of the model and its first grammar."""
        several = f"grammars     {len(self.grammars)}; this is the first\n" if len(self.grammars) > 1 else ""
        if self.cp is not None:
            several += (
                f"CP           rank {self.cp.rank}, {3 * self.cp.parent.size:,} weights; parses in place of the rules\n"
            )
        return several + dataclasses.replace(self.grammar, info=self.info).describe(top=top)

    def _repr_html_(self) -> str:
        """Return a summary for notebooks."""
        return dataclasses.replace(self.grammar, info=self.info)._repr_html_()

    def save(self, path: str | Path) -> None:
        """Write the model to one file: whole or not at all."""
        preparation, induced = self.preparation, self.preparation.induced
        settings = {
            "preparation": {
                "normaliser": preparation.normaliser.to_dict(),
                "transform": preparation.transform.to_dict(),
                "tokeniser": asdict(preparation.tokeniser),
                **({} if induced is None else {"induced": asdict(induced)}),
                **({"heads": preparation.heads} if preparation.heads else {}),
            },
            "defaults": {name: value for name, value in asdict(self.defaults).items() if value is not None},
            "meta": dict(self.meta),
        }
        write_model(ModelContent(self.grammars, self.components, settings), path)

    @classmethod
    def load(cls, path: str | Path) -> ParserModel:
        """Read a model from a file of any format; a damaged file raises `ModelError`."""
        content = read_model(path)
        if content.settings is None:
            return cls.from_grammars(content.grammars).replace(**content.components)
        told, induced = content.settings["preparation"], content.settings["preparation"].get("induced")
        try:
            return cls(
                grammars=tuple(content.grammars),
                preparation=Preparation(
                    normaliser=Normaliser.from_dict(told["normaliser"]),
                    transform=TreeTransform.from_dict(told["transform"]),
                    tokeniser=TokeniserStyle(**told["tokeniser"]),
                    induced=None if induced is None else InducedText(**induced),
                    heads=told.get("heads", ""),
                ),
                defaults=ParsingDefaults(**content.settings["defaults"]),
                meta=content.settings["meta"],
                **content.components,  # type: ignore[arg-type]
            )
        except SapwoodError as error:
            raise ModelError(f"{path}: not a complete model: {error}; copy or train it again") from error


Source = TensorGrammar | ParserModel | str | os.PathLike[str]
Sources = Source | Iterable[Source]


def _bare(grammar: TensorGrammar) -> TensorGrammar:
    """Return a grammar without the parts of a model."""
    info = {name: value for name, value in grammar.info.items() if name not in _PARTS_IN_INFO}
    return dataclasses.replace(grammar, info=info)


def _refuse_strangers(named: Sequence[tuple[str, TensorGrammar]]) -> None:
    first_name, first = named[0]
    for name, grammar in named[1:]:
        if different := _difference(first, grammar):
            raise GrammarError(
                f"{name} and {first_name} cannot be combined: their {different} differ; use grammars that were "
                "trained on the same trees with the same options"
            )


def _difference(one: TensorGrammar, other: TensorGrammar) -> str:
    """Describe why two grammars cannot share forests and terminals; empty if they can."""
    ours, theirs = one.lexicon, other.lexicon
    same = {
        "symbols": one.symbols == other.symbols and one.n_interminals == other.n_interminals,
        "rules": np.array_equal(one.rules, other.rules),
        "transforms": one.transform == other.transform,
        "normalisers": one.normaliser == other.normaliser,
        "words": ours.words == theirs.words,
        "signatures": ours.signatures == theirs.signatures and ours.model == theirs.model,
        "tags": one.emissions.tags == other.emissions.tags
        and np.array_equal(one.emissions.tag_of, other.emissions.tag_of),
    }
    return next((name for name, holds in same.items() if not holds), "")
