"""The operations, family by family; every name is a function of tensors."""

# One line a family, however long: the file is a catalogue, and one name a line would make it six hundred lines.
# fmt: off
# ruff: noqa: I001, RUF022

from .activation import attention_weights, gelu, log_softmax, relu, sigmoid, silu, softmax
from .create import arange, full, ones, ones_like, zeros, zeros_like
from .array import cast, expand_dims, flatten, identity, reshape, squeeze, stop_gradient, swapaxes, transpose
from .join import concat, split, stack
from .rows import gather, scatter_add
from .choose import masked_fill, where
from .attention import scaled_dot_product_attention
from .bitwise import bitcast, bitwise_and, bitwise_not, bitwise_or, bitwise_xor, left_shift, right_shift
from .compare import (
    argmax, argmin, equal, greater, greater_equal, isclose, isfinite, isinf, isnan, less, less_equal, logical_and,
    logical_not, logical_or, logical_xor, not_equal,
)
from .complex import complex, conj, imag, real
from .constructed import (
    diag, diag_embed, diagonal, empty, eye, full_like, linspace, logspace, meshgrid, one_hot, trace, tril, triu,
)
from .conv import conv1d, conv2d, conv3d
from .conv_transpose import conv_transpose1d, conv_transpose2d, conv_transpose3d
from .ctc import ctc_loss
from .cumulative import cummax, cummin, cumprod, cumsum, logcumsumexp
from .distributions import (
    bernoulli, categorical, gamma, gumbel, gumbel_softmax, laplace, multinomial, poisson, shuffle, truncated_normal,
)
from .index_along import embedding, index_add, index_fill, index_put, index_select, take
from .elements import gather_elements, take_along_axis
from .gather_nd import gather_nd, scatter_nd
from .scatter_elements import scatter_elements
from .fold import fold, unfold
from .fourier import (
    fft, fft2, fftfreq, fftn, fftshift, ifft, ifft2, ifftn, ifftshift, irfft, irfft2, rfft, rfft2, rfftfreq,
)
from .group_norm import group_norm, instance_norm, local_response_norm, mean_variance_norm, normalize
from .grouped import grouped_matmul
from .indexing import getitem, narrow
from .layout import (
    chunk, depth_to_space, expand, flip, moveaxis, permute, pixel_shuffle, ravel, repeat, roll, rot90, space_to_depth,
    tile, unflatten, unstack,
)
from .einsum import einsum
from .linalg import linear, matmul
from .loss import bce, bce_with_logits, kl_div, kl_divergence, mse, nll
from .cross_entropy import cross_entropy
from .margin_loss import (
    cosine_embedding_loss, cosine_similarity, hinge_embedding_loss, hinge_loss, margin_ranking_loss, multi_margin_loss,
    pairwise_distance, soft_margin_loss, triplet_margin_loss,
)
from .arithmetic import abs, add, divide, maximum, minimum, multiply, negative, reciprocal, sign, square, subtract
from .math import cos, exp, expm1, log, log1p, power, rsqrt, sin, sqrt, tanh
from .batch_norm import batch_norm, batch_norm_inference
from .norm import layer_norm, rms_norm
from .observe import observe
from .sort import argsort, kthvalue, median, quantile, sort, topk
from .counting import bincount, histogram, searchsorted
from .selection import masked_select, nonzero, unique
from .padding import pad
from .adaptive_pool import (
    adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d, adaptive_max_pool1d, adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from .avg_pool import avg_pool1d, avg_pool2d, avg_pool3d, global_avg_pool2d, lp_pool, sum_pool
from .max_pool import max_pool1d, max_pool2d, max_pool3d, max_pool_with_places, max_unpool
from .products import addmm, bmm, cross, dot, inner, kron, multi_dot, mv, outer, tensordot, vdot
from .quantize import (
    conv_integer, dequantize_linear, dynamic_quantize_linear, matmul_integer, qlinear_conv, qlinear_matmul,
    quantize_linear, spread_scales,
)
from .random import dropout, exponential, normal, permutation, randint, uniform
from .rectifier import (
    celu, elu, glu, hardshrink, hardsigmoid, hardswish, hardtanh, leaky_relu, logsigmoid, mish, prelu, relu6, selu,
    shrink, softplus, softshrink, softsign, swiglu, tanhshrink, threshold, thresholded_relu,
)
from .recurrent import gru, lstm, rnn
from .reduce import broadcast_to, max, mean, min, sum, sum_to, var
from .regression_loss import gaussian_nll_loss, huber_loss, l1_loss, poisson_nll_loss, smooth_l1_loss
from .resize import interpolate, resize
from .rounding import ceil, clip, float_power, floor, floor_divide, fmod, frac, remainder, round, trunc
from .sample import affine_grid, grid_sample
from .region_sample import deform_conv, roi_align
from .triangular import cholesky, cholesky_solve, triangular_solve
from .determinant import det, logdet, matrix_power, slogdet
from .solve import inv, solve
from .special import (
    cbrt, copysign, digamma, erf, erfc, erfinv, exp2, lerp, lgamma, log10, log2, logaddexp, logit, nan_to_num,
    polygamma, xlogy,
)
from .spectral import eigh, eigvalsh, qr, svd, svdvals
from .matrix_norm import lstsq, matrix_norm, norm, pinv
from .statistics import (
    all, amax, amin, any, count_nonzero, l1_norm, l2_norm, log_sum, logsumexp, nansum, prod, ptp, std, sum_square,
    var_mean, vector_norm,
)
from .trigonometry import acos, acosh, angle, asin, asinh, atan, atan2, atanh, cosh, deg2rad, hypot, rad2deg, sinh, tan

__all__ = [
    "abs", "acos", "acosh", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "add", "addmm", "affine_grid", "all", "amax", "amin", "angle", "any",
    "arange", "argmax", "argmin", "argsort", "asin", "asinh", "atan", "atan2", "atanh", "attention_weights",
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm", "batch_norm_inference", "bce", "bce_with_logits",
    "bernoulli", "bincount", "bitcast", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "bmm",
    "broadcast_to", "cast", "categorical", "cbrt", "ceil", "celu", "cholesky", "cholesky_solve", "chunk", "clip",
    "complex", "concat", "conj", "conv1d", "conv2d", "conv3d", "conv_integer", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "copysign", "cos", "cosh", "cosine_embedding_loss", "cosine_similarity", "count_nonzero",
    "cross", "cross_entropy", "ctc_loss", "cummax", "cummin", "cumprod", "cumsum", "deform_conv", "deg2rad",
    "depth_to_space", "dequantize_linear", "det", "diag", "diag_embed", "diagonal", "digamma", "divide", "dot",
    "dropout", "dynamic_quantize_linear", "eigh", "eigvalsh", "einsum", "elu", "embedding", "empty", "equal", "erf",
    "erfc", "erfinv", "exp", "exp2", "expand", "expand_dims", "expm1", "exponential", "eye", "fft", "fft2", "fftfreq",
    "fftn", "fftshift", "flatten", "flip", "float_power", "floor", "floor_divide", "fmod", "fold", "frac", "full",
    "full_like", "gamma", "gather", "gather_elements", "gather_nd", "gaussian_nll_loss", "gelu", "getitem",
    "global_avg_pool2d", "glu", "greater", "greater_equal", "grid_sample", "group_norm", "grouped_matmul", "gru",
    "gumbel", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hinge_embedding_loss",
    "hinge_loss", "histogram", "huber_loss", "hypot", "identity", "ifft", "ifft2", "ifftn", "ifftshift", "imag",
    "index_add", "index_fill", "index_put", "index_select", "inner", "instance_norm", "interpolate", "inv", "irfft",
    "irfft2", "isclose", "isfinite", "isinf", "isnan", "kl_div", "kl_divergence", "kron", "kthvalue", "l1_loss",
    "l1_norm", "l2_norm", "laplace", "layer_norm", "leaky_relu", "left_shift", "lerp", "less", "less_equal", "lgamma",
    "linear", "linspace", "local_response_norm", "log", "log10", "log1p", "log2", "log_softmax", "log_sum", "logaddexp",
    "logcumsumexp", "logdet", "logical_and", "logical_not", "logical_or", "logical_xor", "logit", "logsigmoid",
    "logspace", "logsumexp", "lp_pool", "lstm", "lstsq", "margin_ranking_loss", "masked_fill", "masked_select",
    "matmul", "matmul_integer", "matrix_norm", "matrix_power", "max", "max_pool1d", "max_pool2d", "max_pool3d",
    "max_pool_with_places", "max_unpool", "maximum", "mean", "mean_variance_norm", "median", "meshgrid", "min",
    "minimum", "mish", "moveaxis", "mse", "multi_dot", "multi_margin_loss", "multinomial", "multiply", "mv",
    "nan_to_num", "nansum", "narrow", "negative", "nll", "nonzero", "norm", "normal", "normalize", "not_equal",
    "observe", "one_hot", "ones", "ones_like", "outer", "pad", "pairwise_distance", "permutation", "permute", "pinv",
    "pixel_shuffle", "poisson", "poisson_nll_loss", "polygamma", "power", "prelu", "prod", "ptp", "qlinear_conv",
    "qlinear_matmul", "qr", "quantile", "quantize_linear", "rad2deg", "randint", "ravel", "real", "reciprocal", "relu",
    "relu6", "remainder", "repeat", "reshape", "resize", "rfft", "rfft2", "rfftfreq", "right_shift", "rms_norm", "rnn",
    "roi_align", "roll", "rot90", "round", "rsqrt", "scaled_dot_product_attention", "scatter_add", "scatter_elements",
    "scatter_nd", "searchsorted", "selu", "shrink", "shuffle", "sigmoid", "sign", "silu", "sin", "sinh", "slogdet",
    "smooth_l1_loss", "soft_margin_loss", "softmax", "softplus", "softshrink", "softsign", "solve", "sort",
    "space_to_depth", "split", "spread_scales", "sqrt", "square", "squeeze", "stack", "std", "stop_gradient",
    "subtract", "sum", "sum_pool", "sum_square", "sum_to", "svd", "svdvals", "swapaxes", "swiglu", "take",
    "take_along_axis", "tan", "tanh", "tanhshrink", "tensordot", "threshold", "thresholded_relu", "tile", "topk",
    "trace", "transpose", "triangular_solve", "tril", "triplet_margin_loss", "triu", "trunc", "truncated_normal",
    "unflatten", "unfold", "uniform", "unique", "unstack", "var", "var_mean", "vdot", "vector_norm", "where", "xlogy",
    "zeros", "zeros_like",
]
