"""Annotation endpoints: the project, its queue, and actions on sentences."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sapwood._version import __version__
from sapwood.annotation.project import StaleRevision
from sapwood.annotation.sentence_queue import QueueOrder
from sapwood.annotation.session import AnnotationSession, SentenceView
from sapwood.trees.formats.labels import explain_all
from sapwood.web.endpoints import Endpoint, Request, at_once
from sapwood.web.messages import Message, Natural, NoContent, Positive, Probability

Text = Annotated[str, Meta(max_length=1000)]
Window = Annotated[str, Meta(max_length=64, description="A name that each window of a browser makes up.")]
EditName: TypeAlias = Literal[
    "relabel", "make", "remove", "move", "raise", "lower", "confirm", "unconfirm", "unsure", "note", "respell", "split",
    "join", "choose", "accept", "reopen", "skip", "undo", "redo",
]  # fmt: skip
ExportFormat: TypeAlias = Literal[
    "brackets", "pretty", "export", "tiger", "discbracket", "tokens", "tagged", "conllu", "latex", "qtree"
]
# Words of a sentence in a list.
_SHOWN = 14


class ProjectRequest(Message):
    """The window that asks, whose sentence stays open in it."""

    window: Window = ""


class QueueRequest(Message):
    """A part of the sentences in an order, or of those whose trees match a pattern."""

    order: QueueOrder = "teaching"
    pattern: Annotated[str, Meta(max_length=2000)] = ""
    start: Natural = 0
    count: Annotated[int, Meta(ge=1, le=200)] = 50


class OpenRequest(Message):
    """A sentence, and the window that shows it."""

    number: Positive
    window: Window = ""


class ActionRequest(Message, kw_only=True):
    """An action on a sentence in a state that `revision` names, with what the action needs."""

    number: Positive
    revision: Annotated[str, Meta(max_length=64)]
    edit: EditName
    window: Window = ""
    node: Natural | UnsetType = UNSET
    parent: Natural | UnsetType = UNSET
    over: Natural | UnsetType = UNSET
    start: Natural | UnsetType = UNSET
    end: Natural | UnsetType = UNSET
    label: Text | UnsetType = UNSET
    position: Natural | UnsetType = UNSET
    word: Text | UnsetType = UNSET
    words: Annotated[list[Text], Meta(max_length=50)] | UnsetType = UNSET
    tree: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    right: bool | UnsetType = UNSET
    adjoin: bool | UnsetType = UNSET
    below: bool | UnsetType = UNSET
    unsure: bool | UnsetType = UNSET


class AlternativesRequest(Message):
    """A sentence, and a number of trees."""

    number: Positive
    count: Annotated[int, Meta(ge=1, le=20)] = 6


class FollowingRequest(Message):
    """A sentence, and the order in which the next one is wanted."""

    after: Natural
    order: QueueOrder = "teaching"
    pattern: Annotated[str, Meta(max_length=2000)] = ""


class ExportRequest(Message):
    """A format."""

    to: ExportFormat = "brackets"


class LearningAnswer(Message):
    """What is learned: of the last round, and of the one that is running."""

    model: str
    trees: Natural
    waiting: Natural
    running: bool
    step: Natural
    problem: str
    before: float | None = None
    after: float | None = None
    new: Natural = 0


class ProjectAnswer(Message):
    """The project."""

    name: str
    version: str
    annotator: str
    sentences: Natural
    counts: dict[str, Natural]
    labels: list[str]
    tags: list[str]
    explanations: dict[str, str]
    learning: LearningAnswer
    messages: list[str]
    problem: str


class QueueRow(Message):
    """A sentence in a list."""

    number: Positive
    text: str
    words: Natural
    status: str
    doubts: bool


class QueueAnswer(Message):
    """A part of a list of sentences."""

    total: Natural
    rows: list[QueueRow]
    ready: Annotated[bool, Meta(description="Whether the order is not being computed.")]


class SentenceAnswer(Message):
    """A sentence as it is shown."""

    number: Positive
    revision: str
    words: list[str]
    tree: str
    marks: list[Natural]
    phrases: list[tuple[Natural, Natural, str, Probability]]
    status: str
    note: str
    parsed: bool
    can_undo: bool
    can_redo: bool
    by: str
    time: str
    remark: str
    stale: bool
    counts: dict[str, Natural]
    messages: list[str]
    problem: str


class AlternativesAnswer(Message):
    """The next best trees."""

    trees: list[str]


class NumberAnswer(Message):
    """The number of a sentence, if there is one."""

    number: Positive | None


class TextAnswer(Message):
    """A text."""

    text: str


def _project(request: Request[ProjectRequest]) -> ProjectAnswer:
    session: AnnotationSession = request.service.session
    session.keep_open(request.body.window)
    session.look()
    labels = session.labels()
    explanations = explain_all([*labels["labels"], *labels["tags"]])
    return ProjectAnswer(
        session.project.folder.resolve().name,
        __version__,
        session.project.annotator,
        len(session.project),
        session.counts(),
        labels["labels"],
        labels["tags"],
        explanations,
        _learning(session),
        [*session.project.messages, *session.news],
        session.problem,
    )


def _learning(session: AnnotationSession) -> LearningAnswer:
    learning, last = session.learning, session.learning.last
    state = learning.state
    scores = (None, None, 0) if last is None else (last.before, last.after, last.new)
    trees = 0 if last is None else len(last.trees)
    return LearningAnswer(learning.name, trees, learning.waiting(), state.running, state.step, state.problem, *scores)


def _queue(request: Request[QueueRequest]) -> QueueAnswer:
    session: AnnotationSession = request.service.session
    asked = request.body
    numbers = session.queue.numbers(asked.order, asked.pattern)
    rows = []
    for number in numbers[asked.start : asked.start + asked.count]:
        words, state = session.project.words(number), session.project.state(number)
        text = " ".join(words[:_SHOWN]) + (" …" if len(words) > _SHOWN else "")
        rows.append(QueueRow(number, text, len(words), session.project.status(number), bool(state and state.doubtful)))
    return QueueAnswer(len(numbers), rows, session.queue.is_ready)


def _open(request: Request[OpenRequest]) -> SentenceAnswer:
    session: AnnotationSession = request.service.session
    session.look()
    return _shown(session, session.open(request.body.number, request.body.window))


def _act(request: Request[ActionRequest]) -> SentenceAnswer:
    session: AnnotationSession = request.service.session
    arguments = msgspec.to_builtins(request.body)
    number, revision, edit, window = (arguments.pop(name) for name in ("number", "revision", "edit", "window"))
    try:
        return _shown(session, session.act(number, revision, edit, arguments, window))
    except StaleRevision as error:
        return _shown(session, session.open(number, window), str(error))


def _shown(session: AnnotationSession, view: SentenceView, stale: str = "") -> SentenceAnswer:
    found = view.annotation
    return SentenceAnswer(
        view.number,
        view.revision,
        found.words,
        str(found.tree),
        [int(mark) for mark in found.marks],
        [(one.start, one.end, one.label, min(1.0, round(one.probability, 4))) for one in view.phrases],
        found.status,
        found.note,
        view.parsed,
        view.can_undo,
        view.can_redo,
        view.by,
        view.time,
        stale or view.remark,
        bool(stale),
        session.counts(),
        [*session.project.messages, *session.news],
        session.problem,
    )


def _alternatives(request: Request[AlternativesRequest]) -> AlternativesAnswer:
    found = request.service.session.alternatives(request.body.number, request.body.count)
    return AlternativesAnswer([str(tree) for tree in found])


def _next(request: Request[FollowingRequest]) -> NumberAnswer:
    asked = request.body
    return NumberAnswer(request.service.session.next(asked.after, asked.order, asked.pattern))


def _learn(request: Request[NoContent]) -> LearningAnswer:
    session: AnnotationSession = request.service.session
    session.learning.start(asked=True)
    return _learning(session)


def _export(request: Request[ExportRequest]) -> TextAnswer:
    return TextAnswer(request.service.session.export(request.body.to))


ENDPOINTS: list[Endpoint[Any]] = [
    Endpoint("GET", "/api/annotate/project", "Describe the project.", at_once(_project), ProjectAnswer, ProjectRequest),
    Endpoint("GET", "/api/annotate/queue", "List sentences in an order.", at_once(_queue), QueueAnswer, QueueRequest),
    Endpoint("POST", "/api/annotate/open", "Show a sentence.", at_once(_open), SentenceAnswer, OpenRequest),
    Endpoint("POST", "/api/annotate/act", "Do an action on a sentence.", at_once(_act), SentenceAnswer, ActionRequest),
    Endpoint(
        "POST",
        "/api/annotate/alternatives",
        "Return the next best trees.",
        at_once(_alternatives),
        AlternativesAnswer,
        AlternativesRequest,
    ),
    Endpoint(
        "POST", "/api/annotate/next", "Return the next open sentence.", at_once(_next), NumberAnswer, FollowingRequest
    ),
    Endpoint("POST", "/api/annotate/learn", "Learn from the accepted trees.", at_once(_learn), LearningAnswer),
    Endpoint("GET", "/api/annotate/export", "Return the accepted trees.", at_once(_export), TextAnswer, ExportRequest),
]
