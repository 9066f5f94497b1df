"""Attention: how widely it looks, and how large its logits have grown."""

from ..quantities.attention import ATTENTION as COLUMNS
from .collector import array_collector

ATTENTION = array_collector(
    "attention",
    None,
    at="forward",
    columns=COLUMNS,
    rarity=10,
    doc="""Mean entropy of the attention weights (`entropy_min`: that of the head with the least), its share of the
    largest possible and the largest logit at every call: of one sample of the batch, another at every step in turn, and
    of at most 16 heads and 16 queries of it.

    Seen are `scaled_dot_product_attention` of torch and of the engine, and softmax over the last axis inside modules
    whose class is called after attention; the site is that of the innermost watched module. Calls inside of
    `torch.compile`, and inside of compiled functions of the engine, are not seen. At every tenth due step and in
    modules called after attention only, unless the configuration names it; a look costs about 0.1 ms a call. On an
    accelerator the numbers are made there, and read one step later.""",
)
