"""Normalisation of treebank trees before a grammar is read off them.

Normalising is the one step that loses information on purpose: it removes function tags, empty
elements, editorial nodes and `X -> X` unaries, and gives every tree the same root label. All later
transforms (`sapwood.trees.transform`) are exactly invertible.

A label table is text with one label and its replacement per line, separated by white space: `IP-MAT-SPE IP-MAT`. A
label that ends in `*` matches all labels with that prefix; the longest match wins, and a whole label wins over any with
a `*`. Indices are cut before labels are looked up. Blank lines are skipped, and so are comments: lines whose first
non-blank character is a `#` with white space or nothing after it.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

from sapwood.errors import InputError, UsageError, listed, shortened
from sapwood.storage.files import name_of, read_lines
from sapwood.trees.formats.brackets import unescape_label
from sapwood.trees.formats.gaps import arrange
from sapwood.trees.tree import Tree

# Traces as in the Penn Treebank (*T*-1, *-2, *ICH*-3, *?*), in Penn-style corpora of other languages (*pro*, *OP*,
# *hearer+pro*), in NEGRA (*T1*) and in the Spanish and Catalan treebanks (*0*).
_TRACE = re.compile(r"\*(?:(?:0|[A-Za-z?][A-Za-z0-9?+]*)\*)?(?:-\d+)|\*(?:0|[A-Za-z?][A-Za-z0-9?+]*)\*")
# Other words and tags that are probably empty elements.
_LOOKS_LIKE_TRACE = re.compile(
    r"(?:\*[\w?+-]+\*|[<\[{#](?:e|t|ec|null|none|trace|empty|pro)[>\]}#])(?:[-_=]?\d+)?|\*\w*[A-Za-z]\w*[-=]\d+",
    re.IGNORECASE,
)
_NULL_WORDS = frozenset({"∅", "ε", "-NONE-", "_", "NULL", "__NULL__"})
_NULL_TAGS = frozenset({"NONE", "NULL", "-NULL-", "EMPTY", "-EMPTY-", "TRACE", "-TRACE-"})
_WORD_INDEX = re.compile(r"(?<=.)[-_=]?\d+$")
# A lone "0" or "*" is an empty element unless it is tagged as a number or a symbol.
_NUMBER_OR_SIGN = re.compile(r"[^A-Za-z]|CD|NUM|SYM|LS|NFP|X|FW|PUNCT|CARD")
_INDEX = re.compile(r"(?<=.)[-=][0-9]+(?![^-=|])")
FunctionTags = Literal["phrases", "all", "indices", "none"]
_ROOTS = frozenset({"", "ROOT", "TOP", "S1", "VROOT"})


@dataclass(frozen=True)
class Normaliser:
    """Normalisation of trees; the defaults are those usual for training constituency parsers.

    Parameters
    ----------
    function_tags
        Where to cut labels at the first `-`, `=` or `|` that is not their first character:
        `"phrases"` (tags such as Icelandic `N-A` keep their case), `"all"`, or `"none"`. `"indices"` cuts only
        numbers, from phrases and tags: `IP-MAT-SPE=2` becomes `IP-MAT-SPE`.
    empties
        Remove empty elements (`-NONE-`, traces, zero words) and the phrases they leave empty.
    empty
        Further words or tags of empty elements. A word is given without its index: `*e*` removes `*e*_1`, too.
    repeated_unaries
        Remove a node whose only child has the same label.
    drop
        Labels of editorial nodes that are removed with everything below them.
    root
        The label that every tree gets at its top; `TOP`, `S1`, `VROOT` and a pair of brackets
        without a label are renamed to it.
    keep
        Function tags that are kept where others are cut: `"IP-MAT"` keeps this label whole, so that `IP-MAT-SPE-1`
        becomes `IP-MAT`; `"-SBJ"` keeps this tag on any label. The longest match wins.
    labels
        A label table, as pairs of label and replacement (see `read_labels`). Labels in the table are not cut.
    """

    function_tags: FunctionTags = "phrases"
    empties: bool = True
    repeated_unaries: bool = True
    drop: tuple[str, ...] = ("ID", "CODE", "META", "REF")
    root: str = "ROOT"
    keep: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    empty: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.function_tags not in get_args(FunctionTags):
            raise UsageError(f"function_tags must be phrases, all, indices or none, not {self.function_tags!r}")
        if not self.root:
            raise UsageError("the root label must not be empty")
        if self.empty and not self.empties:
            raise UsageError("empty elements are named to be removed, and empties=False keeps them")
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
        # Missing in files from before the option existed.
        for name in ("keep", "labels", "empty"):
            if not settings[name]:
                del settings[name]
        if self.labels:
            settings["labels"] = [list(pair) for pair in self.labels]
        return settings

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> Normaliser:
        """Build from `to_dict`'s result."""
        lists: dict[str, Any] = {
            name: tuple(settings.get(name, getattr(cls, name))) for name in ("drop", "keep", "empty")
        }
        lists["labels"] = tuple((old, new) for old, new in map(_pair, settings.get("labels", ())))
        return cls(**{**settings, **lists})

    def __call__(self, tree: Tree) -> Tree | None:
        """Return the normalised tree, or None if nothing is left of it.

        Without the words that are removed, the others of a tree with gaps are numbered again.
        """
        cleaned = tree.fold(self._visit)
        if cleaned is None:
            return None
        cleaned = arrange(cleaned)
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
            if self.is_empty(node.label, node.word):
                return None
            return node if label == node.label else Tree(label, word=node.word)
        kept = [child for child in children if child is not None]
        if not kept:
            return None
        if self.repeated_unaries and len(kept) == 1 and kept[0].label == label:
            return kept[0]
        return Tree(label, kept)

    def is_empty(self, tag: str, word: str) -> bool:
        """Return whether a leaf is an empty element that is removed."""
        if not self.empties:
            return False
        return is_empty(tag, word) or (bool(self.empty) and (tag in self.empty or empty_name(word) in self.empty))

    @cached_property
    def _table(self) -> _LabelTable:
        return _LabelTable(self.labels)

    def _label(self, label: str, is_phrase: bool) -> str:
        """Return the normalised label."""
        if self.labels:
            found = self._table.find(label)
            if found is not None:
                return found
        if self.function_tags == "indices":
            return cut_indices(label)
        cuts = self.function_tags == "all" or (self.function_tags == "phrases" and is_phrase)
        return _cut(label, self.keep) if cuts else label


