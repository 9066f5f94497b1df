"""One suite for the mailboxes of every kind of store: `storage/control_channel.py` says what they promise."""

import secrets
import threading

import pytest
from mindscope.storage import Store, StoreUnavailable, open_store


@pytest.fixture
def run() -> str:
    """A name that no other test has written to: one database serves them all."""
    return f"run-{secrets.token_hex(4)}"


def test_an_empty_topic_holds_nothing(store: Store, run: str) -> None:
    box = store.control_channel(run)
    assert (box.read("set"), box.stamp("set")) == (None, None)


def test_the_newest_document_replaces_the_one_before(store: Store, run: str) -> None:
    box = store.control_channel(run)
    box.post("set", {"every": 10, "subjects": {"weight": False}})
    first = box.stamp("set")
    box.post("set", {"every": 11, "note": "ä"})
    assert box.read("set") == {"every": 11, "note": "ä"}
    assert box.stamp("set") != first
    assert box.stamp("set") == box.stamp("set")


def test_runs_and_topics_do_not_hear_each_other(store: Store, run: str) -> None:
    store.control_channel(run).post("set", {"every": 1})
    assert store.control_channel(run).read("state") is None
    assert store.control_channel(f"{run}-other").read("set") is None


def test_what_one_opened_store_posts_another_reads(store: Store, tmp_path, request) -> None:
    if store.url == "memory:":
        assert store.control_channel("run") is store.control_channel("run")
        return
    writer = store.begin_run("seen")
    store.control_channel(writer.run.id).post("command", {"do": "step"})
    url = store.url if "sqlite" in request.node.name else request.getfixturevalue("postgres_url")
    with open_store(url) as other:
        assert other.control_channel(writer.run.id).read("command") == {"do": "step"}
    writer.close()


def test_a_deleted_run_leaves_no_mail(store: Store) -> None:
    writer = store.begin_run("gone")
    store.control_channel(writer.run.id).post("set", {"every": 2})
    writer.close()
    store.delete_run(writer.run.id)
    assert store.control_channel(writer.run.id).read("set") is None


def test_several_that_post_at_once_leave_one_whole_document(store: Store) -> None:
    (tmp := store.begin_run("busy")).close()
    box = store.control_channel(tmp.run.id)
    posted = [{"number": number, "text": "x" * 2000} for number in range(8)]
    threads = [threading.Thread(target=box.post, args=("set", one)) for one in posted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert box.read("set") in posted


def test_a_file_that_is_no_document_is_said(tmp_path) -> None:
    with open_store(tmp_path) as folder:
        (tmp_path / "run.set.yaml").write_text("- one\n- two")
        with pytest.raises(StoreUnavailable, match="must hold keys and values"):
            folder.control_channel("run").read("set")
