"""Where ranks are drawn in the picture of a job, and what is said of each cell."""

import base64
import time
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest
from mindscope.dashboard.pages.ranks.topology_figure import topology_figure
from mindscope.dashboard.queries.rank_cells import COLOURINGS, DIFFERS, hover_words, job_ranks, usual_colouring
from mindscope.dashboard.queries.rank_grid import grid_axes, rank_grid
from mindscope.dashboard.queries.rank_view import rank_view
from mindscope.dashboard.queries.reader import Reader
from mindscope.dashboard.theme import DARK, LIGHT
from mindscope.storage import Event, Finding, open_store
from mindscope.storage.last_words import FolderWords
from mindscope.storage.process import identity
from mindscope.storage.ranks.topology import PLACE, Topology, topology_of_mesh

from tests.insight.hangs.words import call, calls, main_thread, word

from .ranked import write_ranks
from .wide import RANKS, SLOW, write_wide


def topology(hosts: int, each: int, **mesh: int) -> Topology:
    """Return hosts of so many ranks each, and a mesh over all."""
    return topology_of_mesh([f"node-{host}" for host in range(hosts) for _ in range(each)], mesh)


@pytest.mark.parametrize(
    ("known", "ranks", "shape", "cells"),
    [
        (Topology(1), 1, (1, 1), 1),
        (topology(1, 8), 8, (1, 8), 8),
        (topology(1, 64), 64, (4, 16), 64),
        (topology(8, 8, data=8, tensor=8), 64, (8, 8), 64),
        (topology(64, 8, data=64, tensor=8), 512, (8, 64), 512),
        (topology(512, 8, pipeline=4, data=128, tensor=8), 4096, (8, 64), 512),
        (Topology(4096).with_blocks(), 4096, (16, 64), 1024),
        (Topology(4096), 4096, (16, 64), 1024),
    ],
    ids=["1", "8", "64 on one host", "64", "512", "4096", "4096 in blocks", "4096 of unknown place"],
)
def test_every_rank_has_a_cell_and_a_picture_never_more_than_1024(known, ranks, shape, cells):
    grid = rank_grid(known, np.arange(ranks))
    assert grid.shape == shape
    assert len(np.unique(grid.cells)) == cells
    assert len(grid.cells) == ranks
    assert (grid.x < shape[1]).all()
    assert (grid.y < shape[0]).all()


def test_blocks_are_hosts_and_cells_lie_along_the_axis_inside_of_them():
    grid = rank_grid(topology(8, 8, data=8, tensor=8), np.arange(64))
    assert (grid.x_title, grid.y_title) == ("tensor", "host")
    assert grid.y_names == tuple(f"node-{host}" for host in range(8))
    assert (int(grid.x[27]), int(grid.y[27])) == (3, 3)
    by_tensor = rank_grid(topology(8, 8, data=8, tensor=8), np.arange(64), "tensor")
    assert by_tensor.y_title == "tensor"
    assert (by_tensor.y == np.arange(64) % 8).all()
    assert grid_axes(topology(8, 8, data=8, tensor=8)) == ("host", "data", "tensor")


def test_a_host_of_many_ranks_has_several_lines_with_a_border_to_the_next():
    grid = rank_grid(topology(2, 32), np.arange(64))
    assert grid.shape == (4, 16)
    assert grid.y_names == ("node-0", "", "node-1", "")
    assert grid.borders == (2,)
    assert (int(grid.x[40]), int(grid.y[40])) == (8, 2)


def test_ranks_of_an_unknown_host_have_a_block_of_their_own():
    known = topology(2, 2)
    lost = replace(known, axes=(replace(known.axes[0], groups=np.array([0, 0, 1, -1])),))
    grid = rank_grid(lost, np.arange(4))
    assert grid.y_names == ("node-0", "node-1", "not known")
    assert grid.y.tolist() == [0, 0, 1, 2]
    assert rank_grid(Topology(4), np.array([2, 3])).x.tolist() == [0, 1]


