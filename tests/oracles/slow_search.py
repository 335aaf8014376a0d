"""Tree patterns by their definitions: every choice of nodes, every relation by walking the tree."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.search.patterns import And, Clause, Not, Pattern, PatternNode, Related
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

    def walk(node: Tree, parent: Spot | None) -> Spot:
        nonlocal words
        spot = Spot(node.label, False, parent, len(found), first=words)
        found.append(spot)
        if node.word is not None:
            spot.children.append(Spot(node.word, True, spot, len(found), first=words, last=words + 1))
            found.append(spot.children[0])
            words += 1
        for child in node.children:
            spot.children.append(walk(child, spot))
        spot.last = words
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
    if relation.startswith("<<"):
        return x is not y and chain(y, x, child_fits(relation[2:], heads))
    return y.parent is x and child_fits(relation[1:], heads)(y)


def slow_matches(pattern: Pattern, tree: Tree, heads: HeadRules) -> set[int]:
    """Return the numbers of the nodes, words included, that match."""
    spots = spots_of(tree)

    def fits(node: PatternNode, spot: Spot, names: dict[str, Spot]) -> bool:
        if node.reference:
            if names[node.name] is not spot:
                return False
        elif not node.test.accepts(spot.label, spot.is_word) or (node.name in names and names[node.name] is not spot):
            return False
        return node.clause is None or holds(node.clause, spot, names)

    def holds(clause: Clause, spot: Spot, names: dict[str, Spot]) -> bool:
        if isinstance(clause, Related):
            return any(related(clause.relation, spot, y, heads) and fits(clause.node, y, names) for y in spots)
        if isinstance(clause, Not):
            return not holds(clause.clause, spot, names)
        parts = (holds(part, spot, names) for part in clause.clauses)
        return all(parts) if isinstance(clause, And) else any(parts)

    choices = [dict(zip(pattern.joined, chosen, strict=True)) for chosen in product(spots, repeat=len(pattern.joined))]
    return {spot.number for spot in spots if any(fits(pattern.root, spot, names) for names in choices)}


def slow_named(pattern: Pattern, tree: Tree, heads: HeadRules, root: int, names: dict[str, int]) -> bool:
    """Whether the pattern holds at `root` with all its names standing for these nodes."""
    spots = spots_of(tree)
    fixed = {name: spots[number] for name, number in names.items()}

    def fits(node: PatternNode, spot: Spot) -> bool:
        if node.name in fixed and fixed[node.name] is not spot:
            return False
        if not node.reference and not node.test.accepts(spot.label, spot.is_word):
            return False
        return node.clause is None or holds(node.clause, spot)

    def holds(clause: Clause, spot: Spot) -> bool:
        if isinstance(clause, Related):
            return any(related(clause.relation, spot, y, heads) and fits(clause.node, y) for y in spots)
        if isinstance(clause, Not):
            return not holds(clause.clause, spot)
        parts = (holds(part, spot) for part in clause.clauses)
        return all(parts) if isinstance(clause, And) else any(parts)

    return fits(pattern.root, spots[root])
