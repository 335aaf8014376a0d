from sapwood.runtime.context import RunContext
from sapwood.runtime.executor import Threads
from sapwood.runtime.log import NoLog
from sapwood.runtime.progress import Silent


def test_none_stands_for_the_default() -> None:
    context = RunContext.of(threads=2, workers=None, progress=None, log=None, checkpoint=None)
    assert isinstance(context.progress, Silent)
    assert isinstance(context.log, NoLog)
    assert context.checkpoint is None
    assert context.executor.count == 2


def test_workers_replace_threads() -> None:
    workers = Threads(3)
    assert RunContext.of(threads=2, workers=workers).executor is workers


def test_split_leaves_the_settings() -> None:
    context, settings = RunContext.split({"states": 4, "threads": 3, "log": None, "order": 2})
    assert context.threads == 3
    assert isinstance(context.log, NoLog)
    assert settings == {"states": 4, "order": 2}
