"""`sapwood anchors`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from sapwood.cli.options import common
from sapwood.cli.options.aliases import MIN_COUNT
from sapwood.cli.options.help import GroupedCommand
from sapwood.cli.options.types import NATURAL, POSITIVE, ChoiceParam
from sapwood.errors import InputError, UsageError
from sapwood.storage.files import STANDARD_STREAM

if TYPE_CHECKING:
    from sapwood.numerics.anchor_nmf import Decomposition


@click.command(
    "anchors", cls=GroupedCommand, aliases=MIN_COUNT, short_help="Find the hidden states of a co-occurrence matrix."
)
@click.argument("matrix")
@click.option("--states", type=POSITIVE, required=True, help="Number of hidden states.")
@click.option("-o", "--output", help="Write pi, r, s and the anchors to this .npz file.")
@click.option(
    "--columns",
    type=ChoiceParam(["align", "fit"]),
    default="align",
    help="Find anchors of the columns and align them with those of the rows, or fit the columns to the rows' states.",
)
@click.option(
    "--representation",
    type=ChoiceParam(["cca", "random"]),
    default="cca",
    help="Representation of the rows: canonical correlations (CCA) or a random projection.",
)
@click.option(
    "--min-count",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Minimum sum of an anchor's row or column; 30 or more is advisable for counts.",
)
@click.option("--top", type=NATURAL, default=5, help="Number of rows and columns to show.")
@common.seed_option
@common.threads_option
@common.json_option
@common.quiet_option
def command(
    matrix: str,
    states: int,
    output: str | None,
    top: int,
    seed: int,
    threads: int | None,
    as_json: bool,
    quiet: bool,
    **settings: Any,
) -> None:
    """Decompose a MATRIX of counts or probabilities: Q[f, g] = sum over h of pi(h) r(f|h) s(g|h).

    MATRIX is a .npz or .npy file (NumPy, or a sparse SciPy matrix), Matrix Market (.mtx), or CSV or TSV, with or
    without row and column names. Each state must have an anchor row, which occurs with no other state, and, unless
    --columns fit is given, an anchor column. For an exact matrix the result is exact, up to the order of the states.

    \b
    Examples:
      sapwood anchors counts.npz --states 8 -o parts.npz
      sapwood anchors words.csv --states 3 --columns fit --min-count 30 --json
    """
    if output == STANDARD_STREAM:
        raise UsageError("arrays cannot be written to standard output; name a file, or use --json")
    common.check_inputs(matrix)
    common.refuse_replacing({"-o": output}, [matrix])
    from sapwood.numerics import decompose
    from sapwood.numerics.matrix_files import read_matrix

    progress = common.make_progress(quiet)
    given = read_matrix(matrix)
    began = time.perf_counter()
    with progress.stage("decomposing", total=1, unit="matrices") as stage:
        try:
            threads = common.default_threads(threads)
            found = decompose(given.values, states, random_state=seed, threads=threads, **settings)
        except UsageError as error:
            raise InputError(f"{matrix}: {error}") from error
        stage.step()
    seconds = round(time.perf_counter() - began, 3)
    if found.states < states:
        progress.note(f"{matrix}: only {found.states} of {states} states: the rows span no more dimensions")
    if not found.converged:
        progress.note(f"{matrix}: stopped after {found.iterations} iterations without convergence")
    if output is not None:
        found.save(output)
    parts = found.describe(given.rows, given.columns, top=top)
    if as_json:
        shape = list(given.values.shape)
        common.print_json({"matrix": matrix, "shape": shape, **_figures(found), "seconds": seconds, "parts": parts})
    else:
        click.echo(_format(found, parts))


def _figures(found: Decomposition) -> dict[str, Any]:
    """Return the figures of a decomposition as JSON values."""
    return {
        "states": found.states,
        "log_likelihood": found.log_likelihood if isfinite(found.log_likelihood) else None,
        "iterations": found.iterations,
        "converged": found.converged,
    }


def _format(found: Decomposition, parts: Sequence[dict[str, Any]]) -> str:
    """Return the states with their anchors and most probable rows and columns."""
    shown = "1 state" if found.states == 1 else f"{found.states} states"
    lines = [f"{shown}, log-likelihood {found.log_likelihood:.6f} per co-occurrence"]
    for number, part in enumerate(parts):
        lines.append(f"\nstate {number}: pi = {part['prior']:.4f}, anchors {_anchors(part)}")
        for name in ("rows", "columns"):
            listed = ", ".join(f"{item['name']} {item['probability']:.3f}" for item in part[name])
            if listed:
                lines.append(f"  {name}: {listed}")
    return "\n".join(lines)


def _anchors(part: dict[str, Any]) -> str:
    names = [f"row {part['row_anchor']}"]
    if part["column_anchor"] is not None:
        names.append(f"column {part['column_anchor']}")
    return ", ".join(names)
