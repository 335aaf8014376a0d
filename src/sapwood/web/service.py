"""Served resources: models, a treebank, training logs, and request limits."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

from msgspec import Meta

from sapwood._version import __version__
from sapwood.errors import SapwoodError, UsageError
from sapwood.inference.parser import Parser
from sapwood.loading import load
from sapwood.model.installed import INCLUDED, default_model_path, find_model
from sapwood.model.parser_model import ParserModel
from sapwood.storage.arrays import read_header
from sapwood.trees.formats.labels import explain_all
from sapwood.web.examples import example_sentence
from sapwood.web.messages import BadRequest
from sapwood.web.operation.metrics import Metrics
from sapwood.web.operation.watch import Signature, signature
from sapwood.web.scheduler import WorkerPool

if TYPE_CHECKING:
    from sapwood.lm.io import AnyModel
    from sapwood.web.treebank import ServedTreebank

# Names of models in requests; the description of a service lists its own.
GrammarName: TypeAlias = Annotated[
    str,
    Meta(description="A name from /api/info; by default, the first grammar.", extra_json_schema={"format": "grammar"}),
]
LanguageModelName: TypeAlias = Annotated[
    str,
    Meta(
        description="A name from /api/info; by default, the first of its kind.",
        extra_json_schema={"format": "language model"},
    ),
]
LOG = logging.getLogger("sapwood.web")
# Name of the included model, if none is named.
_INCLUDED = next(iter(INCLUDED))


@dataclass(frozen=True)
class Limits:
    """Limits on requests and on their number.

    Attributes
    ----------
    body
        Maximum size of a request in bytes.
    characters, total_words, sentences
        Maximum characters, words and sentences (or trees) per request.
    words
        Maximum words per sentence, beyond which it gets a flat tree, or an error if more than a tree is requested.
    trees
        Maximum trees per sentence: alternatives, samples.
    seconds, sentence_seconds
        Time limit of a request, including waiting, and of each of its sentences.
    memory
        Approximate maximum size of a chart in bytes; each thread has one.
    queue
        Maximum number of waiting and running requests; further ones are told to retry later.
    connections, connections_per_client
        Maximum number of open connections, and of those of one client address.
    drain
        Maximum time in seconds for requests to end when the server stops.
    """

    body: int = 1 << 20
    characters: int = 200_000
    total_words: int = 50_000
    sentences: int = 1000
    words: int = 250
    trees: int = 50
    seconds: float = 30.0
    sentence_seconds: float = 10.0
    memory: int = 1 << 29
    queue: int = 128
    connections: int = 1000
    connections_per_client: int = 256
    drain: float = 30.0


@dataclass(frozen=True, eq=False)
class ServedParser:
    """A named parser."""

    name: str
    parser: Parser
    digest: str = ""
    # Description of a model that has no other: what the pages need.
    least: ClassVar[dict[str, Any]] = {
        "kind": "grammar", "method": "unknown", "labels": [], "tags": [], "example": {"text": "", "input": "text"}
    }  # fmt: skip

    @cached_property
    def labels(self) -> list[str]:
        """Labels of phrases, those of the most frequent symbols first."""
        return self.parser.labels

    def describe(self) -> dict[str, Any]:
        """Return its description for the pages."""
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
            "explanations": explain_all([*self.labels, *grammar.emissions.tags]),
            "example": example_sentence(self.parser),
        }


@dataclass(frozen=True, eq=False)
class ServedLanguageModel:
    """A named language model."""

    name: str
    model: AnyModel
    digest: str = ""
    least: ClassVar[dict[str, Any]] = {"kind": "language model", "method": "unknown"}

    def describe(self) -> dict[str, Any]:
        """Return its description for the pages."""
        about = self.model.describe()
        return {
            "name": self.name,
            "kind": "language model",
            "method": str(about["kind"]),
            "states": int(about.get("states", 0)),
            "words": int(about["words"]),
        }


ServedModel: TypeAlias = ServedParser | ServedLanguageModel


@dataclass(eq=False)
class Service:
    """All served resources.

    Attributes
    ----------
    models
        The models, with unique names; the first of a kind is the default.
    gold
        The treebank, if there is one.
    logs
        Training logs.
    limits
        Limits on requests.
    threads
        Number of threads that work on requests.
    token
        Bearer token that clients must send (`Authorization: Bearer TOKEN`), if any.
    sources, signatures
        Files of the models, by their names, and what they were like when they were read (`signature`).
    processes
        Number of processes of the server.
    """

    models: list[ServedModel]
    gold: ServedTreebank | None = None
    logs: list[Path] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)
    threads: int = 2
    token: str | None = field(default=None, repr=False)
    sources: dict[str, Path] = field(default_factory=dict)
    signatures: dict[str, Signature | None] = field(default_factory=dict)
    processes: int = 1
    _parsing: dict[str, Any] = field(default_factory=dict, repr=False)
    closing: bool = field(default=False, init=False)

    @classmethod
    def load(
        cls,
        models: Sequence[str] = (),
        *,
        treebank: str | None = None,
        logs: Sequence[str] = (),
        reading: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        threads: int = 2,
        token: str | None = None,
        processes: int = 1,
        **parsing: Any,
    ) -> Service:
        """Read models (without any, the included one), a treebank and logs.

        Parameters
        ----------
        models
            Paths, or names of included or installed models, which are served under these names; files, without their
            folders and `.sapwood`. A file with several grammars is one model: their product.
        treebank
            A file of trees.
        reading
            Arguments for reading it: `format`, `on_bad` and `gaps` of `sapwood.read_trees`.
        logs
            Training logs; they need not exist yet.
        limits, threads, token, processes
            As above.
        parsing
            Settings of the parsers (`Parser`): `decoder` and `threshold`, by default those of each model.
        """
        limits = limits or Limits()
        if threads < 1:
            raise UsageError(f"threads must be at least 1, not {threads}")
        settings = {
            "max_words": limits.words, "max_memory": limits.memory, "timeout": limits.sentence_seconds, **parsing
        }  # fmt: skip
        found: list[ServedModel] = []
        sources: dict[str, Path] = {}
        signatures: dict[str, Signature | None] = {}

        def add(name: str, path: Path) -> None:
            unique = next(
                one for n in range(1, len(sources) + 2) if (one := name if n == 1 else f"{name}-{n}") not in sources
            )
            sources[unique], signatures[unique] = path, signature(path)
            found.append(_served(unique, path, settings))

        for name in models:
            add(_name_of(name), find_model(name))
        if not any(isinstance(model, ServedParser) for model in found):
            add(_INCLUDED, default_model_path())
        gold = None
        if treebank is not None:
            from sapwood.trees.search.table import read_table
            from sapwood.web.treebank import ServedTreebank

            gold = ServedTreebank(_shown(Path(treebank).name), read_table(treebank, **(reading or {})))
        return cls(
            found,
            gold,
            [Path(log) for log in logs],
            limits,
            threads,
            token,
            sources,
            signatures,
            processes,
            _parsing=settings,
        )

    def reload(self, name: str) -> None:
        """Read the file of a model again, and serve what it contains now; raises an error if it cannot be served."""
        served = _served(name, self.sources[name], self._parsing)
        number = [model.name for model in self.models].index(name)
        if type(served) is not type(self.models[number]):
            raise UsageError(f"{name}: is now a {served.least['kind']}; restart the server to serve it")
        self.models = [*self.models[:number], served, *self.models[number + 1 :]]
        vars(self).pop("_descriptions", None)
        if self.gold is not None:
            self.gold.forget(name)
        self.metrics.models = self._model_facts()

    @cached_property
    def metrics(self) -> Metrics:
        """What the server counts."""
        from sapwood.web.endpoints import endpoints_of

        metrics = Metrics([endpoint.path for endpoint in endpoints_of(self)], self.processes)
        metrics.models = self._model_facts()
        return metrics

    def _model_facts(self) -> list[dict[str, str]]:
        """Return name, kind and digest of each model, as metrics show them."""
        return [{"name": model.name, "kind": str(model.least["kind"]), "digest": model.digest} for model in self.models]

    @cached_property
    def crew(self) -> WorkerPool:
        """The threads that work on requests."""
        return WorkerPool(self.threads, self.limits.queue, self.metrics.set_queue)

    @property
    def ready(self) -> bool:
        """Whether requests are answered: the models are loaded, and the service is not about to end."""
        return bool(self.models) and not self.closing

    def close(self) -> None:
        """Stop the threads, if there are any."""
        self.closing = True
        if "crew" in vars(self):
            self.crew.close()

    def grammar(self, name: str | None = None) -> ServedParser:
        """Return the grammar of that name, or the first."""
        return self._find(name, ServedParser, "grammar")

    def language_model(self, name: str | None = None) -> ServedLanguageModel:
        """Return the language model of that name, or the first."""
        return self._find(name, ServedLanguageModel, "language model")

    def _find(self, name: str | None, kind: type, title: str) -> Any:
        of_kind = [model for model in self.models if isinstance(model, kind)]
        for model in of_kind:
            if name is None or model.name == name:
                return model
        known = ", ".join(model.name for model in of_kind) or "none"
        raise BadRequest(f"there is no {title} {'' if name is None else repr(name)}; available: {known}")

    @property
    def names(self) -> dict[str, list[str]]:
        """Names of the models by kind."""
        found: dict[str, list[str]] = {"grammar": [], "language model": []}
        for model in self.models:
            found[model.least["kind"]].append(model.name)
        return found

    @cached_property
    def _descriptions(self) -> list[dict[str, Any]]:
        """Descriptions of the models; one that cannot be described says so, and does not affect the others."""
        found: list[dict[str, Any]] = []
        for model in self.models:
            try:
                description = model.describe()
                json.dumps(description, allow_nan=False)
            except Exception:  # it may come from anybody
                LOG.exception("%s: the model cannot be described", model.name)
                problem = "the model cannot be described; see the server's log"
                description = {"name": model.name, **model.least, "error": problem}
            found.append(description)
        return found

    def describe(self) -> dict[str, Any]:
        """Return a description of the service, which the pages request first."""
        return {
            "version": __version__,
            "models": self._descriptions,
            "treebank": None if self.gold is None else self.gold.describe(),
            "logs": [_shown(log.name) for log in self.logs],
            "limits": {
                "body": self.limits.body,
                "characters": self.limits.characters,
                "total_words": self.limits.total_words,
                "sentences": self.limits.sentences,
                "words": self.limits.words,
                "trees": self.limits.trees,
                "seconds": self.limits.seconds,
                "sentence_seconds": self.limits.sentence_seconds,
                "memory": self.limits.memory,
            },
        }


def _served(name: str, path: Path, settings: dict[str, Any]) -> ServedModel:
    """Return the model in a file, ready for requests; `settings` are those of a parser."""
    thing = load(path)
    try:
        digest = str(read_header(path).get("digest", ""))
    except SapwoodError:  # a file of another program
        digest = ""
    if isinstance(thing, ParserModel):
        parser = Parser(thing, **settings)
        parser.parse_one(["a"], check_tokens=False)  # the first parse prepares what all others use
        return ServedParser(name, parser, digest)
    if hasattr(thing, "next_words"):
        return ServedLanguageModel(name, thing, digest)  # type: ignore[arg-type]
    raise UsageError(f"{name}: contains neither a grammar nor a language model, so it cannot be served")


def _name_of(model: str) -> str:
    """Return the name under which to serve a model: as it was given, but without the folders of a path."""
    return _shown(Path(model).name.removesuffix(".sapwood"))


def _shown(name: str) -> str:
    """Return a file's name as text; bytes that are not UTF-8 are escaped."""
    return name.encode("utf-8", "backslashreplace").decode()
