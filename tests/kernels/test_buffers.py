"""Every buffer of a workspace is among those that its struct visits: tests poison them, and memory is given back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

NATIVE = Path(__file__).resolve().parents[2] / "src" / "native"
STRUCT = re.compile(
    r"\bstruct (\w+) \{\n((?:(?!^\};).*\n)*?)    template <class Visit> void for_each_buffer\(Visit visit\) \{\n"
    r"((?:(?!^    \}$).*\n)*)    \}\n",
    re.MULTILINE,
)
DECLARED = re.compile(r"^ {4}Buffer<\w+> ([^;]+);", re.MULTILINE)


def buffers(text: str) -> dict[str, tuple[set[str], set[str]]]:
    """Return for each struct with a visit the buffers that it declares, and those that it visits."""
    found = {}
    for name, members, body in STRUCT.findall(text):
        declared = {one.strip() for group in DECLARED.findall(members) for one in group.split(",")}
        found[name] = declared, {*re.findall(r"&(\w+)", body), *re.findall(r"visit\((\w+)\)", body)}
    return found


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("chart/coarse/coarse.hpp", "CoarseMemory"),
        ("chart/fine/fine.hpp", "FineMemory"),
        ("chart/decode.hpp", "DecodeMemory"),
        ("forest_crf/forest_crf.hpp", "CRFMemory"),
    ],
)
def test_all_buffers_are_visited(path: str, name: str) -> None:
    declared, visited = buffers((NATIVE / path).read_text(encoding="utf-8"))[name]
    assert declared
    assert declared == visited


def test_a_forgotten_buffer_is_noticed() -> None:
    head = "    template <class Visit> void for_each_buffer(Visit visit) {\n"
    text = f"struct A {{\n    Buffer<int> one,\n        two;\n{head}        visit(one);\n    }}\n}};\n"
    assert buffers(text) == {"A": ({"one", "two"}, {"one"})}
