"""The four workloads of the engine's benchmark on PyTorch, on the engine and on JAX: data, model, AdamW, one step."""

from collections.abc import Callable
from typing import Any

import numpy as np
from models import engine_model, torch_model

Step = Callable[[], object]

NAMES = ("mlp", "cnn", "gpt", "tiny")
TITLES = {
    "mlp": "MLP 784-512-512-10 b128",
    "cnn": "CNN 28x28 b64",
    "gpt": "GPT 4x256 s128 b8",
    "tiny": "MLP 32 wide b16",
}
_CLASSES = {"mlp": 10, "cnn": 10, "gpt": 256, "tiny": 10}
_RATE = 1e-4


def data_of(name: str) -> tuple[Any, Any]:
    """One batch and its labels."""
    rng = np.random.default_rng(0)
    if name == "gpt":
        return rng.integers(0, 256, (8, 128)), rng.integers(0, 256, (8, 128))
    shape = {"mlp": (128, 784), "cnn": (64, 1, 28, 28), "tiny": (16, 32)}[name]
    return rng.normal(size=shape).astype(np.float32), rng.integers(0, _CLASSES[name], shape[0])


def torch_step(name: str, *, compiled: bool = False) -> Step:
    """A step of PyTorch, eager or through torch.compile."""
    import torch
    from torch import nn
    from torch.nn import functional

    if name == "tiny":
        torch.manual_seed(0)
        sizes = ((32, 32), (32, 32), (32, 10))
        layers = [layer for size in sizes for layer in (nn.Linear(*size), nn.ReLU())]
        model: Any = nn.Sequential(*layers[:-1])
        optimizer: Any = torch.optim.AdamW(model.parameters(), _RATE)
    else:
        model, optimizer, _ = torch_model(name)
    x, y = (torch.from_numpy(array) for array in data_of(name))
    classes = _CLASSES[name]
    forward = torch.compile(model) if compiled else model

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(forward(x).reshape(-1, classes), y.reshape(-1)).backward()
        optimizer.step()

    return step


def _engine_model(name: str) -> tuple[Any, Any]:
    from mindscope.framework import Key, nn

    if name != "tiny":
        model, optimizer, _ = engine_model(name)
        return model, optimizer
    sizes = ((32, 32), (32, 32), (32, 10))
    layers = [layer for i, size in enumerate(sizes) for layer in (nn.Dense(*size, key=Key(i)), nn.ReLU())]
    model = nn.SequentialCell(*layers[:-1]).set_train()
    return model, nn.AdamW(model.trainable_params(), _RATE)


def engine_step(name: str, *, compiled: bool = False) -> Step:
    """A step of the engine, as a user writes it: eager, or the whole step inside `jit`."""
    from mindscope.framework import Tensor, ops, value_and_grad
    from mindscope.framework.compiler import jit

    model, optimizer = _engine_model(name)
    x, y = (Tensor(array) for array in data_of(name))
    if not compiled:

        def eager() -> None:
            optimizer.zero_grad()
            ops.cross_entropy(model(x), y).backward()
            optimizer.step()

        return eager

    differentiated = value_and_grad(lambda x, y: ops.cross_entropy(model(x), y), None, model.trainable_params())

    @jit(capture_mode="trace")
    def train(x: Any, y: Any) -> Any:
        loss, gradients = differentiated(x, y)
        optimizer(gradients)
        return loss

    return lambda: train(x, y)


