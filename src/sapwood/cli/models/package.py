"""`sapwood package`."""

from __future__ import annotations

from pathlib import Path

import click

from sapwood.cli.options import common
from sapwood.errors import InputError
from sapwood.model.installed import find_model
from sapwood.storage.files import check_readable, explained


@click.command("package", short_help="Package a model as a Python wheel.")
@click.argument("model")
@click.option("--name", required=True, help="Name of the model: is, de-news.")
@click.option("--language", required=True, help="Language of the model: Icelandic.")
@click.option("--licence", required=True, help="Licence as an SPDX expression: CC-BY-4.0.")
@click.option(
    "--attribution", required=True, help="File with the sources of the training data, their authors and licences."
)
@click.option("--figures", multiple=True, help="Output of `sapwood eval --json` for the model. Repeatable.")
@click.option("--about", help="File with the intended use of the model, for the model card.")
@click.option("--version", default="1.0.0", help="Version of the package.")
@click.option("-o", "--output", default=".", help="Write the wheel to this folder.")
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
    """Package MODEL as a wheel, so that pip installs it and `sapwood.load` and --model find it by name.

    The wheel contains the model, a model card, its evaluation figures, licence and attribution. `sapwood models` lists
    the installed models.

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
    """Return the content of a text file."""
    with explained(path):
        content = Path(path).read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
