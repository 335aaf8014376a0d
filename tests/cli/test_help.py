"""Help texts are those of the snapshots, which are read as prose when they change."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from cli.record_help import FOLDER, help_texts
from sapwood.cli.main import main

REMEDY = "read the new text, then run `python tests/cli/record_help.py`"


def test_help_is_that_of_the_snapshots():
    texts = help_texts()
    assert sorted(texts) == sorted(path.name for path in FOLDER.glob("*.txt")), REMEDY
    for name, text in texts.items():
        assert text == (FOLDER / name).read_text(encoding="utf-8"), f"{name}: {REMEDY}"


def test_both_lengths_of_help_are_recorded():
    texts = help_texts()
    assert {"sapwood.txt", "sapwood-lm-train.txt", "sapwood-train.txt", "sapwood-train-all.txt"} <= set(texts)
    assert len(texts["sapwood-train-all.txt"]) > len(texts["sapwood-train.txt"])


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("train", "--kappa"),
        ("train", "--rule-tolerance"),
        ("train", "--strength"),
        ("induce", "--warmup"),
        ("induce", "--hold"),
        ("lm train", "--pivot-iterations"),
        ("lm train", "--step-power"),
        ("minimise", "--gamma"),
    ],
)
def test_settings_that_are_hardly_ever_changed_are_accepted_and_shown_in_no_help(command, option):
    texts = help_texts()
    shown = [text for name, text in texts.items() if name.startswith(f"sapwood-{command.replace(' ', '-')}")]
    assert shown
    assert not any(f"  {option} " in text for text in shown)
    result = CliRunner().invoke(main, [*command.split(), "in", "-o", "out", option, "nothing"])
    assert result.exit_code == 2
    assert "is not a" in result.output
