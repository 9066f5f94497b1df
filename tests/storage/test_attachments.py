"""Images and sounds lose nothing on their way into files, and a store keeps, checks, copies and removes the files."""

import io
import sqlite3
import wave
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from mindscope.storage import Event, StepRecord, StoreDamaged, StoreUnavailable, open_store
from mindscope.storage.attachments import Attachment, media_type_of
from mindscope.storage.repair import repair_runs
from mindscope.storage.upkeep import copy_runs

from tests.storage.samples import finding

RUN = "drawn"
SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3, 4]))


@settings(deadline=None)
@given(arrays.arrays(np.uint8, SHAPES))
def test_pixels_come_out_of_a_png_as_they_went_in(pixels):
    pillow = pytest.importorskip("PIL.Image", reason="Pillow, the independent reader, is not installed")
    file = Attachment(pixels).file()
    assert media_type_of(file) == "image/png"
    with pillow.open(io.BytesIO(file)) as image:
        np.testing.assert_array_equal(np.asarray(image).reshape(pixels.shape), pixels)


@given(arrays.arrays(np.int16, st.tuples(st.integers(1, 50), st.integers(1, 8))), st.integers(3000, 96_000))
def test_samples_come_out_of_a_wav_as_they_went_in(samples, rate):
    file = Attachment(samples, rate).file()
    assert media_type_of(file) == "audio/wav"
    with wave.open(io.BytesIO(file)) as reader:
        assert (reader.getframerate(), reader.getnchannels()) == (rate, samples.shape[1])
        read = np.frombuffer(reader.readframes(len(samples)), "<i2").reshape(samples.shape)
    np.testing.assert_array_equal(read, samples)


def test_equal_bytes_of_another_shape_or_rate_have_another_digest():
    pixels, samples = np.zeros((2, 6, 1), np.uint8), np.zeros((4, 1), np.int16)
    digests = {Attachment(pixels).digest(), Attachment(pixels.reshape(6, 2, 1)).digest()}
    digests |= {Attachment(samples, 8000).digest(), Attachment(samples, 16_000).digest(), Attachment(b"").digest()}
    assert len(digests) == 5


def image_event(step: int) -> Event:
    attachment = Attachment(np.full((4, 5, 3), step, np.uint8))
    return Event("media", step, data={"name": "image", "digest": attachment.digest()}, attachment=attachment)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with a run of three images."""
    with open_store(tmp_path / "runs") as store:
        writer = store.begin_run(RUN, run_id=RUN)
        writer.write([StepRecord(step, 1.0, events=(image_event(step),)) for step in range(3)])
        writer.close()
    return tmp_path / "runs"


def change(folder: Path, *statements: str) -> None:
    connection = sqlite3.connect(folder / f"{RUN}.rank0.db")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("UPDATE attachment SET data = zeroblob(50) WHERE step = 1", "checksum differs"),
        ("UPDATE attachment SET digest = 'another' WHERE step = 1", "checksum differs"),
        ("DELETE FROM attachment WHERE step = 1", "2 of 3 are there"),
    ],
)
def test_damage_is_told_and_a_backup_mends_it(folder, tmp_path, damage, words):
    copy_runs(folder, tmp_path / "copy")
    change(folder, damage)
    with open_store(folder) as store:
        (line,) = store.verify(RUN)
        assert words in line
        with pytest.raises((StoreDamaged, StoreUnavailable)):
            store.attachment(RUN, str(image_event(1).data["digest"]))
        assert store.attachment(RUN, str(image_event(2).data["digest"]))
    (repair,) = repair_runs(folder, backup=tmp_path / "copy")
    assert repair.left == ()
    with open_store(folder) as store:
        assert store.verify(RUN) == ()
        assert store.attachment(RUN, str(image_event(1).data["digest"])) == image_event(1).attachment.file()


def test_a_run_of_the_version_before_is_read_and_gets_the_table_when_it_is_written(folder):
    change(folder, "DROP TABLE attachment", "UPDATE meta SET value = '4' WHERE key = 'schema_version'")
    change(folder, "DELETE FROM ledger")
    with open_store(folder) as store:
        assert [event.step for event in store.events(RUN)] == [0, 1, 2]
        assert store.verify(RUN) == ()
        with pytest.raises(StoreUnavailable, match="has no image or sound"):
            store.attachment(RUN, str(image_event(1).data["digest"]))
        store.write_findings(RUN, [finding()])
        writer = store.begin_run(RUN, run_id=RUN)
        writer.write([StepRecord(3, 1.0, events=(image_event(3),))])
        writer.close()
        assert store.attachment(RUN, str(image_event(3).data["digest"])) == image_event(3).attachment.file()
        assert store.verify(RUN) == ()
