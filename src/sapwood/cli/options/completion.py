"""Shell completion of file names and of models.

Click completes commands, options and choices on its own, and leaves file names to the types of parameters.
"""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem
from click.types import StringParamType

_MODELS = ("models", "model")
# Options and arguments that are neither files nor models.
_OTHERS = (
    "about", "attribution", "column", "context", "eta", "host", "keep", "keep_tags", "language", "licence", "name",
    "pattern", "phrases", "states", "symbol", "title", "token", "tokeniser", "version", "word",
)  # fmt: skip


class FileName(StringParamType):
    """The name of a file."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Let the shell complete files."""
        return [CompletionItem(incomplete, type="file")]


class ModelName(FileName):
    """The name of an installed model, or of a file."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the models that start with the incomplete value, and let the shell complete files."""
        from sapwood.model.installed import installed_models

        names = [model.name for model in installed_models()]
        found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
        return [*found, *super().shell_complete(ctx, param, incomplete)]


def complete_files(command: click.Command) -> None:
    """Give the text parameters of a command that name files or models the types that complete these."""
    for parameter in command.params:
        if type(parameter.type) is not StringParamType:
            continue
        if parameter.name in _MODELS:
            parameter.type = ModelName()
        elif parameter.name not in _OTHERS and "-s" not in parameter.opts:
            parameter.type = FileName()
