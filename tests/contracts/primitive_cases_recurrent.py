"""Calls of the recurrent primitives, with sequences of different lengths."""

import numpy as np

from tests.contracts.primitive_case import Case, real
from tests.contracts.recurrent_formulas import gradient_of, gru, lstm, rnn

_T, _B, _H = 3, 2, 2
_LENGTHS = np.array([3, 2])
_FULL = np.array([3, 3])


def _small(*shape):
    return real(*shape) * 0.6


def _rnn(lengths):
    return _small(_T, _B, _H), _small(_H, _H), _small(_B, _H), lengths


def _gru(lengths):
    return _small(_T, _B, 3 * _H), _small(3 * _H, _H), _small(3 * _H), _small(_B, _H), lengths


def _lstm(lengths):
    return (
        _small(_T, _B, 4 * _H),
        _small(4 * _H, _H),
        _small(3, _H),
        _small(_B, _H),
        _small(_B, _H),
        lengths,
    )


def _back(layer, args, outputs, inputs, saved, **attributes):
    found = layer(*args, **attributes)
    weights = [_small(*x.shape) for x in found[:outputs]]
    return Case(
        (*weights, *args, *(found[i] for i in saved)), gradient_of(layer, outputs, inputs), attributes, rtol=1e-7
    )


CASES: dict[str, list[Case]] = {
    "gru": [Case(_gru(lengths), gru) for lengths in (_LENGTHS, _FULL)],
    "gru_gradient": [_back(gru, _gru(_LENGTHS), 2, 4, (0, 2))],
    "lstm": [Case(_lstm(lengths), lstm) for lengths in (_LENGTHS, _FULL)],
    "lstm_gradient": [_back(lstm, _lstm(_LENGTHS), 3, 5, (0, 3))],
    "rnn": [Case(_rnn(lengths), rnn, {"is_relu": r}) for lengths, r in ((_LENGTHS, False), (_FULL, True))],
    "rnn_gradient": [
        _back(rnn, _rnn(_LENGTHS), 2, 3, (0,), is_relu=False),
        _back(rnn, _rnn(_FULL), 2, 3, (0,), is_relu=True),
    ],
}

#: All of them have a gradient.
SILENT: set[str] = set()