@pytest.fixture
def hanging(tmp_path):
    """A run of four ranks, of which rank 1 sleeps while the others wait."""
    with open_store(str(tmp_path)) as store:
        run = write_ranks(store)
        now = time.time()
        words = FolderWords(tmp_path, run.id)
        for rank in range(4):
            made = calls() if rank == 1 else [*calls(), replace(call(9), began_at=now - 12)]
            threads = main_thread(("/home/me/train.py", 50, "<module>"), code="time.sleep(9)") if rank == 1 else ()
            words.write(rank, word(rank, made, 4, at=now, threads=threads, writer=identity()).encode())
            groups = {"data": [rank % 2, rank % 2 + 2]}
            data = {
                "node": f"node-{rank // 2}",
                "rank": rank,
                "size": 4,
                "pid": 40 + rank,
                "device": f"cuda:{rank % 2}",
            }
            writer = store.begin_run("four-ranks", rank=rank, run_id=run.id)
            writer.write_events([Event(PLACE, -1, data={**data, "groups": groups})])
        words.close()
        yield store, store.find_run("four-ranks")


def test_a_cell_says_who_it_is_where_and_what_it_is_doing(hanging):
    store, run = hanging
    reader = Reader(store)
    job = job_ranks(reader, run, rank_view(reader, run))
    assert [job.states[rank].state for rank in range(4)] == ["waiting", "stalled", "waiting", "waiting"]
    assert job.culprits == (1,)
    assert usual_colouring(job) == "state"
    grid = rank_grid(job.topology, job.ranks)
    assert grid.shape == (2, 2)
    said = hover_words(job, grid)[int(grid.cells[1])].replace("<br>", " ")
    for words in ("<b>rank 1</b>, node-0, pid 41, cuda:1", "data 0 of ranks 1 and 3", "sleeps at train.py:50"):
        assert words in said
    assert "works 0.3 s of a step, 1.00 × the median" in said
    assert "waits in all_reduce of world at train.py:10" in hover_words(job, grid)[0].replace("<br>", " ")
    figure = topology_figure(job, grid, "state", LIGHT)
    (outline,) = figure.to_dict()["layout"]["shapes"]
    assert (outline["x0"], outline["y0"]) == (grid.x[1] - 0.5, grid.y[1] - 0.5)


def test_a_finding_about_a_rank_colours_it_before_time_does(hanging):
    store, run = hanging
    words = "rank 2 has other weights than the others"
    told = Finding("rank-desync", "rank_desync", "error", 7, 7, "", "", {}, words, "look at it", rank=2)
    store.write_findings(run.id, [told])
    reader = Reader(store)
    found = reader.find(run.id)
    job = job_ranks(reader, found, rank_view(reader, found))
    assert job.divergence.tolist() == [0, 0, DIFFERS, 0]
    quiet = replace(job, states={rank: replace(state, state="running") for rank, state in job.states.items()})
    assert usual_colouring(quiet) == "divergence"
    assert "other weights" in hover_words(job, rank_grid(job.topology, job.ranks))[2].replace("<br>", " ")


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """The job of 512 ranks, and where they are drawn."""
    with open_store(str(tmp_path_factory.mktemp("wide") / "runs")) as store:
        run = write_wide(store)
        reader = Reader(store)
        job = job_ranks(reader, run, rank_view(reader, run))
        yield job, rank_grid(job.topology, job.ranks)


def cells_of(figure):
    """The numbers that colour the cells, as the browser reads them."""
    sent = figure.to_dict()["data"][1]["z"]
    shape = [int(part) for part in sent["shape"].split(",")]
    return np.frombuffer(base64.b64decode(sent["bdata"]), np.dtype(sent["dtype"])).reshape(shape)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("colouring", COLOURINGS)
def test_512_ranks_are_a_valid_figure_that_keeps_its_zoom(wide, colouring, palette):
    job, grid = wide
    figure = topology_figure(job, grid, colouring, palette)
    assert cells_of(figure).shape == (8, 64)
    assert go.Figure(figure.to_dict()).layout.height < 400  # with Plotly's validation
    assert figure.to_dict()["layout"]["uirevision"] == "host tensor (8, 64)"


def test_the_slow_one_of_512_ranks_has_the_strongest_colour_and_is_outlined(wide):
    job, grid = wide
    assert len(job.ranks) == RANKS
    assert job.culprits == (SLOW,)
    assert job.work.is_own[SLOW]
    figure = topology_figure(job, grid, usual_colouring(job), LIGHT)
    cells = cells_of(figure)
    assert np.unravel_index(np.nanargmax(cells), cells.shape) == (grid.y[SLOW], grid.x[SLOW])
    (outline,) = figure.to_dict()["layout"]["shapes"]
    assert (outline["x0"], outline["y0"]) == (grid.x[SLOW] - 0.5, grid.y[SLOW] - 0.5)
