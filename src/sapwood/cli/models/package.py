"""`sapwood package`."""

from __future__ import annotations

from pathlib import Path

import click

from sapwood.cli.options import common
from sapwood.errors import InputError, UsageError
from sapwood.model.installed import find_model
from sapwood.storage.files import check_readable, explained


@click.command("package", short_help="Package a model as a wheel, or push it to Hugging Face.")
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
@click.option("--treebank", help="Name of the treebank that the model was trained on, for the model card.")
@click.option("-o", "--output", help="Write the wheel to this folder. [default: the current one, without --push]")
@click.option("--push", metavar="OWNER/NAME", help="Push the model to this repository of the Hugging Face hub.")
@click.option("--private", is_flag=True, help="Make the repository private, if it is new.")
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
    treebank: str | None,
    output: str | None,
    push: str | None,
    private: bool,
    quiet: bool,
) -> None:
    """Package MODEL as a wheel, so that pip installs it and `sapwood.load` and --model find it by name.

    The wheel contains the model, a model card, its evaluation figures, licence and attribution. `sapwood models` lists
    the installed models. --push sends the same files to the Hugging Face hub, where hf:OWNER/NAME names the model; it
    requires huggingface_hub, and a token (`hf auth login`, or HF_TOKEN).

    \b
    Examples:
      sapwood eval test.mrg -m model.sapwood --json > test.json
      sapwood package model.sapwood --name de-news --language German --licence CC-BY-4.0 \\
          --attribution SOURCES.md --figures test.json -o dist/
      pip install dist/sapwood_model_de_news-1.0.0-py3-none-any.whl
      sapwood parse --model de-news sentences.txt
      sapwood package model.sapwood --name de-news --language German --licence CC-BY-4.0 \\
          --attribution SOURCES.md --figures test.json --push owner/de-news
      sapwood parse --model hf:owner/de-news sentences.txt
    """
    from sapwood.interop.packages import read_figures, write_package

    path = find_model(model)
    check_readable(path)
    if private and push is None:
        raise UsageError("--private is for a repository that --push makes")
    described = {
        "name": name,
        "language": language,
        "licence": licence,
        "attribution": _text(attribution),
        "figures": read_figures(figures),
        "about": _text(about) if about is not None else "",
        "treebank": treebank or "",
        "version": version,
    }
    progress = common.make_progress(quiet)
    if output is not None or push is None:
        folder = "." if output is None else output
        with explained(folder, "write"):
            Path(folder).mkdir(parents=True, exist_ok=True)
        wheel = write_package(path, folder, **described)
        progress.note(f"{wheel}: {wheel.stat().st_size:,} bytes; install it with `pip install {wheel}`")
    if push is not None:
        from sapwood.interop.hub import push_model

        pushed = push_model(path, push, private=private, **described)
        progress.note(f"{pushed.name}: pushed, SHA-256 {pushed.digest}")


def _text(path: str) -> str:
    """Return the content of a text file."""
    with explained(path):
        content = Path(path).read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
