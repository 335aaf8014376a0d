"""Tree patterns by their definitions: every choice of nodes, every relation by walking the tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sapwood.trees.formats.gaps import positions
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.normalise import cut_function_tag
from sapwood.trees.search.patterns import And, Clause, Not, Optional, Pattern, PatternNode, Related
from sapwood.trees.tree import Tree


@dataclass(eq=False)
class Spot:
    """A node, words included, that knows where it is."""

    label: str
    is_word: bool
    parent: Spot | None
    number: int
    children: list[Spot] = field(default_factory=list)
    first: int = 0
    last: int = 0

    def above(self) -> list[Spot]:
        return [] if self.parent is None else [self.parent, *self.parent.above()]

    def sisters(self) -> list[Spot]:
        return [] if self.parent is None else self.parent.children

    def place(self) -> int:
        return next(number for number, sister in enumerate(self.sisters()) if sister is self)


def spots_of(tree: Tree) -> list[Spot]:
    found: list[Spot] = []
    words = 0
    places = positions(tree)

    def walk(node: Tree, parent: Spot | None) -> Spot:
        nonlocal words
        spot = Spot(node.label, False, parent, len(found))
        found.append(spot)
        if node.word is not None:
            place = places[words]
            spot.children.append(Spot(str(node.word), True, spot, len(found), first=place, last=place + 1))
            found.append(spot.children[0])
            words += 1
        for child in node.children:
            spot.children.append(walk(child, spot))
        spot.first = min(child.first for child in spot.children)
        spot.last = max(child.last for child in spot.children)
        return spot

    walk(tree, None)
    return found


def is_head(spot: Spot, heads: HeadRules) -> bool:
    sisters = spot.sisters()
    return bool(sisters) and sisters[heads.head_index(spot.parent.label, [s.label for s in sisters])] is spot


def chain(low: Spot, high: Spot, fits) -> bool:
    """Whether every step on the way up from `low` to `high` starts at a node that fits."""
    while low is not high:
        if low.parent is None or not fits(low):
            return False
        low = low.parent
    return True


def child_fits(kind: str, heads: HeadRules):
    def fits(spot: Spot) -> bool:
        size = len(spot.sisters())
        if size == 0:
            return False
        if kind == "#":
            return is_head(spot, heads)
        if kind in ("", ",", "-", ":"):
            return {"": True, ",": spot.place() == 0, "-": spot.place() == size - 1, ":": size == 1}[kind]
        return spot.place() == (int(kind) - 1 if int(kind) > 0 else size + int(kind))

    return fits


def related(relation: str, x: Spot, y: Spot, heads: HeadRules) -> bool:
    if relation[0] == ">":
        return related(relation.replace(">", "<"), y, x, heads)
    if relation.startswith(","):
        return related(relation.replace(",", "."), y, x, heads)
    if relation.startswith("$-"):
        return related(relation.replace("-", "+"), y, x, heads)
    if relation.startswith("$"):
        if x is y or x.parent is None or x.parent is not y.parent:
            return False
        return {"$": True, "$+": y.place() - x.place() == 1, "$++": x.place() < y.place()}[relation]
    if relation == "==":
        return x is y
    if relation in (".", ".."):
        return y.first == x.last if relation == "." else y.first >= x.last
    if relation == "<<":
        return x in y.above()
    if relation == "<=":
        return x is y or y.parent is x
    if relation == ":":
        return True
    if relation.startswith("<<"):
        return x is not y and chain(y, x, child_fits(relation[2:], heads))
    return y.parent is x and child_fits(relation[1:], heads)(y)


# Relations whose nodes are chosen backwards or upwards: the nearest first.
_BACKWARDS = (">>", ">>,", ">>-", ">>:", ">>#", ",,", "$--")


def _follows(sign: str, x: Spot, y: Spot) -> bool:
    """Whether one step along a path of that kind leads from x to y."""
    return {"<": y.parent is x, ">": x.parent is y, ".": y.first == x.last, ",": y.last == x.first}[sign]


class SlowMatcher:
    """Every choice of nodes for every name, in the order in which they are tried."""

    def __init__(self, spots: list[Spot], heads: HeadRules) -> None:
        self.spots = spots
        self.heads = heads

    def assignments(self, pattern: Pattern, spot: Spot) -> Iterator[dict[str, Spot | str]]:
        """Yield the nodes of names and the texts of variables (%v) of each way to match at a node."""
        for chosen, refused in self._of(pattern.root, spot, {}, ()):
            if self._allowed(chosen, refused):
                yield chosen

    def _allowed(self, chosen, refused) -> bool:
        for part, spot in refused:
            if isinstance(part, PatternNode):
                named = chosen.get(part.name)
                if named is None or (named.label, named.is_word) != (spot.label, spot.is_word):
                    return False
            elif any(self._allowed(inner, more) for inner, more in self._of(part, spot, chosen, ())):
                return False
        return True

    def related(self, clause: Related, x: Spot) -> list[Spot]:
        if clause.path is None:
            found = [y for y in self._sorted(clause) if related(clause.relation, x, y, self.heads)]
            return found[::-1] if clause.relation in _BACKWARDS else found
        reached: list[Spot] = []
        waiting = [x]
        for here in waiting:
            for y in self._sorted(clause):
                if _follows(clause.relation[0], here, y) and not any(y is one for one in reached):
                    reached.append(y)
                    if any(True for _ in self._of(clause.path, y, {}, ())):
                        waiting.append(y)
        return reached

    def _sorted(self, clause: Related) -> list[Spot]:
        """Return all nodes in the order in which they are tried."""
        if clause.relation[0] in ".,":
            return sorted(self.spots, key=lambda spot: (spot.first, spot.number))
        return self.spots

    def _of(self, part: PatternNode | Clause, spot: Spot, chosen, refused):
        if isinstance(part, PatternNode):
            yield from self._of_node(part, spot, chosen, refused)
        elif isinstance(part, Related):
            for y in self.related(part, spot):
                yield from self._of(part.node, y, chosen, refused)
        elif isinstance(part, Not):
            yield chosen, (*refused, (part.clause, spot))
        elif isinstance(part, Optional):
            yield from self._of(part.clause, spot, chosen, refused)
            yield chosen, refused
        elif isinstance(part, And):
            yield from self._of_all(part.clauses, spot, chosen, refused)
        else:
            for clause in part.clauses:
                yield from self._of(clause, spot, chosen, refused)

    def _of_all(self, clauses, spot: Spot, chosen, refused):
        if not clauses:
            yield chosen, refused
            return
        for before, more in self._of(clauses[0], spot, chosen, refused):
            yield from self._of_all(clauses[1:], spot, before, more)

    def _of_node(self, node: PatternNode, spot: Spot, chosen, refused):
        if node.like:
            refused = (*refused, (node, spot))
        elif not node.reference and not node.test.accepts(spot.label, spot.is_word):
            return
        if node.name is not None and not node.like:
            if node.name in chosen and chosen[node.name] is not spot:
                return
            chosen = {**chosen, node.name: spot}
        for group, variable in node.variables:
            text = cut_function_tag(spot.label) if node.test.basic else spot.label
            bounds = node.test.regexes[0].find(text)[group]
            value = None if bounds is None else text[slice(*bounds)]
            if value is None or chosen.get("%" + variable, value) != value:
                return
            chosen = {**chosen, "%" + variable: value}
        if node.clause is None:
            yield chosen, refused
        else:
            yield from self._of(node.clause, spot, chosen, refused)


def slow_matches(pattern: Pattern, tree: Tree, heads: HeadRules) -> set[int]:
    """Return the numbers of the nodes, words included, that match."""
    matcher = SlowMatcher(spots_of(tree), heads)
    return {spot.number for spot in matcher.spots if any(True for _ in matcher.assignments(pattern, spot))}


def slow_named(pattern: Pattern, tree: Tree, heads: HeadRules, root: int, names: dict[str, int]) -> bool:
    """Whether the pattern matches at `root` with its names standing for these nodes."""
    matcher = SlowMatcher(spots_of(tree), heads)
    given = set(pattern.names)
    return any(
        {name: spot.number for name, spot in chosen.items() if name in given} == names
        for chosen in matcher.assignments(pattern, matcher.spots[root])
    )
