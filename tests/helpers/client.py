"""A client of the service that checks every answer against its description."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator


class Client:
    """Calls a server, and checks every answer against its description."""

    def __init__(self, address: str, description: dict | None = None) -> None:
        self.address = address
        self.place = urlsplit(address).netloc
        self.description = description

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str):
        """Return status, headers and body."""
        connection = http.client.HTTPConnection(self.place, timeout=60)
        try:
            connection.request(method, path, body, {key.replace("_", "-"): value for key, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def post(self, path: str, value: object, **headers: str) -> tuple[int, dict]:
        """Return status and value of an answer, which is as described."""
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        status, _, text = self.ask("POST", path, body, Content_Type="application/json", **headers)
        found = json.loads(text)
        if self.description is not None:
            self.fits(path, "post", status, found)
        return status, found

    def get(self, path: str) -> tuple[int, dict]:
        """Return status and value of an answer, which is as described."""
        status, _, text = self.ask("GET", path)
        found = json.loads(text)
        if self.description is not None and path.startswith("/api/") and "openapi" not in path:
            self.fits(path.partition("?")[0], "get", status, found)
        return status, found

    def fits(self, path: str, method: str, status: int, value: object) -> None:
        """Check an answer against the description."""
        responses = self.description["paths"][path][method]["responses"]
        schema = responses[str(status)]["content"]["application/json"]["schema"]
        Draft202012Validator({**schema, "components": self.description["components"]}).validate(value)
