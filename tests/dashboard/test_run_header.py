"""The head of a page about one run."""

import os
import time
from dataclasses import replace
from types import SimpleNamespace

from mindscope.dashboard.components.run_header import run_picker, run_status
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import MemoryStore, open_store
from mindscope.storage.database.disk_room import store_trouble


def test_the_picker_tells_runs_of_one_name_apart_by_the_end_of_their_ids(healthy_run):
    run = replace(healthy_run, id="20260101-120000-digits-cnn-8f8a", name="digits-cnn")
    assert run_picker("picker", [run], run).data[0]["label"] == "digits-cnn · 8f8a"


def test_a_run_that_a_person_ended_is_not_called_failed(healthy_run):
    run = replace(healthy_run, state="failed", error="KeyboardInterrupt")
    badge = run_status(run, run.updated_at)[0]
    assert badge.children[1] == "interrupted"


def test_a_training_that_is_not_heard_of_says_for_how_long(healthy_run):
    assert "updated just now" in words_of(run_status(healthy_run, healthy_run.updated_at + 1))
    assert "updated 11 s ago" in words_of(run_status(healthy_run, healthy_run.updated_at + 11))
    assert "no news for 12 s" in words_of(run_status(healthy_run, healthy_run.updated_at + 12))
    ended = replace(healthy_run, state="crashed")
    assert "updated 2 min ago" in words_of(run_status(ended, healthy_run.updated_at + 120))


def words_of(parts):
    return " ".join(str(part.children) for part in parts)


def test_the_age_of_news_does_not_hang_on_the_clock_of_another_machine(healthy_run):
    reader = Reader(MemoryStore())
    ahead = replace(healthy_run, updated_at=time.time() + 3600)
    assert 0 <= reader.news_age(ahead) < 5
    behind = replace(healthy_run, updated_at=time.time() - 3600)
    assert Reader(MemoryStore()).news_age(behind) > 3599  # nothing was seen to change: its own clock is believed
    assert reader.news_age(behind) < 5  # it was seen to change just now


def test_a_disk_that_takes_nothing_is_told(tmp_path, monkeypatch):
    reader = Reader(open_store(str(tmp_path)))
    assert reader.trouble() == ""
    disk = SimpleNamespace(f_bavail=3, f_frsize=2**20, f_blocks=2**20, f_flag=0)
    monkeypatch.setattr("os.statvfs", lambda path: disk)
    assert "the disk has 3 MB left, 32 MB are reserved; observations wait" in store_trouble(str(tmp_path))
    monkeypatch.setattr("os.statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY))
    assert "is read-only: nothing can be recorded into it" in store_trouble(str(tmp_path))
    assert store_trouble("memory:") == store_trouble("postgresql+psycopg://db/runs") == ""
