"""The operations, family by family; every name is a function of tensors."""

# One line a family, however long: the file is a catalogue, and one name a line would make it six hundred lines.
# fmt: off
# ruff: noqa: I001, RUF022

from .activation_ops import attention_weights, gelu, log_softmax, relu, sigmoid, silu, softmax
from .create import arange, full, ones, ones_like, zeros, zeros_like
from .layout import (
    cast, chunk, concat, depth_to_space, expand, expand_dims, flatten, flip, identity, moveaxis, permute,
    pixel_shuffle, ravel, repeat, reshape, roll, rot90, space_to_depth, split, squeeze, stack, stop_gradient,
    swapaxes, tile, transpose, unflatten, unstack,
)
from .gather_scatter import (
    embedding, gather, gather_elements, gather_nd, index_add, index_fill, index_put, index_select, scatter_add,
    scatter_elements, scatter_nd, take, take_along_axis,
)
from .logic_ops import (
    argmax, argmin, bitcast, bitwise_and, bitwise_not, bitwise_or, bitwise_xor, equal, greater, greater_equal,
    isclose, isfinite, isinf, isnan, left_shift, less, less_equal, logical_and, logical_not, logical_or,
    logical_xor, masked_fill, not_equal, right_shift, where,
)
from .attention_ops import scaled_dot_product_attention
from .complex import complex, conj, imag, real
from .constructed import (
    diag, diag_embed, diagonal, empty, eye, full_like, linspace, logspace, meshgrid, one_hot, trace, tril, triu,
)
from .convolution_ops import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
from .class_losses import bce, bce_with_logits, cross_entropy, ctc_loss, kl_div, kl_divergence, mse, nll
from .cumulative import cummax, cummin, cumprod, cumsum, logcumsumexp
from .random_ops import (
    bernoulli, categorical, dropout, exponential, gamma, gumbel, gumbel_softmax, laplace, multinomial, normal,
    permutation, poisson, randint, shuffle, truncated_normal, uniform,
)
from .fold import fold, unfold
from .fourier import (
    fft, fft2, fftfreq, fftn, fftshift, ifft, ifft2, ifftn, ifftshift, irfft, irfft2, rfft, rfft2, rfftfreq,
)
from .normalization_ops import (
    batch_norm, batch_norm_inference, group_norm, instance_norm, layer_norm, local_response_norm,
    mean_variance_norm, normalize, rms_norm,
)
from .matrix_products import (
    addmm, bmm, cross, dot, grouped_matmul, inner, kron, linear, matmul, multi_dot, mv, outer, tensordot, vdot,
)
from .indexing_ops import getitem, narrow, pad
from .einsum import einsum
from .distance_losses import (
    cosine_embedding_loss, cosine_similarity, gaussian_nll_loss, hinge_embedding_loss, hinge_loss, huber_loss,
    l1_loss, margin_ranking_loss, multi_margin_loss, pairwise_distance, poisson_nll_loss, smooth_l1_loss,
    soft_margin_loss, triplet_margin_loss,
)
from .arithmetic_ops import abs, add, divide, maximum, minimum, multiply, negative, reciprocal, sign, square, subtract
from .transcendental import (
    acos, acosh, angle, asin, asinh, atan, atan2, atanh, cos, cosh, deg2rad, exp, expm1, hypot, log, log1p, power,
    rad2deg, rsqrt, sin, sinh, sqrt, tan, tanh,
)
from .observe import observe
from .ordering import (
    argsort, bincount, histogram, kthvalue, masked_select, median, nonzero, quantile, searchsorted, sort, topk,
    unique,
)
from .pooling_ops import (
    adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d, adaptive_max_pool1d, adaptive_max_pool2d,
    adaptive_max_pool3d, avg_pool1d, avg_pool2d, avg_pool3d, global_avg_pool2d, lp_pool, max_pool1d, max_pool2d,
    max_pool3d, max_pool_with_places, max_unpool, sum_pool,
)
from .quantization import (
    conv_integer, dequantize_linear, dynamic_quantize_linear, matmul_integer, qlinear_conv, qlinear_matmul,
    quantize_linear, spread_scales,
)
from .rectifier import (
    celu, elu, glu, hardshrink, hardsigmoid, hardswish, hardtanh, leaky_relu, logsigmoid, mish, prelu, relu6, selu,
    shrink, softplus, softshrink, softsign, swiglu, tanhshrink, threshold, thresholded_relu,
)
from .recurrent_ops import gru, lstm, rnn
from .reduce import broadcast_to, max, mean, min, sum, sum_to, var
from .interpolation import interpolate, resize
from .rounding_ops import ceil, clip, float_power, floor, floor_divide, fmod, frac, remainder, round, trunc
from .image_sampling import affine_grid, deform_conv, grid_sample, roi_align
from .linear_systems import cholesky, cholesky_solve, det, inv, logdet, matrix_power, slogdet, solve, triangular_solve
from .special_functions import (
    cbrt, copysign, digamma, erf, erfc, erfinv, exp2, lerp, lgamma, log10, log2, logaddexp, logit, nan_to_num,
    polygamma, xlogy,
)
from .decompositions import eigh, eigvalsh, lstsq, matrix_norm, norm, pinv, qr, svd, svdvals
from .statistical_ops import (
    all, amax, amin, any, count_nonzero, l1_norm, l2_norm, log_sum, logsumexp, nansum, prod, ptp, std, sum_square,
    var_mean, vector_norm,
)

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
