"""What values the attributes of ops may have, by name: one meaning each, wherever an op has them.

Lengths and what depends on shapes is the business of type rules. The standard leaves much of this unsaid;
where it does, what ONNX Runtime refuses is refused, and a test compares the two for every attribute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tensmith.errors import ProgramError

_LARGEST = 2**31 - 1  # kernels count in 32 bits


@dataclass(frozen=True)
class Domain:
    """Values that an attribute may have, in words, and the test of one number or text."""

    words: str
    holds: Callable[[Any], bool]


def one_of(*values: Any) -> Domain:
    """Just these."""
    return Domain(f"one of {', '.join(map(str, values))}", lambda value: value in values)


POSITIVE = Domain("positive", lambda value: 0 < value <= _LARGEST)
NON_NEGATIVE = Domain("not negative", lambda value: 0 <= value <= _LARGEST)
POSITIVE_NUMBER = Domain("a positive number", lambda value: value > 0 and math.isfinite(value))
ODD = Domain("positive and odd", lambda value: 0 < value <= _LARGEST and value % 2 == 1)
FLAG = one_of(0, 1)

_FLAGS = (
    "allowzero", "antialias", "ceil_mode", "count_include_pad", "detect_negative", "detect_positive",
    "exclude_outside", "exclusive", "fmod", "input_forget", "interleaved", "is_causal", "keepdims",
    "largest", "layout", "linear_before_reset", "noop_with_empty_axes", "reverse", "saturate",
    "select_last_index", "sorted", "storage_order", "training_mode", "transA", "transB", "upper",
)  # fmt: skip
_POSITIVE = (
    "K", "N", "blocksize", "dilations", "group", "hidden_size", "kernel_shape", "kv_num_heads",
    "num_groups", "num_heads", "num_outputs", "p", "q_num_heads", "strides",
)  # fmt: skip
_BY_NAME: Mapping[str, Domain] = {
    **dict.fromkeys(_FLAGS, FLAG),
    **dict.fromkeys(_POSITIVE, POSITIVE),
    **dict.fromkeys(
        ("batch_dims", "block_size", "output_padding", "pads", "rotary_embedding_dim"), NON_NEGATIVE
    ),
    "auto_pad": one_of("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "keep_aspect_ratio_policy": one_of("stretch", "not_larger", "not_smaller"),
    "softcap": Domain("not negative", lambda value: value >= 0 and math.isfinite(value)),
    "softmax_precision": one_of(1, 10, 11, 16),
    "approximate": one_of("none", "tanh"),
    "direction": one_of("forward", "reverse", "bidirectional"),
    "round_mode": one_of("up", "down", "nearest"),
}
# Op and attribute, where the name alone does not tell.
_OF_OP: Mapping[tuple[str, str], Domain] = {
    ("attention", "scale"): POSITIVE_NUMBER,
    ("bit_shift", "direction"): one_of("LEFT", "RIGHT"),
    ("celu", "alpha"): POSITIVE_NUMBER,
    ("resize", "mode"): one_of("nearest", "linear", "cubic"),
    ("resize", "cubic_coeff_a"): Domain("from -1000 to 1000", lambda value: -1000 <= value <= 1000),
    ("depth_to_space", "mode"): one_of("DCR", "CRD"),
    ("lp_normalization", "p"): one_of(1, 2),
    ("lp_pool", "p"): Domain("from 1 to 1024", lambda value: 1 <= value <= 1024),
    ("global_lp_pool", "p"): Domain("from 1 to 1024", lambda value: 1 <= value <= 1024),
    ("lrn", "alpha"): POSITIVE_NUMBER,
    ("lrn", "beta"): POSITIVE_NUMBER,
    ("lrn", "size"): ODD,
    ("pad", "mode"): one_of("constant", "reflect", "edge", "wrap"),
    ("space_to_depth", "mode"): one_of("DCR", "CRD"),
}


def check_attributes(op: str, attrs: Mapping[str, Any]) -> None:
    """ProgramError naming the first attribute of a use of `op` that is outside its domain."""
    for name, value in attrs.items():
        domain = _OF_OP.get((op, name)) or _BY_NAME.get(name)
        if domain is None or value is None:
            continue
        for item in value if isinstance(value, tuple) else (value,):
            if not _holds(domain, item):
                raise ProgramError(f"its attribute {name} is {value!r}, and must be {domain.words}")


def _holds(domain: Domain, item: Any) -> bool:
    try:
        return bool(domain.holds(item))
    except TypeError:  # another kind of value, as a text where a number belongs
        return False
