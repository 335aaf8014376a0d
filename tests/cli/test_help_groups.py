from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner

from sapwood.cli.options.help import GroupedCommand, config_options, run_settings
from sapwood.errors import InputError
from sapwood.runtime.config import read_config, write_config


@click.command(cls=GroupedCommand, groups={"Hidden states": ["word-prior", "states"], "Files": ["output"]})
@click.argument("text")
@click.option("-o", "--output", required=True, help="Where to.")
@click.option("--states", type=click.IntRange(min=1), help="How many.")
@click.option("--word-prior", type=float, default=3.0, help="How strong.")
@click.option("--name", multiple=True, help="Some names.")
@click.option("--ends/--no-ends", default=True, help="Ends.")
@click.option("--json", "as_json", is_flag=True)
@config_options
@click.pass_context
def command(context, /, text, save_config, **options):
    if save_config is not None:
        write_config(save_config, run_settings(context))
    click.echo(json.dumps({"text": text, **options}))


def run(*arguments):
    return CliRunner().invoke(command, ["in.txt", *map(str, arguments)])


def found(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_help_lists_options_under_headings_the_others_first():
    lines = run("--help").output.splitlines()
    places = [lines.index(f"{heading}:") for heading in ("Options", "Hidden states", "Files")]
    assert places == sorted(places)
    sections = [" ".join(lines[a:b]) for a, b in zip(places, [*places[1:], len(lines)], strict=True)]
    assert all(option in sections[0] for option in ("--name", "--ends / --no-ends", "--config", "--help"))
    assert all(option in sections[1] for option in ("--states", "--word-prior"))
    assert "--output" in sections[2]
    assert run("--help").output.count("--states") == 1
    assert run("--help").output.count("TEXT") == 5, "the usage, and the kinds of four options, but no argument"


@pytest.mark.parametrize("groups", [{"A": ["nothing"]}, {"A": ["states"], "B": ["states"]}])
def test_groups_that_do_not_fit_the_options_are_refused(groups):
    with pytest.raises(ValueError, match="groups name"):
        GroupedCommand("x", params=[click.Option(["--states"])], groups=groups)


def test_a_settings_file_gives_what_the_command_line_does_not(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('output = "a"\nstates = 8\nword-prior = 2\nname = ["x", "y"]\nends = false\n')
    assert found("--config", path) == {
        "text": "in.txt", "output": "a", "states": 8, "word_prior": 2.0, "name": ["x", "y"], "ends": False,
        "as_json": False,
    }  # fmt: skip
    other = found("--states", 3, "--config", path, "--ends", "--name", "z")
    assert (other["states"], other["ends"], other["name"], other["output"]) == (3, True, ["z"], "a")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("states = 8.5", "states = 8.5: '8.5' is not a valid integer"),
        ("states = true", "states = True: 'true' is not a valid integer"),
        ("states = 0", "states = 0: 0 is not in the range"),
        ("states = [1, 2]", "states = [1, 2]: write one value"),
        ("name = 'abc'", "name = 'abc': write a list"),
        ("ends = 1", "ends = 1: write true or false"),
        ("json = true", "there is no setting 'json'"),
        ("config = 'x'", "there is no setting 'config'"),
    ],
)
def test_a_bad_setting_is_refused_by_the_name_of_its_file(tmp_path, line, message):
    path = tmp_path / "run.toml"
    path.write_text(line + "\n")
    error = run("--config", path, "-o", "a").exception
    assert isinstance(error, InputError)
    assert str(error).startswith(str(path))
    assert message in str(error)


def test_saved_settings_make_the_same_run(tmp_path):
    path = tmp_path / "saved.toml"
    first = found("-o", "a", "--states", 5, "--name", "x", "--no-ends", "--save-config", path)
    assert read_config(path, ["output", "states", "word-prior", "name", "ends"]) == {
        "output": "a", "states": 5, "word-prior": 3.0, "name": ["x"], "ends": False,
    }  # fmt: skip
    assert found("--config", path) == first
