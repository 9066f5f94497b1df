"""What every process of the benchmark needs: loaded once in the server that forks them, not once in each.

torch loads its compiler for DistributedDataParallel, and scikit-learn brings scipy: five seconds together.
"""

import mindscope.insight
import mindscope.probe.kernels.cpu
import mindscope.storage
import mindscope.watching
import sklearn.datasets
import torch._dynamo
import torch.distributed
from mindscope.framework.optim import update_kernels

from . import cases

__all__ = ["cases", "mindscope", "sklearn", "torch", "update_kernels"]
