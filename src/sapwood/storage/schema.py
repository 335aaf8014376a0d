"""Schemas of files: arrays with their types, shapes and ranges, and JSON metadata.

The digest of a file detects damage, but anybody can make a file with a valid digest, and compiled loops trust their
arguments. So every kind of file has a `Schema`, and nothing is used before it is checked. Sizes have names, as in
annotations: in one file the same name is the same size, whichever array defines it first. Conditions that a schema
cannot express, such as that the rules of a symbol sum to one, are checked by the code that builds the object.
"""

from __future__ import annotations

import dataclasses
import math
import re
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np

from sapwood.errors import ModelError, SapwoodError
from sapwood.storage.arrays import Arrays, count_strings, read_arrays, write_arrays
from sapwood.storage.json_values import json_problem
from sapwood.storage.shapes import Array, Shaped

_Built = TypeVar("_Built")
_LARGEST = sys.float_info.max
# Upper bound of counts and sizes in a file, so that sums of them are exact.
_MOST = 1 << 53
# Tolerance of sums of stored distributions: some are in single precision.
_ROUNDING = 1e-3
# Maximum length of notes of one line.
_LONGEST_LINE = 200
_TERM = re.compile(r"([+-]?)(\w+)")
_NUMBERED = re.compile(r"(.*)\.\*")


@dataclass(frozen=True)
class Column:
    """One array of a kind of file.

    Parameters
    ----------
    name
        Its name; `level.*` stands for `level.0`, `level.1` and so on.
    dtype
        Its type; `float` is float32 or float64, and `text` are strings encoded by `pack_strings`.
    shape
        Its axes, each a size: a number, a name, or a sum such as `symbols+1`. For text, the number of strings.
    least, most, below
        Range of its values; `below` is a size. Numbers are finite unless these allow otherwise.
    offsets_of, step
        It increases from 0 to this size, by at least `step` each time.
    total
        Name of the size that is its sum.
    rises
        Its rows are sorted and distinct.
    sums
        Its values sum to 1 along this axis.
    unchecked
        Any values are allowed.
    along
        Array with which it is present or absent; its own name if it is optional.
    """

    name: str
    dtype: str
    shape: str
    least: float = -_LARGEST
    most: float = _LARGEST
    below: str = ""
    offsets_of: str = ""
    step: int = 0
    total: str = ""
    rises: bool = False
    sums: int | None = None
    unchecked: bool = False
    along: str = ""

    def fit(self, array: Shaped[Array, "..."], sizes: dict[str, int]) -> str:
        """Return the problem with the array's type or shape, if any; add sizes that it defines."""
        wanted = {"text": ("uint8",), "float": ("float32", "float64")}.get(self.dtype, (self.dtype,))
        if array.dtype.name not in wanted or not array.dtype.isnative or not array.flags.aligned:
            return f"is of type {array.dtype}, not {' or '.join(wanted)}"
        shape: tuple[int, ...] = array.shape
        if self.dtype == "text":
            shape = (count_strings(array),) if array.ndim == 1 else shape
        axes = self.shape.split()
        if len(shape) != len(axes) or not all(
            _agree(size, axis, sizes) for size, axis in zip(shape, axes, strict=True)
        ):
            known = ", ".join(
                f"{name} = {size}" for name, size in sizes.items() if re.search(rf"\b{name}\b", self.shape)
            )
            return f"has the shape {shape}, expected ({', '.join(axes)})" + (f" with {known}" if known else "")
        if self.total:
            sizes[self.total] = int(array.sum(dtype=np.int64))
            return self.wrong(array, sizes)
        return ""

    def wrong(self, array: Shaped[Array, "..."], sizes: Mapping[str, int]) -> str:
        """Return the problem with the values of an array that fits, if any."""
        if self.dtype == "text" or self.unchecked:
            return ""
        most: float = _size(self.below, sizes) - 1 if self.below else self.most
        lowest, highest = (array.min().item(), array.max().item()) if array.size else (self.least, most)
        # Written so that NaN is never in range.
        if not (lowest >= self.least and highest <= most) and array.size:
            if not math.isfinite(lowest) or not math.isfinite(highest):
                return "has a value that is not a finite number"
            allowed = f"{self.least:.15g} or more" if most == _LARGEST else f"{self.least:.15g} to {most:.15g}"
            return f"has values from {lowest} to {highest}, not {allowed}"
        if self.offsets_of:
            end = _size(self.offsets_of, sizes)
            fits = array.size and array[0] == lowest == 0 and array[-1] == highest == end
            if not fits or (np.diff(array) < self.step).any():
                return f"does not rise from 0 to {end}"
        if self.rises and not _rows_rise(array):
            return "is not sorted, or has something twice"
        if self.sums is not None and not (np.abs(array.sum(axis=self.sums, dtype=np.float64) - 1) <= _ROUNDING).all():
            return "does not sum to 1"
        return ""


