"""Every optimizer as a slow formula in plain NumPy: the first witness of the contract."""

import numpy as np


def slow_sgd(w, g, state, step, *, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
    g = g + weight_decay * w
    if momentum == 0.0:
        return w - lr * g
    fresh = 1.0 if step == 1 else 1.0 - dampening
    buffer = state["momentum_buffer"] = momentum * state.get("momentum_buffer", 0.0 * g) + fresh * g
    return w - lr * (g + momentum * buffer if nesterov else buffer)


def slow_adam(w, g, state, step, *, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled=False):
    if decoupled:
        w = w * (1.0 - lr * weight_decay)
    else:
        g = g + weight_decay * w
    m = state["exp_avg"] = betas[0] * state.get("exp_avg", 0.0 * g) + (1.0 - betas[0]) * g
    v = state["exp_avg_sq"] = betas[1] * state.get("exp_avg_sq", 0.0 * g) + (1.0 - betas[1]) * g * g
    return w - lr * (m / (1.0 - betas[0] ** step)) / (np.sqrt(v / (1.0 - betas[1] ** step)) + eps)


def slow_adagrad(w, g, state, step, *, lr, lr_decay=0.0, eps=1e-10, weight_decay=0.0, initial_accumulator_value=0.0):
    g = g + weight_decay * w
    s = state["sum"] = state.get("sum", initial_accumulator_value + 0.0 * g) + g * g
    return w - lr / (1.0 + (step - 1) * lr_decay) * g / (np.sqrt(s) + eps)


def slow_rmsprop(w, g, state, step, *, lr, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False):
    g = g + weight_decay * w
    v = state["square_avg"] = alpha * state.get("square_avg", 0.0 * g) + (1.0 - alpha) * g * g
    mean = state["grad_avg"] = state.get("grad_avg", 0.0 * g)
    if centered:
        mean = state["grad_avg"] = alpha * mean + (1.0 - alpha) * g
    b = state["momentum_buffer"] = momentum * state.get("momentum_buffer", 0.0 * g) + g / (np.sqrt(v - mean**2) + eps)
    return w - lr * b


def slow_lion(w, g, state, step, *, lr, beta1=0.9, beta2=0.99, weight_decay=0.0):
    m = state.get("exp_avg", 0.0 * g)
    state["exp_avg"] = beta2 * m + (1.0 - beta2) * g
    return w - lr * (np.sign(beta1 * m + (1.0 - beta1) * g) + weight_decay * w)


def slow_lamb(w, g, state, step, *, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.0):
    m = state["exp_avg"] = beta1 * state.get("exp_avg", 0.0 * g) + (1.0 - beta1) * g
    v = state["exp_avg_sq"] = beta2 * state.get("exp_avg_sq", 0.0 * g) + (1.0 - beta2) * g * g
    r = m / (1.0 - beta1**step) / (np.sqrt(v / (1.0 - beta2**step)) + eps) + weight_decay * w
    lengths = np.sqrt(np.sum(w**2)), np.sqrt(np.sum(r**2))
    return w - lr * (lengths[0] / lengths[1] if min(lengths) > 0.0 else 1.0) * r


def slow_lars(w, g, state, step, *, lr, momentum=0.9, weight_decay=0.0, coefficient=1e-3, eps=1e-5):
    of_w, of_g = np.sqrt(np.sum(w**2)), np.sqrt(np.sum(g**2))
    local = coefficient * of_w / (of_g + weight_decay * of_w + eps) if min(of_w, of_g, coefficient) > 0.0 else 1.0
    b = state["momentum_buffer"] = momentum * state.get("momentum_buffer", 0.0 * g) + lr * local * (
        g + weight_decay * w
    )
    return w - b


def slow_adafactor(w, g, state, step, *, lr, decay_rate=0.8, d=1.0, weight_decay=0.0):
    """PyTorch's factoring of the last two axes, written with explicit sums over rows and columns."""
    tiny, least_weight = np.finfo(np.float64).eps, 1e-3
    new = step**-decay_rate
    rate = max(least_weight, np.sqrt(np.mean(w**2))) * min(lr, step**-0.5)
    if w.ndim < 2:
        state.update(row_var=np.zeros(0), col_var=np.zeros(0))
        estimate = state["variance"] = (1 - new) * state.get("variance", 0.0 * g) + new * g**2
    else:
        state["variance"] = np.zeros(0)
        rows = state["row_var"] = (1 - new) * state.get("row_var", 0.0) + new * np.sum(g**2, -1) / g.shape[-1]
        columns = state["col_var"] = (1 - new) * state.get("col_var", 0.0) + new * np.sum(g**2, -2) / g.shape[-2]
        estimate = np.einsum("...r,...c->...rc", rows, columns) / np.maximum(rows.mean(-1), tiny)[..., None, None]
    update = g / np.sqrt(np.maximum(estimate, tiny**2))
    update = update / max(1.0, np.sqrt(np.mean(update**2)) / d)
    return w * (1.0 - lr * weight_decay) - rate * update


def slow_muon(w, g, state, step, *, lr, momentum=0.95, weight_decay=0.1, nesterov=True, ratio=None):
    if w.ndim < 2:
        return slow_adam(w, g, state, step, lr=lr, betas=(0.9, 0.95), weight_decay=weight_decay, decoupled=True)
    state["exp_avg_sq"] = np.zeros(0)
    b = state["exp_avg"] = momentum * state.get("exp_avg", 0.0 * g) + (1.0 - momentum) * g
    ahead = (momentum * b + (1.0 - momentum) * g) if nesterov else b
    u, s, v = np.linalg.svd(ahead.reshape(len(w), -1), full_matrices=False)
    s = s / np.sqrt(np.sum(s**2))
    for _ in range(5):  # the polynomial of the iteration acts on the singular values alone
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    rows, columns = len(w), w.size // len(w)
    scale = 0.2 * np.sqrt(max(rows, columns)) if ratio is None else ratio(rows, columns)
    return w * (1.0 - lr * weight_decay) - lr * scale * ((u * s) @ v).reshape(w.shape)
