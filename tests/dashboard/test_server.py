"""A dashboard that really listens."""

import threading
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest
from mindscope.dashboard import SettingsError, serve, start_in_thread
from mindscope.storage import open_store

from .recorded import Plan, write_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs")
    with open_store(str(path)) as store:
        write_run(store, plan=Plan(steps=20, goes_bad=False))
    return str(path)


def _get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.status, answer.read().decode()


def test_it_serves_beside_other_work_and_stops_when_told(folder):
    server = start_in_thread(folder)
    assert server.url.startswith("http://127.0.0.1:")
    status, body = _get(server.url)
    assert (status, "mindscope" in body) == (200, True)
    server.stop()
    server.stop()
    with pytest.raises(urllib.error.URLError):
        _get(server.url)
    assert not [thread for thread in threading.enumerate() if thread.name == "mindscope-dashboard"]


def test_it_tells_its_address_and_ctrl_c_comes_through(folder):
    told = []

    def announce(url):
        told.append(url)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        serve(folder, port=0, announce=announce)
    assert told[0].startswith("http://127.0.0.1:")


def test_for_other_machines_a_token_is_made_and_told_once(folder):
    with start_in_thread(folder, host="0.0.0.0") as server:
        place, token = server.url.split("/?token=")
        assert len(token) >= 40
        port = place.rpartition(":")[2]
        with pytest.raises(urllib.error.HTTPError) as refused:
            _get(f"http://127.0.0.1:{port}/")
        assert refused.value.code == 401
        refused.value.close()


def test_a_taken_port_is_said_in_one_sentence(folder):
    with start_in_thread(folder) as server:
        port = urlsplit(server.url).port
        with pytest.raises(SettingsError, match="choose another port"):
            start_in_thread(folder, port=port)


def test_a_host_that_does_not_exist_is_said_in_one_sentence(folder):
    with pytest.raises(SettingsError, match="not an address"):
        start_in_thread(folder, host="no.such.host.invalid")


def test_links_carry_the_token_that_lets_their_visitor_change_things(folder):
    with start_in_thread(folder) as server:
        assert server.link("/run?run=latest").startswith(server.url.partition("?")[0] + "run?run=latest&token=")
