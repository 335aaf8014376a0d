"""Former names of options and values."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from sapwood.cli.options.aliases import Aliases
from sapwood.cli.options.help import GroupedCommand, config_options
from sapwood.errors import InputError

ALIASES = Aliases({"layer": "crf", "trust": "teacher-weight"}, {"text-use": {"read": "self-training"}})


@click.command(cls=GroupedCommand, aliases=ALIASES)
@click.argument("names", nargs=-1)
@click.option("--crf/--no-crf", default=None)
@click.option("--teacher-weight", type=float)
@click.option("--text-use", type=click.Choice(["self-training", "em"]))
@config_options
def command(save_config: str | None, **values: object) -> None:
    """Print the values."""
    click.echo(sorted(values.items()))


def printed(*arguments: str) -> str:
    outcome = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


@pytest.mark.parametrize(
    ("former", "present"),
    [
        ("--layer", "--crf"),
        ("--no-layer a", "--no-crf a"),
        ("--trust 2", "--teacher-weight 2"),
        ("--trust=2 read", "--teacher-weight=2 read"),
        ("--text-use read read", "--text-use self-training read"),
        ("--text-use=read", "--text-use=self-training"),
        ("--text-use em -- --layer", "--text-use em -- --layer"),
    ],
)
def test_former_names_mean_what_they_meant(former: str, present: str) -> None:
    assert ALIASES.rewrite(former.split()) == present.split()
    assert printed(*former.split()) == printed(*present.split())


def test_help_does_not_show_them() -> None:
    for name in ("--layer", "--trust"):
        assert name not in printed("--help")


def test_settings_files(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('layer = false\ntrust = 2\ntext-use = "read"\n')
    expected = printed("--no-crf", "--teacher-weight", "2", "--text-use", "self-training")
    assert printed("--config", str(path)) == expected
    path.write_text("layer = false\ncrf = true\n")
    with pytest.raises(InputError, match=r"run\.toml:2: crf is set twice"):
        printed("--config", str(path))
    path.write_text("lair = 1\n")
    with pytest.raises(InputError, match="no setting 'lair'") as error:
        printed("--config", str(path))
    assert "trust" not in str(error.value)
