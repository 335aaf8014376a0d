"""Language-model endpoints: next words, similar words, and hidden states."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from sapwood.lm.io import AnyModel, latent_part
from sapwood.lm.latent.bigram import LatentBigram
from sapwood.web.endpoints import Endpoint, Request, at_once
from sapwood.web.messages import Message, Natural, Probability, given
from sapwood.web.service import LanguageModelName

Word: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1000)]
Top: TypeAlias = Annotated[int, Meta(ge=1, le=200)]


class NextRequest(Message):
    """The words before the next one."""

    context: Annotated[list[Word], Meta(max_length=1000)]
    model: LanguageModelName | UnsetType = UNSET
    top: Top = 12


class TopicsRequest(Message):
    """How many states and words to return, and their order."""

    model: LanguageModelName | UnsetType = UNSET
    top: Top = 12
    states: Annotated[int, Meta(ge=1, le=1000)] = 64
    by: Literal["probability", "lift"] = "lift"


class WordRequest(Message):
    """A word."""

    word: Word
    model: LanguageModelName | UnsetType = UNSET
    top: Top = 12


class NextWord(Message):
    """A word that may follow, and its probability."""

    word: str
    probability: float


class NextAnswer(Message):
    """The next words, the most probable first."""

    context: list[str]
    unknown: list[str]
    next: list[NextWord]


class ValuedWord(Message):
    """A word of a topic."""

    word: str
    value: float


class TopicRow(Message):
    """A hidden state with its words, and the words before it."""

    state: Natural
    probability: float
    words: list[ValuedWord]
    contexts: list[ValuedWord]


class TopicsAnswer(Message):
    """Hidden states, most frequent first."""

    states: list[TopicRow]


class StateShare(Message):
    """Probability of a state after a word."""

    state: Natural
    probability: Probability


class SimilarWord(Message):
    """A word with similar states."""

    word: str
    likeness: float


class WordAnswer(Message):
    """The states after a word, and the words most like it."""

    word: str
    known: bool
    count: Natural
    profile: list[StateShare]
    nearest: list[SimilarWord]


def _model(request: Request[Any]) -> AnyModel:
    model: AnyModel = request.service.language_model(given(request.body.model)).model
    return model


def _latent(request: Request[Any]) -> LatentBigram:
    return latent_part(_model(request))


def _next(request: Request[NextRequest]) -> NextAnswer:
    model, words = _model(request), request.body.context
    found = model.next_words(words, request.body.top)
    unknown = [word for word in words if word not in model.vocabulary]
    return NextAnswer(words, unknown, [NextWord(*pair) for pair in found])


def _topics(request: Request[TopicsRequest]) -> TopicsAnswer:
    body = request.body
    return TopicsAnswer(
        [
            TopicRow(
                topic.state,
                topic.probability,
                [ValuedWord(*pair) for pair in topic.words],
                [ValuedWord(*pair) for pair in topic.contexts],
            )
            for topic in _latent(request).topics(body.top, by=body.by)[: body.states]
        ]
    )


def _word(request: Request[WordRequest]) -> WordAnswer:
    model, word, top = _latent(request), request.body.word, request.body.top
    if word not in model.vocabulary:
        return WordAnswer(word, False, 0, [], [])
    number = model.vocabulary.index[word]
    row = model.given[number]
    order = sorted(range(len(row)), key=lambda state: -row[state])[:top]
    profile = [StateShare(state, float(row[state])) for state in order]
    nearest = [SimilarWord(*pair) for pair in model.nearest(word, top)]
    return WordAnswer(word, True, int(model.vocabulary.counts[number]), profile, nearest)


ENDPOINTS: list[Endpoint[Any]] = [
    Endpoint(
        "POST",
        "/api/lm/next",
        "Suggest the next word: the output of `sapwood lm next --json`.",
        at_once(_next),
        NextAnswer,
        NextRequest,
    ),
    Endpoint(
        "GET",
        "/api/lm/topics",
        "Return the hidden states of a language model, most frequent first, with their words and preceding words.",
        at_once(_topics),
        TopicsAnswer,
        TopicsRequest,
    ),
    Endpoint(
        "POST",
        "/api/lm/word",
        "Return the hidden states that a word leads to, and the words with the most similar states.",
        at_once(_word),
        WordAnswer,
        WordRequest,
    ),
]
