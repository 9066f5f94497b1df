"""`mindscope dashboard` as a process: it tells its address, answers, and ends by Ctrl-C."""

import re
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path

from mindscope.storage import StepRecord, open_store


def test_the_dashboard_serves_a_store_until_ctrl_c(start: Callable, tmp_path: Path) -> None:
    with open_store(str(tmp_path / "runs")) as store:
        writer = store.begin_run("digits")
        writer.write([StepRecord(step=0, time=0.0, scalars={"loss": 1.0})])
        writer.close()
    child = start("dashboard", "runs/", "--port", 0)
    address = ""
    while not address:
        line = child.stderr.readline()
        assert line, "the dashboard ended without telling its address"
        address = "".join(re.findall(r"http://127\.0\.0\.1:\d+\S*", line))
    with urllib.request.urlopen(address, timeout=30) as answer:
        assert answer.status == 200
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out) == (130, "")
    assert err.endswith("mindscope: dashboard stopped\n")


def test_a_dashboard_over_nothing_says_so(finish: Callable) -> None:
    done = finish("dashboard", "nowhere/", "--port", 0)
    assert done.returncode == 3
    assert "there is no store at 'nowhere/'" in done.stderr
