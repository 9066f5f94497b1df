"""What Prometheus reads."""

import math

import pytest
from mindscope.dashboard.app import create_app
from mindscope.dashboard.settings import Settings
from mindscope.storage import StoreUnavailable, open_store

parser = pytest.importorskip("prometheus_client.parser", reason="no Prometheus: prometheus-client is not installed")


def samples(store):
    """Every sample by its name and labels."""
    answer = create_app(store).server.test_client().get("/metrics")
    assert answer.status_code == 200
    assert answer.content_type.startswith("text/plain")
    families = parser.text_string_to_metric_families(answer.get_data(as_text=True))
    return {(one.name, *sorted(one.labels.items())): one.value for family in families for one in family.samples}


def test_last_step_state_findings_and_loss_of_every_run_are_told(recorded_store, bad_run, healthy_run):
    found = samples(recorded_store)

    def of(run, name, **labels):
        pairs = {"run": run.id, "name": run.name, **labels}
        return found[(f"mindscope_{name}", *sorted(pairs.items()))]

    assert of(bad_run, "last_step") == bad_run.last_step
    assert of(bad_run, "findings", severity="error") == 2
    assert of(bad_run, "findings", severity="info") == 1
    assert of(healthy_run, "findings", severity="error") == 0
    assert (of(healthy_run, "run_state", state="running"), of(bad_run, "run_state", state="running")) == (1, 0)
    assert math.isnan(of(bad_run, "loss"))
    assert 0 < of(healthy_run, "loss") < 3


def test_a_name_with_quotes_and_line_breaks_stays_one_label():
    with open_store("memory:") as store:
        store.begin_run('a "b"\nc\\d')
        assert {dict(key[1:])["name"] for key in samples(store)} == {'a "b"\nc\\d'}


def test_an_empty_store_has_no_samples():
    with open_store("memory:") as store:
        assert samples(store) == {}


def test_metrics_ask_for_the_token_where_pages_do(recorded_store):
    client = create_app(recorded_store, Settings(host="0.0.0.0", token="a-long-enough-token")).server.test_client()
    assert client.get("/metrics").status_code == 401
    bearer = {"Authorization": "Bearer a-long-enough-token"}
    assert client.get("/metrics", headers=bearer).status_code == 200


def test_a_store_that_cannot_be_read_is_an_answer_that_is_no_success():
    class Failing:
        url = "runs/"

        def __getattr__(self, name):
            raise StoreUnavailable("the disk is gone")

    answer = create_app(Failing()).server.test_client().get("/metrics")
    assert answer.status_code == 503
    assert "the disk is gone" in answer.get_data(as_text=True)
