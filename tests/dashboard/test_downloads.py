"""Whole series as files."""

import csv
import io

import numpy as np
import pytest
from mindscope.dashboard import create_app
from mindscope.dashboard.address import PageAddress
from mindscope.dashboard.downloads import download_link

from .recorded import BAD_SITE


@pytest.fixture(scope="module")
def client(recorded_store):
    return create_app(recorded_store).server.test_client()


def link(run, form="csv", site=BAD_SITE, metric="activation/l2_norm"):
    return download_link(PageAddress("tensor", run.id, metric, site), form=form)


def test_csv_holds_every_point_bit_for_bit(client, recorded_store, bad_run):
    answer = client.get(link(bad_run))
    rows = list(csv.DictReader(io.StringIO(answer.get_data(as_text=True))))
    series = recorded_store.series(bad_run.id, BAD_SITE, "activation/l2_norm", limit=10**6)
    assert [int(row["step"]) for row in rows] == series.steps.tolist()
    np.testing.assert_array_equal([float(row["value"]) for row in rows], series.values)
    assert answer.headers["Content-Disposition"].startswith("attachment; filename=")


def test_nan_of_a_scalar_stays_nan(client, bad_run):
    rows = client.get(link(bad_run, site="", metric="scalar/loss")).get_data(as_text=True).splitlines()
    assert rows[-1].endswith(",nan")


def test_parquet_holds_the_same(client, recorded_store, bad_run):
    parquet = pytest.importorskip("pyarrow.parquet", reason="no Parquet: pyarrow is not installed")
    table = parquet.read_table(io.BytesIO(client.get(link(bad_run, "parquet")).data))
    series = recorded_store.series(bad_run.id, BAD_SITE, "activation/l2_norm", limit=10**6)
    np.testing.assert_array_equal(table["value"].to_numpy(), series.values)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("run=nobody", 404),
        ("run=gpt-nan&site=nowhere&metric=activation/l2_norm", 404),
        ("run=gpt-nan&site=head&metric=nonsense", 400),
        ("run=gpt-nan&site=head&metric=activation/l2_norm&format=exe", 400),
        ("run=gpt-nan&site=head&metric=activation/l2_norm&rank=x", 400),
        ("run=gpt-nan&site=../../etc/passwd&metric=activation/l2_norm", 404),
    ],
)
def test_what_cannot_be_fetched_is_told(client, query, status):
    answer = client.get(f"/download?{query}")
    assert answer.status_code == status
    assert "Traceback" not in answer.get_data(as_text=True)
