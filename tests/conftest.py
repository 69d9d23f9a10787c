"""What holds for every test: on CI, a test that needs a browser or a server and was skipped is a failure.

`make test` runs the files beside each other (pytest-xdist, one file in one process): how many at once, and
which first, is said here.
"""

import os

import pytest
from hypothesis import settings

_MUST_RUN_ON_CI = ("browser", "server")
_skipped: list[str] = []

# How long an example takes depends on what runs beside it.
settings.register_profile("untimed", settings(), deadline=None)
settings.load_profile("untimed")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are cores: much of the time is spent waiting for servers and clocks.

    None beside this one with -k: a few tests have run before further processes have collected theirs.
    """
    return 0 if config.option.keyword else len(os.sched_getaffinity(0)) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with a slow test first: the last file to begin is then a short one, and nobody waits for it."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and any(name in report.keywords for name in _MUST_RUN_ON_CI):
        _skipped.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if _skipped and os.environ.get("CI") == "true" and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _skipped and os.environ.get("CI") == "true":
        terminalreporter.section("skipped although CI has to run them", red=True)
        for nodeid in _skipped:
            terminalreporter.line(nodeid)
