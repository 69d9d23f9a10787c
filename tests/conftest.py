"""What holds for every test: on CI, a test that needs a browser or a server and was skipped is a failure."""

import os

import pytest

_MUST_RUN_ON_CI = ("browser", "server")
_skipped: list[str] = []


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
