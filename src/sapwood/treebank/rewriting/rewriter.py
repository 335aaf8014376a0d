"""Rewriting of trees by rules.

Each rule visits the nodes of a tree from the root, parents before children, left to right. Where its pattern matches,
its operations are applied, and again until it matches no longer there. After the last node it begins again, until a
whole pass finds nothing; then it is the next rule's turn. A rule that goes on for ever is stopped: after 1,000 + 10 n
rewrites of a tree of n nodes, or when the tree has grown a hundredfold.

In treebanks with gaps, words keep their places in the sentence: a phrase that moves takes its words along to another
parent, not to another place, and children are in the order of their first words. Rules that may add words are refused.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from sapwood.errors import InputError, TimedOut, UsageError
from sapwood.kernels import rewrite_trees
from sapwood.runtime.executor import LOCAL, Executor
from sapwood.storage.shapes import Array, Int64
from sapwood.treebank.rewriting.program import RewriteOracle, RewriteProgram
from sapwood.treebank.rewriting.rules import RewriteRules, RuleError
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.search.program import decode
from sapwood.trees.search.table import TreeTable
from sapwood.trees.tree import Tree

# Trees per call of the kernel, and steps of matching per tree and rule.
_BLOCK = 8192
_MOST_STEPS = 300_000_000
_TREES = 5000

_WORDS, _ENDLESS, _STEPS, _NODES = 14, 15, 16, 17
# What the kernel refuses (`Refusal`), with the remedies.
_REFUSALS = (
    "",
    "{symbol!r} is a word, which only relabel changes; name its tag",
    "{symbol!r} is the root; adjoin to it, or relabel it",
    "{symbol!r} would have no children left; prune deletes it as well",
    "{symbol!r} is not dominated by the first node",
    "{symbol!r} would be moved into itself",
    "{symbol!r} is a tag, which has a word and no other children",
    "{symbol!r} has no such child; >-1 is the last",
    "{symbol!r} is not a later sister of the first node",
    "the new label is empty",
    "the groups of the regular expression are not the whole word {symbol!r}; match only words that they are",
    "{symbol!r} does not follow the first word",
    "{symbol!r} was deleted by an earlier operation",
    "the new label has more than 65,536 bytes; the rule may repeat its own result",
)


@dataclass(frozen=True, eq=False)
class RewrittenTrees:
    """Trees after rewriting.

    Attributes
    ----------
    before, after
        The trees.
    rewrites
        How often each tree was rewritten.
    uses
        How often each rule was applied.
    """

    before: TreeTable
    after: TreeTable
    rewrites: Int64[Array, "trees"]
    uses: Int64[Array, "rules"]

    def changed(self) -> list[int]:
        """Return the numbers of the trees that are different, in the tables."""
        touched = np.flatnonzero(self.rewrites).tolist()
        return [number for number in touched if self.before.tree(number) != self.after.tree(number)]


class Rewriter:
    """Rewriter of trees by rules.

    Parameters
    ----------
    rules
        The rules, as text or parsed.
    heads
        Head rules for `<#`. Default: `HeadRules.english()`.
    allow_word_changes
        Let rules change, add, remove or reorder words; otherwise a rule that does raises a `RuleError`.
    max_rewrites
        Limit of rewrites per rule and tree. Default: 1,000 and ten for each node.
    timeout
        Seconds from construction after which rewriting raises `TimedOut`. Default: no limit.
    """

    def __init__(
        self,
        rules: RewriteRules | str,
        *,
        heads: HeadRules | None = None,
        allow_word_changes: bool = False,
        max_rewrites: int | None = None,
        timeout: float | None = None,
    ) -> None:
        if max_rewrites is not None and max_rewrites < 1:
            raise UsageError(f"max_rewrites must be at least 1, not {max_rewrites}")
        self.rules = RewriteRules.parse(rules) if isinstance(rules, str) else rules
        self.heads = HeadRules.english() if heads is None else heads
        self.allow_word_changes = allow_word_changes
        self.max_rewrites = max_rewrites
        self._program = RewriteProgram(self.rules)
        self._timeout = timeout
        self._end = None if timeout is None else time.monotonic() + timeout

    def tables(self, table: TreeTable, *, workers: Executor = LOCAL, source: str = "") -> Iterator[RewrittenTrees]:
        """Yield the trees of a table after rewriting, block by block; `source` is the name of its file for messages."""
        if table.positions is not None and (operation := self.rules.first_that_adds_words()) is not None:
            where = source or "the treebank"
            raise InputError(
                f"{self.rules.source}:{operation.line}: {operation.text!r} can add words, and {where} has trees "
                "with gaps, whose words keep their places: split the gaps (--gaps split), rewrite the parts, "
                "and join them again (sapwood convert --gaps join)"
            )
        starts = range(0, len(table), _BLOCK)
        parts = (table.part(first, min(first + _BLOCK, len(table))) for first in starts)
        yield from workers.map(lambda part: self._block(part, source), parts)

    def _check(self) -> None:
        if self._end is not None and time.monotonic() > self._end:
            raise TimedOut(f"rewriting took more than {self._timeout:g} seconds; use fewer trees, or allow more")

    def _block(self, table: TreeTable, source: str) -> RewrittenTrees:
        self._check()
        program = self._program
        oracle = RewriteOracle(table.spellings, program.tests, self.heads, self._check)
        oracle.regexes = program.regexes
        positions = np.zeros(0, dtype=np.int64) if table.positions is None else table.positions
        arguments: list[Any] = [
            *program.arguments(), len(table.spellings), table.n_labels, oracle,
            table.symbols, table.parents, table.begins, positions, self.max_rewrites or 0, _MOST_STEPS,
            self.allow_word_changes,
        ]  # fmt: skip
        symbols, parents, ends, begins, rewrites, uses, made, problem, positions = rewrite_trees(*arguments)
        spelled = [(decode(text), is_word) for text, is_word in made]
        if len(problem):
            raise self._explained(table, source, [text for text, _ in spelled], *problem.tolist())
        labels = [*table.spellings[: table.n_labels], *(text for text, is_word in spelled if not is_word)]
        words = [*table.spellings[table.n_labels :], *(text for text, is_word in spelled if is_word)]
        # Words are numbered -1, -2 ... until all labels are known.
        numbers = np.arange(len(table.spellings) + len(spelled))
        numbers[table.n_labels :] = table.n_labels - 1 - numbers[table.n_labels :]
        next_label, next_word = table.n_labels, len(table.spellings) - table.n_labels
        for place, (_, is_word) in enumerate(spelled, len(table.spellings)):
            numbers[place] = -1 - next_word if is_word else next_label
            next_word, next_label = next_word + is_word, next_label + (not is_word)
        after = TreeTable.numbered(
            labels, words, numbers[symbols].astype(np.int32), parents, ends, begins, table.lines, table.first
        )
        if table.positions is not None:
            after = replace(after, positions=positions)
        return RewrittenTrees(table, after, rewrites, uses)

    def _explained(
        self,
        table: TreeTable,
        source: str,
        made: list[str],
        tree: int,
        rule: int,
        operation: int,
        reason: int,
        symbol: int,
    ) -> InputError:
        """Return the error that a tree could not be rewritten."""
        number = table.first + tree + 1
        place = f"tree {number}" + (f" ({source}:{table.lines[tree]})" if source else "")
        line = self.rules.rules[rule].line
        pattern = f"{self.rules.source}:{line}"
        if reason in (_ENDLESS, _NODES):
            often = "after too many rewrites" if self.max_rewrites is None else f"after {self.max_rewrites:,} rewrites"
            if reason == _NODES:
                often = "after it has grown a hundredfold"
            return RuleError(
                f"{pattern}: the rule still matches {place} {often}, because it matches its own result; exclude "
                "finished nodes in the pattern, or raise the limit of rewrites"
            )
        if reason == _STEPS:
            return RuleError(
                f"{pattern}: matching takes too long in {place}: begin the pattern with the node that changes, and say "
                "more about the nodes with names"
            )
        if reason == _WORDS:
            return RuleError(
                f"{pattern}: the rule changes the words of {place}; if it is meant to, allow changes of words "
                "(--allow-word-changes)"
            )
        done = self._program.operations[operation]
        known = len(table.spellings)
        shown = "" if symbol < 0 else table.spellings[symbol] if symbol < known else made[symbol - known]
        message = _REFUSALS[reason].format(symbol=shown)
        return RuleError(f"{self.rules.source}:{done.line}: {place}: {message}: {done.text!r}")


def rewrite(
    trees: Iterable[Tree],
    rules: RewriteRules | str,
    *,
    heads: HeadRules | None = None,
    allow_word_changes: bool = False,
    max_rewrites: int | None = None,
) -> Iterator[Tree]:
    """Yield trees after rewriting by rules; what `sapwood rewrite` does to a file.

    Parameters
    ----------
    trees
        The trees.
    rules
        The rules, as text or parsed (`RewriteRules.read`).
    heads, allow_word_changes, max_rewrites
        As in `Rewriter`.

    Examples
    --------
    >>> trees = [Tree.parse("(S (NP-SBJ (NN rain)) (VP (VBD fell)))")]
    >>> for tree in rewrite(trees, "/^NP-(.*)/#1%function=x\\nrelabel x %{function}"):
    ...     print(tree)
    (S (SBJ (NN rain)) (VP (VBD fell)))
    """
    rewriter = Rewriter(rules, heads=heads, allow_word_changes=allow_word_changes, max_rewrites=max_rewrites)
    waiting = iter(trees)
    first, placed = 0, False
    while some := list(islice(waiting, _TREES)):
        table = TreeTable.from_trees(some, first=first, placed=placed)
        for done in rewriter.tables(table):
            yield from (done.after.tree(number) for number in range(len(done.after)))
        first += len(some)
        placed = table.positions is not None
