"""`sapwood lm`: language models."""

from __future__ import annotations

import click

from sapwood.cli import _lm_count, _lm_eval, _lm_train, _lm_use

_COMMANDS = (
    _lm_count.count_command,
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
    """Lists its commands in the order in which they are of use."""

    def list_commands(self, context: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.commands)


@click.group("lm", cls=_InOrder, short_help="Count n-grams; train and use language models.")
def command() -> None:
    """Count the n-grams of texts, and train, measure and use language models.

    \b
    Examples:
      sapwood lm train train.txt --dev dev.txt -o best.sapwood
      sapwood lm train train.txt --dev dev.txt --method pivot+em --states 128 -o model.sapwood
      sapwood lm eval best.sapwood test.txt
      sapwood lm next best.sapwood "the old"
    """


for _each in _COMMANDS:
    command.add_command(_each)
