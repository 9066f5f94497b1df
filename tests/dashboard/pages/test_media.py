"""The page of images and sounds: what the slider stands at, what follows the newest step, and the files themselves."""

import json

import numpy as np
import pytest
from mindscope.dashboard.app import create_app, page_at
from mindscope.dashboard.media_files import media_link
from mindscope.dashboard.pages.media.media_page import place_of, place_words, steps_of
from mindscope.dashboard.queries.media_queries import media_of
from mindscope.dashboard.queries.reader import Reader
from mindscope.probe.configuration.sections import MediaSettings
from mindscope.probe.logged_media import MediaLog
from mindscope.storage import Event, StepRecord, open_store
from mindscope.storage.attachments import Attachment

from ..calling import call


@pytest.fixture(scope="module")
def store():
    """Pairs of images at the steps 0, 10 and 20, a sound at 10, and a file that is neither."""
    with open_store("memory:") as store:
        writer, log = store.begin_run("drawn"), MediaLog(MediaSettings())
        for step in (0, 10, 20):
            events, _ = log.images("samples", [np.full((2, 2), step, np.uint8)] * 2, (step, 0), "some words", None)
            if step == 10:
                events += log.audio("speech", np.zeros(800), (step, 0), 8000, "")[0]
            writer.write([StepRecord(step, 1.0, events=tuple(events))])
        odd = Attachment(b"<svg onload=alert(1)>")
        data = {"name": "odd", "digest": odd.digest(), "type": "image/svg+xml"}
        writer.write([StepRecord(30, 1.0, events=(Event("media", 30, data=data, attachment=odd),))])
        writer.close()
        store.begin_run("nothing", run_id="nothing").close()
        yield store


@pytest.fixture(scope="module")
def reader(store):
    return Reader(store)


@pytest.fixture(scope="module")
def app(store):
    return create_app(store)


def words(component) -> str:
    return json.dumps(component, default=lambda part: part.to_plotly_json(), ensure_ascii=False)


def test_the_page_shows_the_newest_step_up_to_the_one_in_its_address(reader):
    for search, shown, hidden in (
        ("", "step 20", "step 10,"),
        ("&step=15", "step 10", "step 20"),
        ("&step=5", "step 0", "step 10"),
    ):
        status, _, content = page_at(reader, "/media", f"?run=drawn{search}")
        assert status == 200
        assert shown in words(content.children)
        assert hidden not in words(content.children)
    assert "not logged yet" in words(page_at(reader, "/media", "?run=drawn&step=5")[2])
    assert "No images or sounds yet" in words(page_at(reader, "/media", "?run=nothing")[2])
    assert "None of 3 names contains" in words(page_at(reader, "/media", "?run=drawn&match=zzz")[2])


def test_the_slider_chooses_and_its_end_follows(app, store):
    state = {"media-slider.max": 3, "media-step": None, "media-run": "drawn"}
    run = store.find_run("drawn").id
    chosen = call(app, "media-wall.children", {"media-slider": 1}, {**state, "media-run": run}).get_json()["response"]
    assert (chosen["media-slider"], chosen["media-step"]) == ({"max": 3, "value": 1}, {"data": 10})
    assert chosen["media-place"]["children"] == "step 10 · 2 of 4 steps"
    assert "Audio" in json.dumps(chosen["media-wall"])
    state = {**state, "media-run": run, "media-step": 10, "media-slider": 1}
    later = call(app, "media-wall.children", {"media-version": "new"}, state).get_json()["response"]
    assert (later["media-slider"]["value"], later["media-step"]["data"]) == (1, 10)
    newest = call(app, "media-wall.children", {"media-version": "new"}, {**state, "media-step": None}).get_json()
    assert newest["response"]["media-slider"] == {"max": 3, "value": 3}


def test_places_are_told_in_words():
    assert [place_of([0, 10, 20], chosen) for chosen in (None, -1, 0, 9, 10, 99)] == [2, 0, 0, 0, 1, 2]
    assert place_of([], None) == 0
    assert place_words([], 0, None) == ""
    assert place_words([1000], 0, None) == "step 1,000 · newest of 1 step"


def test_files_are_served_as_what_they_are_and_nothing_else(app, reader, store):
    run, client = store.find_run("drawn"), app.server.test_client()
    found = {series.name: series.steps[0][1][0] for series in media_of(reader, run)}
    assert steps_of(media_of(reader, run)) == [0, 10, 20, 30]
    image = client.get(media_link(run.id, found["samples"]))
    assert (image.status_code, image.mimetype) == (200, "image/png")
    assert image.data == store.attachment(run.id, found["samples"].digest)
    assert "max-age=31536000" in image.headers["Cache-Control"]
    assert "private" in image.headers["Cache-Control"]
    sound = client.get(media_link(run.id, found["speech"]), headers={"Range": "bytes=0-3"})
    assert (sound.status_code, sound.mimetype, sound.data) == (206, "audio/wav", b"RIFF")
    assert client.get(media_link(run.id, found["odd"])).status_code == 404
    refused = (
        ("?run=gone", 404),
        (f"?run={run.id}&file=../../etc/passwd", 404),
        (f"?run={run.id}&rank=7&file={found['odd'].digest}", 404),
        (f"?run={run.id}&rank=one", 400),
    )
    for query, status in refused:
        assert client.get(f"/media-file{query}").status_code == status
