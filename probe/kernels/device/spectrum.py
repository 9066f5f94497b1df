"""Power iteration where a matrix lies; nothing waits for the device."""

from typing import Any

import torch


@torch.no_grad()
def iterate_on_device(matrix: Any, vector: Any, times: int) -> tuple[Any, Any]:
    """`(2,)` float64 on the device: an estimate of the largest singular value, and the squared Frobenius norm; and the
    vector to go on from.

    Args:
        matrix: `(m, n)` real.
        vector: `(n,)` NumPy's, to begin with, or what was given back before; one that is not finite begins anew.
        times: Iterations.
    """
    held = matrix.detach()
    wide = held if held.dtype in (torch.float32, torch.float64) else held.to(torch.float32)
    vector = vector if isinstance(vector, torch.Tensor) else torch.from_numpy(vector).to(wide.device, wide.dtype)
    vector = torch.nan_to_num(vector, 1.0, 1.0, 1.0)
    for _ in range(times):
        left = wide @ (vector / _norm_or_one(vector))
        left = left / _norm_or_one(left)
        vector = wide.T @ left
    square = wide.to(torch.float64).square().sum()
    return torch.stack([vector.norm().to(torch.float64), square]), vector


def _norm_or_one(vector: Any) -> Any:
    norm = vector.norm()
    return torch.where(norm == 0.0, 1.0, norm)
