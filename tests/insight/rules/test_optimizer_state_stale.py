"""An optimizer that is made anew in mid-run is told as such, and is no state that somebody has written."""

from collections.abc import Callable
from copy import deepcopy

import mindscope
import pytest
import torch
from mindscope.storage import Finding
from torch import nn, optim

STEPS, AT = 24, 12


def adam(parameters):
    return optim.Adam(parameters, lr=1e-3)


def adamw(parameters):
    return optim.AdamW(parameters, lr=1e-3)


def momentum(parameters):
    return optim.SGD(parameters, lr=0.05, momentum=0.9)


def changed(before: Callable, after: Callable, *, loads: int = -1, single: bool = False) -> list[Finding]:
    """What is found, live and over the store, of a training whose optimizer is made anew at one step.

    Args:
        loads: The step whose state the new optimizer loads; none.
        single: The model has one parameter of one element.
    """
    torch.manual_seed(0)
    model = nn.Linear(1, 1, bias=False) if single else nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer, kept = before(model.parameters()), {}
    with mindscope.open_store("memory:") as store:
        monitor = mindscope.watch(model, optimizer, store=store)
        for step in range(STEPS):
            if step == loads:
                kept = deepcopy(optimizer.state_dict())
            if step == AT:
                optimizer = after(model.parameters())
                if kept:
                    optimizer.load_state_dict(kept)
            optimizer.zero_grad()
            model(torch.randn(16, 1 if single else 8)).square().mean().backward()
            optimizer.step()
        monitor.close()
        live, again = store.findings(monitor.run.id), mindscope.diagnose(store, "latest").findings
    causes = ("optimizer_state_stale", "silent_data_corruption", "resume_mismatch")
    found = [[finding for finding in findings if finding.cause in causes] for findings in (live, again)]
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (adam, adam, f"made anew at step {AT}: Adam in the place of Adam, after {AT} steps; its state"),
        (adam, adamw, f"made anew at step {AT}: AdamW in the place of Adam, after {AT} steps; its state"),
        (momentum, momentum, f"made anew at step {AT}: SGD in the place of SGD; its state started from nothing"),
    ],
)
def test_a_state_that_begins_from_nothing_is_a_question(before, after, words):
    (found,) = changed(before, after)
    assert (found.cause, found.severity, found.first_step) == ("optimizer_state_stale", "info", AT)
    assert found.explanation.endswith("is that meant?")
    assert words in found.explanation
    assert "state_dict() of the one before" in found.advice


def test_one_of_a_kind_that_has_no_such_state_is_nothing_to_report():
    assert changed(adam, momentum) == changed(momentum, adam) == []


def test_one_that_goes_on_with_the_state_of_the_one_before_is_nothing_to_report():
    assert changed(adam, adam, loads=AT) == changed(momentum, momentum, loads=AT) == []


@pytest.mark.parametrize("make", [adam, momentum])
def test_one_that_is_given_an_old_state_is_an_error_still(make):
    (found,) = changed(make, make, loads=4)
    assert (found.cause, found.severity) == ("optimizer_state_stale", "error")
    assert "made anew" not in found.explanation


@pytest.mark.parametrize("make", [adam, momentum])
def test_a_single_element_whose_state_begins_anew_is_no_corruption(make):
    assert {finding.cause for finding in changed(make, make, single=True)} == {"optimizer_state_stale"}
