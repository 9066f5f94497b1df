"""The report of a run, opened as a file in a real Chromium: no server, no network, no complaint."""

import pytest
from mindscope.dashboard.export import export_report
from mindscope.storage import open_store

from tests.dashboard.recorded import BAD_SITE, Plan, write_evaluation, write_run

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_shows_cause_and_pictures_without_a_server(browser, tmp_path, scheme):
    with open_store("memory:") as store:
        run = write_run(store, "gpt-nan", Plan(steps=200))
        write_evaluation(store, run)
        path = export_report(store, store.find_run(run.id), tmp_path, scheme=scheme)
    context = browser.new_context(offline=True)
    page, asked, complaints = context.new_page(), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda said: complaints.append(said.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_selector(".heatmaplayer image", state="attached")
    assert page.locator(".js-plotly-plot .main-svg").count() >= 6
    cards = page.inner_text(".cards")
    for words in ("Unhealthy", BAD_SITE, "Non-finite activation", "step 179"):
        assert words in cards
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [path.as_uri()]
    assert complaints == []
    context.close()
