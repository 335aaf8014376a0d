"""`sapwood models`."""

from __future__ import annotations

import click

from sapwood.cli.options import common
from sapwood.model.installed import installed_models


@click.command("models", short_help="List installed models.")
@common.json_option
def command(as_json: bool) -> None:
    """List the models that --model and `sapwood.load` find by name: the included one and installed packages.

    \b
    Examples:
      sapwood models
      sapwood parse --model en -s "It rained."
    """
    found = installed_models()
    if as_json:
        common.print_json({"models": [model._asdict() for model in found]})
        return
    width = max(len(model.name) for model in found)
    for model in found:
        click.echo(f"{model.name:<{width}}  {model.summary} ({model.package} {model.version}, {model.licence})")
