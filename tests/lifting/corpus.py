"""The corpus that judges lifting: which kernels must lift, which must not, and where their sources are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

KERNELS = Path(__file__).resolve().parent / "kernels"

SUITES = {
    "blend": "normal_blend_f normal_blend_8 linear_dodge_8 linear_burn_8 multiply_blend_8 screen_blend_8 "
    "darken_blend_8 lighten_blend_8 color_burn_8 color_dodge_8 overlay_blend_8 dissolve_blend_8",
    "llama": "rmsnorm_part1 rmsnorm_part2 softmax_part1 softmax_part2 softmax_part3 softmax_part4 "
    "transformer_part1 transformer_part2 transformer_part3 transformer_part4 matmul",
    "blas": "dot gemv",
    "darknet": "mag_array mse_array sum_array scale_array translate_array mult_add_into_cpu ol_l2_cpu1 "
    "ol_l2_cpu2 matrix_add_matrix scale_matrix",
    "utdsp": "fir_small lmsfir1 lmsfir2",
    "dsp": "vadd vsub vmul vcopy vneg voffset vrecip vscal wvec matadd matsub matscal",
    "dspstone": "mat1x3 n_real_updates",
    "makespeare": "sum_of_squares",
    "mathfu": "len len_sq negate pluseq subeq muleq diveq subeq_sca muleq_sca diveq_sca matmul_sca",
    "simpl_array": "array_inc array_sum cube_in_place fourth_in_place sum_elts",
}
FURTHER = {
    "vectors": "matinit vfill pin_down histogram_clear lerp ger",
    "matrices": "gemm_nn gemm_nt gemm_tn gemm_tt matmul mult_big matrix1 matrix2 dct",
    "structs": "vec_add_sub mat_add scale_columns scale_columns_by_value mat_mul spread_rows ttv mttkrp "
    "vec_mul vec_add_four",
}
POLYBENCH = {
    "linear_algebra": "k2mm k3mm atax bicg doitgen gemm gemver gesummv mvt",
    "triangular": "symm syrk syr2k trmm",
    "statistics": "correlation covariance",
}
OWN = {
    "stencils": "jacobi_1d jacobi_2d heat_2d heat_3d laplacian",
    "convolution": "conv_1d fir_reversed conv_2d conv_3x3 conv_3d depthwise_conv max_pool_2x2 "
    "average_pool_2x2",
    "networks": "batched_matmul layer_norm rms_norm softmax dense_relu",
    "images": "box_blur sobel threshold rgb_to_gray alpha_blend bilinear_double transpose flip_horizontal",
    "scans": "prefix_sum prefix_sum_in_place row_sums",
}
REAL = {
    "blend": SUITES["blend"],
    "llama": SUITES["llama"],
    "arrays": "dot gemv sum_array scale_array mult_add_into_cpu scale_matrix lmsfir2 vrecip diveq "
    "cube_in_place",
}
NUMPY = {
    "numpy_style": "multiply_blend_8 darken_blend_8 gemv scale_matrix softmax_part2 transformer_part3 matadd "
    "n_real_updates matmul sum_array",
}


@dataclass(frozen=True)
class Kernel:
    """A function that must lift."""

    group: str
    path: Path
    function: str

    def __str__(self) -> str:
        return f"{self.group}/{self.path.stem}/{self.function}"


def kernels(group: str, folder: str, suffix: str, suites: dict[str, str]) -> tuple[Kernel, ...]:
    """The kernels of a folder, in the order of its suites."""
    return tuple(
        Kernel(group, KERNELS / folder / f"{suite}{suffix}", name)
        for suite, names in suites.items()
        for name in names.split()
    )


GROUPS = {
    "c++": kernels("c++", "cpp", ".cpp", SUITES),
    "c++ real": kernels("c++ real", "cpp_real", ".cpp", REAL),
    "c": kernels("c", "c", ".c", SUITES),
    "python": kernels("python", "python", ".py", SUITES),
    "numpy": kernels("numpy", "python", ".py", NUMPY),
    "further": kernels("further", "further", ".c", FURTHER),
    "polybench": kernels("polybench", "polybench", ".c", POLYBENCH),
    "own": kernels("own", "own", ".c", OWN),
}
# At least so many of each group lift, proved.
ASKED = {
    "c++": 69,
    "c++ real": 33,
    "c": 69,
    "python": 69,
    "numpy": 10,
    "further": 24,
    "polybench": 12,
    "own": 12,
}
ALL = tuple(kernel for group in GROUPS.values() for kernel in group)


@dataclass(frozen=True)
class Forbidden:
    """A function that must not lift as it stands.

    kind: "refuses"; "restricted", where a requirement that speaks of one of the words also does; "either",
    where a right lift does. words: what the sentence has to speak of, any one of them.
    """

    path: Path
    function: str
    kind: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.path.name}/{self.function}"


ANNOTATION = re.compile(
    r"^(?://|#|/\*) (refuses|restricted|either): (.*?)(?: \*/)?\n.*?(\w+)\(", re.MULTILINE
)


def forbidden() -> tuple[Forbidden, ...]:
    """The must-refuse set, read from the comments before each function."""
    found = []
    for path in sorted((KERNELS / "refuse").iterdir()):
        for kind, words, name in ANNOTATION.findall(path.read_text()):
            found.append(Forbidden(path, name, kind, tuple(words.lower().split("|"))))
    return tuple(found)
