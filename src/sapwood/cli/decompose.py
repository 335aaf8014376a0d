"""`sapwood decompose`."""

from __future__ import annotations

import time
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from sapwood.cli import _common as common
from sapwood.cli._types import Choice
from sapwood.errors import InputError, UsageError
from sapwood.files import STANDARD_STREAM

if TYPE_CHECKING:
    from sapwood.anchors.decomposition import Columns, Representation


@click.command("decompose", short_help="Find the hidden states behind a matrix of co-occurrences.")
@click.argument("matrix")
@click.option("--states", type=click.IntRange(min=1), required=True, help="How many hidden states.")
@click.option("-o", "--output", help="Where to write pi, r and s, and the anchors (a .npz file).")
@click.option(
    "--columns",
    type=Choice(["align", "fit"]),
    default="align",
    show_default=True,
    help="Columns have anchors too, and their states are aligned with the rows'; or are fitted to the rows' states.",
)
@click.option(
    "--representation",
    type=Choice(["cca", "random"]),
    default="cca",
    show_default=True,
    help="Rows are seen through canonical correlations, or a random projection.",
)
@click.option(
    "--least",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Rows and columns with a smaller sum are no anchors. With counts, 30 or more is wise.",
)
@click.option("--top", type=click.IntRange(min=0), default=5, show_default=True, help="Rows and columns to show.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of random projections.")
@common.threads_option
@common.json_option
@common.quiet_option
def command(
    matrix: str,
    states: int,
    output: str | None,
    columns: Columns,
    representation: Representation,
    least: float,
    top: int,
    seed: int,
    threads: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Decompose a MATRIX of counts or probabilities: Q[f, g] = sum over h of pi(h) r(f|h) s(g|h).

    MATRIX is a .npz or .npy file (NumPy's, or a sparse matrix of SciPy's), Matrix Market (.mtx), or CSV or TSV, with or
    without names of rows and columns. Each state must have an anchor: a row that occurs with no other state, and such a
    column unless --columns fit. With an exact matrix the parts are exact, up to the order of states.

    \b
    Examples:
      sapwood decompose counts.npz --states 8 -o parts.npz
      sapwood decompose words.csv --states 3 --columns fit --least 30 --json
    """
    if output == STANDARD_STREAM:
        raise UsageError("arrays cannot be written to standard output; name a file, or use --json")
    common.check_inputs(matrix)
    common.refuse_replacing({"-o": output}, [matrix])
    from sapwood.anchors import decompose
    from sapwood.anchors.matrix_files import read_matrix

    progress = common.make_progress(quiet)
    given = read_matrix(matrix)
    began = time.perf_counter()
    with progress.stage("decomposing", total=1, unit="matrices") as stage:
        try:
            found = decompose(
                given.values, states, columns=columns, representation=representation, least=least, random_state=seed,
                threads=common.default_threads(threads),
            )  # fmt: skip
        except UsageError as error:
            raise InputError(f"{matrix}: {error}") from error
        stage.step()
    seconds = time.perf_counter() - began
    if found.states < states:
        progress.note(f"{matrix}: only {found.states} of {states} states: the rows span no more dimensions")
    if not found.converged:
        progress.note(f"{matrix}: stopped after {found.iterations} iterations, not at the optimum yet")
    if output is not None:
        found.save(output)
    described = found.describe(given.rows, given.columns, top=top)
    if as_json:
        common.print_json(
            {
                "matrix": matrix,
                "shape": list(given.values.shape),
                "states": found.states,
                "log_likelihood": found.log_likelihood if isfinite(found.log_likelihood) else None,
                "iterations": found.iterations,
                "converged": found.converged,
                "seconds": round(seconds, 3),
                "parts": described,
            }
        )
        return
    shown = "1 state" if found.states == 1 else f"{found.states} states"
    click.echo(f"{shown}, log-likelihood {found.log_likelihood:.6f} for each co-occurrence")
    for number, part in enumerate(described):
        click.echo(f"\nstate {number}: pi = {part['prior']:.4f}, anchors {_anchors(part)}")
        for name in ("rows", "columns"):
            listed = ", ".join(f"{item['name']} {item['probability']:.3f}" for item in part[name])
            if listed:
                click.echo(f"  {name}: {listed}")


def _anchors(part: dict[str, Any]) -> str:
    names = [f"row {part['row_anchor']}"]
    if part["column_anchor"] is not None:
        names.append(f"column {part['column_anchor']}")
    return ", ".join(names)
