r"""LaTeX output of trees: `forest`, and `qtree` (which `tikz-qtree` reads as well).

Every label and word is in braces, with TeX's special characters written as commands, so that any text is allowed.
Letters beyond ASCII require a Unicode engine (LuaLaTeX, XeLaTeX) or a font that has them.
"""

from __future__ import annotations

from typing import Literal

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
