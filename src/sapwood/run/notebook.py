"""What notebooks need: whether this is one, and tables in HTML."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape


def in_notebook() -> bool:
    """Whether this runs in the kernel of a Jupyter notebook, where a browser shows what is printed."""
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config


def html_table(rows: Sequence[Sequence[str]], *, title: str = "", headings: bool = True) -> str:
    """Return a table: the first row has the headings, unless there are none, and the first column is to the left.

    Examples
    --------
    >>> html_table([["label", "F1"], ["NP", "87.50"]]).count("<td")
    2
    """
    lines = ["<table>"]
    if title:
        lines.append(f'<caption style="text-align: left">{escape(title)}</caption>')
    for number, row in enumerate(rows):
        kind = "th" if headings and number == 0 else "td"
        cells = [
            f'<{kind} style="text-align: {"right" if column else "left"}">{escape(cell)}</{kind}>'
            for column, cell in enumerate(row)
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "".join([*lines, "</table>"])
