"""A classifier on the engine, in eager mode, with dropout and clipping."""

import numpy as np
from mindscope.framework import Key, Tensor, nn, ops, random, value_and_grad
from mindscope.framework.optim.gradient_clipping import clip_by_global_norm

from benchmarks.reliability.guard.stage import stage

random.set_seed(0)
first, second = random.split(Key(0), 2)
model = nn.SequentialCell(
    nn.Dense(8, 16, key=first), nn.ReLU(), nn.Dropout(0.1), nn.Dense(16, 3, key=second)
).set_train()
optimizer = nn.Adam(model.trainable_params(), learning_rate=1e-2)
generator = np.random.default_rng(0)
inputs = generator.normal(size=(64, 8)).astype(np.float32)
labels = inputs[:, :3].argmax(1)
loss_and_gradients = value_and_grad(lambda x, y: ops.cross_entropy(model(x), y), None, model.trainable_params())
stage.watch(model, optimizer)
for number in range(28):
    stage.step(number)
    at = generator.choice(64, 16, replace=False)
    loss, gradients = loss_and_gradients(Tensor(inputs[at]), Tensor(labels[at]))
    clip_by_global_norm(gradients, 1.0)
    optimizer(gradients)
    stage.log(accuracy=0.5)
    stage.loss(loss)
stage.end([*model.trainable_params()])
