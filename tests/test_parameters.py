"""Functions of the library have few parameters: what belongs together is a record."""

import ast
from pathlib import Path

import sapwood

_ROOT = Path(str(sapwood.__file__)).parent
_MOST, _EXCEPTIONS = 8, 3


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return the names of the parameters without `self`, `*arguments` and `**settings`."""
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def test_functions_have_few_parameters() -> None:
    paths = [path for path in sorted(_ROOT.rglob("*.py")) if path.relative_to(_ROOT).parts[0] != "cli"]
    counts = {
        f"{path.relative_to(_ROOT)}:{node.lineno} {node.name}": len(_parameters(node))
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert len(counts) > 1000
    many = {name: count for name, count in counts.items() if count > _MOST}
    assert len(many) <= _EXCEPTIONS, many
