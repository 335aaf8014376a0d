"""What is served: models, a treebank, training logs, and the limits that requests have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood._version import __version__
from sapwood.errors import UsageError
from sapwood.inference.parser import Parser
from sapwood.loading import load
from sapwood.models import default_model_path, find_model
from sapwood.trees.formats import BadTrees, InputFormat
from sapwood.web.schemas import BadRequest
from sapwood.web.work import Crew

if TYPE_CHECKING:
    from sapwood.lm.models import AnyModel
    from sapwood.web.gold import Gold


@dataclass(frozen=True)
class Limits:
    """What one request may ask for, and how many may wait.

    Attributes
    ----------
    body
        Bytes of a request.
    sentences, words
        Sentences of a request; words of a sentence, beyond which it gets a flat tree, or an error where trees are not
        all that is asked for.
    trees
        Trees of one sentence: alternatives, samples.
    seconds, sentence_seconds
        Time for a request, waiting included, and for one sentence of it.
    memory
        Bytes for the chart of a sentence, about; each thread has one.
    queue
        Requests that may wait or be under way; more are told to come back later.
    connections
        Connections that may be open.
    """

    body: int = 1 << 20
    sentences: int = 1000
    words: int = 250
    trees: int = 50
    seconds: float = 30.0
    sentence_seconds: float = 10.0
    memory: int = 1 << 29
    queue: int = 128
    connections: int = 1000


@dataclass(frozen=True, eq=False)
class Grammar:
    """A parser under a name."""

    name: str
    parser: Parser

    @cached_property
    def labels(self) -> list[str]:
        """The labels of phrases, those of the most frequent symbols first."""
        grammar = self.parser.grammar
        counts: dict[str, float] = {}
        for number, symbol in enumerate(grammar.symbols):
            begin, end = grammar.state_offsets[number : number + 2]
            chain = symbol.chain[:-1] if number >= grammar.n_interminals else symbol.chain
            for label in chain:
                counts[label] = counts.get(label, 0.0) + float(grammar.occupancy[begin:end].sum())
        return sorted(counts, key=lambda label: (-counts[label], label))

    def describe(self) -> dict[str, Any]:
        """Return what the pages show of it."""
        grammar = self.parser.grammar
        return {
            "name": self.name,
            "kind": "grammar",
            "method": str(grammar.info.get("method", "unknown")),
            "grammars": len(self.parser.grammars),
            "symbols": len(grammar.symbols),
            "states": int(grammar.states.sum()),
            "rules": len(grammar.rules),
            "words": grammar.lexicon.n_words,
            "labels": self.labels,
            "tags": sorted(grammar.emissions.tags),
        }


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A language model under a name."""

    name: str
    model: AnyModel

    def describe(self) -> dict[str, Any]:
        """Return what the pages show of it."""
        about = self.model.describe()
        return {
            "name": self.name,
            "kind": "language model",
            "method": str(about["kind"]),
            "states": int(about.get("states", 0)),
            "words": int(about["words"]),
        }


@dataclass(eq=False)
class Service:
    """Everything that is served.

    Attributes
    ----------
    models
        The models, each under a name of its own; the first of a kind is what is meant where none is named.
    gold
        The treebank, if there is one.
    logs
        Training logs.
    limits
        What requests may ask for.
    threads
        Crew.
    token
        What clients must know (`Authorization: Bearer TOKEN`), if anything.
    """

    models: list[Grammar | LanguageModel]
    gold: Gold | None = None
    logs: list[Path] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)
    threads: int = 2
    token: str | None = field(default=None, repr=False)

    @classmethod
    def load(
        cls,
        models: Sequence[str] = (),
        *,
        treebank: str | None = None,
        logs: Sequence[str] = (),
        format: InputFormat = "auto",
        on_bad: BadTrees | None = None,
        limits: Limits | None = None,
        threads: int = 2,
        token: str | None = None,
        decoder: str | None = None,
        threshold: float | None = None,
    ) -> Service:
        """Read models (without any, the included one), a treebank and logs.

        Parameters
        ----------
        models
            Paths, or names of included models. A file with several grammars is one model: their product.
        treebank
            A file of trees, of the given `format`; `on_bad` is called with malformed ones.
        logs
            Training logs; they need not be there yet.
        limits, threads, token
            As above.
        decoder, threshold
            Of the parsers; without a threshold, as each model says.
        """
        limits = limits or Limits()
        if threads < 1:
            raise UsageError(f"threads must be at least 1, not {threads}")
        paths = [find_model(name) for name in models]
        loaded = [(path.name.removesuffix(".sapwood"), load(path)) for path in paths]
        if not any(_is_grammar(thing) for _, thing in loaded):
            path = default_model_path()
            loaded.append((path.stem, load(path)))
        found: list[Grammar | LanguageModel] = []
        names: set[str] = set()
        for name, thing in loaded:
            unique = next(
                one for n in range(1, len(loaded) + 1) if (one := name if n == 1 else f"{name}-{n}") not in names
            )
            names.add(unique)
            if _is_grammar(thing):
                parser = Parser(
                    thing,  # type: ignore[arg-type]
                    decoder=decoder,
                    threshold=threshold,
                    max_words=limits.words,
                    max_memory=limits.memory,
                    timeout=limits.sentence_seconds,
                )
                found.append(Grammar(unique, parser))
            elif hasattr(thing, "next_words"):
                found.append(LanguageModel(unique, thing))  # type: ignore[arg-type]
            else:
                raise UsageError(f"{name}: holds no grammar and no language model, so it cannot be served")
        gold = None
        if treebank is not None:
            from sapwood.trees.table import read_table
            from sapwood.web.gold import Gold

            gold = Gold(Path(treebank).name, read_table(treebank, format=format, on_bad=on_bad))
        return cls(found, gold, [Path(log) for log in logs], limits, threads, token)

    @cached_property
    def crew(self) -> Crew:
        """The threads that do what requests ask for."""
        return Crew(self.threads, self.limits.queue)

    def close(self) -> None:
        """Stop the threads, if there are any."""
        if "crew" in vars(self):
            self.crew.close()

    def grammar(self, name: str | None = None) -> Grammar:
        """Return the grammar of that name, or the first."""
        return self._find(name, Grammar, "grammar")

    def language_model(self, name: str | None = None) -> LanguageModel:
        """Return the language model of that name, or the first."""
        return self._find(name, LanguageModel, "language model")

    def _find(self, name: str | None, kind: type, title: str) -> Any:
        of_kind = [model for model in self.models if isinstance(model, kind)]
        for model in of_kind:
            if name is None or model.name == name:
                return model
        known = ", ".join(model.name for model in of_kind) or "none"
        raise BadRequest(f"there is no {title} {'' if name is None else repr(name)}; there is: {known}")

    def describe(self) -> dict[str, Any]:
        """Return what is served: what the pages ask for first."""
        return {
            "version": __version__,
            "models": [model.describe() for model in self.models],
            "treebank": None if self.gold is None else {"name": self.gold.name, "trees": len(self.gold)},
            "logs": [log.name for log in self.logs],
            "limits": {
                "body": self.limits.body,
                "sentences": self.limits.sentences,
                "words": self.limits.words,
                "trees": self.limits.trees,
                "seconds": self.limits.seconds,
            },
        }


def _is_grammar(thing: object) -> bool:
    from sapwood.grammar.tensor_grammar import TensorGrammar

    return isinstance(thing, TensorGrammar | list)
