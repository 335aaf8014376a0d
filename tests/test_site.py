"""What turns pages and docstrings into those of the site. (Building it, warnings as errors, is a step of `.ci/run`.)"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def conf():
    spec = importlib.util.spec_from_file_location("site_conf", REPOSITORY / "docs" / "conf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def turned(conf, text: str) -> str:
    lines = text.split("\n")
    conf._docstring(None, "function", "name", None, None, lines)
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("Return `x` of *all*.", r"Return ``x`` of \*all\*."),
        ("`Tree`s of `a|b`", r"``Tree``\ s of ``a|b``"),
        ("x_ and a|b, x_y", r"x\_ and a\|b, x_y"),
        ("an `open one", "an `open one"),
    ],
)
def test_prose(conf, line, wanted):
    assert conf._line(line) == wanted


def test_examples_and_indented_text_stay_as_they_are(conf):
    text = "Say *it*.\n\n    a | b *\n    c\n\nMore `x`.\n\nExamples\n--------\n>>> f(*x)\n`y`\n"
    found = turned(conf, text)
    assert "    a | b *\n    c" in found
    assert "::\n\n    a | b *" in found
    assert ">>> f(*x)\n`y`" in found
    assert "More ``x``." in found
    assert "Examples\n--------" in found


def test_parameters_are_prose(conf):
    found = turned(conf, "Do it.\n\nParameters\n----------\nx\n    A `name`, or *all*.\n\n    More of it.\n")
    assert r"    A ``name``, or \*all\*." in found
    assert "::" not in found


def test_links_lead_to_pages_of_the_site_or_nowhere(conf):
    def page(name, text):
        source = [text]
        conf._page(None, name, source)
        return source[0]

    assert page("tutorial", "[a](../README.md#results)") == "[a](/readme.md#results)"
    assert (
        page("tutorial", "[a](tree-search.md) ![p](pictures/table1.svg)")
        == "[a](/tree-search.md) ![p](/pictures/table1.svg)"
    )
    assert page("tutorial", "[a](../LICENSE) and [b](https://example.org/x)") == "a and [b](https://example.org/x)"
    assert page("notebooks/index", "[a](../tree-search.md#nodes)") == "[a](/tree-search.md#nodes)"
    # Pages of the repository's top are put in their places, with their links.
    changelog = page("changelog", "# Changelog\n")
    assert changelog.startswith("# Changelog\n\nWhat users notice")
    assert "[how](/models.md)" in changelog
    assert not re.search(r"\]\(docs/", changelog)


def test_the_version_is_that_of_the_package(conf):
    import sapwood

    assert conf.release == sapwood.__version__
    assert sapwood.__version__ in conf.html_title
