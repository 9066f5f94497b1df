"""Recurrent layers over time: one primitive runs all steps, another goes back through them.

A step is a matrix product and one pass over the elements. The product with the inputs does not depend on time, so it is
made once for all steps before the loop. Second derivatives are taken from the same recurrence composed of basic
operations, and so are the variants that have no kernel (other functions, clipped sums, a GRU whose reset comes first).

Weights and gates follow PyTorch: LSTM i, f, g, o; GRU r, z, n.

Reference:
    Hochreiter and Schmidhuber 1997 (LSTM); Gers et al. 2002 (peepholes); Cho et al. 2014, arXiv:1406.1078 (GRU).
"""

from .gru import compose_gru, gru_primitive
from .lstm import compose_lstm, lstm_primitive
from .rnn import compose_rnn, rnn_primitive

__all__ = ["compose_gru", "compose_lstm", "compose_rnn", "gru_primitive", "lstm_primitive", "rnn_primitive"]
