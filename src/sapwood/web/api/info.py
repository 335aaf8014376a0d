"""Description of the service."""

from __future__ import annotations

from typing import Any

from sapwood.web.endpoints import Endpoint, Request, at_once
from sapwood.web.messages import NoContent


def _info(request: Request[NoContent]) -> dict[str, Any]:
    found: dict[str, Any] = request.service.describe()
    return found


ENDPOINTS: list[Endpoint[Any]] = [
    Endpoint("GET", "/api/info", "Describe the service: models, treebank, limits.", at_once(_info), dict)
]
