"""libdevice and ocml functions over numpy arrays, by name without prefix and type suffix."""

import re

import numpy as np
import torch


def through_torch(function):
    def call(*args):
        tensors = [torch.from_numpy(np.ascontiguousarray(a)) for a in np.broadcast_arrays(*args)]
        return function(*tensors).numpy()

    return call


def special(name):
    return through_torch(getattr(torch.special, name))


# fmt: off
FUNCTIONS = {
    "abs": np.abs, "fabs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
    "atan": np.arctan, "atan2": np.arctan2, "atanh": np.arctanh, "cbrt": np.cbrt, "ceil": np.ceil,
    "copysign": np.copysign, "cos": np.cos, "cosh": np.cosh, "cospi": lambda x: np.cos(np.pi * x),
    "div_rn": np.divide, "div_rz": np.divide,
    "erf": special("erf"), "erfc": special("erfc"), "erfcx": special("erfcx"), "erfinv": special("erfinv"),
    "exp": np.exp, "exp10": lambda x: np.power(x.dtype.type(10), x), "exp2": np.exp2, "expm1": np.expm1,
    "fdim": lambda x, y: np.maximum(x - y, 0), "floor": np.floor, "fma": lambda x, y, z: x * y + z, "fmax": np.fmax,
    "fmin": np.fmin, "fmod": np.fmod, "hypot": np.hypot, "isnan": np.isnan, "isinf": np.isinf, "isfinited": np.isfinite,
    "finite": np.isfinite, "ldexp": np.ldexp, "lgamma": special("gammaln"), "log": np.log,
    "log10": np.log10, "log1p": np.log1p, "log2": np.log2, "logb": lambda x: np.floor(np.log2(np.abs(x))),
    "max": np.maximum, "min": np.minimum, "mul_rn": np.multiply, "add_rn": np.add, "sub_rn": np.subtract,
    "nearbyint": np.rint, "nextafter": np.nextafter, "normcdf": special("ndtr"), "normcdfinv": special("ndtri"),
    "pow": np.power, "powi": np.power, "rcp_rn": np.reciprocal, "remainder": lambda x, y: x - y * np.rint(x / y),
    "rint": np.rint, "round": lambda x: np.trunc(x + np.copysign(0.5, x)), "rsqrt": lambda x: 1 / np.sqrt(x),
    "saturate": lambda x: np.clip(x, 0, 1), "signbit": np.signbit, "sin": np.sin, "sinh": np.sinh,
    "sinpi": lambda x: np.sin(np.pi * x), "sqrt": np.sqrt, "sqrt_rn": np.sqrt, "tan": np.tan, "tanh": np.tanh,
    "tgamma": through_torch(lambda x: torch.lgamma(x).exp()), "trunc": np.trunc,
    "j0": special("bessel_j0"), "j1": special("bessel_j1"), "cyl_bessel_i0": special("i0"),
    "cyl_bessel_i1": special("i1"),
    "popc": lambda x: np.bitwise_count(x),  # noqa: PLW0108  # numpy 1 has none
    "mulhi": lambda x, y: (x.astype(np.int64) * y >> 32).astype(x.dtype),
    "fast_exp": np.exp, "fast_log": np.log, "fast_sin": np.sin, "fast_cos": np.cos, "fast_tan": np.tan,
    "fast_pow": np.power, "fast_log2": np.log2, "fast_log10": np.log10, "fast_divide": np.divide, "fast_tanh": np.tanh,
    "fast_exp10": lambda x: np.power(x.dtype.type(10), x), "float_as_int": lambda x: x.view(np.int32),
    "int_as_float": lambda x: x.view(np.float32), "llrint": np.rint, "llround": np.round,
}
# fmt: on


def find(symbol):
    """numpy function for __nv_tanhf, __nv_fast_expf, __ocml_tanh_f32, ...; None where it is not known."""
    name = re.sub(r"^__(nv|ocml)_", "", symbol)
    name = re.sub(r"_(f32|f64|f16)$", "", name)
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if name.endswith("f") and name[:-1] in FUNCTIONS:
        return FUNCTIONS[name[:-1]]
    return None
