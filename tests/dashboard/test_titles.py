"""Pages are told apart by their names: in the tab of the browser and over the name of the run."""

import json

import pytest
from mindscope.dashboard.app import create_app
from mindscope.dashboard.pages import PAGES

from .calling import call


@pytest.fixture(scope="module")
def shown(recorded_store):
    app = create_app(recorded_store)

    def show(path: str, search: str = "") -> tuple[str, str]:
        answer = call(app, "content.children", {"url": path}, {"shown": None, "scheme": "light"}).get_json()
        return answer["response"]["page-title"]["data"], json.dumps(answer["response"]["content"])

    return show


@pytest.mark.parametrize("page", PAGES.values(), ids=lambda page: page.title)
def test_every_page_has_a_title_of_its_own(shown, page):
    title, content = shown(f"/{page.path}")
    assert title.startswith(page.title)
    assert title.endswith("mindscope")
    assert page.title in content


def test_a_page_about_a_run_names_it(shown, recorded_store):
    newest = recorded_store.find_run("latest")
    assert shown("/findings")[0] == f"Findings · {newest.name} · mindscope"


def test_an_address_that_leads_nowhere_has_no_page_s_title(shown):
    assert shown("/nowhere")[0] == "mindscope"
