"""C functions that drive Gemmini through its ISA macros."""

from __future__ import annotations

GUARDS = {
    "int8": '#ifdef ELEM_T_IS_FLOAT\n#error "this needs Gemmini\'s parameters of int8 elements"\n#endif\n',
    "fp32": '#ifndef ELEM_T_IS_FLOAT\n#error "this needs Gemmini\'s parameters of fp32 elements"\n#endif\n',
}

PRODUCT = """\
/* C = D + A B, or A B where D is NULL: tiles of DIM x DIM, weights (B) stationary. Rows lie `stride` elements
   apart. At ragged edges fewer rows and columns are moved and computed. Sums stay in the accumulator until
   the whole depth is done, and leave it in full width. */
static void mesh_product(size_t I, size_t J, size_t K, const elem_t *A, size_t a_stride, const elem_t *B,
                         size_t b_stride, const acc_t *D, size_t d_stride, acc_t *C, size_t c_stride)
{
    const uint32_t a_rows = 0, b_rows = DIM; /* scratchpad */
    const uint32_t sums = 1u << 31, accumulate = 1u << 30, full_width = 1u << 29; /* accumulator */
    gemmini_config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 0);
    gemmini_extended3_config_ld(a_stride * sizeof(elem_t), MVIN_SCALE_IDENTITY, false, 0);
    gemmini_extended3_config_ld(b_stride * sizeof(elem_t), MVIN_SCALE_IDENTITY, false, 1);
    gemmini_extended3_config_ld(d_stride * sizeof(acc_t), MVIN_SCALE_IDENTITY, false, 2);
    gemmini_config_st(c_stride * sizeof(acc_t));
    for (size_t i = 0; i < I; i += DIM) {
        const size_t rows = I - i < DIM ? I - i : DIM;
        for (size_t j = 0; j < J; j += DIM) {
            const size_t columns = J - j < DIM ? J - j : DIM;
            if (D != NULL) gemmini_extended_mvin3(D + i * d_stride + j, sums, columns, rows);
            for (size_t k = 0; k < K; k += DIM) {
                const size_t depth = K - k < DIM ? K - k : DIM;
                const uint32_t target = sums | (D != NULL || k > 0 ? accumulate : 0);
                gemmini_extended_mvin(A + i * a_stride + k, a_rows, depth, rows);
                gemmini_extended_mvin2(B + k * b_stride + j, b_rows, columns, depth);
                gemmini_extended_preload(b_rows, target, columns, depth, columns, rows);
                gemmini_extended_compute_preloaded(a_rows, GARBAGE_ADDR, depth, rows, DIM, DIM);
            }
            gemmini_extended_mvout(C + i * c_stride + j, sums | full_width, columns, rows);
        }
    }
    gemmini_fence();
}
"""

EMPTY = """\
/* A product of depth 0: the mesh is not asked. */
static void empty_product(size_t I, size_t J, const acc_t *D, size_t d_stride, acc_t *C, size_t c_stride)
{
    for (size_t i = 0; i < I; i++)
        for (size_t j = 0; j < J; j++) C[i * c_stride + j] = D != NULL ? D[i * d_stride + j] : 0;
}
"""

SUM = """\
/* Z = x_scale X + y_scale Y + w_scale W: moved in through the scalers, added by the accumulator, moved out in
   full width, DIM rows of DIM words at a time. Y and W may be NULL. */
static void mesh_sum(size_t count, const acc_t *X, scale_t x_scale, const acc_t *Y, scale_t y_scale,
                     const acc_t *W, scale_t w_scale, acc_t *Z)
{
    const uint32_t sums = 1u << 31, accumulate = 1u << 30, full_width = 1u << 29;
    gemmini_config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 0);
    gemmini_extended3_config_ld(DIM * sizeof(acc_t), x_scale, false, 0);
    gemmini_extended3_config_ld(DIM * sizeof(acc_t), y_scale, false, 1);
    gemmini_extended3_config_ld(DIM * sizeof(acc_t), w_scale, false, 2);
    gemmini_config_st(DIM * sizeof(acc_t));
    for (size_t first = 0; first < count;) {
        const size_t left = count - first;
        const size_t columns = left < DIM ? left : DIM;
        const size_t rows = left / columns < DIM ? left / columns : DIM;
        gemmini_extended_mvin(X + first, sums, columns, rows);
        if (Y != NULL) gemmini_extended_mvin2(Y + first, sums | accumulate, columns, rows);
        if (W != NULL) gemmini_extended_mvin3(W + first, sums | accumulate, columns, rows);
        gemmini_extended_mvout(Z + first, sums | full_width, columns, rows);
        first += rows * columns;
    }
    gemmini_fence();
}
"""
