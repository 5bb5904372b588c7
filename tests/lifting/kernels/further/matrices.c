/* Products of matrices: transposes, leading dimensions, both loop orders, pointer walks, peeled iterations. */

void gemm_nn(int M, int N, int K, float alpha, const float *A, int lda, const float *B, int ldb, float *C,
             int ldc) {
    int i, j, k;
    for (i = 0; i < M; ++i) {
        for (k = 0; k < K; ++k) {
            float part = alpha * A[i * lda + k];
            for (j = 0; j < N; ++j)
                C[i * ldc + j] += part * B[k * ldb + j];
        }
    }
}

void gemm_nt(int M, int N, int K, float alpha, const float *A, int lda, const float *B, int ldb, float *C,
             int ldc) {
    int i, j, k;
    for (i = 0; i < M; ++i) {
        for (j = 0; j < N; ++j) {
            float sum = 0;
            for (k = 0; k < K; ++k)
                sum += alpha * A[i * lda + k] * B[j * ldb + k];
            C[i * ldc + j] += sum;
        }
    }
}

void gemm_tn(int M, int N, int K, float alpha, const float *A, int lda, const float *B, int ldb, float *C,
             int ldc) {
    int i, j, k;
    for (i = 0; i < M; ++i) {
        for (k = 0; k < K; ++k) {
            float part = alpha * A[k * lda + i];
            for (j = 0; j < N; ++j)
                C[i * ldc + j] += part * B[k * ldb + j];
        }
    }
}

void gemm_tt(int M, int N, int K, float alpha, const float *A, int lda, const float *B, int ldb, float *C,
             int ldc) {
    int i, j, k;
    for (i = 0; i < M; ++i) {
        for (j = 0; j < N; ++j) {
            float sum = 0;
            for (k = 0; k < K; ++k)
                sum += alpha * A[k * lda + i] * B[j * ldb + k];
            C[i * ldc + j] += sum;
        }
    }
}

void matmul(const int *a, const int *b, int m, int n, int p, int *c) {
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < p; ++j) {
            c[i * p + j] = 0;
            for (int k = 0; k < n; ++k)
                c[i * p + j] += a[i * n + k] * b[k * p + j];
        }
}

void mult_big(const float *a, const float *b, float *c, int rows, int inner, int cols) {
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < cols; j++) {
            float sum = 0.0;
            for (int k = 0; k < inner; ++k)
                sum += a[i * inner + k] * b[k * cols + j];
            c[i * cols + j] = sum;
        }
    }
}

/* C[i][j] = sum A[j][k] B[i][k], all three walked by pointers. */
void matrix1(const int *A, const int *B, int *C, int X, int Y, int Z) {
    const int *p_a;
    const int *p_b = B;
    int *p_c = C;
    for (int k = 0; k < Z; k++) {
        p_a = A;
        for (int i = 0; i < X; i++) {
            p_b = B + k * Y;
            *p_c = 0;
            for (int f = 0; f < Y; f++)
                *p_c += *p_a++ * *p_b++;
            p_c++;
        }
    }
}

/* The same with the first and the last step of the innermost loop outside of it; Y is at least 2. */
void matrix2(const int *A, const int *B, int *C, int X, int Y, int Z) {
    const int *p_b = B;
    int *p_c = C;
    for (int k = 0; k < Z; k++) {
        const int *p_a = A;
        for (int i = 0; i < X; i++) {
            p_b = B + k * Y;
            int sum = *p_b++ * *p_a++;
            for (int f = 0; f < Y - 2; f++)
                sum += *p_b++ * *p_a++;
            sum += *p_b++ * *p_a++;
            *p_c++ = sum;
        }
    }
}

/* temp = block cos2, block = cos1 temp. */
void dct(const float *cos1, const float *cos2, float *temp, float *block, int B) {
    int i, j, k;
    for (i = 0; i < B; i++)
        for (j = 0; j < B; j++) {
            float sum = 0.0;
            for (k = 0; k < B; k++)
                sum += block[i * B + k] * cos2[k * B + j];
            temp[i * B + j] = sum;
        }
    for (i = 0; i < B; i++)
        for (j = 0; j < B; j++) {
            float sum = 0.0;
            for (k = 0; k < B; k++)
                sum += cos1[i * B + k] * temp[k * B + j];
            block[i * B + j] = sum;
        }
}
