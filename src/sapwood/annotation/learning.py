"""Learning along: models trained in the background on the trees that were accepted so far.

A round trains three models by `sapwood train`, at low priority, each in a process of its own. The trees that were
accepted since the last round are halved. The first two models learn from the older trees and one of the halves, and
parse the other: their F1, next to that of the present parser on the same trees, says how much is gained. The third
learns from all trees, and takes over if the gain is not negative. What is half-annotated is learned from, too: the
trees that are shown for these sentences have all that is confirmed, and count as `--silver` trees.

The state of a round is in `models/round-N/`; a round that was interrupted is continued.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sapwood.annotation.project import MODELS, Project
from sapwood.annotation.proposals import ParserProposer, Proposer, RightBranching, parse_in_parts, rooted
from sapwood.errors import InputError, SapwoodError
from sapwood.evaluate.brackets import Scorer
from sapwood.inference.parser import Parser
from sapwood.storage.files import atomic_write, explained
from sapwood.storage.json_values import json_problem
from sapwood.trees.formats.brackets import format_tree
from sapwood.trees.normalise import Normaliser
from sapwood.trees.tree import Tree

# Trees without which nothing can be said about a model.
LEAST_TREES = 4
_CURRENT = "current.json"
_STEPS = ("first-half", "second-half", "all")
_LEAST_PRIORITY = 19
_ROUND = re.compile(r"round-([0-9]{1,9})", re.ASCII)
_MODEL = re.compile(rf"{_ROUND.pattern}/[\w-]{{1,40}}\.sapwood", re.ASCII)


@dataclass(frozen=True)
class LearnedModel:
    """A model of a project, and what it gained.

    Attributes
    ----------
    model
        Path of the model, from the folder of models.
    trees
        Numbers of the sentences whose trees it learned from.
    new
        Number of trees that were accepted since the round before.
    before, after
        F1 on those trees: of the parser before, and of parsers that learned from all other trees and half of them.
    taken
        Whether it took over.
    """

    model: str
    trees: tuple[int, ...]
    new: int
    before: float
    after: float
    taken: bool


class RoundState:
    """What is said about a round while it runs."""

    def __init__(self) -> None:
        self.running = False
        self.step = 0
        self.problem = ""


class BackgroundLearning:
    """Rounds of training for a project, in a thread.

    Parameters
    ----------
    project
        The project.
    given
        Parser to begin with, or None.
    ready
        Called in the thread with the result of a round, and the new parser if it takes over.
    """

    def __init__(
        self,
        project: Project,
        given: Parser | None = None,
        ready: Callable[[LearnedModel, Parser | None], object] = lambda *_: None,
    ) -> None:
        self.project, self.ready = project, ready
        self.folder = project.folder / MODELS
        self.state = RoundState()
        self.last = self._read_last()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closing = False
        self._parser = given
        self._taken: LearnedModel | None = None
        taken = self._read(_CURRENT)
        if taken is not None:
            self._parser, self._taken = Parser(self.folder / taken.model), taken

    @property
    def name(self) -> str:
        """Name of the present parser."""
        if self._taken is not None:
            return f"learned from {len(self._taken.trees)} trees"
        return "none yet: right-branching trees" if self._parser is None else self.project.settings.model or "given"

    @property
    def parser(self) -> Parser | None:
        """The present parser: the last model that took over, or else the one to begin with."""
        return self._parser

    def proposer(self) -> Proposer:
        """Return the source of proposals: the present parser, or right-branching trees."""
        if self._parser is not None:
            return ParserProposer(self._parser)
        return RightBranching.of(tree for _, tree in self.project.trees())

    def waiting(self) -> int:
        """Return the number of trees that were accepted since the last round."""
        known = set(() if self.last is None else self.last.trees)
        return sum(number not in known for number, _ in self.project.trees())

    def is_due(self) -> bool:
        """Return whether enough trees were accepted since the last round."""
        after = self.project.settings.retrain_after
        return bool(after) and self.waiting() >= max(after, 2) and self._has_enough()

    def _has_enough(self) -> bool:
        return sum(1 for _ in self.project.trees()) >= LEAST_TREES

    def start(self, *, asked: bool = False) -> bool:
        """Begin a round, or continue one, if it is due or asked for; returns whether one is running."""
        with self._lock:
            if self.state.running:
                return True
            begun = self._unfinished()
            if begun is None and not (self.is_due() or (asked and self.waiting() >= 2 and self._has_enough())):
                return False
            place = begun or self._prepare()
            self.state.running, self.state.step, self.state.problem = True, 0, ""
            self._thread = threading.Thread(target=self._run, args=(place,), name="learning", daemon=True)
            self._thread.start()
            return True

    def join(self, seconds: float | None = None) -> None:
        """Wait until the round ends."""
        if self._thread is not None:
            self._thread.join(seconds)

    def close(self) -> None:
        """Interrupt the round, which can be continued later."""
        self._closing = True
        if (process := self._process) is not None:
            process.terminate()
        self.join(10)

    def _prepare(self) -> Path:
        """Write the trees of a new round."""
        known = set(() if self.last is None else self.last.trees)
        trees = dict(self.project.trees())
        new = [number for number in trees if number not in known]
        # Every other one, so that both halves are alike.
        halves = new[::2], new[1::2]
        place = self.folder / f"round-{max(self._rounds(), default=0) + 1}"
        place.mkdir(parents=True)
        for step, left_out in zip(_STEPS, (*halves, []), strict=True):
            _write_trees(place / f"{step}.mrg", (tree for number, tree in trees.items() if number not in left_out))
        silver = list(self._silver(trees.values()))
        _write_trees(place / "silver.mrg", silver)
        plan = {"trees": list(trees), "halves": halves, "silver": len(silver)}
        _write_json(place / "plan.json", plan)
        return place

    def _silver(self, gold: Iterable[Tree]) -> Iterator[Tree]:
        """Yield the trees of half-annotated sentences, parsed under what is confirmed, with labels of gold trees."""
        labels = {node.label for tree in gold for node in tree.nodes()}
        for number, _ in self.project.half_annotated() if self._parser is not None else ():
            state = self.project.state(number)
            if state is not None and all(node.label in labels for node in state.tree.nodes()):
                yield state.tree

    def _unfinished(self) -> Path | None:
        rounds = self._rounds()
        begun = [
            number
            for number, place in rounds.items()
            if (place / "plan.json").is_file() and not (place / "result.json").exists()
        ]
        return rounds[max(begun)] if begun else None

    def _rounds(self) -> dict[int, Path]:
        """Return the folders of rounds by their numbers."""
        found = ((_ROUND.fullmatch(path.name), path) for path in self.folder.glob("round-*"))
        return {int(match[1]): path for match, path in found if match is not None}

    def _run(self, place: Path) -> None:
        try:
            result = self._train(place)
            if result is None:
                return
            parser = None
            if result.taken:
                parser = Parser(self.folder / result.model)
                _write_json(self.folder / _CURRENT, asdict(result))
                self._parser, self._taken = parser, result
            _write_json(place / "result.json", asdict(result))
            self.last = result
            self._clean(place)
            self.state.running = False
            self.ready(result, parser)
        except SapwoodError as error:
            self.state.problem = str(error)
        except OSError as error:
            self.state.problem = f"{error.filename}: {error.strerror}"
        finally:
            self.state.running = False

    def _train(self, place: Path) -> LearnedModel | None:
        """Train the models of a round, and score them; None if it was interrupted."""
        plan = _read_json(place / "plan.json", {"trees": list, "halves": list, "silver": int})
        halves = plan["halves"]
        if not (len(halves) == 2 and all(isinstance(half, list) for half in halves)) or not all(
            map(_are_numbers, (plan["trees"], *halves))
        ):
            raise InputError(f"{place / 'plan.json'}: not the plan of a round; remove the folder {place.name}")
        trees = dict(self.project.trees())
        pairs: list[tuple[list[Tree], Parser | None]] = []
        for self.state.step, step in enumerate(_STEPS, 1):
            model = place / f"{step}.sapwood"
            if not model.exists():
                self._train_one(place, step, silver=bool(plan["silver"]))
            if self._closing:
                return None
            if step != "all":
                held_out = halves[self.state.step - 1]
                pairs.append(([trees[number] for number in held_out if number in trees], Parser(model)))
        before = [(tree, self._parser) for held_out, _ in pairs for tree in held_out]
        after = [(tree, parser) for held_out, parser in pairs for tree in held_out]
        scores = self._f1(before), self._f1(after)
        new = sum(map(len, halves))
        name = f"{place.name}/{_STEPS[-1]}.sapwood"
        return LearnedModel(name, tuple(plan["trees"]), new, *scores, taken=scores[1] >= scores[0])

    def _train_one(self, place: Path, step: str, *, silver: bool) -> None:
        command = [sys.executable, "-m", "sapwood", "train", str(place / f"{step}.mrg"), "--quiet", "--threads", "1"]
        command += ["-o", str(place / f"{step}.sapwood"), "--resume"]
        command += [f"--keep-tag={tag}" for tag in self.project.settings.keep_tags]
        if silver:
            command += ["--silver", str(place / "silver.mrg")]
        settings: dict[str, Any] = {}
        if sys.platform == "win32":
            settings["creationflags"] = subprocess.BELOW_NORMAL_PRIORITY_CLASS
        elif nice := shutil.which("nice"):
            command = [nice, "-n", str(_LEAST_PRIORITY), *command]
        with (place / f"{step}.err").open("w+b") as messages:
            with subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=messages, **settings
            ) as process:
                self._process = process
                if self._closing:
                    process.terminate()
                code = process.wait()
            self._process = None
            messages.seek(0)
            said = messages.read().decode("utf-8", "replace").strip()
        if code and not self._closing:
            # The next round begins anew.
            (place / "plan.json").rename(place / "failed.json")
            raise InputError(f"training failed: {said.splitlines()[-1] if said else f'exit code {code}'}")

    def _f1(self, pairs: Sequence[tuple[Tree, Parser | None]]) -> float:
        normaliser = Normaliser(keep=self.project.settings.keep_tags)
        scorer = Scorer()
        baseline = RightBranching()
        for tree, parser in pairs:
            gold = normaliser(tree)
            if gold is None:
                continue
            words = gold.words()
            found = baseline.start(words).tree if parser is None else parse_in_parts(parser, words)
            scorer.add(gold, rooted(found) if parser is None else found)
        return round(scorer.result().f1, 2)

    def _clean(self, place: Path) -> None:
        """Remove the models of earlier rounds, apart from the one that is used."""
        used = self._read(_CURRENT)
        kept = {place.name} | (set() if used is None else {Path(used.model).parts[0]})
        for other in self._rounds().values():
            if other.name not in kept:
                shutil.rmtree(other, ignore_errors=True)

    def _read_last(self) -> LearnedModel | None:
        rounds = self._rounds()
        ended = [number for number, place in rounds.items() if (place / "result.json").is_file()]
        return self._read(f"{rounds[max(ended)].name}/result.json") if ended else None

    def _read(self, name: str) -> LearnedModel | None:
        path = self.folder / name
        if not path.is_file():
            return None
        value = _read_json(
            path, {"model": str, "trees": list, "new": int, "before": float, "after": float, "taken": bool}
        )
        if not _are_numbers(value["trees"]) or value["new"] < 0:
            raise InputError(f"{path}: not a model of this project; remove the folder {MODELS}")
        if not _MODEL.fullmatch(value["model"]):
            raise InputError(f"{path}: its model is outside the folder of models")
        return LearnedModel(**{**value, "trees": tuple(value["trees"])})


def _read_json(path: Path, kinds: dict[str, type]) -> dict[str, Any]:
    """Read an object with members of these types, and no others."""
    with explained(path):
        content = path.read_bytes()
    try:
        value = json.loads(content)
        problem = json_problem(value)
    except (ValueError, RecursionError) as error:
        value, problem = None, str(error)
    if not problem and not (
        isinstance(value, dict)
        and value.keys() == kinds.keys()
        and all(
            type(value[name]) is kind or (kind is float and type(value[name]) is int) for name, kind in kinds.items()
        )
    ):
        problem = f"it must have {', '.join(kinds)}"
    if problem:
        raise InputError(f"{path}: not a file of this project ({problem}); remove the folder {MODELS}")
    return dict(value)


def _are_numbers(values: list[Any]) -> bool:
    return all(type(value) is int and value > 0 for value in values)


def _write_trees(path: Path, trees: Iterable[Tree]) -> None:
    with atomic_write(path) as stream:
        for tree in trees:
            stream.write(f"{format_tree(tree)}\n".encode())


def _write_json(path: Path, value: Any) -> None:
    with atomic_write(path) as stream:
        stream.write((json.dumps(value, indent=1) + "\n").encode())
