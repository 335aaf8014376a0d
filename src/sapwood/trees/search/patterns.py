r"""Tree patterns: syntax and parser.

A pattern describes a node and its relations to other nodes, in the notation of TGrep2 and Tregex:

    NP < (PP=x <, IN) !<< /^VB/ [ $.. VP | > S ]

A *node* is a test, a name (`=x`) and relations to other nodes; all relations after a node apply to that node, joined
by "and" (optionally written `&`) or, more loosely, by "or" (`|`). `!` before a relation means that it has no such
node, `?` that it need not have one; `[...]` groups relations, `(...)` encloses a node with its own relations. `=x`
alone is the node with that name, `~x` one with the same label. `#1%v` after a regular expression binds its first group
to the variable `v`, or requires that it has the variable's text.

`parse_pattern` parses the text into `PatternNode` and, for relations, `And`, `Or`, `Not`, `Optional` and `Related`.
The text is short and its depth bounded, so that these functions may recurse. `sapwood.trees.search.relations`
evaluates the relations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sapwood.trees.normalise import cut_function_tag
from sapwood.trees.search.macros import expand_macros
from sapwood.trees.search.regex import PatternError, Regex

# Maximum length, number of nodes and bracket depth of a pattern.
MOST_CHARACTERS = 2000
MOST_NODES = 100
_DEEPEST = 50

# Alternative spellings of relations.
_SAME = {
    "$.": "$+", "$..": "$++", "$,": "$-", "$,,": "$--", "<'": "<-1", ">'": ">-1", "<,": "<1", ">,": ">1", "<-": "<-1",
    ">-": ">-1", "<<'": "<<-", ">>'": ">>-", "<`": "<-1", ">`": ">-1", "<<`": "<<-", ">>`": ">>-",
}  # fmt: skip
_RELATION = re.compile(
    r"[<>.,]\+(?=\s*\()|<\.\.\.(?=\s*\{)|<=(?=[\s(])|(?:<<|>>)[,\-:#'`]?|[<>](?:-?\d+|[,\-:#'`])?"
    r"|\$(?:\+\+?|--?|\.\.?|,,?)?|\.\.?|,,?|=="
)
# Signs with a meaning in patterns; a label has them after a backslash, or between double quotes.
_SIGNS = r"\s()\[\]<>!&|=/\"@.,$:#?{};"
_LABEL = re.compile(rf"(?:\\[{_SIGNS}]|[^{_SIGNS}])+")
_ESCAPED = re.compile(rf"\\([{_SIGNS}])")
_VARIABLE = re.compile(r"#(\d{1,2})%(\w+)")
_LIKE = re.compile(r"~\s*(\w+)")
# Relations along paths, whose nodes in between are given in parentheses.
PATHS = ("<+", ">+", ".+", ",+")
# The relation to any node of the tree, and the list of all children.
ANYWHERE, _CHILDREN = ":", "<..."
# A dollar sign at the end of a label belongs to the label (PRP$), unless what follows makes it a relation.
_DOLLAR = re.compile(r"\$(?=[\s)\]|=]|\Z)")
_NAME = re.compile(r"=\s*(\w+)")
_ANYTHING = "__"


@dataclass(frozen=True)
class LabelTest:
    """Test of a node's label: one of `labels`, or a match of one of `regexes`; `labels=None` accepts any node.

    With `basic`, function tags are cut off labels first (`@NP`); `negated` inverts the test.
    """

    labels: frozenset[str] | None
    regexes: tuple[Regex, ...] = ()
    basic: bool = False
    negated: bool = False

    def accepts(self, label: str, is_word: bool, check: Callable[[], object] | None = None) -> bool:
        """Return whether a node of that label, or a word, passes; `check` may interrupt a long search."""
        if self.labels is None:
            return not self.negated
        if self.basic and not is_word:
            label = cut_function_tag(label)
        return (label in self.labels or any(regex.search(label, check) for regex in self.regexes)) != self.negated


@dataclass(frozen=True)
class PatternNode:
    """A node of a pattern; with `reference` it refers to the node named `name` elsewhere, with `like` to its label.

    `variables` are pairs of a group of the test's regular expression and the variable that has its text.
    """

    test: LabelTest
    name: str | None = None
    reference: bool = False
    clause: Clause | None = None
    like: bool = False
    variables: tuple[tuple[int, str], ...] = ()
    # Position of the name in the text.
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Related:
    """Condition that some such node is in that relation; `path` is what the nodes of a path to it must be."""

    relation: str
    node: PatternNode
    path: PatternNode | None = None


@dataclass(frozen=True)
class Not:
    """Negation of a clause."""

    clause: Clause


@dataclass(frozen=True)
class Optional:
    """A clause that need not hold, but names nodes if it does."""

    clause: Clause


@dataclass(frozen=True)
class And:
    """Conjunction of clauses."""

    clauses: tuple[Clause, ...]


@dataclass(frozen=True)
class Or:
    """Disjunction of clauses."""

    clauses: tuple[Clause, ...]


Clause = Related | Not | Optional | And | Or


@dataclass(frozen=True)
class Pattern:
    """A parsed pattern: its text, and the node to search for.

    Examples
    --------
    >>> parse_pattern("NP < /^NN/").root.clause.relation
    '<'
    """

    text: str
    root: PatternNode

    def nodes(self) -> Iterator[PatternNode]:
        """Yield the nodes in the order of the text."""
        return (node for node, _ in _placed(self.root, ()))

    @property
    def names(self) -> list[str]:
        """The names given to nodes, in the order of the text."""
        return [node.name for node in self.nodes() if node.name is not None and not node.reference]

    @property
    def joined(self) -> list[str]:
        """The names that are referred to elsewhere."""
        referred = {node.name for node in self.nodes() if node.reference}
        return [name for name in self.names if name in referred]

    @property
    def variables(self) -> list[str]:
        """The variables, in the order of the text."""
        return list(dict.fromkeys(variable for node in self.nodes() for _, variable in node.variables))

    def always_named(self) -> set[str]:
        """Return the names that have a node in every match: those outside alternatives and optional parts."""
        return {node.name for node, around in _placed(self.root, ()) if node.name and not node.reference and not around}


_NEGATED = -1


def _placed(
    part: PatternNode | Clause | None, around: tuple[int, ...]
) -> Iterator[tuple[PatternNode, tuple[int, ...]]]:
    """Yield the nodes, each with the alternatives (by identity and number) and negations around it."""
    if isinstance(part, PatternNode):
        yield part, around
        yield from _placed(part.clause, around)
    elif isinstance(part, Related):
        if part.path is not None:
            yield from _placed(part.path, (*around, _NEGATED))
        yield from _placed(part.node, around)
    elif isinstance(part, Not):
        yield from _placed(part.clause, (*around, _NEGATED))
    elif isinstance(part, Optional):
        yield from _placed(part.clause, (*around, id(part), 0))
    elif part is not None:
        for number, clause in enumerate(part.clauses):
            yield from _placed(clause, (*around, id(part), number) if isinstance(part, Or) else around)


class _Token(NamedTuple):
    kind: str  # "label", "regex", "relation", "name", "like", "variable", a punctuation mark, or "end"
    text: str
    at: int
    ignore_case: bool = False


def parse_pattern(text: str, macros: Mapping[str, str] | None = None) -> Pattern:
    """Parse a pattern, after the expansion of macros; a syntax error raises a `PatternError` that names the column."""
    if macros:
        text = expand_macros(text, macros)
    if len(text) > MOST_CHARACTERS:
        raise PatternError(f"the pattern has more than {MOST_CHARACTERS:,} characters", text, MOST_CHARACTERS)
    return Pattern(text, _Parser(text).whole())


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(_tokens(text))
        self.at = 0
        self.depth = 0
        self.count = 0

    def error(self, problem: str, token: _Token | None = None) -> PatternError:
        return PatternError(problem, self.text, (token or self.token).at)

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        token = self.token
        self.at += 1
        return token

    def whole(self) -> PatternNode:
        if self.token.kind == "end":
            raise self.error("the pattern is empty; a label alone is one, or __ for any node")
        node = self.node()
        if self.token.kind != "end":
            hint = "; a label with such a sign goes between double quotes" if self.token.kind in "{};" else ""
            raise self.error(f"{self.token.text!r} where a relation (such as < or ..) or the end was expected{hint}")
        self.check_names(node)
        return node

    def check_names(self, root: PatternNode) -> None:
        """Check that each name is given once, and is bound wherever it is referred to."""
        given: dict[str, tuple[int, ...]] = {}
        placed = list(_placed(root, ()))
        for node, around in placed:
            if node.name is None or node.reference:
                continue
            if node.name in given:
                problem = f"the name {node.name!r} is given twice; ={node.name} alone refers to the first"
                raise PatternError(problem, self.text, node.at)
            if _NEGATED in around:
                raise PatternError("a node that must not be there cannot have a name", self.text, node.at)
            given[node.name] = around
        for node, around in placed:
            if node.name is None or not node.reference:
                continue
            if node.name not in given:
                problem = f"no node has the name {node.name!r}; give it as LABEL={node.name}"
                raise PatternError(problem, self.text, node.at)
            if given[node.name] != around[: len(given[node.name])]:
                problem = f"the name {node.name!r} is given in another alternative, and may mean nothing here"
                raise PatternError(problem, self.text, node.at)

    def enter(self, token: _Token) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.error("too many brackets within each other", token)

    def node(self) -> PatternNode:
        """Parse a node with its relations: TEST =name RELATION ..., or the same in parentheses; after `:`, others."""
        node = self.target()
        if self.token.kind in ("relation", "!", "?", "["):
            node = _with_clauses(node, self.relations())
        others: list[Clause] = []
        while self.token.kind == ANYWHERE:
            self.take()
            other = self.target()
            if self.token.kind in ("relation", "!", "?", "["):
                other = _with_clauses(other, self.relations())
            others.append(Related(ANYWHERE, other))
        return _with_clauses(node, *others) if others else node

    def target(self) -> PatternNode:
        """Parse a node after a relation: without relations of its own unless it is in parentheses."""
        token = self.token
        if token.kind == "(":
            self.enter(self.take())
            node = self.node()
            if self.token.kind != ")":
                raise self.error("this parenthesis is not closed", token)
            self.take()
            self.depth -= 1
            return node
        self.count += 1
        if self.count > MOST_NODES:
            raise self.error(f"the pattern has more than {MOST_NODES} nodes")
        if token.kind == "name":
            self.take()
            return PatternNode(LabelTest(None), token.text, reference=True, at=token.at)
        if token.kind == "like":
            self.take()
            return PatternNode(LabelTest(None), token.text, reference=True, like=True, at=token.at)
        node = PatternNode(self.test())
        variables: list[tuple[int, str]] = []
        while self.token.kind == "variable":
            variables.append(self.variable(node.test))
        node = replace(node, variables=tuple(variables))
        if self.token.kind == "name":
            token = self.take()
            node = replace(node, name=token.text, at=token.at)
        return node

    def variable(self, test: LabelTest) -> tuple[int, str]:
        """Parse a variable of the preceding regular expression: #1%x."""
        token = self.token
        found = _VARIABLE.match(token.text)
        assert found is not None
        group = int(found[1])
        if len(test.regexes) != 1 or test.labels or test.negated or test.labels is None:
            raise self.error("a variable goes right after a regular expression: /^NP-(.*)/#1%x")
        if group > test.regexes[0].groups:
            raise self.error(f"the regular expression has {test.regexes[0].groups} groups in parentheses, not {group}")
        self.take()
        return group, found[2]

    def test(self) -> LabelTest:
        negated = self.token.kind == "!"
        self.at += negated
        basic = self.token.kind == "@"
        self.at += basic
        labels: set[str] = set()
        regexes: list[Regex] = []
        anything = False
        while True:
            token = self.take()
            if token.kind == "label":
                labels.add(token.text)
            elif token.kind == "any":
                anything = True
            elif token.kind == "regex":
                regexes.append(Regex(token.text, ignore_case=token.ignore_case, offset=token.at + 1, source=self.text))
            else:
                found = "the end" if token.kind == "end" else repr(token.text)
                hint = "; a label with such a sign goes between double quotes" if token.kind == "relation" else ""
                if token.kind == "like":
                    hint = f'; quote a label: "~{token.text}"'
                raise self.error(f"{found} where a label, /regular expression/, __ or =name was expected{hint}", token)
            if self.token.kind != "|" or self.tokens[self.at + 1].kind not in ("label", "regex", "any"):
                return LabelTest(None if anything else frozenset(labels), tuple(regexes), basic, negated)
            self.take()

    def relations(self) -> Clause:
        """Parse relations joined by "or", which binds more loosely than "and"."""
        clauses = [self.conjunction()]
        while self.token.kind == "|":
            self.take()
            clauses.append(self.conjunction())
        return _joined(Or, clauses)

    def conjunction(self) -> Clause:
        clauses = [self.item()]
        while self.token.kind in ("relation", "!", "?", "[", "&"):
            if self.token.kind == "&":
                self.take()
            clauses.append(self.item())
        return _joined(And, clauses)

    def item(self) -> Clause:
        token = self.take()
        if token.kind == "!":
            return Not(self.item())
        if token.kind == "?":
            return Optional(self.item())
        if token.kind == "[":
            self.enter(token)
            clause = self.relations()
            if self.token.kind != "]":
                raise self.error("this bracket [ is not closed", token)
            self.take()
            self.depth -= 1
            return clause
        if token.kind != "relation":
            raise self.error("a relation (such as < or ..) was expected here", token)
        if token.text == _CHILDREN:
            return self.children(self.take())
        path = None
        if token.text in PATHS:
            if self.token.kind != "(":
                raise self.error(f"the nodes of the path go between parentheses: {token.text}(NP)")
            at = self.at
            path = self.target()
            if any(node.name is not None or node.variables for node, _ in _placed(path, ())):
                raise self.error("the nodes of a path cannot have names or variables", self.tokens[at])
        return Related(token.text, self.target(), path)

    def children(self, opening: _Token) -> Clause:
        """Parse the list of all children: {A ; B ; C}."""
        self.enter(opening)
        clauses: list[Clause] = []
        while True:
            clauses.append(Related(f"<{len(clauses) + 1}", self.node()))
            sign = self.take()
            if sign.kind == "}":
                break
            if sign.kind != ";":
                raise self.error("children are listed as {A ; B ; C}", sign)
        self.depth -= 1
        return And((*clauses, Not(Related(f"<{len(clauses) + 1}", PatternNode(LabelTest(None))))))


