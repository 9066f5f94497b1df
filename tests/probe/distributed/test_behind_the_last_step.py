"""What a process sends after its last step, such as sums over a validation, is recorded as the run ends."""

import pytest
from mindscope.probe import watch
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no torch.distributed")


def test_collectives_behind_the_last_step_are_recorded(tmp_path):
    model = torch.nn.Linear(3, 2).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    meet = f"file://{tmp_path / 'meet'}"
    torch.distributed.init_process_group("gloo", init_method=meet, rank=0, world_size=1)
    try:
        with open_store("memory:") as store:
            with watch(model, optimizer, store=store) as monitor:
                for _ in range(2):
                    optimizer.zero_grad()
                    model(torch.ones(4, 3)).sum().backward()
                    optimizer.step()
                monitor.flush()
                torch.distributed.all_reduce(torch.tensor([3.0, 4.0]))
            series = store.series(monitor.run.id, "all_reduce/world", "communication/l2_norm")
            assert (series.steps.tolist(), series.values.tolist()) == ([2], [5.0])
    finally:
        torch.distributed.destroy_process_group()
