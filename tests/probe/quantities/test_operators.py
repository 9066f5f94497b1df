"""Operators of a step: the log by hand, and trainings of both frameworks that are looked at from inside."""

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn, ops
from mindscope.framework.primitive import PRIMITIVES
from mindscope.insight.profile.run_profile import profile
from mindscope.probe import watch
from mindscope.probe.quantities.operator_log import Allocation, OperatorLog, OperatorSpan
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

LOOK = {"subjects": {"operator": {"first": 2}}}


def span(name, start, seconds, *, own=None, phase="forward"):
    return OperatorSpan(name, phase, "head", start, seconds, seconds if own is None else own, 0)


def allocation(at, key, size, site="head"):
    return Allocation(at, key, size, "matmul", "forward", site)


def test_the_table_sums_calls_times_and_bytes_by_operator_and_phase():
    log = OperatorLog(3, 100.0)
    log.spans += [span("matmul", 0.0, 0.2, own=0.1), span("exp", 0.1, 0.1), span("matmul", 0.3, 0.2)]
    log.spans += [span("matmul", 0.5, 0.4, phase="backward")]
    log.allocations += [allocation(0.1, 1, 80), allocation(0.2, 1, -80), allocation(0.3, 2, 20)]
    table = {(name, phase): numbers for name, phase, *numbers in log.data(1.0)["table"]}
    assert table["matmul", "forward"] == pytest.approx([2.0, 0.4, 0.3, 100.0])
    assert table["exp", "forward"] == pytest.approx([1.0, 0.1, 0.1, 0.0])
    assert table["matmul", "backward"][0] == 1.0


def test_memory_peaks_at_its_most_and_what_was_there_before_the_step_is_not_counted():
    log = OperatorLog(0, 0.0)
    log.allocations += [
        allocation(0.1, 1, 100, "a"),
        allocation(0.2, 9, -7000),  # from before
        allocation(0.3, 2, 50, "b"),
        allocation(0.4, 1, -100, "a"),
        allocation(0.5, 1, 30, "c"),  # the same address again
        allocation(0.6, 2, -50, "b"),
    ]
    data = log.data(1.0)
    assert data["memory"] == [[0.1, 100], [0.3, 150], [0.4, 50], [0.5, 80], [0.6, 30]]
    assert data["peak_bytes"] == 150
    assert data["holders"] == [["a", "matmul", "forward", 100], ["b", "matmul", "forward", 50]]


def test_an_event_is_bounded_and_keeps_the_longest_spans_and_the_peak():
    log = OperatorLog(0, 0.0)
    log.spans += [span("op", float(number), 1.0 + number) for number in range(4100)]
    log.allocations += [allocation(float(n), n, 1000 if n == 777 else 1, f"site{n}") for n in range(5000)]
    log.allocations += [allocation(5000.0, 777, -1000)]
    data = log.data(1.0)
    assert (len(data["spans"]), data["left_out"]) == (4000, 100)
    assert data["spans"][0][3] == 100.0
    assert len(data["memory"]) == 1000
    assert max(size for _, size in data["memory"]) == data["peak_bytes"] == 5999
    assert len(data["holders"]) == 33
    assert sum(size for *_, size in data["holders"]) == 5999


def engine(config, steps=4):
    """Losses of an engine training and what its store holds."""
    net = nn.SequentialCell(nn.Dense(6, 5, key=Key(0)), nn.ReLU(), nn.Dense(5, 3, key=Key(1))).set_train()
    optimizer = nn.Adam(net.trainable_params(), 0.01)
    rng = np.random.default_rng(0)

    def step():
        optimizer.zero_grad()
        logits = net(Tensor(rng.standard_normal((8, 6)).astype(np.float32)))
        loss = ops.cross_entropy(logits, Tensor(rng.integers(0, 3, 8)))
        loss.backward()
        optimizer.step()
        return float(loss.numpy())

    return trained(net, optimizer, step, config, steps)


def pytorch(config, steps=4):
    """The same of PyTorch, with dropout, which draws random numbers."""
    torch.manual_seed(0)
    layers = (torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(5, 3))
    net = torch.nn.Sequential(*layers)
    optimizer = torch.optim.Adam(net.parameters(), 0.01)

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(torch.randn(8, 6)), torch.randint(0, 3, (8,)))
        loss.backward()
        optimizer.step()
        return loss.item()

    return trained(net, optimizer, step, config, steps)


def trained(net, optimizer, step, config, steps):
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store, config=config) as monitor:
            losses = [step() for _ in range(steps)]
        run = store.find_run("latest")
        faults = store.events(run.id, kind="monitor_fault")
        return losses, profile(store, run), store.events(run.id, kind="operators"), faults, monitor


@pytest.mark.parametrize("train", [engine, pytorch])
def test_a_step_is_told_by_operator_phase_and_module(train):
    _, found, events, faults, _ = train(LOOK)
    assert faults == ()
    assert [event.data["step"] for event in events] == [0, 1]
    assert [one.step for one in found.profiled] == [0, 1]
    phases = {one.phase for one in found.operators}
    assert {"forward", "loss", "backward"} <= phases
    for one in found.profiled:
        sites = {(span.phase, span.site) for span in one.spans}
        assert {("forward", "0"), ("forward", "1")} <= sites
        assert all(0.0 <= span.start_s <= one.seconds for span in one.spans)
        assert one.began > 1e9
    assert sum(one.share for one in found.operators) == pytest.approx(1.0)
    assert all(one.self_s <= one.seconds + 1e-12 for one in found.operators)


@pytest.mark.parametrize("train", [engine, pytorch])
def test_the_most_memory_of_a_step_is_attributed_to_the_bytes(train):
    _, found, _, _, _ = train(LOOK)
    for one in found.profiled:
        assert one.peak_bytes == max(size for _, size in one.memory) > 0
        assert sum(holder.size_bytes for holder in one.holders) == one.peak_bytes
    holders = {holder.site for holder in found.profiled[1].holders}
    assert "1" in holders  # the output of the rectifier is kept for the way back
    assert {part.kind for part in found.memory[0].parts if part.is_measured} == {"activations"}


@pytest.mark.parametrize("train", [engine, pytorch])
def test_looking_changes_no_bit_of_the_training_and_steps_that_are_not_due_tell_nothing(train):
    losses = [train(config)[0] for config in (LOOK, {"every": 1}, {"subjects": {"operator": 1}})]
    assert losses[0] == losses[1] == losses[2]
    assert train({"every": 1})[2] == ()


def test_the_backward_pass_of_pytorch_belongs_to_the_modules_of_the_forward():
    _, found, _, _, _ = pytorch(LOOK)
    backward = {span.site for span in found.profiled[1].spans if span.phase == "backward"}
    assert {"0", "3"} <= backward
    assert "optimizer" in {one.phase for one in found.operators}


def test_the_table_of_primitives_is_as_it_was_after_the_run_and_in_steps_that_are_not_due():
    before = {name: primitive.evaluate for name, primitive in PRIMITIVES.items()}
    engine({"subjects": {"operator": 1, "attention": 1}})
    assert {name: primitive.evaluate for name, primitive in PRIMITIVES.items()} == before


def test_a_profiler_of_the_users_own_goes_first():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
        losses, found, events, faults, _ = pytorch(LOOK)
    assert len(theirs.events()) > 0
    assert events == ()
    assert [fault.data["collector"] for fault in faults] == ["operator"]
    assert losses == pytorch({"every": 1})[0]
    assert found.operators == ()
