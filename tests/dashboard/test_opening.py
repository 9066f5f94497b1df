"""What a visitor gets who comes before the pages are there."""

import threading

import pytest
from mindscope.dashboard import Settings, create_app
from mindscope.dashboard.first_paint import FirstPaintApp
from mindscope.dashboard.static_answers import PLOTLY
from werkzeug.test import Client

TOKEN = "a-token-of-many-letters"


class Waiting:
    """Pages that are made when they are told to be."""

    def __init__(self, store, settings=None):
        settings = settings or Settings()
        self._may_go_on = threading.Event()
        self._store, self._settings = store, settings
        self.front = FirstPaintApp(store, settings, self._make)
        self.client = Client(self.front)

    def _make(self):
        assert self._may_go_on.wait(60)
        return create_app(self._store, self._settings).server

    def finish(self):
        self._may_go_on.set()
        self.front.wait()


@pytest.fixture
def waiting(recorded_store):
    waiting = Waiting(recorded_store)
    yield waiting
    waiting.finish()


def test_the_loss_comes_first_and_the_page_follows_in_the_same_answer(waiting):
    parts = waiting.client.get("/run", buffered=False).iter_encoded()
    first = next(parts).decode()
    assert '<div id="first-paint">' in first
    assert PLOTLY in first
    assert "react-entry-point" not in first
    waiting.finish()
    rest = b"".join(parts).decode()
    assert rest.index("react-entry-point") < rest.index("new DashRenderer") < rest.index("</html>")
    assert (first + rest).count("<body>") == 1


def test_plotly_and_the_pulse_do_not_wait_for_the_pages(waiting):
    assert waiting.client.get("/healthz").text == "ok\n"
    with waiting.client.get(PLOTLY) as script:
        assert len(script.data) > 1_000_000


def test_plotly_is_there_however_little_dash_knows_of_its_scripts_yet(recorded_store):
    pages = create_app(recorded_store, Settings())
    pages._got_first_request["setup_server"] = True  # as where another thread is setting them up for the document
    front = FirstPaintApp(recorded_store, Settings(), lambda: pages.server)
    front.wait()
    with Client(front).get(PLOTLY) as script, Client(pages.server).get(PLOTLY) as by_dash:
        assert (script.status_code, by_dash.status_code) == (200, 400)
        assert len(script.data) > 1_000_000


def test_everything_else_waits_and_is_answered_by_the_pages(waiting):
    threading.Timer(0.05, waiting.finish).start()
    assert "react-entry-point" in waiting.client.get("/findings").text


@pytest.mark.parametrize("query", ["run=nobody", "run=latest&scalar=loss", "step=x"])
def test_an_address_that_says_more_or_leads_nowhere_is_left_to_the_pages(waiting, query):
    waiting.finish()
    answer = waiting.client.get(f"/run?{query}")
    assert "first-paint" not in answer.text.replace("/assets/first_paint.js", "")
    assert answer.status_code == {"run=nobody": 404, "step=x": 400}.get(query, 200)


def test_the_policy_is_the_same_before_and_after(waiting):
    early = waiting.client.get("/healthz").headers["Content-Security-Policy"]
    waiting.finish()
    assert waiting.client.get("/findings").headers["Content-Security-Policy"] == early


def test_who_comes_early_needs_the_token_as_well(recorded_store):
    waiting = Waiting(recorded_store, Settings(host="0.0.0.0", token=TOKEN))
    assert waiting.client.get("/run").status_code == 401
    assert waiting.client.get(PLOTLY).status_code == 401
    assert waiting.client.get("/run", headers={"Host": "evil.example"}).status_code == 403
    waiting.finish()


def test_pages_that_cannot_be_made_end_the_server(recorded_store):
    def fail():
        raise RuntimeError("no pages")

    front = FirstPaintApp(recorded_store, Settings(), fail)
    with pytest.raises(RuntimeError, match="no pages"):
        front.wait()
    with pytest.raises(RuntimeError, match="no pages"):
        front.fail_if_broken()
