"""Networks trained against each other: as one model, or each with a monitor of its own."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn, functional = torch.nn, torch.nn.functional


def adversaries(*, apart, critics=1, steps=4):
    def train(watching):
        torch.manual_seed(0)
        parts = nn.ModuleDict({"generator": nn.Linear(3, 5), "critic": nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 1))})
        generator, critic = parts["generator"], parts["critic"]
        of_generator = torch.optim.Adam(generator.parameters(), 1e-2)
        of_critic = torch.optim.SGD(critic.parameters(), 1e-2, momentum=0.9)
        losses = []

        def criticise():
            of_critic.zero_grad()
            loss = critic(generator(torch.randn(6, 3)).detach()).mean() - critic(torch.randn(6, 5)).mean()
            loss.backward()
            of_critic.step()
            losses.append(loss.item())

        def generate():
            of_generator.zero_grad()
            loss = -critic(generator(torch.randn(6, 3))).mean()
            loss.backward()
            of_generator.step()
            losses.append(loss.item())

        def loop():
            for _ in range(steps):
                for _ in range(critics):
                    criticise()
                generate()

        if apart:
            with watching(generator, of_generator), watching(critic, of_critic):
                loop()
        else:
            with watching(parts, [of_critic, of_generator]):
                loop()
        return losses, parts

    return train


def test_one_monitor_of_both_has_one_record_a_step_with_everything_in_it(alike):
    seen = alike(adversaries(apart=False))
    assert [(record.step, record.micro_step) for record in seen.records()] == [(step, 0) for step in range(4)]
    for site in ("generator.weight", "critic.0.weight", "critic.1.bias"):
        assert len(seen.values(site, "gradient/l2_norm")) == 4, site
    assert seen.calls("critic") == 3  # the false ones, the true ones, and for the generator
    both = [a + b for a, b in zip(seen.losses[::2], seen.losses[1::2], strict=True)]
    assert seen.values("", "scalar/loss").tolist() == both
    assert len(seen.values("critic.0.weight", "optimizer/momentum_buffer/std")) == 4
    assert len(seen.values("generator.weight", "optimizer/exp_avg/std")) == 4
    structure = seen.store.structure(seen.run)
    assert {module.site for module in structure.modules if module.order >= 0} >= {"generator", "critic.0", "critic"}
    assert [one.kind for one in structure.optimizers] == ["SGD", "Adam"]


def test_two_monitors_keep_two_runs(alike):
    seen = alike(adversaries(apart=True))
    generator, critic = (monitor.run.id for monitor in seen.monitors)
    assert len(seen.values("weight", "gradient/l2_norm", run=generator)) == 4
    assert len(seen.values("0.weight", "gradient/l2_norm", run=critic)) == 4
    assert [monitor.step for monitor in seen.monitors] == [4, 4]


def test_a_critic_that_steps_more_often_has_steps_of_its_own(alike):
    seen = alike(adversaries(apart=False, critics=3))
    assert len(seen.values("critic.0.weight", "gradient/l2_norm")) == 12
    assert len(seen.values("generator.weight", "gradient/l2_norm")) == 4
    assert seen.monitors[0].step == 16
    assert {seen.calls("critic", step) for step in range(2, 16)} == {1, 2}


def test_a_list_of_parts_lets_go_of_the_tensors_of_its_first_step(alike):
    seen = alike(adversaries(apart=False, steps=2))
    trace = seen.monitors[0]._adapter._order.trace
    assert trace.is_complete
    assert trace._kept == []
