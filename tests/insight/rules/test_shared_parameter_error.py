"""A parameter in two groups is an error where both step it; an optimizer made anew takes the place of the old one."""

import mindscope
import pytest
import torch
from torch import nn

STEPS, AT = 8, 4


@pytest.mark.parametrize(("shares", "anew"), [(False, False), (False, True), (True, False)])
def test_only_optimizers_that_all_step_share_a_parameter(shares: bool, anew: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizers = [torch.optim.Adam(model.parameters()) for _ in range(2 if shares else 1)]
    with mindscope.open_store("memory:") as store:
        monitor = mindscope.watch(model, store=store)  # which finds the optimizers as they step
        for step in range(STEPS):
            if anew and step == AT:
                optimizers = [torch.optim.Adam(model.parameters())]
            inputs = torch.randn(16, 8)
            loss = nn.functional.cross_entropy(model(inputs), inputs[:, :4].argmax(-1))
            model.zero_grad()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
        monitor.close()
        diagnoses = monitor.findings, mindscope.diagnose(store, "latest").findings
    sites = [{finding.site for finding in found if finding.cause == "shared_parameter_error"} for found in diagnoses]
    everywhere = {name for name, _ in model.named_parameters()}
    assert sites == [everywhere if shares else set()] * 2
