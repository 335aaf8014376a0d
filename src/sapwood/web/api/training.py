"""Training endpoint: the curves of logs, finished or growing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta

from sapwood.plots.curves import make_curves
from sapwood.runtime.log import read_log
from sapwood.web.endpoints import Endpoint, Request, at_once
from sapwood.web.messages import BadRequest, Message

Events = Sequence[Mapping[str, Any]]
# Curves next to log-likelihoods and F1: the event, the figure, the plot's title and the curve's name.
_SERIES = (
    ("dev", "perplexity", "Perplexity of the development text", "perplexity"),
    ("network", "loss", "Loss of the span scorer", "spans"),
    ("network", "tag_loss", "Loss of the span scorer", "tags"),
    ("layer", "loss", "Loss of the CRF", "loss"),
)
_DONE = ("iteration", "dev", "layer", "network")


class TrainingRequest(Message):
    """A log, and what is on the horizontal axis of its curves."""

    log: Annotated[int, Meta(ge=0, le=1000)] = 0
    x: Literal["step", "seconds"] = "step"


class Series(Message):
    """A curve."""

    title: str
    name: str
    unit: str
    x: list[float]
    y: list[float]


class TrainingAnswer(Message):
    """State and curves of a training run."""

    log: str
    state: Literal["waiting", "running", "finished"]
    now: str | None
    start: dict[str, Any] | None
    seconds: float | None
    last: dict[str, Any] | None
    curves: list[dict[str, Any]]
    series: list[Series]


def _training(request: Request[TrainingRequest]) -> TrainingAnswer:
    logs, number, by = request.service.logs, request.body.log, request.body.x
    if number >= len(logs):
        raise BadRequest(f"there are {len(logs)} logs, numbered from 0; there is no {number}")
    path = logs[number]
    lines = read_log(path) if path.is_file() else []
    shown = [line for line in lines if line["event"] in _DONE]
    steps = [line for line in shown if line["event"] in ("iteration", "dev")]
    climbs = any(line["event"] == "iteration" and _finite(line.get("log_likelihood")) for line in lines)
    return TrainingAnswer(
        log=path.name,
        state="waiting" if not lines else "finished" if lines[-1]["event"] == "end" else "running",
        now=_now(lines),
        start=next((dict(line) for line in lines if line["event"] == "start"), None),
        seconds=next((line["seconds"] for line in reversed(lines) if line.get("seconds") is not None), None),
        last=dict(steps[-1]) if steps else None,
        curves=[curve.to_dict() for curve in make_curves({path.name: lines}, x=by)] if climbs else [],
        series=_series(shown, by, climbs=climbs),
    )


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _series(lines: Events, by: str, *, climbs: bool) -> list[Series]:
    """Return further curves: losses by epoch, perplexities, and F1 if there are no EM iterations."""
    chosen = _SERIES if climbs else (("dev", "f1", "F1 on the development set", "F1"), *_SERIES)
    found = []
    for event, figure, title, name in chosen:
        points = [
            (line["seconds"] if by == "seconds" else line["step"], line[figure])
            for line in lines
            if line["event"] == event and _finite(line.get(figure)) and (by == "step" or _finite(line.get("seconds")))
        ]
        if points:
            x, y = zip(*points, strict=True)
            unit = "seconds" if by == "seconds" else "epoch" if event in ("layer", "network") else "step"
            found.append(Series(title, name, unit, list(x), list(y)))
    return found


def _now(lines: Events) -> str | None:
    """Return the latest step of a run in progress, else None."""
    if not lines or lines[-1]["event"] not in _DONE:
        return None
    last = lines[-1]
    if last["event"] in ("layer", "network"):
        begun = next((line for line in lines if line["event"] == "start"), {})
        settings = begun.get("settings")
        part = settings.get(last["event"]) if isinstance(settings, dict) else None
        epochs = part.get("epochs") if isinstance(part, dict) else None
        return f"{last['event']}, epoch {last['step']}" + (f" of {epochs}" if isinstance(epochs, int) else "")
    member = [f"grammar {last['member'] + 1}"] if isinstance(last.get("member"), int) else []
    cycle = [f"cycle {last['cycle']}"] if "cycle" in last else []
    phase = [str(last["phase"])] if "phase" in last else []
    return ", ".join([*member, *cycle, *phase, f"iteration {last.get('iteration', last['step'])}"])


ENDPOINTS: list[Endpoint[Any]] = [
    Endpoint(
        "GET",
        "/api/training",
        "Return the curves of a training log that the server was started with.",
        at_once(_training),
        TrainingAnswer,
        TrainingRequest,
    )
]
