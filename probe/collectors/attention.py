"""Attention: how widely it looks, and how large its logits have grown."""

from ..quantities.attention import ATTENTION as COLUMNS
from .collector import array_collector

ATTENTION = array_collector(
    "attention",
    None,
    at="forward",
    columns=COLUMNS,
    rarity=10,
    doc="""Entropy of the attention weights and largest logit, of a sample of heads and queries at every call.

    Seen are `scaled_dot_product_attention` of torch and of the engine, and softmax over the last axis inside modules
    whose class is called after attention; the site is that of the innermost watched module. Calls inside of
    `torch.compile`, and inside of compiled functions of the engine, are not seen. At every tenth due step and in
    modules called after attention only, unless the configuration names it; a look costs about 0.1 ms a call. On an
    accelerator the numbers are made there, and read one step later.""",
)
