"""Record of a training run: its inputs and its finished stages, in a file next to the model.

Resuming depends on this file only: `info` of grammars and `meta` of models are for people to read.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict

from sapwood.errors import UsageError
from sapwood.evaluate.dev_set import Evaluate
from sapwood.learn.semi_supervised.learner import UnlabelledText
from sapwood.pipeline.recipe import Recipe
from sapwood.runtime.checkpoint import RunFiles, with_remedy
from sapwood.storage.schema import Schema
from sapwood.trees.corpus import Corpus

# Fingerprints of silver trees begin with this.
SILVER = "silver "


class RecipeSettings(TypedDict):
    """Settings of everything that a recipe trains."""

    learners: list[dict[str, Any]]
    crf: dict[str, Any] | None
    span_scorer: dict[str, Any] | None


class RunInputs(TypedDict):
    """Everything that the result of a run depends on: settings, and digests of the data, empty if there is none."""

    recipes: list[RecipeSettings]
    trees: str
    dev: str
    text: str  # or silver trees


class FinishedStage(TypedDict):
    """What is known of a finished stage: its EM iterations, and the number of lines in the log so far."""

    iterations: int
    log_lines: int


class _Metadata(TypedDict):
    inputs: RunInputs
    finished: dict[str, FinishedStage]


RECORD = Schema(
    kind="training-run",
    version=1,
    title="record of a training run",
    remedy="copy it again",
    columns=(),
    metadata=_Metadata,
)


def run_inputs(
    recipes: Sequence[Recipe], corpus: Corpus, dev: Evaluate | None, text: Sequence[Sequence[str]] | None = None
) -> RunInputs:
    """Return the inputs of a run.

    Parameters
    ----------
    recipes
        The recipe; in self-training, those of both models.
    corpus, dev
        The gold trees, and the development set. Functions without a `digest` are not distinguished.
    text
        Sentences of self-training.
    """
    inputs: RunInputs = {
        "recipes": [_settings_of(recipe) for recipe in recipes],
        "trees": corpus.digest(),
        "dev": "" if dev is None else str(getattr(dev, "digest", "a function")),
        "text": "" if text is None else UnlabelledText(text).digest(),
    }
    found: RunInputs = json.loads(json.dumps(inputs))  # as it is read from a file
    return found


def _settings_of(recipe: Recipe) -> RecipeSettings:
    return {
        "learners": [{"method": learner.method, **learner.settings()} for learner in recipe.learners],
        "crf": None if recipe.crf is None else recipe.crf.settings(),
        "span_scorer": None if recipe.span_scorer is None else recipe.settings_of(recipe.span_scorer),
    }


class RunRecord:
    """Record of a run.

    Parameters
    ----------
    files
        Files of the run.
    inputs
        Its inputs.
    finished
        Finished stages, by name.
    """

    def __init__(
        self, files: RunFiles, inputs: RunInputs, finished: Mapping[str, FinishedStage] | None = None
    ) -> None:  # fmt: skip
        self.files, self._inputs = files, inputs
        self.finished = dict(finished or {})

    @classmethod
    @contextlib.contextmanager
    def open(cls, files: RunFiles, inputs: RunInputs) -> Iterator[RunRecord]:
        """Enter the record of an interrupted run, or a new one; refuse that of a run with other inputs.

        If the run fails before it leaves anything to resume from, or is not that of a checkpoint without a record, the
        record is removed.
        """
        found = cls._read(files, inputs) if files.resume else None
        record = found or cls(files, inputs)
        if found is None:
            record._write()
        try:
            yield record
        except BaseException as error:
            refused = found is None and isinstance(error, UsageError)
            if files.record is not None and (refused or not files.leftover()):
                files.record.unlink(missing_ok=True)
            raise

    @classmethod
    def _read(cls, files: RunFiles, inputs: RunInputs) -> RunRecord | None:
        """Return the record of an interrupted run, None if there is nothing to resume."""
        if not (left := files.leftover()) or files.record is None:
            return None
        if not files.record.exists():
            own = f"{files.output}.checkpoint"
            if all(str(path) == own or str(path).startswith(f"{own}.") for path in left):
                return None  # the checkpoint of a learner, which knows its own run
            raise UsageError(
                f"{left[0]}: its run has no record {files.record.name}, so it cannot be resumed: a former version of "
                f"sapwood left it, or the record was removed; {files.removal()} to start over"
            )
        with with_remedy("file"):
            metadata = RECORD.read(files.record, lambda _, metadata: metadata)
        if problem := _difference(metadata["inputs"], inputs):
            raise UsageError(f"{left[0]}: of a training run {problem}, or {files.removal()} to start over")
        return cls(files, inputs, metadata["finished"])

    def finish(self, stage: str, *, iterations: int = 0, log_lines: int = 0) -> None:
        """Record that a stage is finished; its result is in its own file."""
        self.finished[stage] = {"iterations": iterations, "log_lines": log_lines}
        self._write()

    def _write(self) -> None:
        if self.files.record is not None:
            RECORD.write(self.files.record, {}, {"inputs": self._inputs, "finished": self.finished})


def _difference(recorded: RunInputs, given: RunInputs) -> str:
    """Return how the inputs of an interrupted run differ from the given ones, and what to do; empty if they do not."""
    other_settings = "with other settings or trees; give the same ones again"
    if recorded["recipes"][:1] != given["recipes"][:1] or recorded["trees"] != given["trees"]:
        return other_settings
    if recorded["dev"] != given["dev"]:
        same = "with another development set; give the same --dev again"
        return same if recorded["dev"] else "without a development set; omit --dev"
    if recorded["text"] != given["text"]:
        if recorded["text"].startswith(SILVER) or given["text"].startswith(SILVER):
            return "with other silver trees; give the same ones again"
        if not given["text"]:
            return "with self-training; give the text again"
        return (
            "with another text; give the same one again" if recorded["text"] else "without self-training; omit the text"
        )
    return "" if recorded == given else other_settings
