"""What the inputs and targets of two occasions tell together."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from .check_result import CheckResult
from .constant_inputs import inputs_vary
from .model_call import ModelCall, has_same_tensors
from .noise_levels import NoisyBatch, noise_is_what_samplers_start_from, noisy_batches


@dataclass(slots=True)
class EarlierInputs:
    """The inputs of each network at the occasions so far.

    Attributes:
        tensors: Those of the newest occasion, by the network's site and their names.
        noisy: Those that may be data with noise, of all occasions.
    """

    tensors: dict[str, dict[str, torch.Tensor]] = field(default_factory=dict)
    noisy: dict[tuple[str, str], list[NoisyBatch]] = field(default_factory=dict)

    def compare(self, site: str, call: ModelCall, targets: Sequence[torch.Tensor]) -> tuple[list[CheckResult], bool]:
        """Return what a call tells beside those before it, and whether its batch is that of the newest one.

        Args:
            targets: What the outputs are compared with.
        """
        earlier = self.tensors.get(site)
        results = list(inputs_vary(call, earlier or {}, targets))
        tensors = call.tensors()
        is_same_batch = has_same_tensors(earlier, tensors)
        self.tensors[site] = tensors
        for batch in [] if is_same_batch else noisy_batches(tensors, targets):
            batches = self.noisy.setdefault((site, batch.name), [])
            batches.append(batch)
            results += noise_is_what_samplers_start_from(batches)
        return results, is_same_batch

    def clear(self) -> None:
        """Forget all batches."""
        self.tensors.clear()
        self.noisy.clear()
