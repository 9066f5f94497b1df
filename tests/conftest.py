"""What every test may rely on: what this machine promised to have is never skipped."""

import os
from collections.abc import Generator

import pytest

#: Words that a skip reason contains when PostgreSQL, a browser or PyTorch is missing. A machine that has them names them
#: in MINDSCOPE_REQUIRE, and then such a skip is a failure.
REQUIRED = tuple(word for word in os.environ.get("MINDSCOPE_REQUIRE", "").lower().split(",") if word)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and REQUIRED and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr).lower()
        missing = [word for word in REQUIRED if word in reason]
        if missing:
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} was skipped though this machine must have {missing[0]}: {reason}"
    return report
