"""What stands at the door of the repository: citation, changelog, contributing, hooks, and links between pages."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from sapwood import __version__

REPOSITORY = Path(__file__).resolve().parents[1]
DOORS = [REPOSITORY / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]
PAGES = [*DOORS, REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


def read(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def slugs(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as they are made from their text."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> list[str]:
    """Return the links of a page to files that are not there, and to headings that are not in them."""
    found = []
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path = page.parent / target if target else page
        if not path.exists():
            found.append(target)
        elif anchor and anchor not in slugs(path):
            found.append(f"{target}#{anchor}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_headings(page: Path) -> None:
    assert not dead_links(page)


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# One, `two`\n\n```text\n# no heading\n```\n", encoding="utf-8")
    page = tmp_path / "b.md"
    page.write_text("[1](a.md) [2](a.md#one-two) [3](#here) [4](c.md) [5](a.md#no-heading)\n", encoding="utf-8")
    assert dead_links(page) == ["#here", "c.md", "a.md#no-heading"]


def test_the_citation_has_the_version_and_the_five_papers() -> None:
    citation, bibliography = read("CITATION.cff"), " ".join(read("docs/papers.md").split())
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [__version__]
    titles = re.findall(r'^  - type: .+\n    title: "?(.+?)"?$', citation, re.MULTILINE)
    assert len(titles) == 5
    for title in titles:
        assert f'"{title}"' in bibliography


def test_the_changelog_has_the_version_and_says_where_changed_defaults_go() -> None:
    changelog = read("CHANGELOG.md")
    (heading,) = re.findall(r"^##+ .+$", changelog, re.MULTILINE)
    assert heading == f"## {__version__.partition('.dev')[0]}: first release"
    assert "*Changed defaults*" in changelog


def test_hooks_are_local_and_part_of_the_checks() -> None:
    hooks, checks = read(".pre-commit-config.yaml"), read(".ci/run")
    assert re.findall(r"repo: (.+)", hooks) == ["local"]
    commands = [shlex.split(entry)[:2] for entry in re.findall(r"entry: (.+)", hooks)]
    assert len(commands) == hooks.count("language: system") == 5
    for command in commands:
        assert re.search(rf"^{' '.join(command)}\b", checks, re.MULTILINE), f"{command} is not in .ci/run"


def test_every_page_is_in_a_list_of_the_site() -> None:
    docs = REPOSITORY / "docs"
    pages = {path.relative_to(docs).with_suffix("").as_posix() for path in PAGES if path.parent == docs}
    listed = re.findall(r"^([\w/-]+)$", read("docs/index.md"), re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) - {"notebooks/index"} == pages - {"index"}
    # The site has pages of its own by these names, which would replace ours.
    assert not {"search", "genindex", "modindex"} & pages


def test_the_comparison_has_a_reason_wherever_we_do_not_say_yes() -> None:
    rows = re.findall(r"^\| (\w.+?) \| \*\*(\w+)\*\* \|.*\| (.+) \|$", read("docs/comparison.md"), re.MULTILINE)
    assert len(rows) == 65
    for what, ours, reason in rows:
        assert ours in ("yes", "no", "partly")
        assert reason.strip(), what
        assert ours == "yes" or len(reason.split()) > 5, f"{what}: why not?"


def test_the_comparison_has_the_same_cells_for_all() -> None:
    lines = read("docs/comparison.md").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "| **" in line]
    (header,) = {line for line in lines if line.startswith("| | sapwood |")}
    for row in rows:
        assert len(row) == header.count("|") - 1, row[0]
        assert set(row[2:-1]) <= {"yes", "partly", "no", "unknown", "-"}, row[0]


def test_the_reference_has_every_name_of_the_package() -> None:
    import sapwood

    listed = re.findall(r"^   ~(?:\w+\.)+(\w+)$", read("docs/api.md"), re.MULTILINE)
    assert sorted(listed) == sorted(set(sapwood.__all__) - {"__version__"})
