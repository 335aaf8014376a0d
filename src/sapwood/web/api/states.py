"""Hidden-state endpoints: the symbols of a grammar, and descriptions of their states."""

from __future__ import annotations

from typing import Any

import numpy as np

from sapwood.grammar.state_profiles import Distinctive, StateProfile, state_anchors, state_levels, state_profiles
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.forest.tree_states import Example, state_examples
from sapwood.web.endpoints import GRAMMAR, Endpoint, Request, at_once
from sapwood.web.schemas import FLAG, MAYBE_TEXT, NUMBER, PROBABILITY, TEXT, BadRequest, listing, record, whole
from sapwood.web.service import ServedParser

# Number of trees to search for examples, from the start of a treebank.
_TREES = 4000
SYMBOL = record(
    {
        "number": whole(),
        "name": TEXT,
        "preterminal": FLAG,
        "intermediate": FLAG,
        "states": whole(1),
        "count": NUMBER,
    }
)
TELLING = listing(record({"name": TEXT, "probability": NUMBER, "lift": NUMBER}))
EXAMPLE = record({"words": listing(TEXT), "start": whole(), "end": whole(), "probability": PROBABILITY})
STATE = record(
    {
        "state": whole(),
        "count": NUMBER,
        "share": PROBABILITY,
        "rules": TELLING,
        "words": TELLING,
        "contexts": TELLING,
        "examples": listing(EXAMPLE),
    }
)


def _symbols(request: Request) -> dict[str, Any]:
    grammar = request.service.grammar(request.body.get("model")).parser.grammar
    counts = np.add.reduceat(grammar.occupancy, grammar.state_offsets[:-1])
    rows = [
        {
            "number": number,
            "name": str(symbol),
            "preterminal": number >= grammar.n_interminals,
            "intermediate": bool(grammar.symbols.intermediate[number]),
            "states": int(grammar.states[number]),
            "count": float(counts[number]),
        }
        for number, symbol in enumerate(grammar.symbols)
    ]
    return {
        "method": str(grammar.info.get("method", "unknown")),
        "probabilistic": grammar.probabilistic,
        "symbols": sorted(rows, key=lambda row: (-row["count"], row["number"])),
    }


def _states(request: Request) -> dict[str, Any]:
    model = request.service.grammar(request.body.get("model"))
    grammar = model.parser.grammar
    symbol = request.body["symbol"]
    if symbol >= len(grammar.symbols):
        raise BadRequest(f"there are {len(grammar.symbols)} symbols, numbered from 0; there is no {symbol}")
    known = _examples(request, model)
    examples = (known or {}).get(symbol, [])
    profiles = state_profiles(grammar, symbol, top=request.body.get("top", 8))
    return {
        "symbol": symbol,
        "name": str(grammar.symbols[symbol]),
        "states": [_plain(profile, examples[profile.state] if examples else []) for profile in profiles],
        "pending": known is None,
        "levels": [level.tolist() for level in state_levels(grammar, symbol)],
        "singular_values": _singular_values(grammar, symbol),
        "anchors": [{"inside": inside, "outside": outside} for inside, outside in state_anchors(grammar, symbol)],
    }


def _plain(profile: StateProfile, examples: list[Example]) -> dict[str, Any]:
    def rows(found: list[Distinctive]) -> list[dict[str, Any]]:
        return [item._asdict() for item in found]

    return {
        "state": profile.state,
        "count": profile.count,
        "share": min(profile.share, 1.0),
        "rules": rows(profile.rules),
        "words": rows(profile.words),
        "contexts": rows(profile.contexts),
        "examples": [{**one._asdict(), "probability": min(one.probability, 1.0)} for one in examples],
    }


def _examples(request: Request, model: ServedParser) -> dict[int, list[list[Example]]] | None:
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


ENDPOINTS = [
    Endpoint(
        "GET",
        "/api/symbols",
        "List the symbols of a grammar, most frequent first, with their numbers of states.",
        record({"method": TEXT, "probabilistic": FLAG, "symbols": listing(SYMBOL)}),
        at_once(_symbols),
        record({}, {"model": GRAMMAR}),
    ),
    Endpoint(
        "GET",
        "/api/states",
        "Describe the hidden states of a symbol: characteristic rules, words, contexts, examples from the treebank.",
        record(
            {
                "symbol": whole(),
                "name": TEXT,
                "states": listing(STATE),
                "pending": {**FLAG, "description": "Whether the search for examples is still running; ask again."},
                "levels": listing(listing(whole(-1))),
                "singular_values": listing(NUMBER),
                "anchors": listing(record({"inside": TEXT, "outside": MAYBE_TEXT})),
            }
        ),
        at_once(_states),
        record({"symbol": whole(0, 10**8)}, {"model": GRAMMAR, "top": whole(1, 100)}),
    ),
]
