"""Attention: how widely it looks, and how large its logits have grown."""

from ..collector import array_collector
from ..quantities.attention import ATTENTION as COLUMNS

ATTENTION = array_collector(
    "attention",
    None,
    at="forward",
    columns=COLUMNS,
    is_optional=True,
    doc="""Entropy of the attention weights and largest logit, of a sample of heads and queries at every call.

    Seen are `scaled_dot_product_attention` of torch and of the engine, and softmax over the last axis inside modules
    whose class is called after attention; the site is that of the innermost watched module. Calls inside of
    `torch.compile`, and inside of compiled functions of the engine, are not seen. Off unless the configuration names
    it.""",
)
