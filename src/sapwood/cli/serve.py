"""`sapwood serve`."""

from __future__ import annotations

import os

import click

from sapwood.cli import _common as common
from sapwood.cli._types import Size
from sapwood.errors import UsageError

_TOKEN = "SAPWOOD_TOKEN"


@click.command("serve", short_help="Look at models and treebanks in a browser.")
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    help="Model file, of a grammar or a language model; may be given several times. "
    "[default: the included English model]",
)
@click.option("--treebank", help="Trees to browse, to search, and to compare parses with.")
@click.option("--log", "logs", multiple=True, help="Training log to show, also while training goes on.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 is every one.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port; 0 is any that is free."
)
@click.option("--token", help=f"What clients of the API must send as bearer token. [default: ${_TOKEN}, or none]")
@common.parser_options
@click.option("--max-words", type=click.IntRange(min=1), default=250, show_default=True, help="Of a sentence.")
@click.option("--max-sentences", type=click.IntRange(min=1), default=1000, show_default=True, help="Of one request.")
@click.option("--max-body", type=Size(), default="1M", show_default=True, help="Size of one request.")
@click.option(
    "--max-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Time for one request, waiting included.",
)
@click.option(
    "--queue",
    type=click.IntRange(min=1),
    default=128,
    show_default=True,
    help="Requests that may wait or be under way; others are told to come back later.",
)
@click.option("--log-texts", is_flag=True, help="Log what is sent to be parsed, too.")
@common.threads_option
@common.format_option
@common.skip_bad_option
@common.quiet_option
def command(
    models: tuple[str, ...],
    treebank: str | None,
    logs: tuple[str, ...],
    host: str,
    port: int,
    token: str | None,
    decoder: str | None,
    threshold: float | None,
    max_memory: int | None,
    timeout: float | None,
    max_words: int,
    max_sentences: int,
    max_body: int,
    max_seconds: float,
    queue: int,
    log_texts: bool,
    threads: int | None,
    input_format: str,
    skip_bad: bool,
    quiet: bool,
) -> None:
    """Serve pages to look at parses, hidden states and treebanks with a browser, and an HTTP API, until Ctrl-C.

    It listens on this machine alone unless --host says otherwise; then give a token as well. The API is described at
    /api/openapi.json. Each model is one to choose from on the pages; a file with several grammars parses with their
    product.

    \b
    Examples:
      sapwood serve
      sapwood serve -m model.sapwood --treebank dev.mrg --port 8000
      sapwood serve -m small.sapwood -m large.sapwood -m words.lm --log train.jsonl
    """
    from sapwood.trees.formats import BadTrees
    from sapwood.web.server import is_loopback, log_to_stderr, open_socket, serve
    from sapwood.web.service import Limits, Service

    common.check_inputs(*models_to_check(models), treebank)
    token = token if token is not None else os.environ.get(_TOKEN)
    if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
        raise UsageError("--token: a token is made of printable ASCII characters, without blanks around it")
    progress = common.make_progress(quiet)
    default = Limits()
    limits = Limits(
        body=max_body,
        sentences=max_sentences,
        words=max_words,
        seconds=max_seconds,
        sentence_seconds=default.sentence_seconds if timeout is None else timeout,
        memory=default.memory if max_memory is None else max_memory,
        queue=queue,
    )
    bad = BadTrees() if skip_bad else None
    # Two at least: then no request has all of them.
    workers = max(2, common.default_threads(None)) if threads is None else threads
    listening = open_socket(host, port)
    with listening:
        service = Service.load(
            models,
            treebank=treebank,
            logs=logs,
            format=input_format,
            on_bad=bad,
            limits=limits,
            threads=workers,
            token=token,
            decoder=decoder,
            threshold=threshold,
        )
        if bad is not None and bad.count:
            progress.note(bad.report())
        if not is_loopback(listening) and token is None:
            progress.note("others can reach this address, and nobody is asked for a token (--token)")
        if not quiet:
            log_to_stderr()
        serve(
            service,
            listening,
            log_texts=log_texts,
            started=lambda address: click.echo(f"sapwood: serving at {address} (end with Ctrl-C)"),
        )


def models_to_check(models: tuple[str, ...]) -> list[str]:
    """Return the models that are files; raises `UsageError` for what cannot be one."""
    from sapwood.models import find_model

    if "-" in models:
        raise UsageError("a model cannot be read from standard input; name a file")
    if "" in models:
        raise UsageError("-m: the name of the model is empty")
    return [str(find_model(model)) for model in models]
