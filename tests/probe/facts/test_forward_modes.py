"""What the facts of forwards must never do: disturb the training."""

import pytest
from mindscope import watch
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def test_a_module_without_a_mode_switches_facts_off_and_leaves_the_training_alone(tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with open_store(tmp_path) as store:
        with watch(model, optimizer, store=store) as monitor:
            for step in range(3):
                if step == 1:
                    del model[1].training
                optimizer.zero_grad()
                model(torch.ones(3, 4)).square().sum().backward()
                optimizer.step()
        faults = store.events(monitor.run.id, kind="monitor_fault")
    assert [event.data["collector"] for event in faults] == ["facts"]
