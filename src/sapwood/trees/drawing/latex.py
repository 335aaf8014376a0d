r"""LaTeX output of trees: `forest`, and `qtree` (which `tikz-qtree` reads as well).

Every label and word is in braces, with TeX's special characters written as commands, so that any text is allowed.
Letters beyond ASCII require a Unicode engine (LuaLaTeX, XeLaTeX) or a font that has them. Neither package draws
crossing branches, so a tree with gaps is a picture of TikZ, which `forest` loads.
"""

from __future__ import annotations

from typing import Literal

from sapwood.errors import InputError
from sapwood.trees.drawing.layout import lay_out
from sapwood.trees.drawing.terminal import printable
from sapwood.trees.tree import Tree

_COMMANDS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "`": r"\textasciigrave{}", "'": r"\textquotesingle{}",
    "-": r"{-}",
}  # fmt: skip
_TABLE = str.maketrans(_COMMANDS)
_NO_LABEL = "{}"
Package = Literal["forest", "qtree"]
_BEGIN = (
    "% Compile with LuaLaTeX or XeLaTeX if there are letters beyond ASCII.\n\\documentclass{article}\n"
    "\\usepackage[T1]{fontenc}\n\\usepackage{textcomp}\n"
)
_SETUP = {
    "forest": "\\usepackage{forest}\n\\forestset{default preamble="
    "{for tree={parent anchor=south, child anchor=north}}}\n",
    "qtree": "\\usepackage{qtree}\n",
}


def latex_header(package: Package) -> str:
    """Return the text before the trees in a standalone document."""
    return _BEGIN + _SETUP[package] + "\\pagestyle{empty}\n\\begin{document}\n"


LATEX_FOOTER = "\\end{document}\n"


def format_latex(tree: Tree, package: Package = "forest") -> str:
    r"""Return a tree as LaTeX code for a document that uses the package.

    >>> print(format_latex(Tree.parse("(NP (PRP$ my) (NN dog))")))
    \begin{forest}
    [{NP} [{PRP\$} [{my}]] [{NN} [{dog}]]]
    \end{forest}
    >>> print(format_latex(Tree.parse("(NP (PRP$ my) (NN dog))"), "qtree"))
    \Tree [.{NP} [.{PRP\$} {my} ] [.{NN} {dog} ] ]
    """
    if tree.has_gaps:
        if package != "forest":
            raise InputError(
                f"{package} cannot draw the gaps of a tree: choose latex, or close the gaps (--gaps close)"
            )
        return _tikz(tree)
    opening, leaf, closing = ("[", " [{}]", "]") if package == "forest" else ("[.", " {}", " ]")
    pieces: list[str] = []
    stack: list[Tree | None] = [tree]
    while stack:
        node = stack.pop()
        if node is None:
            pieces.append(closing)
            continue
        pieces.append((" " if pieces else "") + opening + _text(node.label))
        stack.append(None)
        if node.word is not None:
            pieces.append(leaf.format(_text(node.word)))
        stack.extend(reversed(node.children))
    body = "".join(pieces)
    return f"\\begin{{forest}}\n{body}\n\\end{{forest}}" if package == "forest" else f"\\Tree {body}"


def _text(text: str) -> str:
    return "{" + printable(text).translate(_TABLE) + "}" if text else _NO_LABEL


def _tikz(tree: Tree) -> str:
    """Return a tree with gaps as a picture with the coordinates of its layout, in points."""
    layout = lay_out(tree, font_size=10.0)
    lines = ["\\begin{tikzpicture}[x=1pt, y=-1pt]"]
    for box in layout.boxes:
        lines.append(f"\\node at ({box.x:.1f}, {box.y:.1f}) {{{_text(box.text)}}};")
    for box in layout.boxes:
        if box.parent >= 0:
            above = layout.boxes[box.parent]
            top, bottom = above.y + 0.8 * layout.font_size, box.y - 0.8 * layout.font_size
            path = f"({above.x:.1f}, {top:.1f}) -- ({above.x:.1f}, {box.joint:.1f}) -- ({box.x:.1f}, {box.joint:.1f})"
            lines.append(f"\\draw[rounded corners=2pt] {path} -- ({box.x:.1f}, {bottom:.1f});")
    return "\n".join([*lines, "\\end{tikzpicture}"])
