"""Cleaning treebank trees before a grammar is read off them.

Normalising is the one step that loses information on purpose: function tags, empty elements,
editorial nodes and `X -> X` unaries go, and every tree gets one root label. All later transforms
(`sapwood.trees.transform`) are undone exactly.

A table of labels is text, one label a line with what it becomes, apart by white space: `IP-MAT-SPE IP-MAT`. With a `*`
at its end a label stands for all that begin so; of several that fit, the longest is taken, and a whole label before any
with a `*`. Indices are cut before labels are looked up. Blank lines are skipped, and so are comments: lines whose first
non-blank character is a `#` with white space or nothing behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from sapwood.errors import InputError, UsageError
from sapwood.files import name_of, read_lines
from sapwood.trees.brackets import unescape_label
from sapwood.trees.tree import Tree

# Traces as in the Penn Treebank (*T*-1, *-2, *ICH*-3, *?*) and in Penn-style historical corpora (*pro*).
_TRACE = re.compile(r"\*(?:[A-Za-z?]+\*)?(?:-\d+)|\*[A-Za-z?]+\*")
# A lone "0" or "*" is an empty element unless its tag says that it is a number or a sign.
_NUMBER_OR_SIGN = re.compile(r"[^A-Za-z]|CD|NUM|SYM|LS|NFP|X|FW|PUNCT|CARD")
_INDEX = re.compile(r"(?<=.)[-=][0-9]+(?![^-=|])")
FunctionTags = Literal["phrases", "all", "indices", "none"]
_ROOTS = frozenset({"", "ROOT", "TOP", "S1", "VROOT"})


@dataclass(frozen=True)
class Normaliser:
    """What to clean; the defaults are what constituency parsers are usually trained on.

    Parameters
    ----------
    function_tags
        Where to cut labels at the first `-`, `=` or `|` that is not their first character:
        `"phrases"` (tags such as Icelandic `N-A` keep their case), `"all"`, or `"none"`. `"indices"` cuts no more than
        numbers, of phrases and tags: `IP-MAT-SPE=2` becomes `IP-MAT-SPE`.
    empties
        Remove empty elements (`-NONE-`, traces, zero words) and the phrases they leave empty.
    repeated_unaries
        Remove a node whose only child has the same label.
    drop
        Labels of editorial nodes that are removed with everything below them.
    root
        The label that every tree gets at its top; `TOP`, `S1`, `VROOT` and a pair of brackets
        without a label are renamed to it.
    keep
        Function tags that are kept where others are cut: `"IP-MAT"` keeps them of this label, so that `IP-MAT-SPE-1`
        becomes `IP-MAT`; `"-SBJ"` keeps this one of any label. The longest that fits is taken.
    labels
        A table of labels, as pairs: what they become instead (see `read_labels`). What the table has is not cut.
    """

    function_tags: FunctionTags = "phrases"
    empties: bool = True
    repeated_unaries: bool = True
    drop: tuple[str, ...] = ("ID", "CODE", "META", "REF")
    root: str = "ROOT"
    keep: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.function_tags not in get_args(FunctionTags):
            raise UsageError(f"function_tags must be phrases, all, indices or none, not {self.function_tags!r}")
        if not self.root:
            raise UsageError("the root label must not be empty")
        for label in self.keep:
            if cut_function_tag(label.removeprefix("-")) == label:
                raise UsageError(f"a label to keep has a function tag, as NP-SBJ or -SBJ, and {label!r} has none")
        if self.keep and self.function_tags in ("none", "indices"):
            raise UsageError(f"with function_tags={self.function_tags!r} all function tags are kept")
        for pair in self.labels:
            if len(pair) != 2 or not all(pair):
                raise UsageError(f"a table of labels has pairs of labels, not {pair!r}")

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        settings = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        # Not in files that were written before there was a choice.
        for name in ("keep", "labels"):
            if not settings[name]:
                del settings[name]
        if self.labels:
            settings["labels"] = [list(pair) for pair in self.labels]
        return settings

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> Normaliser:
        """Build from `to_dict`'s result."""
        lists: dict[str, Any] = {name: tuple(settings.get(name, getattr(cls, name))) for name in ("drop", "keep")}
        lists["labels"] = tuple((old, new) for old, new in map(_pair, settings.get("labels", ())))
        return cls(**{**settings, **lists})

    def __call__(self, tree: Tree) -> Tree | None:
        """Return the clean tree, or None when nothing is left of it."""
        cleaned = tree.fold(self._visit)
        if cleaned is None:
            return None
        if not self._is_root(cleaned):
            return Tree(self.root, (cleaned,))
        while len(cleaned.children) == 1 and self._is_root(cleaned.children[0]):
            cleaned = cleaned.children[0]
        return cleaned if cleaned.label == self.root else Tree(self.root, cleaned.children)

    def _is_root(self, tree: Tree) -> bool:
        return tree.word is None and (tree.label == self.root or tree.label in _ROOTS)

    def _visit(self, node: Tree, children: list[Tree | None]) -> Tree | None:
        label = node.label if node.label == self.root else self._label(node.label, node.word is None)
        if label in self.drop or node.label in self.drop:
            return None
        if node.word is not None:
            if self.empties and is_empty(node.label, node.word):
                return None
            return node if label == node.label else Tree(label, word=node.word)
        kept = [child for child in children if child is not None]
        if not kept:
            return None
        if self.repeated_unaries and len(kept) == 1 and kept[0].label == label:
            return kept[0]
        return Tree(label, kept)

    def _label(self, label: str, is_phrase: bool) -> str:
        """Return what becomes of a label."""
        if self.labels:
            found = _mapped(label, self.labels)
            if found is not None:
                return found
        if self.function_tags == "indices":
            return cut_indices(label)
        cuts = self.function_tags == "all" or (self.function_tags == "phrases" and is_phrase)
        return _cut(label, self.keep) if cuts else label


