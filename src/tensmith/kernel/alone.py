"""A kernel as a library of its own, which repeats it on buffers as a network would: what tuning times."""

from __future__ import annotations

from tensmith.files import sha256_bytes
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.toolchain import build_version

ENTRY = "repeat"

_REPEAT = f"""
/* Calls `first` to `first + count - 1`; call i takes the i-th of so many copies of the weights, in turns. */
__attribute__((visibility("default")))
void {ENTRY}(long first, long count, long copies, long step, const void *in, const char *weights,
        const float *constants, void *out, void *scratch)
{{
    for (long i = first; i < first + count; i++)
        kernel(in, weights + i % copies * step, constants, 0, out, scratch);
}}
"""


def text_alone(kernel: Kernel) -> str:
    """The C text of a library that exports ENTRY; the kernel adds a bias, its buffers are the least it needs.

    Residuals and activations are left out: they cost every kernel of a problem the same.
    """
    return kernel.isa.prelude + _function(kernel) + _REPEAT


def _function(kernel: Kernel) -> str:
    return kernel.code("kernel", kernel.source, kernel.target, Epilogue(bias=True))


def code_version(kernel: Kernel) -> str:
    """A hash of the kernel's C text, its compiler and its flags: another one has to be timed anew."""
    return sha256_bytes("\0".join((build_version(kernel.isa), text_alone(kernel))).encode())[:32]


def function_version(kernel: Kernel) -> str:
    """A hash of the kernel's own C function: what stays the same under other compilers and preludes."""
    return sha256_bytes(_function(kernel).encode())[:12]
