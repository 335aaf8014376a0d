"""Hidden-state endpoints: the symbols of a grammar, and descriptions of their states."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from msgspec import UNSET, Meta, UnsetType

from sapwood.grammar.state_profiles import Distinctive, StateProfile, state_anchors, state_levels, state_profiles
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.forest.tree_states import Example, state_examples
from sapwood.web.endpoints import Endpoint, Request, at_once
from sapwood.web.messages import BadRequest, Message, Natural, Positive, Probability, given
from sapwood.web.service import GrammarName, ServedParser

# Number of trees to search for examples, from the start of a treebank.
_TREES = 4000


class SymbolsRequest(Message):
    """A grammar."""

    model: GrammarName | UnsetType = UNSET


class StatesRequest(Message):
    """A symbol, and how many rules, words and contexts to return per state."""

    symbol: Annotated[int, Meta(ge=0, le=10**8)]
    model: GrammarName | UnsetType = UNSET
    top: Annotated[int, Meta(ge=1, le=100)] = 8


class SymbolRow(Message):
    """A symbol of a grammar."""

    number: Natural
    name: str
    preterminal: bool
    intermediate: bool
    states: Positive
    count: float


class SymbolsAnswer(Message):
    """The symbols of a grammar."""

    method: str
    probabilistic: bool
    symbols: list[SymbolRow]


class DistinctiveEvent(Message):
    """A rule, word or context of a state."""

    name: str
    probability: float
    lift: float


class ExamplePhrase(Message):
    """A phrase of the treebank that is in the state with this probability."""

    words: list[str]
    start: Natural
    end: Natural
    probability: Probability


class StateRow(Message):
    """A hidden state."""

    state: Natural
    count: float
    share: Probability
    rules: list[DistinctiveEvent]
    words: list[DistinctiveEvent]
    contexts: list[DistinctiveEvent]
    examples: list[ExamplePhrase]


class AnchorPair(Message):
    """Anchor features of a state of pivot learning."""

    inside: str
    outside: str | None


class StatesAnswer(Message):
    """The hidden states of a symbol."""

    symbol: Natural
    name: str
    states: list[StateRow]
    pending: Annotated[bool, Meta(description="Whether the search for examples is still running; ask again.")]
    levels: list[list[Annotated[int, Meta(ge=-1)]]]
    singular_values: list[float]
    anchors: list[AnchorPair]


def _symbols(request: Request[SymbolsRequest]) -> SymbolsAnswer:
    grammar = request.service.grammar(given(request.body.model)).parser.grammar
    counts = np.add.reduceat(grammar.occupancy, grammar.state_offsets[:-1])
    rows = [
        SymbolRow(
            number=number,
            name=str(symbol),
            preterminal=number >= grammar.n_interminals,
            intermediate=bool(grammar.symbols.intermediate[number]),
            states=int(grammar.states[number]),
            count=float(counts[number]),
        )
        for number, symbol in enumerate(grammar.symbols)
    ]
    return SymbolsAnswer(
        str(grammar.info.get("method", "unknown")),
        grammar.probabilistic,
        sorted(rows, key=lambda row: (-row.count, row.number)),
    )


def _states(request: Request[StatesRequest]) -> StatesAnswer:
    model = request.service.grammar(given(request.body.model))
    grammar, symbol = model.parser.grammar, request.body.symbol
    if symbol >= len(grammar.symbols):
        raise BadRequest(f"there are {len(grammar.symbols)} symbols, numbered from 0; there is no {symbol}")
    known = _examples(request, model)
    examples = (known or {}).get(symbol, [])
    profiles = state_profiles(grammar, symbol, top=request.body.top)
    return StatesAnswer(
        symbol=symbol,
        name=str(grammar.symbols[symbol]),
        states=[_row(profile, examples[profile.state] if examples else []) for profile in profiles],
        pending=known is None,
        levels=[level.tolist() for level in state_levels(grammar, symbol)],
        singular_values=_singular_values(grammar, symbol),
        anchors=[AnchorPair(inside, outside) for inside, outside in state_anchors(grammar, symbol)],
    )


def _row(profile: StateProfile, examples: list[Example]) -> StateRow:
    def rows(found: list[Distinctive]) -> list[DistinctiveEvent]:
        return [DistinctiveEvent(item.name, float(item.probability), float(item.lift)) for item in found]

    return StateRow(
        state=profile.state,
        count=float(profile.count),
        share=min(float(profile.share), 1.0),
        rules=rows(profile.rules),
        words=rows(profile.words),
        contexts=rows(profile.contexts),
        examples=[ExamplePhrase(one.words, one.start, one.end, min(float(one.probability), 1.0)) for one in examples],
    )


def _examples(request: Request[Any], model: ServedParser) -> dict[int, list[list[Example]]] | None:
    """Return examples from the treebank, if any; they are computed once. None: another request is computing them."""
    gold = request.service.gold
    if gold is None:
        return {}
    return gold.soon(("examples", model.name), lambda: state_examples(model.parser.grammar, gold.trees(_TREES)))


def _singular_values(grammar: TensorGrammar, symbol: int) -> list[float]:
    # The metadata of a file is untrusted.
    spectral = grammar.info.get("spectral")
    records = spectral.get("symbols") if isinstance(spectral, dict) else None
    # The states of a chain are those of its last symbol.
    own = grammar.symbols[symbol]
    names = (own, *own.chain[-1:])
    for one in records if isinstance(records, list) else ():
        if isinstance(one, dict) and one.get("symbol") in names:
            values = one.get("singular_values")
            if isinstance(values, list) and all(isinstance(x, float | int) and x >= 0 for x in values):
                return [float(x) for x in values]
    return []


ENDPOINTS: list[Endpoint[Any]] = [
    Endpoint(
        "GET",
        "/api/symbols",
        "List the symbols of a grammar, most frequent first, with their numbers of states.",
        at_once(_symbols),
        SymbolsAnswer,
        SymbolsRequest,
    ),
    Endpoint(
        "GET",
        "/api/states",
        "Describe the hidden states of a symbol: characteristic rules, words, contexts, examples from the treebank.",
        at_once(_states),
        StatesAnswer,
        StatesRequest,
    ),
]
