"""The head of a page about one run."""

from dataclasses import replace

from mindscope.dashboard.components.run_header import run_picker, run_status


def test_the_picker_tells_runs_of_one_name_apart_by_the_end_of_their_ids(healthy_run):
    run = replace(healthy_run, id="20260101-120000-digits-cnn-8f8a", name="digits-cnn")
    assert run_picker("picker", [run], run).data[0]["label"] == "digits-cnn · 8f8a"


def test_a_run_that_a_person_ended_is_not_called_failed(healthy_run):
    run = replace(healthy_run, state="failed", error="KeyboardInterrupt")
    badge = run_status(run, run.updated_at)[0]
    assert badge.children[1] == "interrupted"
