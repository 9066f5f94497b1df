"""The pages of a run that has only ranks 2 and 3, in a real Chromium: each draws what it draws of any run."""

from collections.abc import Iterator

import pytest
from mindscope.dashboard import start_in_thread
from mindscope.storage import open_store

from tests.dashboard.late_ranks import write_late_ranks
from tests.dashboard.recorded import BAD_SITE

from .browsing import watched_page

pytestmark = pytest.mark.browser
#: Address, and what is drawn there.
DRAWN = {
    "/": "a.run-link:text-is('late')",
    "/run?run=late": "#live-heat .heatmaplayer image",
    "/layers?run=late": "#layers-picture .heatmaplayer image",
    f"/tensor?run=late&metric=activation/l2_norm&site={BAD_SITE}": "#tensor-distribution .heatmaplayer image",
    "/findings?run=late": ".finding",
    "/graph?run=late": "#graph-picture .scatterlayer .trace",
    "/ranks?run=late": "#ranks-heat .heatmaplayer image",
    "/compare?run=late&with=twin": "#compare-lines .scatterlayer .trace",
    "/profile?run=late": "#profile-split .js-plotly-plot .trace",
    "/lineage": "#lineage-grid .ag-row",
    "/logs?run=late&part=scalars": "#logs-grid .ag-row",
}


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> Iterator[str]:
    folder = str(tmp_path_factory.mktemp("late") / "runs")
    with open_store(folder) as store:
        for name in ("twin", "late"):
            write_late_ranks(store, name)
    with start_in_thread(folder) as server:
        yield server.url.partition("?")[0]


def test_every_page_of_the_run_is_drawn_and_nothing_complains(browser, url):
    with watched_page(browser, url, "light") as watched:
        for path, selector in DRAWN.items():
            watched.open(path, selector)
            watched.settled()
            assert watched.complaints == [], path
