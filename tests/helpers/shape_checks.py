"""Checks at run time what annotations say of arrays: `install()` before `sapwood` is imported.

Modules of the package are compiled with one decorator more on every function and dataclass whose annotations name
shapes. A call binds the names of axes as jaxtyping does: the same name, the same size, in all arguments and in what is
returned. Modules whose names begin with an underscore are left alone.
"""

from __future__ import annotations

import ast
import collections.abc
import contextlib
import functools
import importlib.abc
import importlib.machinery
import inspect
import itertools
import sys
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

import jaxtyping
import numpy as np

NAMES = {
    "Bool",
    "Float",
    "Float16",
    "Float32",
    "Float64",
    "Int",
    "Int32",
    "Int64",
    "Num",
    "Shaped",
    "UInt8",
    "UInt32",
    "UInt64",
}
_DECORATOR = "__shape_checks__"
_enabled = [True]


class ShapeError(TypeError):
    """An array that is not what an annotation says."""


@contextlib.contextmanager
def switched_off() -> Iterator[None]:
    """Check nothing in this block: for tests that hand over wrong arrays on purpose."""
    _enabled.append(False)
    try:
        yield
    finally:
        _enabled.pop()


def mentions_shapes(annotation: ast.expr | None) -> bool:
    """Return whether an annotation names a shape."""
    return annotation is not None and any(
        isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in NAMES
        for node in ast.walk(annotation)
    )


class _Decorate(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        if any(mentions_shapes(argument.annotation) for argument in arguments) or mentions_shapes(node.returns):
            node.decorator_list.append(ast.Name(_DECORATOR, ast.Load()))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self.generic_visit(node)
        is_dataclass = any("dataclass" in ast.dump(decorator) for decorator in node.decorator_list)
        fields = [item for item in node.body if isinstance(item, ast.AnnAssign)]
        if is_dataclass and any(mentions_shapes(item.annotation) for item in fields):
            node.decorator_list.insert(0, ast.Name(_DECORATOR, ast.Load()))
        return node


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> types.CodeType:
        """Compile from the source, every time: nothing of this may get into the caches of ordinary runs."""
        path = self.get_filename(fullname)
        tree = ast.fix_missing_locations(_Decorate().visit(ast.parse(self.get_data(path))))
        return compile(tree, path, "exec", dont_inherit=True)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__[_DECORATOR] = checked
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("sapwood.") or fullname.rpartition(".")[2].startswith("_"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def install() -> None:
    """Check shapes in all modules of the package that are imported from now on."""
    assert not any(name.startswith("sapwood.") for name in sys.modules), "sapwood is imported already"
    sys.meta_path.insert(0, _Finder())


def checked(subject: Any) -> Any:
    """Return the function, or the dataclass, with checks of what its annotations say of arrays."""
    return _checked_class(subject) if isinstance(subject, type) else _checked_function(subject)


def _checked_class(cls: type) -> type:
    initialise = cls.__init__  # type: ignore[misc]
    passed: set[Any] = set()

    @functools.wraps(initialise)
    def wrapper(self: Any, *arguments: Any, **settings: Any) -> None:
        initialise(self, *arguments, **settings)
        if _enabled[-1]:
            annotations = _annotations(cls, sys.modules[cls.__module__].__dict__)
            kinds = tuple(_kind(getattr(self, name)) for name in annotations)
            if kinds not in passed:
                with jaxtyping.jaxtyped("context"):
                    for name, annotation in annotations.items():
                        _check(getattr(self, name), annotation, f"{cls.__name__}.{name}")
                passed.add(kinds)

    cls.__init__ = wrapper  # type: ignore[misc]
    return cls


def _checked_function(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)
    positional = [name for name, one in signature.parameters.items() if one.kind <= one.POSITIONAL_OR_KEYWORD]
    # Arguments that were checked, and arguments with results. Each call binds axes anew, so that what passed once will
    # pass again; most calls are like an earlier one, and the checks themselves take long.
    passed: set[Any] = set()

    @functools.wraps(function)
    def wrapper(*arguments: Any, **settings: Any) -> Any:
        if not _enabled[-1]:
            return function(*arguments, **settings)
        annotations = _annotations(function, function.__globals__)
        given = itertools.chain(zip(positional, arguments, strict=False), settings.items())
        kinds = (
            *((name, _kind(value)) for name, value in given if name in annotations),
            *map(_kind, arguments[len(positional) :]),
        )
        if kinds not in passed:
            with jaxtyping.jaxtyped("context"):
                check_arguments(annotations, arguments, settings)
            passed.add(kinds)
        result = function(*arguments, **settings)
        if "return" in annotations and (kinds, _kind(result)) not in passed:
            with jaxtyping.jaxtyped("context"):
                check_arguments(annotations, arguments, settings)
                _check(result, annotations["return"], f"{function.__qualname__}: what is returned")
            passed.add((kinds, _kind(result)))
        return result

    def check_arguments(annotations: dict[str, Any], arguments: Sequence[Any], settings: dict[str, Any]) -> None:
        for name, value in signature.bind(*arguments, **settings).arguments.items():
            several = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
            for item in value if several else [value]:
                if name in annotations:
                    _check(item, annotations[name], f"{function.__qualname__}({name})")

    return wrapper


def _kind(value: Any) -> Any:
    """Return all that checks look at: types, and the dtypes and shapes of arrays."""
    if isinstance(value, np.ndarray):
        return type(value), value.dtype, value.shape
    if isinstance(value, list | tuple):
        return type(value), *map(_kind, value)
    return type(value)


_resolved: dict[Any, dict[str, Any]] = {}


def _annotations(subject: Any, names: dict[str, Any]) -> dict[str, Any]:
    """Return the annotations that name shapes and can be looked up."""
    if subject not in _resolved:
        found = {}
        for name, annotation in inspect.get_annotations(subject).items():
            if isinstance(annotation, str) and mentions_shapes(ast.parse(annotation, mode="eval").body):
                with contextlib.suppress(NameError):  # a name that only type checkers import
                    found[name] = eval(annotation, names)
        _resolved[subject] = found
    return _resolved[subject]


def _check(value: Any, annotation: Any, place: str) -> None:
    problem = _problem(value, annotation)
    if problem:
        raise ShapeError(f"{place}: {problem}")


def _problem(value: Any, annotation: Any) -> str:
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, jaxtyping.AbstractArray):
        if isinstance(value, annotation):
            return ""
        given = f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
        return f"{given} is no {annotation.__name__}"
    if origin in (types.UnionType, typing.Union):
        problems = [_problem(value, option) for option in inner]
        return "" if "" in problems else problems[0]
    if origin is tuple and isinstance(value, tuple) and Ellipsis not in inner and len(inner) == len(value):
        return next((found for item, kind in zip(value, inner, strict=True) if (found := _problem(item, kind))), "")
    if origin in (list, tuple, collections.abc.Sequence) and isinstance(value, list | tuple):
        for item in value:  # each has sizes of its own
            with jaxtyping.jaxtyped("context"):
                if found := _problem(item, inner[0]):
                    return found
        return ""
    if annotation is None or annotation is type(None):
        return "" if value is None else f"{type(value).__name__} is not None"
    return "" if not isinstance(annotation, type) or isinstance(value, annotation) else f"no {annotation.__name__}"
