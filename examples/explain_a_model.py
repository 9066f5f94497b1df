"""Train a small network, then ask where in an image it looks, and how the loss lies around the way it has come.

python examples/explain_a_model.py [STORE]
"""

import sys

import mindscope as ms
import numpy as np
from mindscope.framework import Key, Tensor, grad, nn, ops
from mindscope.insight import landscape, saliency
from mindscope.storage import blobs_of
from sklearn.datasets import load_digits

CONFIG = {"every": 10, "dump": {"subjects": ["weight"], "sites": ["*"], "when": {"every": 10}}}


def main(url: str) -> None:
    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 16).astype(np.float32)
    network = nn.SequentialCell(nn.Dense(64, 32, key=Key(1)), nn.ReLU(), nn.Dense(32, 10, key=Key(2)))
    optimizer = nn.Adam(network.trainable_params(), learning_rate=1e-2)
    generator = np.random.default_rng(0)
    network.set_train()

    with ms.watch(network, optimizer, store=url, run="digits", config=CONFIG) as monitor:
        for _ in range(100):
            batch = generator.integers(0, 1500, 64)
            optimizer.zero_grad()
            ops.cross_entropy(network(Tensor(images[batch])), Tensor(labels[batch])).backward()
            optimizer.step()
    network.set_train(False)
    image, digit = images[1500].reshape(8, 8), int(labels[1500])

    def score(inputs: np.ndarray) -> np.ndarray:
        return network(Tensor(inputs.reshape(-1, 64).astype(np.float32))).numpy()[:, digit]

    def gradient(inputs: np.ndarray) -> np.ndarray:
        of = grad(lambda x: network(x)[:, digit].sum())(Tensor(inputs.reshape(-1, 64).astype(np.float32)))
        return of.numpy().reshape(inputs.shape)

    exact = saliency.integrated_gradients(gradient, image)
    print(f"a {digit}: the pixels explain {exact.sum():.3f} of {score(image[None])[0] - score(0 * image[None])[0]:.3f}")
    explained = [
        saliency.explain(score, image, method=method, gradient=gradient, sample="1500", target=f"digit {digit}")
        for method in ("integrated_gradients", "smooth_gradient", "occlusion", "rise")
    ]
    for one in explained:
        trust = f"area under deletion {one.deletion.area:6.2f}, faithfulness {one.faithfulness:.2f}"
        print(f"{one.method:<22} {trust}")

    x, y = Tensor(images[:256]), Tensor(labels[:256])
    parameters = dict(network.parameters_and_names())

    def loss(weights: landscape.Weights) -> float:
        for name, value in weights.items():
            parameters[name].set_data(Tensor(value))
        return float(ops.cross_entropy(network(x), y).numpy())

    with ms.open_store(url) as store:
        dumped = landscape.dumped_weights(store, monitor.run, blobs_of(url, monitor.run.id))
        found = landscape.surface(loss, landscape.along_path(dumped), resolution=9)
        landscape.write_surface(store, found, parent="digits")
        saliency.write_explanations(store, explained, parent="digits")
    print(f"landscape: the plane shows {sum(found.explained):.0%} of the way, loss {found.center_loss:.3f} at its end")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/")
