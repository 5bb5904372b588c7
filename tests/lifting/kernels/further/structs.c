/* Tensor expressions over small structs, as a tensor compiler writes them. */

typedef struct {
    int n;
    double *vals;
} vector_t;

typedef struct {
    int rows, cols;
    double *vals;
} matrix_t;

typedef struct {
    int d1, d2, d3;
    double *vals;
} tensor_t;

int vec_add_sub(vector_t *a, const vector_t *b, const vector_t *c, const vector_t *d) {
    int n = b->n;
    double *a_vals = a->vals;
    const double *b_vals = b->vals;
    const double *c_vals = c->vals;
    const double *d_vals = d->vals;
#pragma omp parallel for schedule(static)
    for (int i = 0; i < n; i++)
        a_vals[i] = b_vals[i] + c_vals[i] - d_vals[i];
    return 0;
}

void mat_add(matrix_t *A, const matrix_t *B, const matrix_t *C) {
    for (int i = 0; i < B->rows; i++) {
        for (int j = 0; j < B->cols; j++) {
            int at = i * B->cols + j;
            A->vals[at] = B->vals[at] + C->vals[at];
        }
    }
}

void scale_columns(matrix_t *A, const matrix_t *B, const vector_t *c) {
#pragma omp parallel for schedule(runtime)
    for (int i = 0; i < B->rows; i++) {
        for (int j = 0; j < B->cols; j++)
            A->vals[i * B->cols + j] = B->vals[i * B->cols + j] * c->vals[j];
    }
}

void scale_columns_by_value(matrix_t A, matrix_t B, vector_t c) {
    for (int i = 0; i < B.rows; i++)
        for (int j = 0; j < B.cols; j++)
            A.vals[i * B.cols + j] = B.vals[i * B.cols + j] * c.vals[j];
}

void mat_mul(matrix_t *A, const matrix_t *B, const matrix_t *C) {
    int rows = B->rows, inner = B->cols, cols = C->cols;
    for (int p = 0; p < rows * cols; p++)
        A->vals[p] = 0.0;
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < inner; k++)
            for (int j = 0; j < cols; j++)
                A->vals[i * cols + j] += B->vals[i * inner + k] * C->vals[k * cols + j];
}

void spread_rows(matrix_t *A, const vector_t *b) {
    for (int i = 0; i < A->rows; i++) {
        int row = i * A->cols;
        for (int j = 0; j < A->cols; j++) {
            int at = row + j;
            A->vals[at] = b->vals[i];
        }
    }
}

void ttv(matrix_t *A, const tensor_t *B, const vector_t *c) {
    for (int i = 0; i < B->d1; i++)
        for (int j = 0; j < B->d2; j++) {
            double sum = 0.0;
            for (int k = 0; k < B->d3; k++)
                sum += B->vals[(i * B->d2 + j) * B->d3 + k] * c->vals[k];
            A->vals[i * B->d2 + j] = sum;
        }
}

void mttkrp(matrix_t *A, const tensor_t *B, const matrix_t *C, const matrix_t *D) {
    int J = C->cols;
    for (int i = 0; i < B->d1; i++)
        for (int j = 0; j < J; j++)
            A->vals[i * J + j] = 0.0;
    for (int i = 0; i < B->d1; i++)
        for (int k = 0; k < B->d2; k++)
            for (int l = 0; l < B->d3; l++)
                for (int j = 0; j < J; j++)
                    A->vals[i * J + j] += B->vals[(i * B->d2 + k) * B->d3 + l] * C->vals[l * J + j] *
                                          D->vals[k * J + j];
}

void vec_mul(vector_t *a, const vector_t *b, const vector_t *c) {
    for (int i = 0; i < a->n; i++)
        a->vals[i] = b->vals[i] * c->vals[i];
}

void vec_add_four(vector_t *a, const vector_t *b, const vector_t *c, const vector_t *d, const vector_t *e) {
    for (int i = 0; i < a->n; i++)
        a->vals[i] = b->vals[i] + c->vals[i] + d->vals[i] + e->vals[i];
}
