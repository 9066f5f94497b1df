"""Pictures of what results depend on."""

import pytest
from mindscope.dashboard.pages.lineage.lineage_figures import correlation_of
from mindscope.dashboard.queries.provenance_queries import ProvenanceCache
from mindscope.dashboard.queries.reader import Reader
from mindscope.dashboard.theme import LIGHT
from mindscope.storage import open_store

from ..searched import write_search


@pytest.fixture(scope="module")
def rows():
    with open_store("memory:") as store:
        write_search(store)
        store.begin_run("alone", tags={"lr": 0.5, "width": 3}).close()
        origins = ProvenanceCache(Reader(store))
        while (known := origins.update()).left:
            pass
        yield known.rows


def test_a_parameter_that_correlates_with_nothing_known_has_no_row(rows):
    (cells,) = correlation_of(rows, ["tag.lr", "tag.width", "tag.seed"], "accuracy", LIGHT).data
    assert list(cells.y) == ["tag.lr", "tag.seed"]
    assert cells.z[0][0] == pytest.approx(0.96, abs=0.04)


def test_where_nothing_correlates_there_is_no_picture(rows):
    assert correlation_of(rows, ["tag.width"], "accuracy", LIGHT) is None