@dataclass(frozen=True)
class Schema:
    """Schema of a kind of file.

    Parameters
    ----------
    kind, version
        Its identifier in the file, and the format version that is written and the newest that is read.
    title, remedy
        Its name in messages, and the remedy for a bad file.
    columns
        Its arrays.
    metadata
        JSON metadata: a `TypedDict`. Integers in it are sizes, which are never negative.
    parts
        Separator between the index of a part and the names of its arrays, `0.rules`, if the file has parts; each part
        is checked by a schema of its own.
    """

    kind: str
    version: int
    title: str
    remedy: str
    columns: tuple[Column, ...]
    metadata: type
    parts: str = ""

    def write(self, path: str | Path, arrays: Mapping[str, Shaped[Array, "..."]], metadata: Mapping[str, Any]) -> None:
        """Write a file of this kind."""
        write_arrays(path, arrays, metadata, kind=self.kind, version=self.version)

    def read(
        self, path: str | Path, build: Callable[[Arrays, dict[str, Any]], _Built], *, mmap: bool = False
    ) -> _Built:
        """Read a file and return the result of `build` on its contents; any defect raises a `ModelError`."""
        arrays, metadata = read_arrays(path, kind=self.kind, version=self.version, mmap=mmap)
        try:
            self.check(arrays, metadata)
            return build(arrays, metadata)
        except SapwoodError as error:
            raise ModelError(f"{path}: not a complete {self.title}: {error}; {self.remedy}") from error

    def check(
        self, arrays: Mapping[str, Shaped[Array, "..."]], metadata: Mapping[str, Any], *, prefix: str = ""
    ) -> None:
        """Raise a `ModelError` with the name of the first array or value that does not fit, preceded by `prefix`."""
        check_json(metadata, self.metadata, prefix.rstrip("./"))
        sizes = {name: value for name, value in metadata.items() if type(value) is int}
        present = [(name, column) for column in self.columns for name in self._names(column, arrays)]
        known = {name for name, _ in present}
        for name in arrays:
            if name not in known and not (self.parts and re.match(rf"\d+{re.escape(self.parts)}", name)):
                raise ModelError(f"{prefix + name[:80]!r}: no array of a {self.title}")
        # All shapes first: ranges refer to sizes that any array may define.
        for name, column in present:
            _explain(prefix + name, column.fit, arrays[name], sizes)
        for name, column in present:
            _explain(prefix + name, column.wrong, arrays[name], sizes)

    def _names(self, column: Column, arrays: Mapping[str, Any]) -> list[str]:
        """Return the names of the arrays of a column that are present; raises a `ModelError` if one is missing."""
        if numbered := _NUMBERED.fullmatch(column.name):
            count = sum(re.fullmatch(rf"{re.escape(numbered[1])}\.\d+", name) is not None for name in arrays)
            names = [f"{numbered[1]}.{number}" for number in range(count)]
        else:
            names = [column.name] if not column.along or column.along in arrays else []
        for name in names:
            if name not in arrays:
                raise ModelError(f"{name}: missing")
        return names

    def all_parts(self, arrays: Mapping[str, Shaped[Array, "..."]], count: int, first: int = 0) -> list[Arrays]:
        """Return the arrays of `count` parts, numbered from `first`, by their own names."""
        found: list[Arrays] = [{} for _ in range(count)]
        for name, array in arrays.items():
            number, between, own = name.partition(self.parts)
            if between and number.isdecimal():
                if not number == str(int(number)) or not 0 <= int(number) - first < count:
                    raise ModelError(f"{name[:80]!r}: there are {count} parts")
                found[int(number) - first][own] = array
        return found


def _explain(name: str, problem_of: Callable[[Any, dict[str, int]], str], array: Any, sizes: dict[str, int]) -> None:
    try:
        problem = problem_of(array, sizes)
    except ModelError as error:
        problem = str(error)
    if problem:
        raise ModelError(f"{name}: {problem}")


