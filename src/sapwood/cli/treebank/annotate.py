"""`sapwood annotate`."""

from __future__ import annotations

import contextlib
import getpass
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sapwood.cli.options import common
from sapwood.cli.serve import TOKEN, checked_token, models_to_check
from sapwood.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sapwood.inference.parser import Parser
    from sapwood.trees.formats.registry import InputFormat
    from sapwood.trees.tokenise.lines import Lines
    from sapwood.trees.tree import Tree

_SETTINGS = ("model", "retrain_after", "keep_tags", "layout")


@click.command("annotate", short_help="Annotate sentences in a browser, with a parser's help.")
@click.argument("project")
@click.option("--text", help="Plain text to annotate; tokenised, and added to the project.")
@click.option("--trees", help="Trees to correct; added to the project.")
@click.option("-m", "--model", help="Parser to start with. [default: none; trees are right-branching]")
@click.option(
    "--tokeniser", help="Tokeniser of --text: penn, blanks, characters, spacy:de. [default: the model's, else penn]"
)
@common.lines_option
@click.option(
    "--retrain-after",
    type=click.IntRange(min=0),
    help="Train a parser after every N accepted trees; 0 trains only on request. [default: 10]",
)
@click.option(
    "--keep-tag", "keep_tags", multiple=True, help="Function tag that parsers learn, such as -SBJ. Repeatable."
)
@click.option(
    "--layout",
    type=click.Choice(["lines", "indented"]),
    help="Write each tree on one line, or indented. [default: lines]",
)
@click.option("--annotator", help="Annotator's name in the journal. [default: the user's]")
@click.option("--host", default="127.0.0.1", help="Address to listen on; 0.0.0.0 listens on all interfaces.")
@click.option("--port", type=click.IntRange(0, 65535), default=8766, help="Port to listen on; 0 picks a free one.")
@click.option("--token", help=f"Bearer token that the page must send. [default: ${TOKEN}, else none]")
@common.format_option
@common.quiet_option
def command(
    project: str,
    text: str | None,
    trees: str | None,
    model: str | None,
    tokeniser: str | None,
    lines: Lines | None,
    retrain_after: int | None,
    keep_tags: tuple[str, ...],
    layout: str | None,
    annotator: str | None,
    host: str,
    port: int,
    token: str | None,
    input_format: InputFormat,
    quiet: bool,
) -> None:
    """Annotate the sentences of PROJECT in a browser; Ctrl-C stops the server.

    PROJECT is a folder of plain files: sentences, accepted trees (trees.mrg), and a journal. --text or --trees creates
    it. After each correction, the parser updates the rest of the tree and keeps what you have confirmed. The server
    writes every action to disk before the page shows it, and trains a new parser on the accepted trees in the
    background, which replaces the old one unless it is worse. The page opens at the printed address; press ? for the
    keys.

    \b
    Examples:
      sapwood annotate mine/ --text novel.txt
      sapwood annotate mine/
      sapwood annotate news/ --trees drafts.mrg -m en
    """
    from sapwood.annotation.project import Project
    from sapwood.annotation.session import AnnotationSession
    from sapwood.web.api.annotator import AnnotationService, make_annotator
    from sapwood.web.server import address_of, hosts_of, is_loopback, make_server_of, open_socket

    common.check_inputs(*models_to_check((model,) if model else ()), text, trees)
    token = checked_token(token if token is not None else os.environ.get(TOKEN))
    progress = common.make_progress(quiet)
    settings = {"model": model, "retrain_after": retrain_after, "keep_tags": keep_tags or None, "layout": layout}
    with open_socket(host, port) as listening:
        parser = _prepare(project, text, trees, settings, tokeniser, lines, input_format, progress.note)
        with Project(project, annotator=_name() if annotator is None else annotator) as opened:
            counted = f"{len(opened):,} sentences, {sum(1 for _ in opened.trees()):,} accepted"
            progress.note(f"{project}: {counted}")
            for message in opened.messages:
                progress.note(message)
            if not is_loopback(listening) and token is None:
                progress.note("this address is reachable by others, and no token is required (--token)")
            session = AnnotationSession(opened, parser)
            try:
                service = AnnotationService(session, token=token)
                server = make_server_of(make_annotator(service, hosts=hosts_of(listening)), service.limits)
                click.echo(f"sapwood: annotate at {address_of(listening)} (end with Ctrl-C)")
                sys.stdout.flush()
                with contextlib.suppress(KeyboardInterrupt):  # re-raised by uvicorn after shutdown
                    server.run(sockets=[listening])
            finally:
                session.close()


def _prepare(
    project: str,
    text: str | None,
    trees: str | None,
    settings: Mapping[str, object],
    tokeniser: str | None,
    lines: Lines | None,
    input_format: InputFormat,
    note: Callable[[str], object],
) -> Parser | None:
    """Make or extend a project, note what is there already, and return the parser to begin with."""
    from sapwood.annotation.project import SETTINGS, Project, ProjectSettings
    from sapwood.inference.parser import Parser
    from sapwood.model.installed import find_model
    from sapwood.trees.formats.registry import read_trees

    path = Path(project) / SETTINGS
    given = {name: value for name, value in settings.items() if value is not None}
    if not path.is_file() and text is None and trees is None:
        raise InputError(f"{project}: not an annotation project; make one with --text or --trees")
    if tokeniser is not None and text is None:
        raise UsageError("--tokeniser is for --text")
    _refuse_trees(text)
    before = ProjectSettings.read(path) if path.is_file() else ProjectSettings()
    after = ProjectSettings(**{**asdict(before), **given})
    parser = None if after.model is None else Parser(find_model(after.model))
    if text is not None or trees is not None or after != before:
        drafts: list[Tree] = (
            [] if trees is None else list(read_trees(trees, format=input_format, gaps=common.gaps_option()))
        )
        sentences = [] if text is None else [words for words in _tokenised(text, tokeniser, lines, parser) if words]
        added = Project.create(project, sentences=sentences, drafts=drafts, settings=after)
        for name, count, new in ((text, len(sentences), added[0]), (trees, len(drafts), added[1])):
            if count and not new:
                what = "its sentence is" if count == 1 else f"its {count:,} sentences are"
                note(f"{name}: {what} already in the project")
    return parser


def _refuse_trees(text: str | None) -> None:
    """Refuse a treebank as text, and name the option for treebanks."""
    from sapwood.trees.formats.registry import refuse_trees

    try:
        refuse_trees(text)
    except InputError as error:
        raise InputError(f"{error}, or annotate the trees with --trees {text}") from None


def _tokenised(text: str, tokeniser: str | None, lines: Lines | None, parser: Parser | None) -> Iterator[list[str]]:
    """Yield the sentences of a file."""
    from sapwood.storage.files import read_lines
    from sapwood.trees.tokenise.lines import tokenise_lines
    from sapwood.trees.tokenise.registry import PENN, find_tokeniser

    read = (line for _, line in read_lines(text))
    if tokeniser is None and parser is not None:
        found = parser.tokenise(read, lines=lines)
    else:
        found = tokenise_lines(find_tokeniser(tokeniser or PENN), read, lines or "auto")
    for tokens in found:
        yield [token.word for token in tokens]


def _name() -> str:
    """Return the name of the user, if there is one."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