def read_labels(path: str | Path) -> tuple[tuple[str, str], ...]:
    """Read a table of labels from a file, for `Normaliser(labels=...)`."""
    return _parse_labels(read_lines(path), name_of(path))


def parse_labels(text: str, *, source: str = "<string>") -> tuple[tuple[str, str], ...]:
    r"""Read a table of labels.

    >>> clean = Normaliser(labels=parse_labels("IP-MAT* IP-MAT\nWNP NP"))
    >>> print(clean(Tree.parse("(IP-MAT-SPE (WNP-2 (N hvad)) (IP-SUB (V er)))")))
    (ROOT (IP-MAT (NP (N hvad)) (IP (V er))))
    """
    return _parse_labels(enumerate(text.split("\n"), 1), source)


def _parse_labels(lines: Iterable[tuple[int, str]], source: str) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for number, line in lines:
        columns = line.split()
        if not columns or columns[0] == "#":
            continue
        if len(columns) != 2:
            raise InputError(f"{source}:{number}: a line has a label and what it becomes, not {line.strip()!r}")
        label, becomes = map(unescape_label, columns)
        if label in found:
            raise InputError(f"{source}:{number}: the label {label!r} is there twice")
        if "*" in becomes or "*" in label[:-1]:
            raise InputError(f"{source}:{number}: a * stands only at the end of the first label: {line.strip()!r}")
        found[label] = becomes
    if not found:
        raise InputError(f"{source}: no labels in it")
    return tuple(found.items())


def _pair(value: Any) -> tuple[str, str]:
    if not isinstance(value, list | tuple) or len(value) != 2 or not all(isinstance(part, str) for part in value):
        raise UsageError(f"a table of labels has pairs of labels, not {value!r}")
    return value[0], value[1]


@lru_cache(maxsize=65536)
def _mapped(label: str, table: tuple[tuple[str, str], ...]) -> str | None:
    label = cut_indices(label)
    best: tuple[int, str] | None = None
    for pattern, becomes in table:
        if pattern == label:
            return becomes
        if pattern.endswith("*") and label.startswith(pattern[:-1]) and (best is None or len(pattern) > best[0]):
            best = len(pattern), becomes
    return None if best is None else best[1]


@lru_cache(maxsize=65536)
def cut_indices(label: str) -> str:
    """Return the label without its indices, which are numbers behind a `-` or a `=`.

    >>> cut_indices("NP-SBJ=2"), cut_indices("IP-MAT-1-SPE"), cut_indices("-2")
    ('NP-SBJ', 'IP-MAT-SPE', '-2')
    """
    return _INDEX.sub("", label)


@lru_cache(maxsize=65536)
def cut_function_tag(label: str) -> str:
    """Return the label up to the first `-`, `=` or `|` that is not its first character.

    Labels that begin with such a sign (`-LRB-`, `-NONE-`) are kept whole.

    >>> cut_function_tag("NP-SBJ=2"), cut_function_tag("-LRB-")
    ('NP', '-LRB-')
    """
    if label[:1] in ("-", "=", "|"):
        return label
    return re.split(r"[-=|]", label, maxsplit=1)[0]


@lru_cache(maxsize=65536)
def _cut(label: str, keep: tuple[str, ...]) -> str:
    """Return the label without its function tags but for those to keep."""
    base = cut_function_tag(label)
    best = base
    for kept in keep:
        if kept.startswith("-"):
            # The tag itself, not the beginning of a longer one.
            found = base + kept if re.search(re.escape(kept) + r"(?![^-=|])", label[len(base) :]) else base
        else:
            found = kept if label.startswith(kept) and label[len(kept) : len(kept) + 1] in ("", "-", "=", "|") else base
        best = max(best, found, key=len)
    return best


def is_empty(tag: str, word: str) -> bool:
    """Whether a leaf stands for nothing that is written: a trace, a zero word, an elided subject."""
    if tag == "-NONE-":
        return True
    if word in ("0", "*"):
        return _NUMBER_OR_SIGN.match(tag) is None
    return word[:1] == "*" and _TRACE.fullmatch(word) is not None
