"""What every test may rely on: what this machine promised to have is never skipped."""

import os
from collections.abc import Generator

import pytest

#: Words that a skip reason contains when PostgreSQL, a browser or PyTorch is missing. A machine that has them names
#: them in MINDSCOPE_REQUIRE, and then such a skip is a failure.
REQUIRED = tuple(word for word in os.environ.get("MINDSCOPE_REQUIRE", "").lower().split(",") if word)


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    reason = str(report.longrepr).lower()
    missing = [word for word in REQUIRED if word in reason]
    if missing:
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped though this machine must have {missing[0]}: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report
