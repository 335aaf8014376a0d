"""Bodies of requests to a service: what fits the schema of an endpoint is answered, and everything else refused."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from fuzz.tree_targets import TREES, Target, written
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.lm import KneserNey, count_text
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree
from sapwood.web.endpoints import Endpoint, endpoints_of
from sapwood.web.messages import BadRequest
from sapwood.web.scheduler import RequestJob
from sapwood.web.service import Limits, Service

_WORDS = [["the", "dog", "saw", "it"], ["dogs"]]
# Paths of endpoints, each with a body that it answers.
_BODIES: dict[str, Any] = {
    "/api/parse": {"sentences": _WORDS, "marginals": True, "alternatives": 3},
    "/api/k-best": {"text": "The dog saw it. Dogs bark.", "count": 2, "lines": "sentences"},
    "/api/marginals": {"sentences": [{"tokens": ["the", ["dog", "NN"]], "phrases": [[0, 2, "NP"]]}], "least": 0.1},
    "/api/sample": {"sentences": _WORDS, "count": 2, "seed": 7},
    "/api/format": {"trees": "\n".join(TREES), "to": "export"},
    "/api/evaluate": {"gold": TREES[0], "predicted": TREES[0], "confidence": 0.9, "resamples": 5},
    "/api/search": {"pattern": "NP < NN", "count": 2},
    "/api/lm/next": {"context": ["a", "b"], "top": 3},
    "/api/lm/word": {"word": "a"},
}
_SEVERAL = (
    '[ ] { } : , "" null true "model" "text" "sentences" "tokens" "tag" "word" "phrases" \\ud800 \\u0000 1e999 -1'
)


@cache
def _endpoints() -> tuple[Service, dict[str, Endpoint[Any]]]:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("parser", "words", "trees", "text")]
        PCFG().fit(Corpus.from_trees(map(Tree.parse, TREES))).save(files[0])
        files[3].write_text("a b a c\nb a b d\n")
        KneserNey(order=2).fit(count_text(files[3], order=2)).save(files[1])
        files[2].write_text("\n".join(TREES))
        limits = Limits(body=5000, sentences=20, words=40, trees=20)
        service = Service.load([str(path) for path in files[:2]], treebank=str(files[2]), limits=limits)
    return service, {one.path: one for one in endpoints_of(service) if one.method == "POST"}


def _use(path: Path) -> None:
    name, _, body = path.read_bytes().partition(b"\n")
    service, endpoints = _endpoints()
    endpoint = endpoints.get(name.decode("ascii", "replace"))
    if endpoint is None:
        raise BadRequest("no such endpoint")
    found: list[tuple[Any, BaseException | None]] = []
    job = RequestJob(
        lambda job: endpoint.prepare(service, body, job), 5.0, lambda result, error: found.append((result, error))
    )
    while job.steps and not found:
        job.perform(job.steps.popleft())
    ((result, error),) = found
    if error is not None:
        raise error
    json.loads(result)


def requests() -> dict[str, Target]:
    """Return the targets."""
    originals = [f"{path}\n{json.dumps(body)}" for path, body in _BODIES.items()]
    return {"request": written(_SEVERAL, *originals, use=_use)}
