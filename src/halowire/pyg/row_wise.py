"""Functions of torch that work on each row by itself, told by their names."""

from __future__ import annotations

from functools import cache

import torch

ALIASES = {
    "absolute", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "concat", "divide", "erf",
    "fix", "floor_divide", "greater", "greater_equal", "less", "less_equal", "multiply", "negative", "not_equal",
    "subtract", "true_divide", "truediv", "floordiv", "mod", "and", "or", "xor", "invert", "lshift", "rshift", "pos",
    "special_expit", "special_logit", "special_exp2", "special_expm1", "special_erf", "special_erfc",
    "special_erfinv", "special_log1p", "special_xlogy", "special_gammaln", "special_digamma", "special_psi",
    "special_sinc", "ldexp", "isclose", "isreal", "square", "where", "ne", "eq", "hardswish", "softsign",
    "tanhshrink", "logsigmoid", "log_sigmoid", "hardtanh", "alpha_dropout", "dropout", "feature_dropout",
    "native_dropout", "float_power", "fill", "zero", "bernoulli", "masked_fill", "rrelu", "_threshold", "complex",
    "polar", "conj", "real", "imag", "data", "grad", "broadcast_tensors", "copy", "set",
}  # fmt: skip
"""Functions of one entry of each tensor at a time that torch does not tag as such: other names, and compositions."""
LIKE = {
    "clone", "contiguous", "to", "type", "type_as", "float", "double", "half", "bfloat16", "long", "int", "short",
    "char", "byte", "bool", "cpu", "cuda", "detach", "requires_grad", "pin_memory", "alias", "resolve_conj",
    "resolve_neg", "as_subclass", "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like",
    "randint_like", "positive", "__deepcopy__", "__copy__", "softmax", "log_softmax", "softmin", "_softmax",
    "_log_softmax", "gumbel_softmax", "normalize", "sort", "argsort", "topk", "cumsum", "cumprod", "logcumsumexp",
    "cummax", "cummin", "diff", "gather", "scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy",
    "index_fill", "index_reduce", "index_put", "take_along_dim", "masked_scatter", "layer_norm", "rms_norm",
    "batch_norm", "instance_norm", "group_norm", "prelu", "glu", "linear", "bilinear", "one_hot", "multinomial",
    "tensordot", "pad", "flip", "roll", "fliplr", "renorm", "split", "chunk", "tensor_split", "split_with_sizes",
    "narrow", "index_select", "dropout1d", "dropout2d", "dropout3d", "repeat_interleave", "constant_pad_nd", "celu",
    "exponential", "normal", "uniform", "bucketize", "cross_entropy", "nll_loss", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "gaussian_nll_loss", "cosine_embedding_loss",
    "triplet_margin_loss", "triplet_margin_with_distance_loss", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell",
    "lstm_cell", "detach_copy", "embedding", "cross", "linalg_cross", "unfold", "view_as_complex", "view_as_real",
}  # fmt: skip
"""Functions whose result has its rows along the dimensions along which their arguments have them."""
BATCHED = {
    "conv1d": 3, "conv2d": 4, "conv3d": 5, "conv_transpose1d": 3, "conv_transpose2d": 4, "conv_transpose3d": 5,
    "avg_pool1d": 3, "avg_pool2d": 4, "avg_pool3d": 5, "max_pool1d": 3, "max_pool2d": 4, "max_pool3d": 5,
    "_max_pool1d": 3, "_max_pool2d": 4, "_max_pool3d": 5, "max_pool1d_with_indices": 3, "max_pool2d_with_indices": 4,
    "adaptive_avg_pool1d": 3, "adaptive_avg_pool2d": 4, "adaptive_avg_pool3d": 5, "adaptive_max_pool1d": 3,
    "adaptive_max_pool2d": 4, "_adaptive_max_pool1d": 3, "lp_pool1d": 3, "lp_pool2d": 4, "interpolate": 3,
    "local_response_norm": 3, "det": 3, "inverse": 3, "linalg_inv": 3, "linalg_det": 3, "linalg_solve": 3,
    "linalg_svd": 3, "linalg_eigh": 3, "linalg_qr": 3, "linalg_cholesky": 3, "matrix_exp": 3, "linalg_matrix_norm": 3,
    "trace": 3, "tril": 3, "triu": 3, "diagonal": 3,
}  # fmt: skip
"""Functions with a batch of matrices or signals, and the dimensions that these then have: rows may be the batch."""
POINTWISE_LOSSES = {
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss", "l1_loss", "smooth_l1_loss",
    "huber_loss", "kl_div", "poisson_nll_loss", "margin_ranking_loss", "hinge_embedding_loss", "soft_margin_loss",
}  # fmt: skip
"""Losses with a value for each entry of their arguments."""


@cache
def base_name(name: str) -> str:
    """The name of a function without what says that it is an operator, turned round, or changes its tensor."""
    if not (name.startswith("__") and name.endswith("__")):
        return name.removesuffix("_")
    bare = name[2:-2]
    for start in ("", "r", "i"):
        if bare.startswith(start) and is_pointwise(bare.removeprefix(start)):
            return bare.removeprefix(start)
    return "matmul" if bare == "matmul" else name


@cache
def is_pointwise(name: str) -> bool:
    """Whether an entry of the result of ``name`` depends on one entry of each argument, broadcast to one shape."""
    if name in ALIASES or name in POINTWISE_LOSSES:
        return True
    found = getattr(torch.ops.aten, name, None)
    overloads = found.overloads() if found is not None and hasattr(found, "overloads") else ()
    return any(torch.Tag.pointwise in getattr(found, overload).tags for overload in overloads)
