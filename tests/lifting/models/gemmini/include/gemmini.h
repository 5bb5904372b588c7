/* A functional model of the Gemmini ISA macros that emitted code uses: scratchpad rows of DIM elements, an
   accumulator of rows of DIM sums, and a DIM x DIM mesh with stationary weights.

   Memory that nothing moved in is poison, and what is moved out reaches memory at the fence, so that missing
   moves and missing fences show. Define GEMMINI_FP32 for the fp32 build. Timing is not modelled. */
#ifndef GEMMINI_MODEL_H
#define GEMMINI_MODEL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIM 16
#define BANK_NUM 4
#define BANK_ROWS 4096
#define ACC_ROWS 1024
#define GARBAGE_ADDR ((uint32_t)(-1))
#define OUTPUT_STATIONARY 0
#define WEIGHT_STATIONARY 1
#define NO_ACTIVATION 0
#ifdef GEMMINI_FP32
#define ELEM_T_IS_FLOAT
typedef float elem_t;
typedef float acc_t;
#define POISON 1e30f
#else
typedef int8_t elem_t;
typedef int32_t acc_t;
#define POISON 77
#endif
typedef float scale_t;
#define MVIN_SCALE_IDENTITY 1.0

static struct {
    elem_t spad[BANK_NUM * BANK_ROWS][DIM];
    acc_t acc[ACC_ROWS][DIM];
    elem_t weights[DIM][DIM];
    size_t load_stride[3], store_stride;
    float scale[3];
    int dataflow, ready;
    uint32_t target;
    size_t target_columns, target_rows;
    struct { char *to; acc_t value; } pending[1 << 16];
    size_t waiting;
} gemmini;

#define GEMMINI_CHECK(condition) \
    do { if (!(condition)) { fprintf(stderr, "gemmini: %s\n", #condition); abort(); } } while (0)

static inline void gemmini_config_ex(int dataflow, int activation, int shift)
{
    GEMMINI_CHECK(activation == NO_ACTIVATION && shift == 0);
    if (!gemmini.ready) {
        for (size_t r = 0; r < BANK_NUM * BANK_ROWS; r++) for (int c = 0; c < DIM; c++) gemmini.spad[r][c] = (elem_t)POISON;
        for (size_t r = 0; r < ACC_ROWS; r++) for (int c = 0; c < DIM; c++) gemmini.acc[r][c] = (acc_t)POISON;
        gemmini.ready = 1;
    }
    gemmini.dataflow = dataflow;
}
static inline void gemmini_extended3_config_ld(size_t stride, float scale, bool shrunk, int id)
{
    GEMMINI_CHECK(!shrunk && id >= 0 && id < 3);
    gemmini.load_stride[id] = stride;
    gemmini.scale[id] = scale;
}
static inline void gemmini_config_st(size_t stride) { gemmini.store_stride = stride; }

static inline void gemmini_move_in(const void *from, uint32_t to, size_t columns, size_t rows, int id)
{
    GEMMINI_CHECK(columns >= 1 && columns <= DIM && rows >= 1 && rows <= DIM);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) {
            const char *row = (const char *)from + r * gemmini.load_stride[id];
            if (to >> 31) {
                const size_t place = (to & 0x1fffffff) + r;
                acc_t value;
                memcpy(&value, row + c * sizeof value, sizeof value);
                if (gemmini.scale[id] != 1.0f) value = (acc_t)(value * gemmini.scale[id]);
                GEMMINI_CHECK(place < ACC_ROWS);
                if (to >> 30 & 1) gemmini.acc[place][c] = (acc_t)(gemmini.acc[place][c] + value);
                else gemmini.acc[place][c] = value;
            } else {
                GEMMINI_CHECK(to + r < BANK_NUM * BANK_ROWS && gemmini.scale[id] == 1.0f);
                memcpy(&gemmini.spad[to + r][c], row + c * sizeof(elem_t), sizeof(elem_t));
            }
        }
}
#define gemmini_extended_mvin(from, to, columns, rows) gemmini_move_in(from, to, columns, rows, 0)
#define gemmini_extended_mvin2(from, to, columns, rows) gemmini_move_in(from, to, columns, rows, 1)
#define gemmini_extended_mvin3(from, to, columns, rows) gemmini_move_in(from, to, columns, rows, 2)

static inline void gemmini_extended_preload(uint32_t weights, uint32_t target, size_t columns, size_t rows,
                                            size_t target_columns, size_t target_rows)
{
    GEMMINI_CHECK(gemmini.dataflow == WEIGHT_STATIONARY && target >> 31);
    for (size_t r = 0; r < DIM; r++)
        for (size_t c = 0; c < DIM; c++)
            gemmini.weights[r][c] = r < rows && c < columns ? gemmini.spad[weights + r][c] : 0;
    gemmini.target = target;
    gemmini.target_columns = target_columns;
    gemmini.target_rows = target_rows;
}
static inline void gemmini_extended_compute_preloaded(uint32_t a, uint32_t d, size_t a_columns, size_t a_rows,
                                                      size_t d_columns, size_t d_rows)
{
    GEMMINI_CHECK(d == GARBAGE_ADDR && d_columns == DIM && d_rows == DIM);
    for (size_t r = 0; r < gemmini.target_rows; r++)
        for (size_t c = 0; c < gemmini.target_columns; c++) {
            acc_t sum = 0;
            for (size_t k = 0; k < a_columns && r < a_rows; k++)
                sum = (acc_t)(sum + (acc_t)gemmini.spad[a + r][k] * (acc_t)gemmini.weights[k][c]);
            acc_t *place = &gemmini.acc[(gemmini.target & 0x1fffffff) + r][c];
            *place = gemmini.target >> 30 & 1 ? (acc_t)(*place + sum) : sum;
        }
}
static inline void gemmini_extended_mvout(void *to, uint32_t from, size_t columns, size_t rows)
{
    GEMMINI_CHECK(from >> 31 && from >> 29 & 1 && columns <= DIM && rows <= DIM);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) {
            GEMMINI_CHECK(gemmini.waiting < sizeof gemmini.pending / sizeof *gemmini.pending);
            gemmini.pending[gemmini.waiting].to = (char *)to + r * gemmini.store_stride + c * sizeof(acc_t);
            gemmini.pending[gemmini.waiting++].value = gemmini.acc[(from & 0x1fffffff) + r][c];
        }
}
static inline void gemmini_fence(void)
{
    for (size_t i = 0; i < gemmini.waiting; i++) memcpy(gemmini.pending[i].to, &gemmini.pending[i].value, sizeof(acc_t));
    gemmini.waiting = 0;
}
#endif
