"""Labels and words of a pattern that no tree has."""

from __future__ import annotations

import difflib
import re

from sapwood.trees.normalise import cut_function_tag
from sapwood.trees.search.patterns import Pattern
from sapwood.trees.search.table import TreeTable

# A label with a character that is a relation in patterns.
_DOTTED = re.compile(r"(?<![\w\"/])[^\s()\[\]<>!&|=/\"@$:#?{};]+[.,][^\s()\[\]<>!&|=/\"@$:#?{};]+")


class UnseenLabels:
    """Collector of the labels and words that a pattern names and no tree has.

    Tests with regular expressions, and negated ones, are not checked.

    Examples
    --------
    >>> from sapwood.trees.search.patterns import parse_pattern
    >>> from sapwood.trees.tree import Tree
    >>> unseen = UnseenLabels(parse_pattern("NPP < PP"))
    >>> unseen.add(TreeTable.from_trees([Tree.parse("(S (NP (N dogs)) (PP (P in) (NP (N it))))")]))
    >>> unseen.messages()
    ["no tree has the label or word 'NPP'; did you mean 'PP' or 'NP'?"]
    """

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        tests = [node.test for node in pattern.nodes() if not node.test.negated and not node.test.regexes]
        # Labels with @ stand for all labels with function tags.
        self._missing = {(label, test.basic) for test in tests for label in test.labels or ()}
        self._dotted = set(_DOTTED.findall(pattern.text))
        self._seen_dotted: set[str] = set()
        self._labels: set[str] = set()

    def add(self, table: TreeTable) -> None:
        """Look at more trees."""
        labels = set(table.spellings[: table.n_labels])
        self._labels |= labels
        self._seen_dotted |= self._dotted & labels
        if self._missing:
            words = set(table.spellings[table.n_labels :])
            basic = {cut_function_tag(label) for label in labels}
            self._missing = {
                (label, cut)
                for label, cut in self._missing
                if label not in (basic if cut else labels) and label not in words
            }

    def messages(self) -> list[str]:
        """Return a sentence for each label or word that no tree has."""
        quoted = [
            f"{label!r} is read as two nodes, because '.' and ',' are relations; quote a label: '\"{label}\"'"
            for label in sorted(self._seen_dotted)
        ]
        parts = {part for label in self._seen_dotted for part in re.split(r"[.,]", label)}
        return [*quoted, *(self._message(*one) for one in sorted(self._missing) if one[0] not in parts)]

    def _message(self, label: str, basic: bool) -> str:
        known = sorted(self._labels)
        start = label.rstrip("*")
        if start != label and any(one.startswith(start) for one in known):
            cut = cut_function_tag(start)
            return (
                f"no tree has the label or word {label!r}; '*' is not a wildcard: @{cut} matches {cut} with any "
                "function tags, and "
                f"/^{re.escape(start).replace(chr(92) + '-', '-')}/ all labels that begin with {start!r}"
            )
        if basic and label in self._labels:
            return f"@{label} matches nothing: @ compares labels without function tags; use {label} or /^{label}/"
        same = [one for one in known if one.lower() == label.lower()]
        tagged = [one for one in known if cut_function_tag(one) == label]
        near = same or tagged[:3] or difflib.get_close_matches(label, known, n=3)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        if tagged and not same:
            hint = f"; it occurs with function tags only ({', '.join(tagged[:3])}): @{label} matches all of them"
        return f"no tree has the label or word {label!r}{hint}"
