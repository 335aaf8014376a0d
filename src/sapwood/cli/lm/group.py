"""`sapwood lm`: language models."""

from __future__ import annotations

import click

from sapwood.cli.lm import count as _lm_count
from sapwood.cli.lm import evaluate as _lm_eval
from sapwood.cli.lm import train as _lm_train
from sapwood.cli.lm import use as _lm_use
from sapwood.cli.options.completion import complete_files
from sapwood.cli.options.types import limit_numbers

_COMMANDS = (
    _lm_count.count_command,
    _lm_count.merge_command,
    _lm_train.train_command,
    _lm_eval.eval_command,
    _lm_eval.score_command,
    _lm_use.next_command,
    _lm_use.generate_command,
    _lm_use.topics_command,
    _lm_use.nearest_command,
    _lm_count.show_command,
    _lm_use.export_command,
)


class _InOrder(click.Group):
    """A group that lists its commands in order of use."""

    def list_commands(self, context: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.commands)


@click.group("lm", cls=_InOrder, short_help="Count n-grams; train and use language models.")
def command() -> None:
    """Count n-grams; train, evaluate and use language models.

    \b
    Examples:
      sapwood lm train train.txt --dev dev.txt -o best.sapwood
      sapwood lm train train.txt --dev dev.txt --method pivot+em --states 128 -o model.sapwood
      sapwood lm eval best.sapwood test.txt
      sapwood lm next best.sapwood "the old"
    """


for _each in _COMMANDS:
    limit_numbers(_each)
    complete_files(_each)
    command.add_command(_each)
