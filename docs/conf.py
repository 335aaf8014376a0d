"""The documentation as a site: `sphinx-build -W docs build/site`.

Pages are Markdown (MyST) and notebooks, which run while the site is built. The reference is made from docstrings, whose
code stands in single backquotes as in Markdown; `_docstring` turns them into reStructuredText.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import sapwood

project = "sapwood"
author = "The sapwood maintainers"
project_copyright = author
version = release = sapwood.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "sphinx_copybutton"]
# (No page can be called search: that is the site's own.)
exclude_patterns = ["**.ipynb_checkpoints"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = f"sapwood {release}"
html_static_path: list[str] = []
html_copy_source = False

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

autosummary_generate = True
# A package is what it exports.
autosummary_ignore_module_all = False
# Attributes of several classes have the same names; nothing links to them.
suppress_warnings = ["ref.python"]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_use_ivar = True
toc_object_entries = False

_CODE = re.compile(r"(?<![`\w])`([^`]+)`(\w*)(?!`)")
_SPECIAL = re.compile(r"([*|\\]|_(?=\W|$))")


def _line(line: str) -> str:
    """Return a line of prose: what stands in backquotes as code, and no other character with a meaning."""
    found, at = "", 0
    for code in _CODE.finditer(line):
        text, ending = code.groups()
        found += _SPECIAL.sub(r"\\\1", line[at : code.start()]) + f"``{text}``" + (f"\\ {ending}" if ending else "")
        at = code.end()
    return found + _SPECIAL.sub(r"\\\1", line[at:])


def _docstring(_app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """Turn a docstring into reStructuredText, in place: prose as above, examples and what is indented as it is."""
    found: list[str] = []
    example = literal = False
    for number, line in enumerate(lines):
        text = line.strip()
        if not text:
            example = False
        elif text.startswith(">>>"):
            example = True
        indented = line.startswith("    ") and (literal or (number > 0 and not lines[number - 1].strip()))
        inside = _in_section(lines, number)
        if text and indented and not literal and not example and not inside:
            found += ["::", ""]
            literal = True
        elif text and not line.startswith("    "):
            if literal:
                found.append("")
            literal = False
        found.append(line if example or literal or set(text) <= {"-"} else _line(line))
    lines[:] = found


def _in_section(lines: list[str], number: int) -> bool:
    """Return whether a line belongs to a list of parameters and the like, where indented lines are explanations."""
    return any(re.fullmatch(r"-{3,}", line.strip()) for line in lines[:number])


DOCS = Path(__file__).resolve().parent
# Pages of the site that are files at the top of the repository.
DOORS = {page: f"{page.upper()}.md" for page in ("readme", "changelog", "contributing", "security")}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s:]+)(#[^)\s]*)?\)")


# The help of all commands, which a test keeps up to date (tests/cli/test_help.py).
HELP = DOCS.parent / "tests" / "cli" / "help"


def _commands(name: str = "sapwood") -> list[str]:
    """Return the names of the files with the help of a command and its subcommands, in the order of its list."""
    _, _, listed = (HELP / f"{name}.txt").read_text(encoding="utf-8").partition("\nCommands:\n")
    below = [f"{name}-{line.split()[0]}" for line in listed.splitlines() if re.match(r"  \w", line)]
    return [name, *(one for child in below for one in _commands(child))]


def _reference() -> str:
    """Return a section with the help of each command, the longest one that it has."""
    sections = []
    for name in _commands():
        longest = HELP / f"{name}-all.txt"
        path = longest if longest.exists() else HELP / f"{name}.txt"
        text = path.read_text(encoding="utf-8").rstrip("\n")
        sections.append(f"## {name.replace('-', ' ')}\n\n```text\n{text}\n```\n")
    return "\n".join(sections)


def _page(_app: Any, name: str, source: list[str]) -> None:
    """Put the files at the top of the repository in their places, and lead links to pages of the site, or nowhere."""
    if name == "commands":
        source[0] = source[0].replace("<!-- commands -->", _reference())
    home = DOCS.parent if name in DOORS else (DOCS / name).parent
    if name in DOORS:
        source[0] = (DOCS.parent / DOORS[name]).read_text(encoding="utf-8")

    def moved(link: re.Match[str]) -> str:
        picture, text, target, anchor = link.groups()
        path = (home / target).resolve()
        door = next((page for page, file in DOORS.items() if path == DOCS.parent / file), None)
        if door is not None:
            return f"[{text}](/{door}.md{anchor or ''})"
        if path.is_relative_to(DOCS) and path.is_file():
            return f"{picture}[{text}](/{path.relative_to(DOCS)}{anchor or ''})"
        return text  # a file of the repository that is no page

    source[0] = _LINK.sub(moved, source[0])


# Former names of pages, which still lead to them.
REDIRECTS = {
    "half-annotated": "partial-annotation",
    "layer": "forest-crf",
    "learning": "em-split-merge",
    "network": "span-scorer",
    "plan": "design",
    "text": "tokenisation",
    "text-grammars": "grammar-files",
}
_REDIRECT = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>This page has moved</title>
<link rel="canonical" href="{page}.html">
<meta http-equiv="refresh" content="0; url={page}.html">
</head>
<body><p>This page has moved to <a href="{page}.html">{page}.html</a>.</p></body>
</html>
"""


def _redirect(app: Any, exception: Exception | None) -> None:
    """Write a page for each former name that redirects to the current one."""
    if exception is None and app.builder.format == "html":
        for former, page in REDIRECTS.items():
            (Path(app.outdir) / f"{former}.html").write_text(_REDIRECT.format(page=page), encoding="utf-8")


def _skip(_app: Any, _what: str, _name: str, thing: Any, _skipped: bool, _options: Any) -> bool | None:
    """Leave out what Python says of the fields of a named tuple, which is nothing."""
    return True if str(getattr(thing, "__doc__", "")).startswith("Alias for field number") else None


def setup(app: Any) -> None:
    """Have pages and docstrings turned before they are read."""
    app.connect("source-read", _page)
    app.connect("autodoc-process-docstring", _docstring, priority=100)
    app.connect("autodoc-skip-member", _skip)
    app.connect("build-finished", _redirect)
