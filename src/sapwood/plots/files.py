"""Pictures of files: training curves of logs, the singular values in a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from sapwood.errors import InputError, ModelError, UsageError
from sapwood.files import is_regular, name_of
from sapwood.plots.curves import XAxis, draw_curves, make_curves
from sapwood.plots.spectra import draw_spectra, most_frequent
from sapwood.run.log import read_log
from sapwood.schema import check_json
from sapwood.storage import read_header


class _Record(TypedDict):
    symbol: str
    count: int
    states: int
    singular_values: list[float]


_USED = _Record.__required_keys__


def draw_files(
    paths: Sequence[str], output: str | None = None, *, x: XAxis = "step", title: str = ""
) -> dict[str, Any]:
    """Draw training logs over each other, or the singular values of one model; return what is drawn as JSON values.

    Parameters
    ----------
    paths
        Logs, or one model made by spectral learning.
    output
        The picture (`.svg`, `.png` or `.pdf`); without one nothing is drawn.
    x
        What to draw curves against.
    title
        What to write above the picture.
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
    """Return what a model says of its singular values."""
    found: Any = read_header(path)["metadata"]
    for name in ("info", "spectral", "symbols"):
        found = found.get(name, []) if isinstance(found, dict) else []
    if not isinstance(found, list):
        raise ModelError("its singular values are no list")
    for number, record in enumerate(found):
        used = {name: record[name] for name in _USED & record.keys()} if isinstance(record, dict) else record
        check_json(used, _Record, f"info.spectral.symbols[{number}]")
        if not record["singular_values"] or not record["singular_values"][0] > 0:
            raise ModelError(f"{record['symbol']!r} has no singular value above 0")
    return list(found)


def _kind_of(path: str) -> str:
    """Return what a file is: a log, or what its header says."""
    if not is_regular(path):
        return "log"  # standard input and pipes can be read only once
    try:
        return str(read_header(path).get("kind"))
    except ModelError:
        # Not one of ours; unless its name says that it should be.
        if path.endswith(".sapwood"):
            raise
        return "log"
