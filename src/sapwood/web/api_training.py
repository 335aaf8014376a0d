"""Training logs, finished or growing, as curves."""

from __future__ import annotations

from typing import Any

from sapwood.plots.curves import make_curves
from sapwood.run.log import read_log
from sapwood.web.endpoints import Endpoint, Request, at_once
from sapwood.web.schemas import BadRequest, listing, record, whole


def _training(request: Request) -> dict[str, Any]:
    logs, number = request.service.logs, request.body.get("log", 0)
    if number >= len(logs):
        raise BadRequest(f"there are {len(logs)} logs, numbered from 0; there is no {number}")
    path = logs[number]
    lines = read_log(path) if path.is_file() else []
    shown = [line for line in lines if line["event"] in ("iteration", "dev")]
    return {
        "log": path.name,
        "state": "waiting" if not lines else "finished" if lines[-1]["event"] == "end" else "running",
        "start": next((line for line in lines if line["event"] == "start"), None),
        "seconds": next((line["seconds"] for line in reversed(lines) if line.get("seconds") is not None), None),
        "last": shown[-1] if shown else None,
        "curves": [curve.to_dict() for curve in make_curves({path.name: lines}, x=request.body.get("x", "step"))]
        if shown
        else [],
    }


ENDPOINTS = [
    Endpoint(
        "GET",
        "/api/training",
        "Return the curves of a training log that the server was started with.",
        record(
            {
                "log": {"type": "string"},
                "state": {"type": "string", "enum": ["waiting", "running", "finished"]},
                "start": {"type": ["object", "null"]},
                "seconds": {"type": ["number", "null"]},
                "last": {"type": ["object", "null"]},
                "curves": listing({"type": "object"}),
            }
        ),
        at_once(_training),
        record({}, {"log": whole(0, 1000), "x": {"type": "string", "enum": ["step", "seconds"]}}),
    )
]
