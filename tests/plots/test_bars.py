"""Bar charts."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from sapwood.plots.bars import MOST_BARS, draw_bars


def test_the_same_counts_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        draw_bars(["NP & co", "VP"], [3, 1], tmp_path / name, axis="count", title="labels")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "NP &amp; co" in text
    assert "labels" in text


def test_many_bars_are_cut_and_none_is_a_picture(tmp_path: Path) -> None:
    draw_bars([f"L{n}" for n in range(100)], range(100), tmp_path / "many.svg", axis="count")
    text = (tmp_path / "many.svg").read_text(encoding="utf-8")
    assert f"L{MOST_BARS - 1}<" in text
    assert f"L{MOST_BARS}<" not in text
    draw_bars([], [], tmp_path / "none.png", axis="count")
    assert (tmp_path / "none.png").read_bytes().startswith(b"\x89PNG")