def _with_clauses(node: PatternNode, *clauses: Clause) -> PatternNode:
    """Return the node with further clauses."""
    return replace(node, clause=_joined(And, [clause for clause in (node.clause, *clauses) if clause is not None]))


def _joined(kind: type[And] | type[Or], clauses: list[Clause]) -> Clause:
    return clauses[0] if len(clauses) == 1 else kind(tuple(clauses))


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        c = text[at]
        if c.isspace():
            at += 1
            continue
        if c in '/"':
            spelled, end = _between(text, at)
            if c == '"':
                yield _Token("label", spelled, at)
            else:
                ignore_case = text[end : end + 1] == "i" and not text[end + 1 : end + 2].isalnum()
                end += ignore_case
                yield _Token("regex", spelled, at, ignore_case)
            at = end
            continue
        if found := _VARIABLE.match(text, at):
            yield _Token("variable", found.group(), at)
            at = found.end()
            continue
        if c in "()[]!?&|@{};:":
            yield _Token(c, c, at)
            at += 1
            continue
        if found := _RELATION.match(text, at):
            relation = found.group()
            if relation.lstrip("<>-") == "0":
                raise PatternError("children are counted from 1, from the end from -1", text, at)
            if len(relation) > 12:
                raise PatternError("no node has that many children", text, at)
            yield _Token("relation", _SAME.get(relation, relation), at)
        elif found := _NAME.match(text, at):
            yield _Token("name", found.group(1), at)
        elif found := _LIKE.match(text, at):
            yield _Token("like", found.group(1), at)
        elif found := _LABEL.match(text, at):
            label = _ESCAPED.sub(r"\1", found.group())
            if dollar := _DOLLAR.match(text, found.end()):
                yield _Token("label", label + "$", at)
                at = dollar.end()
                continue
            yield _Token("any" if found.group() == _ANYTHING else "label", label, at)
        else:
            raise PatternError(
                f"{c!r} is not understood; a label with such a sign goes between double quotes", text, at
            )
        at = found.end()
    yield _Token("end", "", len(text))


def _between(text: str, at: int) -> tuple[str, int]:
    """Return the text between the delimiter at `at` and its next occurrence, and the position after that."""
    sign = text[at]
    pieces: list[str] = []
    place = at + 1
    while place < len(text):
        c = text[place]
        if c == sign:
            return "".join(pieces), place + 1
        if c == "\\" and place + 1 < len(text):
            place += 1
            # Regular expressions handle their own backslashes, except one before a slash.
            if sign == "/" and text[place] != "/":
                pieces.append("\\")
            c = text[place]
        pieces.append(c)
        place += 1
    what = "regular expression" if sign == "/" else "label between quotes"
    raise PatternError(f"the {what} is not closed: a second {sign} is missing", text, at)