def check_json(value: Any, kind: Any, place: str = "") -> None:
    """Raise a `ModelError` with the location if a JSON value is not of a type.

    A `TypedDict` or dataclass is an object with these entries, optional if they have a default; an integer is a size.

    Examples
    --------
    >>> check_json({"a": [1, -2]}, dict[str, list[int]])
    Traceback (most recent call last):
        ...
    sapwood.errors.ModelError: 'a[1]': -2 is not a size
    """
    arguments = get_args(kind)
    origin = get_origin(kind) or kind
    if is_typeddict(kind) or dataclasses.is_dataclass(kind):
        _check_entries(value, kind, place)
    elif origin in (Union, types.UnionType):
        if not any(_is_json(value, one) for one in arguments):
            _refuse(value, f"is none of {', '.join(str(one) for one in arguments)}", place)
    elif origin is Literal:
        if value not in arguments:
            _refuse(value, f"is none of {', '.join(arguments)}", place)
    elif origin in (list, tuple) and isinstance(value, list):
        for number, item in enumerate(value):
            check_json(item, arguments[0], f"{place}[{number}]")
    elif origin is dict and isinstance(value, dict):
        for name, item in value.items():
            check_json(item, arguments[1], _inside(place, name))
    elif kind is int:
        if type(value) is not int or not 0 <= value < _MOST:
            _refuse(value, "is not a size", place)
    elif kind is float:
        if type(value) not in (int, float) or not abs(value) <= _LARGEST:  # NaN is never in range
            _refuse(value, "is not a finite number", place)
    elif kind is Notes:
        _check_notes(value, place)
    elif kind is not Any and not (isinstance(kind, type) and type(value) is kind):
        _refuse(value, f"is not of type {getattr(kind, '__name__', kind)}", place)


class Notes(dict[str, Any]):
    """Type of the notes on a file in its schema: any JSON values, but of known types where they have known names.

    Programs print and compare notes, and rely on nothing else of them.
    """


# Known names of notes, and of those on the training data.
_NOTES = {"method": str, "training": dict[str, Any]}
_TRAINING = {"digest": str, "trees": int, "words": int, "sentences": int}


def _check_notes(value: Any, place: str) -> None:
    if not isinstance(value, Mapping):
        _refuse(value, "is not an object", place)
    if problem := json_problem(value):
        raise ModelError(f"{place[:80]!r}: {problem}")
    for where, notes, known in (
        (place, value, _NOTES),
        (_inside(place, "training"), value.get("training", {}), _TRAINING),
    ):
        for name in known.keys() & notes.keys():
            check_json(notes[name], known[name], _inside(where, name))
    method = value.get("method", "")
    if len(method) > _LONGEST_LINE or not method.isprintable():
        _refuse(method, f"is not a line of up to {_LONGEST_LINE} characters", _inside(place, "method"))


def _is_json(value: Any, kind: Any) -> bool:
    try:
        check_json(value, kind)
    except ModelError:
        return False
    return True


def _check_entries(value: Any, kind: Any, place: str) -> None:
    if not isinstance(value, Mapping):
        _refuse(value, "is not an object", place)
    wanted = get_type_hints(kind)
    if is_typeddict(kind):
        needed = kind.__required_keys__
    else:
        needed = {
            field.name
            for field in dataclasses.fields(kind)
            if field.default is field.default_factory is dataclasses.MISSING
        }
    for name in needed - value.keys():
        raise ModelError(f"{_inside(place, name)!r}: missing")
    for name, item in value.items():
        if name not in wanted:
            raise ModelError(f"{_inside(place, name)[:80]!r}: no value that is known here")
        check_json(item, wanted[name], _inside(place, name))


def _inside(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _refuse(value: Any, problem: str, place: str) -> NoReturn:
    shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "..."
    raise ModelError(f"{place[:80]!r}: {shown} {problem}")


def _terms(axis: str) -> list[tuple[int, str]]:
    return [(-1 if sign == "-" else 1, name) for sign, name in _TERM.findall(axis)]


def _size(axis: str, sizes: Mapping[str, int]) -> int:
    terms = _terms(axis)
    for _, name in terms:
        if not name.isdecimal() and name not in sizes:
            raise ModelError(f"needs {name!r}, which is missing")
    return sum(sign * (int(name) if name.isdecimal() else sizes[name]) for sign, name in terms)


def _agree(size: int, axis: str, sizes: dict[str, int]) -> bool:
    """True if an axis can have this size; defines one of its names if it is unknown."""
    if new := [name for _, name in _terms(axis) if not name.isdecimal() and name not in sizes]:
        (name,) = new
        sizes[name] = 0
        sizes[name] = size - _size(axis, sizes)
        return sizes[name] >= 0
    return size == _size(axis, sizes)


def _rows_rise(array: np.ndarray) -> bool:
    rows = array if array.ndim == 2 else array[:, None]
    same, rises = np.ones(max(len(rows) - 1, 0), bool), np.zeros(max(len(rows) - 1, 0), bool)
    for column in range(rows.shape[1]):
        before, after = rows[:-1, column], rows[1:, column]
        rises |= same & (after > before)
        same &= after == before
    return bool(rises.all())
