"""`sapwood package`."""

from __future__ import annotations

from pathlib import Path

import click

from sapwood.cli import _common as common
from sapwood.errors import InputError
from sapwood.files import check_readable, explained
from sapwood.models import find_model


@click.command("package", short_help="Make a Python package of a model.")
@click.argument("model")
@click.option("--name", required=True, help="What the model will be called: is, de-news.")
@click.option("--language", required=True, help="Its language, in words: Icelandic.")
@click.option("--licence", required=True, help="Its licence, as an SPDX expression: CC-BY-4.0.")
@click.option(
    "--attribution", required=True, help="A text that says what it was trained on, who made that, and its licence."
)
@click.option("--figures", multiple=True, help="What `sapwood eval --json` printed of it. Can be repeated.")
@click.option("--about", help="A text that says what the model is good for, for the model card.")
@click.option("--version", default="1.0.0", show_default=True, help="Version of the package.")
@click.option("-o", "--output", default=".", show_default=True, help="Folder to write the wheel to.")
@common.quiet_option
def command(
    model: str,
    name: str,
    language: str,
    licence: str,
    attribution: str,
    figures: tuple[str, ...],
    about: str | None,
    version: str,
    output: str,
    quiet: bool,
) -> None:
    """Make a wheel of MODEL, so that pip installs it and `sapwood.load` and --model find it by its name.

    The wheel holds the model, a model card, its figures, licence and attribution. `sapwood models` lists those that are
    installed.

    \b
    Examples:
      sapwood eval test.mrg -m model.sapwood --json > test.json
      sapwood package model.sapwood --name de-news --language German --licence CC-BY-4.0 \\
          --attribution SOURCES.md --figures test.json -o dist/
      pip install dist/sapwood_model_de_news-1.0.0-py3-none-any.whl
      sapwood parse --model de-news sentences.txt
    """
    from sapwood.interop.packages import read_figures, write_package

    path = find_model(model)
    check_readable(path)
    with explained(output, "write"):
        Path(output).mkdir(parents=True, exist_ok=True)
    wheel = write_package(
        path,
        output,
        name=name,
        language=language,
        licence=licence,
        attribution=_text(attribution),
        figures=read_figures(figures),
        about=_text(about) if about is not None else "",
        version=version,
    )
    common.make_progress(quiet).note(f"{wheel}: {wheel.stat().st_size:,} bytes; install it with `pip install {wheel}`")


def _text(path: str) -> str:
    """Return what a text file holds."""
    with explained(path):
        content = Path(path).read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
