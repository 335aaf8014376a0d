"""`sapwood serve`."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import click

from sapwood.cli.options import common
from sapwood.cli.options.types import ABOVE_ZERO, POSITIVE, Size
from sapwood.errors import UsageError

if TYPE_CHECKING:
    from sapwood.web.server import LogFormat
    from sapwood.web.service import Limits

TOKEN = "SAPWOOD_TOKEN"


@click.command("serve", short_help="Explore models and treebanks in a browser.")
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    help="Parser or language model to serve. Repeatable. [default: the included English model]",
)
@click.option("--treebank", help="Treebank to browse, search, and compare parses with.")
@click.option("--log", "logs", multiple=True, help="Training log to show, even while training is running. Repeatable.")
@click.option("--host", default="127.0.0.1", help="Address to listen on; 0.0.0.0 listens on all interfaces.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, help="Port to listen on; 0 picks a free one.")
@click.option("--token", help=f"Bearer token that API clients must send. [default: ${TOKEN}, else none]")
@common.limited_parser_options(timeout=10.0, max_memory="512M")
@click.option("--max-words", type=POSITIVE, default=250, help="Maximum length of a sentence in words.")
@click.option("--max-sentences", type=POSITIVE, default=1000, help="Maximum number of sentences per request.")
@click.option("--max-body", type=Size(), default="1M", help="Maximum size of a request.")
@click.option("--max-total-words", type=POSITIVE, default=50_000, help="Maximum number of words per request.")
@click.option(
    "--max-characters",
    type=POSITIVE,
    default=200_000,
    help="Maximum number of characters of the texts or trees in a request.",
)
@click.option(
    "--max-seconds", type=ABOVE_ZERO, default=30.0, help="Time limit per request in seconds, including waiting."
)
@click.option(
    "--queue",
    type=POSITIVE,
    default=128,
    help="Maximum number of running and waiting requests; further ones are rejected.",
)
@click.option(
    "--max-connections",
    type=click.IntRange(min=2),
    default=1000,
    help="Maximum number of open connections.",
)
@click.option(
    "--max-connections-per-client",
    type=click.IntRange(min=1),
    default=256,
    help="Maximum number of open connections from one address; behind a proxy, give as many as --max-connections.",
)
@click.option(
    "--drain",
    type=click.FloatRange(min=0),
    default=30.0,
    help="Time limit in seconds for running requests to end when the server stops.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    help="Number of processes, which share the memory of the models. --threads and the limits are those of each.",
)
@click.option("--watch", is_flag=True, help="Load models again when their files are replaced.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Format of log lines.",
)
@click.option("--log-texts", is_flag=True, help="Also log the texts sent for parsing.")
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
    log_format: LogFormat,
    log_texts: bool,
    workers: int,
    watch: bool,
    threads: int | None,
    input_format: str,
    skip_bad: bool,
    quiet: bool,
    **limits: Any,
) -> None:
    """Serve an HTTP API, and pages to explore parses, hidden states and treebanks, until Ctrl-C.

    The server listens on this machine only, unless --host is given; set a token in that case. The API is described at
    /api/openapi.json. Users choose between the models on the pages; a file with several grammars parses with their
    product.

    \b
    Examples:
      sapwood serve
      sapwood serve -m model.sapwood --treebank dev.mrg --port 8000
      sapwood serve -m small.sapwood -m large.sapwood -m words.lm --log train.jsonl
    """
    from sapwood.trees.formats.registry import BadTrees
    from sapwood.web.server import is_loopback, log_to_stderr, open_sockets, serve
    from sapwood.web.service import Service

    common.check_inputs(*models_to_check(models), treebank)
    token = checked_token(token if token is not None else os.environ.get(TOKEN))
    progress = common.make_progress(quiet)
    bad = BadTrees() if skip_bad else None
    # At least two, so that no request takes all of them.
    threads = max(2, -(-common.default_threads(None) // workers)) if threads is None else threads
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(one) for one in open_sockets(host, port, workers)]
        service = Service.load(
            models,
            treebank=treebank,
            logs=logs,
            reading={"format": input_format, "on_bad": bad, "gaps": common.gaps_option()},
            limits=_limits(**limits),
            threads=threads,
            token=token,
            processes=workers,
            decoder=decoder,
            threshold=threshold,
        )
        if bad is not None and bad.count:
            progress.note(bad.report())
        if not is_loopback(sockets[0]) and token is None:
            progress.note("this address is reachable by others, and no token is required (--token)")
        if not quiet:
            log_to_stderr(log_format)
        serve(
            service,
            sockets,
            log_texts=log_texts,
            watch=watch,
            started=lambda address: click.echo(f"sapwood: serving at {address} (end with Ctrl-C)"),
        )


def checked_token(token: str | None) -> str | None:
    """Return the token; raises `UsageError` if it cannot be sent in a header."""
    if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
        raise UsageError("--token: a token consists of printable ASCII characters, without surrounding spaces")
    return token


def _limits(
    *,
    max_body: int,
    max_characters: int,
    max_total_words: int,
    max_sentences: int,
    max_words: int,
    max_seconds: float,
    timeout: float,
    max_memory: int,
    queue: int,
    max_connections: int,
    max_connections_per_client: int,
    drain: float,
) -> Limits:
    """Return the limits of requests that the options ask for."""
    from sapwood.web.service import Limits

    return Limits(
        body=max_body,
        characters=max_characters,
        total_words=max_total_words,
        sentences=max_sentences,
        words=max_words,
        seconds=max_seconds,
        sentence_seconds=timeout,
        memory=max_memory,
        queue=queue,
        connections=max_connections,
        connections_per_client=max_connections_per_client,
        drain=drain,
    )


def models_to_check(models: tuple[str, ...]) -> list[str]:
    """Return the models that are files; raises `UsageError` for invalid names."""
    from sapwood.model.installed import find_model

    if "-" in models:
        raise UsageError("a model cannot be read from standard input; name a file")
    if "" in models:
        raise UsageError("-m: the name of the model is empty")
    return [str(find_model(model)) for model in models]
