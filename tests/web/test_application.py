"""Further routes behind the checks of all applications."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from sapwood.web.application import error_answer, explorer_routes, make_application
from sapwood.web.endpoints import Endpoint, at_once, route
from sapwood.web.messages import Message, Positive
from sapwood.web.pages import Pages
from sapwood.web.service import Service


class Order(Message):
    """A request."""

    count: Positive


def test_routes_join_the_explorer():
    """Typed endpoints, files and plain routes of another application, below a path, next to the explorer's."""
    service = Service.load()
    endpoint = Endpoint("POST", "/order", "Order.", at_once(lambda request: request.body), Order, Order)

    async def greet(request: Request) -> JSONResponse:
        return JSONResponse({"hello": request.path_params["name"]})

    async def fail(request: Request) -> JSONResponse:
        raise ZeroDivisionError("a secret")

    mine = [
        route(endpoint, service),
        Route("/hello/{name}", greet),
        Route("/fail", fail),
        Pages({"/page": ("text/html; charset=utf-8", b"<p>mine</p>")}),
    ]
    stopped = []
    application = make_application(
        [Mount("/api/mine", routes=mine), Mount("/mine", routes=mine), *explorer_routes(service)],
        hosts={"localhost"},
        token="gr33n",
        stop=lambda: stopped.append(1),
    )
    with TestClient(application, "http://localhost", raise_server_exceptions=False) as client:
        answers = {
            "order": client.post("/mine/order", json={"count": 2}),
            "wrong order": client.post("/mine/order", json={"count": 0}),
            "no order": client.get("/mine/order"),
            "hello": client.get("/mine/hello/you"),
            "page": client.get("/mine/page"),
            "missing": client.get("/mine/nothing"),
            "fail": client.get("/mine/fail"),
            "no token": client.get("/api/mine/page"),
            "token": client.get("/api/mine/page", headers={"Authorization": "Bearer gr33n"}),
            "explorer": client.get("/parse"),
            "host": client.get("/mine/page", headers={"Host": "evil.example"}),
        }
    assert {name: answer.status_code for name, answer in answers.items()} == {
        "order": 200, "wrong order": 400, "no order": 405, "hello": 200, "page": 200, "missing": 404, "fail": 500,
        "no token": 401, "token": 200, "explorer": 200, "host": 400,
    }  # fmt: skip
    assert answers["order"].json() == {"count": 2}
    assert answers["wrong order"].json() == {"error": "the body.count must be at least 1, not 0"}
    assert answers["page"].text == "<p>mine</p>"
    assert "secret" not in answers["fail"].text
    for answer in answers.values():
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-request-id"]
    assert stopped == [1]


def test_errors_of_any_text():
    assert error_answer(400, "half \ud800").body == b'{"error":"half ?"}'
