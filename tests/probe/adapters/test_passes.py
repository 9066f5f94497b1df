"""Only backward passes whose gradients an optimizer uses count, and only gradients left over that it uses are told."""

import mindscope
import pytest
import torch
from torch import nn
from torch.nn import functional


def events_of(train) -> dict[str, list]:
    """The events of accumulation and of gradients left over of a small run, by kind."""
    torch.manual_seed(0)
    with mindscope.open_store("memory:") as store:
        train(store)
        run = store.runs(limit=1)[0].id
        kinds = ("accumulation", "gradient_before_forward")
        return {kind: [one.data for one in store.events(run, kind=kind, limit=100)] for kind in kinds}


def net(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 8), nn.LeakyReLU(), nn.Linear(8, outputs))


def adversarial(store, *, is_whole: bool) -> None:
    generator, judge = net(4, 2), net(2, 1)
    first = torch.optim.Adam(judge.parameters())
    second = torch.optim.Adam(generator.parameters())
    watched = nn.ModuleDict({"generator": generator, "judge": judge}) if is_whole else judge
    monitor = mindscope.watch(watched, [first, second] if is_whole else first, store=store)
    for _ in range(6):
        fake = generator(torch.randn(16, 4))
        first.zero_grad()
        scores = torch.cat([judge(torch.randn(16, 2)), judge(fake.detach())])
        functional.binary_cross_entropy_with_logits(scores, torch.ones(32, 1)).backward()
        first.step()
        second.zero_grad()
        functional.binary_cross_entropy_with_logits(judge(fake), torch.ones(16, 1)).backward()
        second.step()
    monitor.close()


@pytest.mark.parametrize("is_whole", [True, False], ids=["both", "one of them"])
def test_networks_that_are_trained_against_each_other_sum_no_passes_and_leave_nothing_over(is_whole):
    found = events_of(lambda store: adversarial(store, is_whole=is_whole))
    assert {one["micro_batches"] for one in found["accumulation"]} == {1}
    assert found["gradient_before_forward"] == []


def looped(store, *, clears: bool, passes: int) -> None:
    model = net(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = mindscope.watch(model, optimizer, store=store)
    for _ in range(6):
        for _ in range(passes):
            if clears:
                optimizer.zero_grad()
            functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 3, (8,))).backward()
        optimizer.step()
        if passes > 1:
            optimizer.zero_grad()
    monitor.close()


@pytest.mark.parametrize(("clears", "passes", "summed"), [(True, 1, 1), (True, 2, 1), (False, 2, 2)])
def test_a_pass_whose_gradients_are_cleared_counts_for_nothing(clears, passes, summed):
    found = events_of(lambda store: looped(store, clears=clears, passes=passes))
    assert {one["micro_batches"] for one in found["accumulation"]} == {summed}
    assert found["gradient_before_forward"] == []


def test_gradients_that_nobody_clears_are_told_of_every_parameter():
    found = events_of(lambda store: looped(store, clears=False, passes=1))
    assert [one["parameters"] for one in found["gradient_before_forward"]] == [4] * 5
