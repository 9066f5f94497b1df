"""Where a step's time goes: every second belongs to one phase, what follows a backward pass to the right one."""

import pytest
from mindscope.probe import watch
from mindscope.probe.quantities.step_clock import (
    BACKWARD,
    BETWEEN,
    DATA,
    EVALUATION,
    FORWARD,
    MONITOR,
    OPTIMIZER,
    PHASES,
    StepTime,
)
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def spent(*marks):
    """Seconds by phase of marks `(phase, how long the phase before it took)`."""
    now = [0.0]
    watch_ = StepTime(lambda: now[0])
    for phase, seconds in marks:
        now[0] += seconds
        watch_.enter(phase) if phase != EVALUATION else watch_.enter_evaluation()
    return {name: seconds for name, seconds in zip(PHASES, watch_.seconds(), strict=False) if seconds}


def test_every_second_belongs_to_the_phase_that_was_entered_before_it():
    found = spent((FORWARD, 1), (BACKWARD, 2), (BETWEEN, 4), (MONITOR, 8), (OPTIMIZER, 16), (MONITOR, 32), (DATA, 64))
    assert found == {"data": 1, "forward": 2, "backward": 4, "optimizer": 8 + 32, "monitor": 16 + 64}


def test_between_two_micro_batches_is_data():
    assert spent((FORWARD, 1), (BACKWARD, 1), (BETWEEN, 1), (FORWARD, 8), (DATA, 1))["data"] == 1 + 8


def test_an_evaluation_counts_where_data_would_be_waited_for_and_only_there():
    assert spent((EVALUATION, 1), (EVALUATION, 2), (FORWARD, 4))["evaluation"] == 2 + 4
    assert "evaluation" not in spent((FORWARD, 1), (EVALUATION, 2), (BACKWARD, 4))


def test_a_phase_that_still_runs_is_counted_up_to_now():
    now = [0.0]
    watch_ = StepTime(lambda: now[0])
    watch_.enter(FORWARD)
    now[0], watch_.communication = 3.0, 1.5
    assert watch_.seconds() == (0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 1.5)
    now[0] = 5.0
    assert watch_.seconds()[FORWARD] == 5.0


def test_a_training_says_every_tenth_step_what_it_spends_its_time_on():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store) as monitor:
            for number in range(21):
                optimizer.zero_grad()
                net(torch.randn(8, 16)).square().mean().backward()
                optimizer.step()
                if number == 15:
                    net.eval()(torch.randn(8, 16))
                    net.train()
        run = monitor.run.id
        series = {
            name: store.series(run, "", f"scalar/{name}")
            for name in ("time/forward_seconds", "time/evaluation_seconds")
        }
        assert series["time/forward_seconds"].steps.tolist() == [1, 10, 20]
        assert series["time/evaluation_seconds"].steps.tolist() == [20]
        phases = [name for name in store.metrics(run) if name.startswith("scalar/time/")]
        phases = [name for name in phases if "writer" not in name]  # which is another thread
        whole = sum(store.series(run, "", name).values[-1] for name in phases)
        own = store.series(run, "", "scalar/time/monitor_seconds").values[-1]
        step = store.series(run, "", "scalar/step_seconds").values[11:21].mean()
        assert (
            (whole - own) * (1 - 1e-6) <= step <= whole * (1 + 1e-6)
        )  # some of the monitor's work lies behind the end
        rate = store.series(run, "", "scalar/throughput/samples_per_second").values[-1]
        assert rate * whole == pytest.approx(8.0)
