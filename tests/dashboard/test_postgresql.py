"""Every page over a store that is a PostgreSQL database."""

import json

import pytest
from mindscope.dashboard import create_app
from mindscope.dashboard.app import page_at
from mindscope.dashboard.pages import PAGES
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import open_store

from .calling import call
from .recorded import BAD_SITE, Plan, write_evaluation, write_run

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def store(postgres_url):
    with open_store(postgres_url) as store:
        write_evaluation(store, write_run(store, "faulty", Plan(steps=200)))
        yield store


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_laid_out(store, page):
    status, _, content = page_at(Reader(store), f"/{page}", "?run=faulty")
    assert status == 200
    assert len(str(content)) > 200


def test_the_pictures_of_a_run_are_those_of_any_other_store(store):
    with open_store("memory:") as memory:
        write_run(memory, "faulty", Plan(steps=200))
        drawn = [_pictures(one) for one in (store, memory)]
    assert drawn[0] == drawn[1]


def _pictures(store):
    """What is drawn of the run: curve, map and tensor, without the run's own id."""
    app, run = create_app(store), store.find_run("faulty").id
    state = {"live-run": run, "tensor-run": run, "scheme": "light"}
    asked = {"live-scalar": "loss", "live-scale": "linear", "live-maps": ["activation/l2_norm"], "live-view": "raw"}
    tensor = {"tensor-metric": "activation/l2_norm", "tensor-site": BAD_SITE, "tensor-axis": "step"}
    usual = {"tensor-log": "none", "tensor-over": "nothing", "tensor-span": ""}
    answers = [
        call(app, "live-curve.figure", asked, state),
        call(app, "live-heat.figure", asked, state),
        call(app, "tensor-body.children", {**tensor, **usual}, state),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    return [json.loads(answer.get_data(as_text=True).replace(run, "RUN")) for answer in answers]
