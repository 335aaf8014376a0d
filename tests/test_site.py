"""What turns pages and docstrings into those of the site. (Building it, warnings as errors, is a step of `.ci/run`.)"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

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
    assert changelog.startswith("# Changelog\n\nUser-visible changes")
    assert "[models as installable packages](/models.md)" in changelog
    assert not re.search(r"\]\(docs/", changelog)


def test_the_page_of_commands_has_the_help_of_each(conf):
    source = [(conf.DOCS / "commands.md").read_text(encoding="utf-8")]
    assert conf.HELP == REPOSITORY / "tests" / "cli" / "help"
    conf._page(None, "commands", source)
    listed = re.findall(r"^## sapwood ?([\w ]*)$", source[0], re.MULTILINE)
    assert listed[:3] == ["", "train", "parse"]
    assert len(listed) == len(set(listed))
    helps = {path.stem: path.read_text(encoding="utf-8") for path in conf.HELP.glob("*.txt")}
    assert {"-".join(["sapwood", *name.split()]) for name in listed} == {
        name for name in helps if not name.endswith("-all")
    }
    for name, text in helps.items():
        assert text in source[0] or f"{name}-all" in helps, name


def test_former_names_of_pages_redirect(conf, tmp_path):
    app = SimpleNamespace(builder=SimpleNamespace(format="html"), outdir=tmp_path)
    conf._redirect(app, None)
    assert {path.stem for path in tmp_path.iterdir()} == set(conf.REDIRECTS)
    for former, page in conf.REDIRECTS.items():
        assert (conf.DOCS / f"{page}.md").is_file()
        assert not (conf.DOCS / f"{former}.md").exists()
        assert f"url={page}.html" in (tmp_path / f"{former}.html").read_text(encoding="utf-8")


def test_nothing_redirects_after_a_failure_or_outside_html(conf, tmp_path):
    conf._redirect(SimpleNamespace(builder=SimpleNamespace(format="html"), outdir=tmp_path), ValueError())
    conf._redirect(SimpleNamespace(builder=SimpleNamespace(format="text"), outdir=tmp_path), None)
    assert not list(tmp_path.iterdir())


def test_the_version_is_that_of_the_package(conf):
    import sapwood

    assert conf.release == sapwood.__version__
    assert sapwood.__version__ in conf.html_title
