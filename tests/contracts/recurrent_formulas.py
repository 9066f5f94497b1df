"""What NumPy says that recurrent layers compute: one row, one step at a time, by the formulas of the papers."""

import numpy as np

from tests.contracts.numpy_formulas import jacobian_product, sigmoid


def _rows(gates, lengths, first, step):
    """Outputs and last states; `step(x, states)` gives the new states, the first of which is the output."""
    width = first[0].shape[1]
    y = np.zeros((*gates.shape[:2], width))
    last = [x.copy() for x in first]
    history = [[None] * gates.shape[1] for _ in range(gates.shape[0])]
    for b in range(gates.shape[1]):
        for t in range(int(lengths[b])):
            new, saved = step(gates[t, b], [x[b] for x in last])
            for state, value in zip(last, new, strict=True):
                state[b] = value
            y[t, b] = new[0]
            history[t][b] = saved
    return y, last, history


def rnn(gates, w, h0, lengths, is_relu):
    f = (lambda x: np.maximum(x, 0)) if is_relu else np.tanh
    y, (h,), _ = _rows(gates, lengths, [h0], lambda x, s: ([f(x + w @ s[0])], None))
    return y, h


def gru(gates, w, bias, h0, lengths):
    def step(x, states):
        h, width = states[0], h0.shape[1]
        p = w @ h + bias
        r, z = sigmoid(x[:width] + p[:width]), sigmoid(x[width : 2 * width] + p[width : 2 * width])
        n = np.tanh(x[2 * width :] + r * p[2 * width :])
        return [(1 - z) * n + z * h], np.concatenate([r, z, n, p[2 * width :]])

    y, (h,), history = _rows(gates, lengths, [h0], step)
    states = np.zeros((*y.shape[:2], 4 * y.shape[2]))
    for t, b in np.ndindex(states.shape[:2]):
        if history[t][b] is not None:
            states[t, b] = history[t][b]
    return y, h, states


def lstm(gates, w, peephole, h0, c0, lengths):
    def step(x, states):
        h, c = states
        i, f, g, o = np.split(x + w @ h, 4)
        i, f = sigmoid(i + peephole[0] * c), sigmoid(f + peephole[1] * c)
        g = np.tanh(g)
        new = f * c + i * g
        o = sigmoid(o + peephole[2] * new)
        return [o * np.tanh(new), new], np.concatenate([i, f, g, o, new])

    y, (h, c), history = _rows(gates, lengths, [h0, c0], step)
    states = np.zeros((*y.shape[:2], 5 * y.shape[2]))
    cell = c0.copy()
    for t, b in np.ndindex(states.shape[:2]):
        if history[t][b] is not None:
            states[t, b] = history[t][b]
            cell[b] = states[t, b, -y.shape[2] :]
        states[t, b, -y.shape[2] :] = cell[b]
    return y, h, c, states


def gradient_of(layer, outputs, inputs):
    """The gradients by the first `inputs` arguments of the weighted sum of the first `outputs` outputs."""

    def gradients(*args, **attributes):
        weights, rest = args[:outputs], args[outputs:]

        def total(*varied):
            found = layer(*varied, *rest[inputs : -_SAVED[layer]], **attributes)
            return np.asarray(sum((g * y).sum() for g, y in zip(weights, found, strict=False)))

        return tuple(jacobian_product(total, i)(1.0, *rest[:inputs]) for i in range(inputs))

    return gradients


#: How many of the gradient primitive's last arguments are what the forward one has saved.
_SAVED = {rnn: 1, gru: 2, lstm: 2}
