"""A rank's last word survives whatever ends the rank, and is read whole or not at all."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from mindscope.storage import MemoryStore, open_store
from mindscope.storage.errors import StoreUnavailable
from mindscope.storage.last_words import SLOT_BYTES, CollectiveCall, FolderWords, LastWord, words_of

WORD = LastWord(1, 2, groups={"world": (0, 1)}, calls=(CollectiveCall(3, "barrier", "world", "called"),))


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_the_newest_word_of_each_rank_is_read(kind: str, tmp_path: Path) -> None:
    store = open_store(tmp_path) if kind == "folder" else MemoryStore()
    words = words_of(store.url, store.control_channel("run"), "run", range(2))
    assert words.read() == {}
    for step in range(5):
        words.write(1, replace(WORD, step=step).encode())
    words.write(0, replace(WORD, rank=0).encode())
    assert {rank: word.step for rank, word in words.read().items()} == {0: 0, 1: 4}
    assert words.read([1])[1] == replace(WORD, step=4)
    words.close()


@pytest.mark.parametrize("cut", ["checksum", "end"])
def test_a_word_that_was_being_written_leaves_the_one_before(cut: str, tmp_path: Path) -> None:
    words = FolderWords(tmp_path, "run")
    words.write(0, replace(WORD, step=1).encode())
    words.write(0, replace(WORD, step=2).encode())
    path = tmp_path / "run.rank0.word"
    content = bytearray(path.read_bytes())
    if cut == "checksum":
        content[100] ^= 1  # of the second word, whose slot is the first
    else:
        del content[50:SLOT_BYTES]
        content[50:50] = bytes(SLOT_BYTES - 50)
    path.write_bytes(content)
    assert words.read()[0].step == 1
    path.write_bytes(b"")
    assert words.read() == {}
    words.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_the_word_of_a_killed_process_is_there(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        FolderWords(tmp_path, "run").write(0, WORD.encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert FolderWords(tmp_path, "run").read() == {0: WORD}


def test_a_word_that_does_not_fit_is_an_error_and_one_that_is_none_too(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="at most"):
        FolderWords(tmp_path, "run").write(0, "x" * SLOT_BYTES)
    with pytest.raises(ValueError, match="expected the last word"):
        LastWord.decode("[1]")


def test_the_words_go_with_their_run(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        run = store.begin_run("x")
        run.close()
        words = FolderWords(tmp_path, run.run.id)
        words.write(0, WORD.encode())
        words.close()
        store.delete_run(run.run.id)
    assert not list(tmp_path.glob("*.word"))


def test_a_process_that_goes_on_with_the_words_of_another_replaces_the_older(tmp_path: Path) -> None:
    first, second = FolderWords(tmp_path, "run"), FolderWords(tmp_path, "run")
    for step in range(3):
        first.write(1, replace(WORD, step=step).encode())
    second.write(1, replace(WORD, step=7).encode())
    assert second.read()[1].step == 7
