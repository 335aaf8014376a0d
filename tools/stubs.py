"""Write the types of the kernels, src/sapwood/kernels/__init__.pyi, as the compiled module has them.

python tools/stubs.py

It needs nanobind and ruff, and kernels that were built from the source as it is.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from nanobind.stubgen import StubGen

from sapwood import kernels

STUB = Path(__file__).resolve().parents[1] / "src/sapwood/kernels/__init__.pyi"
SHAPES = {1: "_Vector", 2: "_Matrix", 3: "_Cube"}
HEAD = "# Made by tools/stubs.py from the compiled module. Objects are records: their attributes are arrays.\n"
NAMES = "_Type = TypeVar('_Type', bound=numpy.generic)\n" + "".join(
    f"{name}: TypeAlias = numpy.ndarray[tuple[{', '.join(['int'] * size)}], numpy.dtype[_Type]]\n"
    for size, name in SHAPES.items()
)


class NameShapes(ast.NodeTransformer):
    """Write arrays with their number of axes, so that a type checker compares both: `_Vector[numpy.float64]`."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Replace `Annotated[NDArray[dtype], dict(ndim=n)]`."""
        match node:
            case ast.Subscript(
                ast.Name("Annotated"),
                ast.Tuple([ast.Subscript(ast.Name("NDArray"), dtype), ast.Call(keywords=[ast.keyword("ndim", size)])]),
            ) if isinstance(size, ast.Constant):
                return ast.Subscript(ast.Name(SHAPES[size.value]), dtype)
        return self.generic_visit(node)


def merge_overloads(tree: ast.Module) -> None:
    """Make one function of overloads that differ in records only, which are all objects to a type checker."""
    groups: dict[tuple[str, str], ast.FunctionDef] = {}
    kept: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            key = node.name, ast.unparse(node.args)
            if same := groups.get(key):
                returns = dict.fromkeys(ast.unparse(one.returns) for one in (same, node) if one.returns)
                same.returns = ast.parse(" | ".join(returns), mode="eval").body
                continue
            groups[key] = node
        kept.append(node)
    names = [name for name, _ in groups]
    for (name, _), node in groups.items():
        if names.count(name) == 1:
            node.decorator_list = []
    tree.body = kept


def generate(module: ModuleType) -> str:
    """Return the stub of a compiled module."""
    made = StubGen(module)
    made.put(module)
    tree = NameShapes().visit(ast.parse(made.get()))
    merge_overloads(tree)
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    others = [node for node in tree.body if node not in imports]
    for node in imports:
        if isinstance(node, ast.ImportFrom) and node.module == "typing":
            node.names = [ast.alias(name) for name in ("TypeAlias", "TypeVar", "overload")]
    text = "\n".join([HEAD, *map(ast.unparse, imports), NAMES, *map(ast.unparse, others), "variant: str\n"])
    for command in ("check", "--fix", "--select", "I"), ("format",):
        ruff = [sys.executable, "-m", "ruff", *command, "-q", "--stdin-filename", str(STUB), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, check=True, encoding="utf-8").stdout
    return text


def main() -> None:
    """Write the stub."""
    STUB.write_text(generate(kernels._module), encoding="utf-8")


if __name__ == "__main__":
    main()