def jax_step(name: str) -> Step:
    """A step of JAX: forward, backward and AdamW in one jitted function that gives its arguments up."""
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    forward, parameters = _jax_model(name, rng)
    x, y = (jnp.asarray(array) for array in data_of(name))

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        logits = forward(parameters, x).reshape(-1, _CLASSES[name])
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), y.reshape(-1, 1), -1)
        return -picked.mean()

    def update(state: Any, x: Any, y: Any) -> Any:
        weights, first, second, count = state
        value, gradients = jax.value_and_grad(loss)(weights, x, y)
        count = count + 1
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)

        def moved(w: Any, m: Any, v: Any) -> Any:
            root = jnp.sqrt(v / (1 - 0.999**count)) + 1e-8
            return w * (1 - _RATE * 0.01) - _RATE * (m / (1 - 0.9**count)) / root

        return value, (jax.tree.map(moved, weights, first, second), first, second, count)

    jitted = jax.jit(update, donate_argnums=0)
    zeros = jax.tree.map(jnp.zeros_like, parameters)
    held = [(parameters, zeros, jax.tree.map(jnp.copy, zeros), jnp.zeros(()))]

    def step() -> None:
        value, held[0] = jitted(held[0], x, y)
        value.block_until_ready()
        jax.block_until_ready(held[0])

    return step


def _jax_model(name: str, rng: Any) -> tuple[Callable[..., Any], Any]:
    """The forward function and its parameters."""
    import jax
    import jax.numpy as jnp

    def weight(*shape: int) -> Any:
        return jnp.asarray(rng.normal(0.0, 0.02, shape).astype(np.float32))

    def dense(width: int, out: int) -> Any:
        return weight(width, out), jnp.zeros(out)

    def apply(layer: Any, x: Any) -> Any:
        return x @ layer[0] + layer[1]

    if name in ("mlp", "tiny"):
        sizes = ((784, 512), (512, 512), (512, 10)) if name == "mlp" else ((32, 32), (32, 32), (32, 10))

        def perceptron(layers: Any, x: Any) -> Any:
            for layer in layers[:-1]:
                x = jax.nn.relu(apply(layer, x))
            return apply(layers[-1], x)

        return perceptron, [dense(*size) for size in sizes]
    if name == "cnn":
        return _jax_cnn(weight, dense, apply)
    return _jax_gpt(weight, dense, apply)


def _jax_cnn(weight: Any, dense: Any, apply: Any) -> tuple[Callable[..., Any], Any]:
    import jax
    import jax.numpy as jnp

    def convolve(kernel: Any, bias: Any, x: Any) -> Any:
        y = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        y = jax.nn.relu(y + bias)
        return jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def forward(p: Any, x: Any) -> Any:
        x = convolve(*p[1], convolve(*p[0], x.transpose(0, 2, 3, 1)))
        return apply(p[3], jax.nn.relu(apply(p[2], x.reshape(len(x), -1))))

    kernels = [(weight(3, 3, 1, 16), jnp.zeros(16)), (weight(3, 3, 16, 32), jnp.zeros(32))]
    return forward, [*kernels, dense(32 * 49, 128), dense(128, 10)]


def _jax_gpt(weight: Any, dense: Any, apply: Any) -> tuple[Callable[..., Any], Any]:
    import jax
    import jax.numpy as jnp

    width, heads = 256, 4

    def norm(p: Any, x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * p[0] + p[1]

    def attention(p: Any, x: Any) -> Any:
        b, s, w = x.shape
        q, k, v = (apply(layer, x).reshape(b, s, heads, w // heads).transpose(0, 2, 1, 3) for layer in p[:3])
        scores = jnp.where(jnp.tri(s, dtype=bool), q @ k.swapaxes(-1, -2) / 8.0, -jnp.inf)
        return apply(p[3], (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(b, s, w))

    def forward(p: Any, x: Any) -> Any:
        x = p["tokens"][x] + p["places"]
        for block in p["blocks"]:
            x = x + attention(block["attention"], norm(block["norm1"], x))
            x = x + apply(block["down"], jax.nn.gelu(apply(block["up"], norm(block["norm2"], x))))
        return norm(p["norm"], x) @ p["head"]

    def unit() -> Any:
        return jnp.ones(width), jnp.zeros(width)

    def block() -> Any:
        attention = [dense(width, width) for _ in range(4)]
        return {"attention": attention, "norm1": unit(), "norm2": unit()} | {
            "up": dense(width, 4 * width),
            "down": dense(4 * width, width),
        }

    whole = {"tokens": weight(256, width), "places": weight(128, width), "norm": unit(), "head": weight(width, 256)}
    return forward, whole | {"blocks": [block() for _ in range(4)]}
