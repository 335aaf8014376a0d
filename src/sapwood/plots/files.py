"""Plots of files: training curves of logs, singular values of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from sapwood.errors import InputError, ModelError, UsageError
from sapwood.plots.curves import XAxis, draw_curves, make_curves
from sapwood.plots.spectra import draw_spectra, most_frequent
from sapwood.runtime.log import read_log
from sapwood.storage.arrays import read_header
from sapwood.storage.files import is_regular, name_of
from sapwood.storage.schema import check_json


class _Record(TypedDict):
    symbol: str
    count: int
    states: int
    singular_values: list[float]


_USED = _Record.__required_keys__


def draw_files(
    paths: Sequence[str], output: str | None = None, *, x: XAxis = "step", title: str = ""
) -> dict[str, Any]:
    """Plot training logs on shared axes, or the singular values of one model; return the data as JSON values.

    Parameters
    ----------
    paths
        Logs, or one model made by spectral learning.
    output
        Output file (`.svg`, `.png` or `.pdf`); None draws nothing.
    x
        Horizontal axis of curves.
    title
        Title of the plot.
    """
    kinds = {path: _kind_of(path) for path in paths}
    for path, kind in kinds.items():
        if kind not in ("log", "model"):
            raise UsageError(f"{path}: there is nothing to draw for this kind of file ({kind}) yet; name training logs")
    if len(set(kinds.values())) > 1:
        raise UsageError("files of different kinds cannot be drawn in one picture; draw them one by one")
    if "log" in kinds.values():
        logs = {name_of(path): read_log(path) for path in kinds}
        curves = make_curves(logs, x=x)
        if output is not None:
            draw_curves(logs, output, x=x, title=title)
        return {"x": x, "curves": [curve.to_dict() for curve in curves]}
    if len(kinds) > 1:
        raise UsageError("singular values are drawn for one model at a time")
    (path,) = kinds
    try:
        records = most_frequent(_records(path))
    except (InputError, ModelError) as error:
        raise type(error)(f"{path}: {error}") from error
    if output is not None:
        draw_spectra(records, output, title=title)
    return {"symbols": list(records)}


def _records(path: str) -> list[dict[str, Any]]:
    """Return the singular values stored in a model."""
    found: Any = read_header(path)["metadata"]
    if isinstance(members := found.get("grammars"), list) and members:  # since format 5
        found, *_ = members
    for name in ("info", "spectral", "symbols"):
        found = found.get(name, []) if isinstance(found, dict) else []
    if not isinstance(found, list):
        raise ModelError("its singular values are not a list")
    for number, record in enumerate(found):
        used = {name: record[name] for name in _USED & record.keys()} if isinstance(record, dict) else record
        check_json(used, _Record, f"info.spectral.symbols[{number}]")
        if not record["singular_values"] or not record["singular_values"][0] > 0:
            raise ModelError(f"{record['symbol']!r} has no singular value above 0")
    return list(found)


def _kind_of(path: str) -> str:
    """Return the kind of a file: a log, or the kind in its header."""
    if not is_regular(path):
        return "log"  # standard input and pipes can be read only once
    try:
        return str(read_header(path).get("kind"))
    except ModelError:
        # Not a sapwood file, unless its name says so.
        if path.endswith(".sapwood"):
            raise
        return "log"
