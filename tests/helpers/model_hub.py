"""A stand-in for the Hugging Face hub on the loopback address: the part of its HTTP API that models need.

Repositories with commits, plain files and files on LFS, tokens and private repositories, and the error codes that
huggingface_hub reads. Xet, the hub's own protocol for large files, is left out: clients set HF_HUB_DISABLE_XET.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_stand_in"
OWNER = "owner"
# Files of at least this size, and those that are not text, are on LFS.
_LFS_SIZE = 1 << 20


@dataclass
class Repository:
    """A repository: its commits, oldest first, each with the content of all files."""

    private: bool
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    on_lfs: set[str] = field(default_factory=set)

    def commit_of(self, revision: str) -> str | None:
        """Return the commit of a revision, if there is one."""
        if revision == "main":
            return next(reversed(self.commits), None)
        return revision if revision in self.commits else None


class ModelHub:
    """The hub: repositories by name, files on LFS by digest, and the requests so far."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.large: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.address = ""

    def storage_of(self, oid: str) -> str:
        """Return the address of a file on LFS, which is on another host."""
        return f"{self.address.replace('127.0.0.1', 'localhost')}/lfs/{oid}"


@contextlib.contextmanager
def serving_models() -> Iterator[ModelHub]:
    """Serve a hub in threads of this process."""
    hub = ModelHub()
    handler = type("BoundHandler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        hub.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join(10)


class _Handler(BaseHTTPRequestHandler):
    hub: ModelHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_PUT = do_GET

    def _answer(self) -> None:
        path = self.path.partition("?")[0]
        self.hub.requests.append(f"{self.command} {path}")
        self.sent = self.rfile.read(int(self.headers.get("content-length", 0)))
        for method, pattern, call in _ROUTES:
            if method == self.command and (found := re.fullmatch(pattern, path)):
                if path.startswith("/lfs/") and "authorization" in self.headers:
                    self._fail(400, "", "this host must not learn tokens")
                else:
                    call(self, *found.groups())
                return
        self._fail(404, "", "no such page")

    @property
    def _known(self) -> bool:
        return self.headers.get("authorization") == f"Bearer {TOKEN}"

    def _send(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _send_json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), content_type="application/json")

    def _fail(self, status: int, code: str, message: str) -> None:
        self._send(status, json.dumps({"error": message}).encode(), x_error_code=code, x_error_message=message)

    def _repository(self, name: str, *, write: bool = False) -> Repository | None:
        found = self.hub.repositories.get(name)
        if write and not self._known:
            self._fail(401, "", "Invalid username or password.")
        elif found is None or (found.private and not self._known):
            # Nobody learns whether there is a private repository.
            self._fail(404 if self._known else 401, "RepoNotFound", "Repository not found")
        else:
            return found
        return None

    def create(self) -> None:
        asked = json.loads(self.sent)
        name = f"{asked['organization']}/{asked['name']}"
        if not self._known:
            self._fail(401, "", "Invalid username or password.")
        elif asked["organization"] != OWNER:
            self._fail(403, "", f"You don't have the rights to create a model under {asked['organization']}")
        elif name in self.hub.repositories:
            answer = {"error": "You already created this model repo", "url": f"{self.hub.address}/{name}"}
            self._send(409, json.dumps(answer).encode())
        else:
            self.hub.repositories[name] = Repository(asked.get("visibility") == "private")
            self._send_json({"url": f"{self.hub.address}/{name}", "name": name})

    def validate(self) -> None:
        import yaml

        front = json.loads(self.sent)["content"].split("---\n")[1]
        errors = [] if isinstance(yaml.safe_load(front), dict) else [{"message": "not a mapping"}]
        self._send_json({"errors": errors, "warnings": []})

    def preupload(self, name: str) -> None:
        if (repository := self._repository(name, write=True)) is None:
            return
        files = []
        now = repository.commits.get(repository.commit_of("main") or "", {})
        for asked in json.loads(self.sent)["files"]:
            path, sample = asked["path"], base64.b64decode(asked["sample"])
            large = asked["size"] >= _LFS_SIZE or b"\0" in sample
            content = now.get(path)
            oid = None
            if content is not None:
                header = f"blob {len(content)}\0".encode()
                oid = (hashlib.sha256(content) if large else hashlib.sha1(header + content)).hexdigest()
            files.append({"path": path, "uploadMode": "lfs" if large else "regular", "shouldIgnore": False, "oid": oid})
        self._send_json({"files": files})

    def batch(self, name: str) -> None:
        if self._repository(name, write=True) is None:
            return
        objects = []
        for asked in json.loads(self.sent)["objects"]:
            one = {"oid": asked["oid"], "size": asked["size"], "authenticated": True}
            if asked["oid"] not in self.hub.large:
                one["actions"] = {"upload": {"href": self.hub.storage_of(asked["oid"])}}
            objects.append(one)
        self._send_json({"transfer": "basic", "objects": objects})

    def put_large(self, oid: str) -> None:
        if hashlib.sha256(self.sent).hexdigest() != oid:
            self._fail(400, "", "wrong digest")
            return
        self.hub.large[oid] = self.sent
        self._send(200)

    def get_large(self, oid: str) -> None:
        self._send(200, self.hub.large[oid], etag=f'"{oid}"')

    def commit(self, name: str) -> None:
        if (repository := self._repository(name, write=True)) is None:
            return
        files = dict(repository.commits.get(repository.commit_of("main") or "", {}))
        for line in self.sent.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                files[value["path"]] = self.hub.large[value["oid"]]
                repository.on_lfs.add(value["path"])
        oid = hashlib.sha1(self.sent + str(len(repository.commits)).encode()).hexdigest()
        repository.commits[oid] = files
        url = f"{self.hub.address}/{name}/commit/{oid}"
        self._send_json({"success": True, "commitOid": oid, "commitUrl": url})

    def info(self, name: str) -> None:
        if (repository := self._repository(name)) is not None:
            self._send_json({"id": name, "sha": repository.commit_of("main"), "private": repository.private})

    def resolve(self, name: str, revision: str, path: str) -> None:
        if (repository := self._repository(name)) is None:
            return
        commit = repository.commit_of(revision)
        if commit is None:
            self._fail(404, "RevisionNotFound", "Invalid rev id")
        elif (content := repository.commits[commit].get(path)) is None:
            self._send(404, x_error_code="EntryNotFound", x_error_message="Entry not found", x_repo_commit=commit)
        elif path in repository.on_lfs:
            oid = hashlib.sha256(content).hexdigest()
            self.hub.large[oid] = content
            size, where = str(len(content)), self.hub.storage_of(oid)
            self._send(302, x_repo_commit=commit, x_linked_etag=f'"{oid}"', x_linked_size=size, location=where)
        else:
            self._send(200, content, x_repo_commit=commit, etag=f'"{hashlib.sha1(content).hexdigest()}"')


_NAME = r"([\w.-]+/[\w.-]+)"
_ROUTES = [
    ("POST", "/api/repos/create", _Handler.create),
    ("POST", "/api/validate-yaml", _Handler.validate),
    ("POST", rf"/api/models/{_NAME}/preupload/main", _Handler.preupload),
    ("POST", rf"/{_NAME}\.git/info/lfs/objects/batch", _Handler.batch),
    ("PUT", r"/lfs/(\w+)", _Handler.put_large),
    ("GET", r"/lfs/(\w+)", _Handler.get_large),
    ("HEAD", r"/lfs/(\w+)", _Handler.get_large),
    ("POST", rf"/api/models/{_NAME}/commit/main", _Handler.commit),
    ("GET", rf"/api/models/{_NAME}(?:/revision/main)?", _Handler.info),
    ("HEAD", rf"/{_NAME}/resolve/([\w.-]+)/([\w./-]+)", _Handler.resolve),
    ("GET", rf"/{_NAME}/resolve/([\w.-]+)/([\w./-]+)", _Handler.resolve),
]
