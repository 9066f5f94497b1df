"""Files travel packed and stay in the browser for as long as their address stands for them."""

import gzip
import re

import pytest
import zstandard
from mindscope.dashboard import create_app
from mindscope.dashboard.static_answers import PLOTLY


@pytest.fixture(scope="module")
def client(recorded_store):
    return create_app(recorded_store).server.test_client()


def unpacked(answer):
    coding = answer.headers.get("Content-Encoding")
    return {
        "zstd": lambda data: zstandard.ZstdDecompressor().decompress(data),
        "gzip": gzip.decompress,
        None: lambda data: data,
    }[coding](answer.data)


@pytest.mark.parametrize(
    ("accepted", "coding"), [("gzip, deflate, br, zstd", "zstd"), ("gzip, deflate", "gzip"), ("br", None), (None, None)]
)
def test_a_long_script_comes_in_what_the_browser_can_unpack_and_is_the_same(client, accepted, coding):
    headers = {} if accepted is None else {"Accept-Encoding": accepted}
    with client.get(PLOTLY) as plain, client.get(PLOTLY, headers=headers) as answer:
        assert answer.headers.get("Content-Encoding") == coding
        assert unpacked(answer) == plain.data
        assert int(answer.headers["Content-Length"]) == len(answer.data)
        if coding:
            assert len(answer.data) < 0.4 * len(plain.data)
            assert "Accept-Encoding" in answer.headers["Vary"]


def test_short_files_data_and_errors_travel_as_they_are(client):
    headers = {"Accept-Encoding": "gzip"}
    for place in ("/assets/first_paint.js", "/_dash-layout", "/assets/none.js", "/healthz"):
        with client.get(place, headers=headers) as answer:
            assert "Content-Encoding" not in answer.headers, place


def test_what_says_its_version_is_kept_for_a_year_and_the_rest_for_an_hour(client):
    document = client.get("/findings").text
    named = re.findall(r'(?:src|href)="(/(?:assets|_dash-component-suites)/[^"]*)"', document)
    assert len(named) > 12
    for place in named:
        with client.get(place) as answer:
            is_icon = place.endswith(".svg")
            assert answer.cache_control.max_age == (3600 if is_icon else 31_536_000), place
            assert answer.cache_control.no_cache is None, place


def test_pages_and_answers_are_never_kept(client):
    for place in ("/", "/run", "/_dash-layout"):
        assert client.get(place).cache_control.max_age is None
