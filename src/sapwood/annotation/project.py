"""Annotation project: a folder of plain files with sentences, gold trees and the journal of all actions.

    sentences.txt    one sentence a line, tokens separated by spaces; its number is that of the line
    drafts.mrg       optional: trees to start from, one a line, in the same order
    trees.mrg        accepted trees, each after a comment with the number of its sentence
    journal.jsonl    every action (`sapwood.annotation.journal`)
    project.json     settings
    models/          models trained here; Git ignores them

The journal is what counts: `trees.mrg` follows it, and is written as a whole. If another program changes that file, its
trees are taken over, as one more action that can be undone; if it cannot be read, it is left alone until it can be.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from sapwood.annotation.editing import FINAL, EditError, apply
from sapwood.annotation.journal import Journal, JournalEntry, now
from sapwood.annotation.proposals import ProposedAnnotation, Proposer, rooted
from sapwood.annotation.state import Annotation
from sapwood.errors import InputError, UsageError
from sapwood.storage.files import atomic_write, explained, read_lines
from sapwood.storage.locks import claimed
from sapwood.trees.formats.brackets import TOKENS, format_pretty, format_tree, parse_trees
from sapwood.trees.formats.registry import read_tokens
from sapwood.trees.partial import PartialTree
from sapwood.trees.tree import Tree

SENTENCES, DRAFTS, TREES, JOURNAL, SETTINGS, MODELS = (
    "sentences.txt",
    "drafts.mrg",
    "trees.mrg",
    "journal.jsonl",
    "project.json",
    "models",
)
_NUMBER = re.compile(r"#\s*(\d{1,9})\s*")
# Proposals that are kept for sentences on which nothing was done yet.
_MOST_OPENED = 256
_LOCKS = 64
# Messages that are kept, and characters of a setting.
_MOST_MESSAGES, _LONGEST_SETTING = 20, 1000
_IGNORED, _ATTRIBUTES = ".gitignore", ".gitattributes"


class StaleRevision(UsageError):
    """An action on a state of a sentence that is not the present one."""


@dataclass(frozen=True)
class ProjectSettings:
    """Settings of a project, in `project.json`.

    Attributes
    ----------
    model
        Name or path of the model to begin with; None: without one.
    retrain_after
        Number of accepted trees after which a model is trained; 0: only on request.
    keep_tags
        Function tags that the parser learns, such as `-SBJ`.
    layout
        Layout of `trees.mrg`: one tree a line (`lines`), or `indented`.
    """

    model: str | None = None
    retrain_after: int = 10
    keep_tags: tuple[str, ...] = ()
    layout: Literal["lines", "indented"] = "lines"

    @classmethod
    def read(cls, path: Path) -> ProjectSettings:
        """Read settings; raises `InputError` for unknown ones and wrong types."""
        text = "".join(line for _, line in read_lines(path))
        try:
            given = json.loads(text)
            known = {one.name for one in fields(cls)}
            if not isinstance(given, dict) or given.keys() - known:
                raise ValueError(f"known settings are {', '.join(sorted(known))}")
            found = cls(**{**given, "keep_tags": tuple(given.get("keep_tags", ()))})
            right = (
                (found.model is None or _is_plain(found.model))
                and type(found.retrain_after) is int
                and found.retrain_after >= 0
                and isinstance(given.get("keep_tags", []), list)
                and all(map(_is_plain, found.keep_tags))
                and found.layout in ("lines", "indented")
            )
            if not right:
                raise ValueError("a setting has a value that it cannot have")
        except (ValueError, TypeError, RecursionError) as error:
            raise InputError(f"{path}: not the settings of an annotation project: {error}") from None
        return found

    def write(self, path: Path) -> None:
        """Write the settings."""
        with atomic_write(path) as stream:
            stream.write((json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n").encode())


@dataclass
class _SentenceRecord:
    """What the journal has on a sentence: its annotation, and where the earlier ones are."""

    state: Annotation
    version: int = 0
    # Lines of the journal with the states that can be undone and redone, and the place of the present one.
    history: list[int] = field(default_factory=list)
    cursor: int = -1
    by: str = ""
    time: str = ""


class Project:
    """An open annotation project.

    Parameters
    ----------
    folder
        The folder, made by `Project.create`.
    annotator
        Name that the journal gives to actions.
    read_only
        Open it without claiming it; no action is possible.
    """

    def __init__(self, folder: str | Path, *, annotator: str = "", read_only: bool = False) -> None:
        self.folder, self.annotator = Path(folder), annotator
        self._stack = contextlib.ExitStack()
        self._lock = threading.RLock()
        self._locks = [threading.RLock() for _ in range(_LOCKS)]
        self._opened: OrderedDict[int, Annotation] = OrderedDict()
        self.messages: list[str] = []
        if not (self.folder / SETTINGS).is_file():
            raise InputError(f"{self.folder}: not an annotation project; make one with --text or --trees")
        _refuse_links(self.folder)
        self.settings = ProjectSettings.read(self.folder / SETTINGS)
        with contextlib.ExitStack() as stack:
            if not read_only:
                stack.enter_context(claimed(self.folder / JOURNAL))
            self._read_sentences()
            self.journal = Journal(self.folder / JOURNAL, read_only=read_only)
            stack.callback(self.journal.close)
            self._replay()
            self._stack = stack.pop_all()
        self.read_only = read_only
        if not read_only:
            self.refresh()

    def __enter__(self) -> Project:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write the trees, and give the project free."""
        try:
            if not self.read_only and self.journal.is_unchanged():
                self.save()
        finally:
            self._stack.close()

    @classmethod
    def create(
        cls,
        folder: str | Path,
        *,
        sentences: Iterable[Sequence[str]] = (),
        drafts: Iterable[Tree] = (),
        settings: ProjectSettings | None = None,
    ) -> tuple[int, int]:
        """Make a project folder of sentences, or of draft trees, or add them to the one there is.

        Returns the numbers of sentences and of drafts that were added: none of those that are there already, as a
        block in the same order.
        """
        place = Path(folder)
        with explained(place, "write"):
            place.mkdir(parents=True, exist_ok=True)
        _refuse_links(place)
        is_new = not (place / SETTINGS).exists()
        given = [rooted(tree) for tree in drafts]
        rows = [list(words) for words in sentences if words]
        with claimed(place / JOURNAL):
            before = [] if is_new else list(read_tokens(place / SENTENCES))
            old_drafts = _read_drafts(place, len(before))
            if _has_block(map(_line, before), map(_line, rows)):
                rows = []
            here = (old_drafts.get(number) for number in range(1, len(before) + 1))
            if _has_block(
                ("" if tree is None else format_tree(rooted(tree)) for tree in here), map(format_tree, given)
            ):
                given = []
            if given or (rows and old_drafts):
                every: list[Tree | None] = [old_drafts.get(number) for number in range(1, len(before) + 1)]
                every += [*([None] * len(rows)), *given]
                _write_lines(place / DRAFTS, ("" if tree is None else format_tree(tree) for tree in every))
            if is_new or rows or given:
                _write_lines(place / SENTENCES, map(_line, [*before, *rows, *(tree.words() for tree in given)]))
            if settings is not None or is_new:
                (settings or ProjectSettings()).write(place / SETTINGS)
            if is_new:
                _write_lines(place / _IGNORED, [f"{MODELS}/", ".*.lock"])
                # Two people's actions are kept, one after the other.
                _write_lines(place / _ATTRIBUTES, [f"{JOURNAL} merge=union"])
        return len(rows), len(given)

    # Reading.

    def _read_sentences(self) -> None:
        self.sentences: list[list[str]] = []
        for number, words in enumerate(read_tokens(self.folder / SENTENCES), 1):
            if not words:
                raise InputError(f"{self.folder / SENTENCES}:{number}: a blank line; a line is a sentence")
            self.sentences.append(words)
        self._drafts = _read_drafts(self.folder, len(self.sentences))
        for number, tree in self._drafts.items():
            if tree.words() != self.sentences[number - 1]:
                raise InputError(f"{self.folder / DRAFTS}:{number}: its words are not those of {SENTENCES}:{number}")

    def _replay(self) -> None:
        """Read the journal."""
        self._records: dict[int, _SentenceRecord] = {}
        # Accepted trees as they were last written, of sentences that changed since.
        self._before: dict[int, Tree | None] = {}
        self._digests: list[str] = []
        for entry in self.journal.entries():
            if entry.sentence == 0:
                self._digests = [*self._digests[-1:], str(entry.action.get("digest", ""))]
                self._before.clear()
                continue
            if not 1 <= entry.sentence <= len(self.sentences):
                raise InputError(
                    f"{self.journal.path}: sentence {entry.sentence} is not in {SENTENCES}; restore that file"
                )
            record = self._records.get(entry.sentence)
            if record is not None and entry.version != record.version + 1:
                self._say(f"sentence {entry.sentence} was changed by two annotators: the later change counts; "
                          "undo shows the earlier one")  # fmt: skip
            self._take(entry)
        self._stat = self._present_stat()

    def _take(self, entry: JournalEntry) -> None:
        """Follow a line of the journal."""
        number = entry.sentence
        record = self._records.get(number)
        self._before.setdefault(number, self._gold(number))
        if entry.state is not None:
            state = self._read_state(entry)
            if record is None:
                record = self._records[number] = _SentenceRecord(state)
            record.state = state
            del record.history[record.cursor + 1 :]
            record.history.append(entry.offset)
            record.cursor += 1
        else:
            step = {"undo": -1, "redo": 1}.get(entry.action["edit"], 0)
            if record is None or not step or not 0 <= record.cursor + step < len(record.history):
                raise InputError(f"{self.journal.path}: sentence {number} has nothing to {entry.action['edit']}")
            record.cursor += step
            record.state = self._read_state(self.journal.entry(record.history[record.cursor]))
        record.version, record.by, record.time = entry.version, entry.by, entry.time
        self._opened.pop(number, None)

    def _read_state(self, entry: JournalEntry) -> Annotation:
        try:
            return Annotation.from_json(entry.state or {})
        except InputError as error:
            raise InputError(f"{self.journal.path}: sentence {entry.sentence}: {error}; restore the file") from None

    def __len__(self) -> int:
        return len(self.sentences)

    def words(self, number: int) -> list[str]:
        """Return the words of a sentence as they are now."""
        record = self._records.get(self._checked(number))
        return self.sentences[number - 1] if record is None else record.state.words

    def state(self, number: int) -> Annotation | None:
        """Return the annotation of a sentence; None if nothing was done on it."""
        record = self._records.get(self._checked(number))
        return None if record is None else record.state

    def draft(self, number: int) -> Tree | None:
        """Return the draft of a sentence, if it has one."""
        return self._drafts.get(self._checked(number))

    def status(self, number: int) -> str:
        """Return the status of a sentence."""
        state = self.state(number)
        return "new" if state is None else state.status

    def last_change(self, number: int) -> tuple[str, str]:
        """Return who changed a sentence last, and when."""
        record = self._records.get(self._checked(number))
        return ("", "") if record is None else (record.by, record.time)

    def trees(self) -> Iterator[tuple[int, Tree]]:
        """Yield the numbers and trees of the sentences whose trees are accepted."""
        for number in sorted(self._records):
            if (tree := self._gold(number)) is not None:
                yield number, tree

    def half_annotated(self) -> Iterator[tuple[int, PartialTree]]:
        """Yield the numbers of begun sentences, and what is confirmed of their trees."""
        for number in sorted(self._records):
            state = self._records[number].state
            if state.status == "begun" and any(state.marks):
                yield number, state.partial()

    def _gold(self, number: int) -> Tree | None:
        record = self._records.get(number)
        return record.state.tree if record is not None and record.state.status == "done" else None

    def _checked(self, number: int) -> int:
        if not 1 <= number <= len(self.sentences):
            raise UsageError(f"there is no sentence {number}; there are {len(self.sentences):,}")
        return number

    # Acting.

    def open(self, number: int, proposer: Proposer) -> Annotation:
        """Return the annotation of a sentence: as it was left, or its draft, or a proposal."""
        with self._lock_of(number):
            if (found := self.state(number)) is not None:
                return found
            if number in self._opened:
                self._opened.move_to_end(number)
                return self._opened[number]
            draft = self.draft(number)
            found = proposer.start(self.words(number)) if draft is None else Annotation.proposed(draft)
            self._opened[number] = found
            while len(self._opened) > _MOST_OPENED:
                self._opened.popitem(last=False)
            return found

    def forget_proposals(self) -> None:
        """Forget the proposals for sentences on which nothing was done yet: there is a better parser."""
        self._opened.clear()

    def revision(self, number: int, annotation: Annotation) -> str:
        """Return a name of a state of a sentence, which actions on it must give."""
        record = self._records.get(number)
        digest = hashlib.sha256(json.dumps(annotation.to_json()).encode()).hexdigest()[:12]
        return f"{0 if record is None else record.version}-{digest}"

    def can_undo(self, number: int) -> bool:
        """Return whether there is an earlier state of a sentence."""
        record = self._records.get(number)
        return record is not None and record.cursor > 0

    def can_redo(self, number: int) -> bool:
        """Return whether a state was undone."""
        record = self._records.get(number)
        return record is not None and record.cursor + 1 < len(record.history)

    def act(
        self, number: int, revision: str, edit: str, arguments: Mapping[str, Any], proposer: Proposer
    ) -> ProposedAnnotation:
        """Do an action on a sentence, and return its annotation with new proposals, once it is on disk.

        Raises `StaleRevision` if the sentence is not in the state that `revision` names.
        """
        with self._lock_of(number):
            before = self.open(number, proposer)
            self._check(number, before, revision)
            if edit in ("undo", "redo"):
                return self._step(number, edit)
            after = apply(before, edit, **arguments)
            found = ProposedAnnotation(after, True) if edit in FINAL else proposer.propose(after)
            self._append(number, {"edit": edit, **arguments}, before, found.annotation, revision)
            return found

    def _check(self, number: int, annotation: Annotation, revision: str) -> None:
        if revision != self.revision(number, annotation):
            by, time = self.last_change(number)
            who, when = f" by {by}" if by else "", f" at {time}" if time else ""
            raise StaleRevision(f"this sentence was changed elsewhere{who}{when}; here is its present state")

    def _step(self, number: int, edit: str) -> ProposedAnnotation:
        if not (self.can_undo(number) if edit == "undo" else self.can_redo(number)):
            raise EditError(f"there is nothing to {edit}")
        version = self._records[number].version + 1
        self._write([{"sentence": number, "version": version, "action": {"edit": edit}}])
        return ProposedAnnotation(self._records[number].state, True)

    def _append(
        self, number: int, action: Mapping[str, Any], before: Annotation, after: Annotation, revision: str = ""
    ) -> None:
        """Write an action on a sentence, which must still be in the state that `revision` names."""
        with self._lock:
            record = self._records.get(number)
            if revision:
                self._check(number, before if record is None else record.state, revision)
            version = 0 if record is None else record.version
            entries: list[dict[str, Any]] = []
            if record is None:
                opened = {"sentence": number, "version": 0, "action": {"edit": "open"}, "state": before.to_json()}
                entries.append(opened)
            done = {"sentence": number, "version": version + 1, "action": dict(action), "state": after.to_json()}
            self._write([*entries, done])

    def _write(self, entries: list[dict[str, Any]]) -> None:
        with self._lock:
            if self.read_only:
                raise UsageError("the project is open for reading only")
            if not self.journal.is_unchanged():
                raise InputError(
                    f"{self.journal.path}: it was changed by another program; start sapwood annotate again"
                )
            for entry in entries:
                entry["by"], entry["time"] = self.annotator, now()
            for entry, offset in zip(entries, self.journal.append(entries), strict=True):
                if entry["sentence"]:
                    self._take(
                        JournalEntry(
                            offset, entry["sentence"], entry["version"], entry["action"], entry.get("state"),
                            entry["by"], entry["time"],
                        )
                    )  # fmt: skip

    @contextlib.contextmanager
    def _lock_of(self, number: int) -> Iterator[None]:
        self._checked(number)
        with self._locks[number % _LOCKS]:
            yield

    # The file of trees.

    def _present_stat(self) -> tuple[int, int, int] | None:
        try:
            found = (self.folder / TREES).stat()
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def refresh(self) -> list[int]:
        """Take over trees that another program has changed in `trees.mrg`; returns their numbers.

        Raises `InputError` if the file cannot be read, every time until it can be.
        """
        path = self.folder / TREES
        with self._lock:
            stat = self._present_stat()
            if stat is None:  # it is written again
                self._stat = None
                return []
            with explained(path):
                data = path.read_bytes()
            if _digest(data) in self._digests:
                self._stat = stat
                return []
            theirs = self._read_trees(path)
            changed = []
            written = {number: tree for number, tree in self.trees() if number not in self._before}
            written |= {number: tree for number, tree in self._before.items() if tree is not None}
            for number in sorted(theirs.keys() | written.keys()):
                tree, mine = theirs.get(number), self._gold(number)
                if tree == written.get(number) or tree == mine:
                    continue
                if mine != written.get(number):
                    self._say(f"sentence {number} was changed here and in {TREES}: that tree counts; undo shows yours")
                state = self.state(number)
                if tree is not None:
                    after = replace(Annotation.accepted(tree), note="" if state is None else state.note)
                else:
                    assert state is not None
                    after = replace(state, status="begun")
                draft = self.draft(number)
                start = (
                    draft if draft is not None else Tree("ROOT", [Tree("X", word=one) for one in self.words(number)])
                )
                self._append(number, {"edit": "external"}, Annotation.proposed(start), after)
                changed.append(number)
            self._note_digest(data)
            self._stat = stat  # only now: what cannot be read stays unknown, so that nothing is written over it
            return changed

    def _read_trees(self, path: Path) -> dict[int, Tree]:
        """Read a file of trees, each after a comment with its number."""
        found: dict[int, Tree] = {}
        number, begin = 0, 0
        held: list[tuple[int, str]] = []
        lines = list(read_lines(path))
        for line_number, line in [*lines, (len(lines) + 1, "# 0\n")]:
            match = _NUMBER.fullmatch(line.strip())
            if match is None:
                held.append((line_number, line))
                continue
            trees = list(parse_trees(held, source=str(path)))
            if len(trees) != (number > 0):
                remedy = "write `# NUMBER`, the line of its sentence, above each tree"
                raise InputError(f"{path}:{max(begin, 1)}: {len(trees)} trees for sentence {number}; {remedy}")
            if number:
                if not number <= len(self.sentences) or number in found:
                    raise InputError(f"{path}:{begin}: sentence {number} is unknown, or has a tree already")
                found[number] = rooted(trees[0])
            number, begin = int(match[1]), line_number
            held = []
        return found

    def save(self) -> None:
        """Write the accepted trees, unless another program has written them since; those are taken over first."""
        with self._lock:
            if self._present_stat() != self._stat:
                self.refresh()
            elif self._stat is not None and not self._before:
                return  # nothing changed on either side
            show = format_pretty if self.settings.layout == "indented" else format_tree
            data = "".join(f"# {number}\n{show(tree)}\n" for number, tree in self.trees()).encode()
            if self._digests and _digest(data) == self._digests[-1] and self._stat is not None:
                self._before.clear()
                return
            self._note_digest(data)
            with atomic_write(self.folder / TREES) as stream:
                stream.write(data)
            self._stat = self._present_stat()
            self._before.clear()

    def _note_digest(self, data: bytes) -> None:
        """Note in the journal what is in the file of trees, or will be."""
        self._write([{"sentence": 0, "version": 0, "action": {"edit": "write", "digest": _digest(data)}}])
        self._digests = [*self._digests[-1:], _digest(data)]

    def _say(self, message: str) -> None:
        if message not in self.messages and len(self.messages) < _MOST_MESSAGES:
            self.messages.append(message)


