"""Both sides of an update, for who looks only now and then."""

import numpy as np
from mindscope.framework import Key, Tensor, nn
from mindscope.probe import watch
from mindscope.storage import open_store


def test_weights_before_a_step_are_those_after_the_step_before():
    net = nn.SequentialCell(nn.Dense(4, 3, key=Key(0))).set_train()
    optimizer = nn.Adam(net.trainable_params(), 0.1)
    first = float(np.abs(net.trainable_params()[0].numpy()).max())
    with open_store("memory:") as store:
        config = {"subjects": {"weight/before": {"every": 2}}, "statistics": ["abs_max"]}
        with watch(net, optimizer, store=store, config=config) as monitor:
            for step in range(5):
                optimizer.zero_grad()
                net(Tensor(np.full((2, 4), step + 1.0, np.float32))).sum().backward()
                optimizer.step()
        before, after = (
            store.series(monitor.run.id, "0.weight", f"{subject}/abs_max") for subject in ("weight/before", "weight")
        )
    assert before.steps.tolist() == [0, 2, 4]
    assert before.values.tolist() == [first, after.values[1], after.values[3]]
    assert (np.diff(after.values) != 0).all()