def read_labels(path: str | Path) -> tuple[tuple[str, str], ...]:
    """Read a label table from a file, for `Normaliser(labels=...)`."""
    return _parse_labels(read_lines(path), name_of(path))


def parse_labels(text: str, *, source: str = "<string>") -> tuple[tuple[str, str], ...]:
    r"""Parse a label table.

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
            raise InputError(
                f"{source}:{number}: a line has a label and what it becomes, not {shortened(line.strip())!r}"
            )
        label, becomes = map(unescape_label, columns)
        if label in found:
            raise InputError(f"{source}:{number}: the label {label!r} occurs twice")
        if "*" in becomes or "*" in label[:-1]:
            raise InputError(
                f"{source}:{number}: a * stands only at the end of the first label: {shortened(line.strip())!r}"
            )
        found[label] = becomes
    if not found:
        raise InputError(f"{source}: no labels in it")
    return tuple(found.items())


def _pair(value: Any) -> tuple[str, str]:
    if not isinstance(value, list | tuple) or len(value) != 2 or not all(isinstance(part, str) for part in value):
        raise UsageError(f"a table of labels has pairs of labels, not {value!r}")
    return value[0], value[1]


class _LabelTable:
    """A label table for look-up, whose time does not depend on its length."""

    def __init__(self, pairs: tuple[tuple[str, str], ...]) -> None:
        self._whole: dict[str, str] = {}
        self._prefixes: dict[str, str] = {}
        for pattern, becomes in pairs:
            self._whole.setdefault(pattern, becomes)
            if pattern.endswith("*"):
                self._prefixes.setdefault(pattern[:-1], becomes)
        self._lengths = sorted({len(prefix) for prefix in self._prefixes}, reverse=True)

    def find(self, label: str) -> str | None:
        """Return the replacement of a label; that of the longest prefix if the label itself is not in the table."""
        label = cut_indices(label)
        if label in self._whole:
            return self._whole[label]
        prefixes = (label[:length] for length in self._lengths if length <= len(label))
        return next((self._prefixes[prefix] for prefix in prefixes if prefix in self._prefixes), None)


@lru_cache(maxsize=65536)
def cut_indices(label: str) -> str:
    """Return the label without its indices, which are numbers after a `-` or a `=`.

    >>> cut_indices("NP-SBJ=2"), cut_indices("IP-MAT-1-SPE"), cut_indices("-2")
    ('NP-SBJ', 'IP-MAT-SPE', '-2')
    """
    return _INDEX.sub("", label)


@lru_cache(maxsize=65536)
def cut_function_tag(label: str) -> str:
    """Return the label up to the first `-`, `=` or `|` that is not its first character.

    Labels that begin with such a character (`-LRB-`, `-NONE-`) are kept whole.

    >>> cut_function_tag("NP-SBJ=2"), cut_function_tag("-LRB-")
    ('NP', '-LRB-')
    """
    if label[:1] in ("-", "=", "|"):
        return label
    return re.split(r"[-=|]", label, maxsplit=1)[0]


@lru_cache(maxsize=65536)
def _cut(label: str, keep: tuple[str, ...]) -> str:
    """Return the label without its function tags, except those in `keep`."""
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
    """Return whether a leaf is an empty element: a trace, a zero word, an elided subject."""
    if tag == "-NONE-":
        return True
    if word in ("0", "*"):
        return _NUMBER_OR_SIGN.match(tag) is None
    return word[:1] == "*" and _TRACE.fullmatch(word) is not None


def empty_name(word: str) -> str:
    """Return an empty element without its index.

    >>> empty_name("*T*-1"), empty_name("*e*_12"), empty_name("*0*")
    ('*T*', '*e*', '*0*')
    """
    return _WORD_INDEX.sub("", word) if word.startswith(("*", "<", "[", "{", "#")) else word


def unknown_empties(leaves: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Return what looks like an empty element among the leaves of normalised trees, with its count.

    Parameters
    ----------
    leaves
        Number of leaves by tag and word.

    Returns
    -------
    Words without their indices, or tags, as in `Normaliser(empty=...)`, the most frequent first.

    Examples
    --------
    >>> unknown_empties({("N", "dog"): 9, ("NP", "*e*_1"): 2, ("NP", "*e*_2"): 1, ("TRACE", "x"): 1})
    {'*e*': 3, 'TRACE': 1}
    """
    found: Counter[str] = Counter()
    for (tag, word), count in leaves.items():
        if tag in _NULL_TAGS:
            found[tag] += count
        elif _NUMBER_OR_SIGN.match(tag) is None and (word in _NULL_WORDS or _LOOKS_LIKE_TRACE.fullmatch(word)):
            found[empty_name(word)] += count
    return dict(found.most_common())


def describe_empties(found: Mapping[str, int], most: int = 5) -> str:
    """Return a remark on what `unknown_empties` found, with the option that removes it; empty if that is nothing."""
    if not found:
        return ""
    shown = listed([f"{name} ({count:,})" for name, count in found.items()], most)
    options = " ".join(f"--empty {shlex.quote(name)}" for name in islice(found, most))
    return f"these look like empty elements but count as words: {shown}; remove them with {options}"