def _line(words: Sequence[str]) -> str:
    """Return a line of the file of sentences."""
    return " ".join(TOKENS.write(word) for word in words)


def _has_block(lines: Iterable[str], block: Iterable[str]) -> bool:
    """Return whether a block of lines is among others, one after the other."""
    wanted = "\n".join(block)
    return bool(wanted) and f"\n{wanted}\n" in "\n".join(["", *lines, ""])


def _is_plain(value: object) -> bool:
    """Return whether a setting is a text that can be shown and given to a program."""
    return isinstance(value, str) and value.isprintable() and len(value) <= _LONGEST_SETTING


def _refuse_links(folder: Path) -> None:
    """Raise an `InputError` if a file of a project is a link, a pipe or a device: writing it changes another one.

    The folder itself may be a link.
    """
    models = folder / MODELS
    names = (SENTENCES, DRAFTS, TREES, JOURNAL, SETTINGS, _IGNORED, _ATTRIBUTES)
    inside = [] if models.is_symlink() or not models.is_dir() else sorted(models.rglob("*"))
    for path in (*(folder / name for name in names), models, *inside):
        is_wrong = path.exists() and not (path.is_file() or (path.is_dir() and models in (path, *path.parents)))
        if path.is_symlink() or is_wrong:
            raise InputError(f"{path}: a link or no file; the files of an annotation project must be in its folder")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read_drafts(folder: Path, most: int) -> dict[int, Tree]:
    """Read the drafts: line by line, since some may be missing."""
    path = folder / DRAFTS
    if not path.is_file():
        return {}
    found = {}
    for number, line in read_lines(path):
        trees = list(parse_trees([(number, line)], source=str(path)))
        if len(trees) > 1 or number > most:
            raise InputError(f"{path}:{number}: a line has the draft of one sentence of {SENTENCES}, or is blank")
        if trees:
            found[number] = trees[0]
    return found


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with atomic_write(path) as stream:
        for line in lines:
            stream.write(f"{line}\n".encode())
