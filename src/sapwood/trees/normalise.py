"""Cleaning treebank trees before a grammar is read off them.

Normalising is the one step that loses information on purpose: function tags, empty elements,
editorial nodes and `X -> X` unaries go, and every tree gets one root label. All later transforms
(`sapwood.trees.transform`) are undone exactly.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal

from sapwood.errors import UsageError
from sapwood.trees.tree import Tree

# Traces as in the Penn Treebank (*T*-1, *-2, *ICH*-3, *?*) and in Penn-style historical corpora (*pro*).
_TRACE = re.compile(r"\*(?:[A-Za-z?]+\*)?(?:-\d+)|\*[A-Za-z?]+\*")
# A lone "0" or "*" is an empty element unless its tag says that it is a number or a sign.
_NUMBER_OR_SIGN = re.compile(r"[^A-Za-z]|CD|NUM|SYM|LS|NFP|X|FW|PUNCT|CARD")
FunctionTags = Literal["phrases", "all", "none"]
_ROOTS = frozenset({"", "ROOT", "TOP", "S1", "VROOT"})


@dataclass(frozen=True)
class Normaliser:
    """What to clean; the defaults are what constituency parsers are usually trained on.

    Parameters
    ----------
    function_tags
        Where to cut labels at the first `-`, `=` or `|` that is not their first character:
        `"phrases"` (tags such as Icelandic `N-A` keep their case), `"all"`, or `"none"`.
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
    """

    function_tags: FunctionTags = "phrases"
    empties: bool = True
    repeated_unaries: bool = True
    drop: tuple[str, ...] = ("ID", "CODE", "META", "REF")
    root: str = "ROOT"
    keep: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.function_tags not in ("phrases", "all", "none"):
            raise UsageError(f"function_tags must be phrases, all or none, not {self.function_tags!r}")
        if not self.root:
            raise UsageError("the root label must not be empty")
        for label in self.keep:
            if cut_function_tag(label.removeprefix("-")) == label:
                raise UsageError(f"a label to keep has a function tag, as NP-SBJ or -SBJ, and {label!r} has none")
        if self.keep and self.function_tags == "none":
            raise UsageError("with function_tags='none' all function tags are kept")

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        settings = {**asdict(self), "drop": list(self.drop), "keep": list(self.keep)}
        # Not in files that were written before there was a choice.
        return settings if self.keep else {name: value for name, value in settings.items() if name != "keep"}

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> Normaliser:
        """Build from `to_dict`'s result."""
        lists = {name: tuple(settings.get(name, getattr(cls, name))) for name in ("drop", "keep")}
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
        cuts = self.function_tags == "all" or (self.function_tags == "phrases" and node.word is None)
        label = _cut(node.label, self.keep) if cuts and node.label != self.root else node.label
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
