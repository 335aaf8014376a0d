"""Mutants of a module: the module with one small fault, which some test should notice.

Faults are drawn from the syntax tree and put into the text, so that the rest stays as it is. Left alone are strings,
annotations, imports, decorators, assertions, messages of errors, what is written to logs and progress bars, and how
objects show themselves.
"""

from __future__ import annotations

import ast
import copy
import difflib
import functools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# What becomes of comparisons (bounds, and directions), and of arithmetic.
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
_DROPPED = (ast.Expr, ast.Assign, ast.AugAssign, ast.Return, ast.Continue, ast.Break, ast.Delete)
_SKIPPED = (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom, ast.JoinedStr)
_SHOWING = ("__repr__", "__str__")
_TALKING = ("log", "progress", "stage", "warnings")


@dataclass(frozen=True)
class Mutant:
    """A fault: in `path`, the text between two places becomes another.

    Attributes
    ----------
    path
        Of the module, below the repository.
    operator
        The kind of fault.
    begin, end
        Line, from 1, and column, in bytes.
    text
        What stands there instead.
    lines
        The first and last line that a test must run to notice; those of the whole file for what is done at import.
    """

    path: str
    operator: str
    begin: tuple[int, int]
    end: tuple[int, int]
    text: str
    lines: tuple[int, int]

    @property
    def name(self) -> str:
        """What tells it from all others."""
        return f"{self.path}:{self.begin[0]}:{self.begin[1]} {self.operator}: {self.text}"

    def apply(self, source: str) -> str:
        """Return the source with the fault."""
        lines = source.encode().splitlines(keepends=True)
        (first, left), (last, right) = self.begin, self.end
        changed = lines[first - 1][:left] + self.text.encode() + lines[last - 1][right:]
        return b"".join([*lines[: first - 1], changed, *lines[last:]]).decode()

    def diff(self, source: str) -> str:
        """Return the lines that change, before and after."""
        pair = source.splitlines(), self.apply(source).splitlines()
        changes = difflib.unified_diff(*pair, n=0, lineterm="")
        return "\n".join(line for line in changes if line[:3] not in ("---", "+++", "@@ "))


def find_mutants(path: str, source: str) -> list[Mutant]:
    """Return all mutants of a module."""
    finder = _Finder(path, len(source.splitlines()))
    finder.visit(ast.parse(source))
    return finder.found


_mutants_of = functools.cache(find_mutants)


def draw_mutants(root: Path, packages: list[str], number: int, seed: int) -> list[Mutant]:
    """Return random mutants of these packages of `src/sapwood`, as many of each kind as can be."""
    kinds: dict[str, list[Mutant]] = {}
    for package in packages:
        for path in sorted((root / "src" / "sapwood" / package).rglob("*.py")):
            for mutant in _mutants_of(str(path.relative_to(root)), path.read_text()):
                kinds.setdefault(mutant.operator, []).append(mutant)
    rng = random.Random(seed)
    for operator in sorted(kinds):
        rng.shuffle(kinds[operator])
    found: list[Mutant] = []
    while len(found) < number and any(kinds.values()):
        found += [kinds[operator].pop() for operator in sorted(kinds) if kinds[operator]]
    return found[:number]


class _Finder(ast.NodeVisitor):
    """Finds the mutants of a module, in the order of its text."""

    def __init__(self, path: str, length: int) -> None:
        self.path = path
        self.found: list[Mutant] = []
        # The lines that run what is looked at, if they are not its own: at import, or as a function's default.
        self.elsewhere: tuple[int, int] | None = (1, length)

    def visit(self, node: ast.AST) -> None:
        """Add the mutants of a node and of what is below it."""
        if isinstance(node, _SKIPPED) or _talks(node) or _is_declaration(node):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._function(node)
            return
        for operator, text in _faults(node):
            self._add(node, operator, text)
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            self._add(node.test, "negate", f"(not ({ast.unparse(node.test)}))")
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "bases"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    self.visit(child)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in _SHOWING:
            return
        outside = self.elsewhere
        self.elsewhere = (node.body[0].lineno, node.end_lineno or node.lineno)
        for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(default)
        self.elsewhere = None
        for statement in node.body:
            self.visit(statement)
        self.elsewhere = outside

    def _add(self, node: ast.expr | ast.stmt, operator: str, text: str) -> None:
        begin, last = node.lineno, node.end_lineno or node.lineno
        place = (begin, node.col_offset), (last, node.end_col_offset or 0)
        self.found.append(Mutant(self.path, operator, *place, text, self.elsewhere or (begin, last)))


def _faults(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the kinds and the texts of what a node could be instead."""
    if isinstance(node, ast.Compare):
        for place, kind in enumerate(node.ops):
            for other in COMPARISONS[type(kind)]:
                changed = copy.deepcopy(node)
                changed.ops[place] = other()
                yield "compare", ast.unparse(changed)
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in ARITHMETIC:
        changed = copy.deepcopy(node)
        changed.op = ARITHMETIC[type(node.op)]()
        yield "arithmetic", ast.unparse(changed)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        # A large number stays what it is.
        if node.value + 1 != node.value:
            yield "constant", repr(node.value + 1)
            yield "constant", repr(node.value - 1) if node.value >= 1 else f"({node.value - 1!r})"
    elif isinstance(node, ast.Call):
        for place in range(len(node.keywords)):
            if node.keywords[place].arg is not None:
                changed = copy.deepcopy(node)
                del changed.keywords[place]
                yield "argument", ast.unparse(changed)
        if len(node.args) > 1 and not isinstance(node.args[-1], ast.Starred):
            changed = copy.deepcopy(node)
            changed.args.pop()
            yield "argument", ast.unparse(changed)
    if isinstance(node, _DROPPED) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        yield "drop", "pass"


def _talks(node: ast.AST) -> bool:
    """Return whether a statement only tells somebody: a log, a progress bar."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=receiver))):
            return ast.unparse(receiver).rpartition(".")[2].strip("_") in _TALKING
    return False


def _is_declaration(node: ast.AST) -> bool:
    """Return whether this is for type checkers, or says what a module exports."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]) == "__all__" or "Literal[" in ast.unparse(node.value)
    return False
