"""A server that is killed: 200 actions by HTTP, with `kill -9` at 20 random moments; none is lost."""

from __future__ import annotations

import http.client
import json
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from sapwood.annotation.project import Project
from sapwood.annotation.proposals import RightBranching

SENTENCES = ["the dog barked", "a cat saw the dog with the bell .", "we slept", "birds sing in the old garden"]
ACTIONS, KILLS = 200, 20


class Server:
    """`sapwood annotate` in a process."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "sapwood", "annotate", str(folder), "--port", "0", "--quiet"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert "annotate at" in line, line
        self.place = urlsplit(line.split(" at ")[1].split()[0]).netloc

    def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer; raises `OSError` or `HTTPException` if the server is gone."""
        connection = http.client.HTTPConnection(self.place, timeout=30)
        try:
            connection.request("POST", f"/api/annotate/{path}", json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return {"http": answer.status, **json.loads(answer.read())}
        finally:
            connection.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def random_action(draw: random.Random, shown: dict[str, Any]) -> dict[str, Any]:
    size = len(shown["words"])
    start = draw.randrange(size)
    return draw.choice([
        {"edit": "make", "start": start, "end": draw.randrange(start + 1, size + 1), "label": draw.choice("NVAB")},
        {"edit": "relabel", "node": draw.randrange(len(shown["marks"])), "label": draw.choice("NVAB")},
        {"edit": "remove", "node": draw.randrange(len(shown["marks"]))},
        {"edit": "confirm", "node": draw.randrange(len(shown["marks"]))},
        {"edit": "note", "text": f"«{draw.random()}»"},
        {"edit": "split", "position": start, "words": ["a", "b"]} if size < 12 else {"edit": "skip"},
        {"edit": "accept"},
        {"edit": "undo"},
        {"edit": "redo"},
    ])  # fmt: skip


def what_is_shown(answer: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(answer[name] if not isinstance(answer[name], list) else tuple(answer[name])
                 for name in ("revision", "tree", "marks", "note", "status", "can_undo", "can_redo"))  # fmt: skip


@pytest.mark.slow
def test_nothing_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    Project.create(folder, sentences=[text.split() for text in SENTENCES])
    (folder / "project.json").write_text('{"retrain_after": 0}')
    draw = random.Random(5)
    moments = set(draw.sample(range(1, ACTIONS), KILLS))
    server = Server(folder)
    acknowledged: dict[int, tuple[Any, ...]] = {}
    under_way = kills = done = 0
    try:
        while done < ACTIONS:
            number = draw.randrange(len(SENTENCES)) + 1
            shown = server.ask("open", {"number": number})
            if number in acknowledged:
                assert what_is_shown(shown) == acknowledged[number]
            action = {"number": number, "revision": shown["revision"], **random_action(draw, shown)}
            if done in moments:
                moments.discard(done)
                kills += 1
                # Somewhere in the action, before or after it is on disk.
                killer = threading.Timer(draw.uniform(0.0, 0.1), server.process.kill)
                killer.start()
                try:
                    while True:
                        answer = server.ask("act", action)
                        if answer["http"] == 200:
                            acknowledged[number] = what_is_shown(answer)
                            revision = answer["revision"]
                            action = {
                                "number": number,
                                "revision": revision,
                                "edit": "note",
                                "text": str(draw.random()),
                            }
                except (OSError, http.client.HTTPException, ValueError):
                    under_way += 1
                killer.join()
                server.kill()
                server = Server(folder)
                found = what_is_shown(server.ask("open", {"number": number}))
                # At most the action under way is there in addition.
                if number in acknowledged and found != acknowledged[number]:
                    versions = [int(one[0].split("-")[0]) for one in (acknowledged[number], found)]
                    assert versions[1] == versions[0] + 1
                acknowledged[number] = found
            else:
                answer = server.ask("act", action)
                assert answer["http"] in (200, 422)
                if answer["http"] == 200:
                    acknowledged[number] = what_is_shown(answer)
            done += 1
    finally:
        server.kill()
    assert kills == KILLS
    assert under_way == KILLS
    with Project(folder) as project:
        assert project.messages == []
        for number, shown in acknowledged.items():
            state = project.state(number)
            assert state is not None
            assert (str(state.tree), tuple(map(int, state.marks)), state.note) == shown[1:4]
            # Undone to the start, the journal has what the sentence began as.
            while project.can_undo(number):
                revision = project.revision(number, project.open(number, RightBranching()))
                project.act(number, revision, "undo", {}, RightBranching())
            assert project.words(number) == SENTENCES[number - 1].split()
