/* Whole kernels of a polyhedral benchmark, sizes as parameters: those with triangles. */

/* C = alpha A B + beta C, A symmetric, its lower triangle stored. */
void symm(int m, int n, double alpha, double beta, double *C, const double *A, const double *B) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double temp2 = 0.0;
            for (int k = 0; k < i; k++) {
                C[k * n + j] += alpha * B[i * n + j] * A[i * m + k];
                temp2 += B[k * n + j] * A[i * m + k];
            }
            C[i * n + j] = beta * C[i * n + j] + alpha * B[i * n + j] * A[i * m + i] + alpha * temp2;
        }
}

/* The lower triangle of C = alpha A A' + beta C. */
void syrk(int n, int m, double alpha, double beta, double *C, const double *A) {
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++)
            C[i * n + j] *= beta;
        for (int k = 0; k < m; k++)
            for (int j = 0; j <= i; j++)
                C[i * n + j] += alpha * A[i * m + k] * A[j * m + k];
    }
}

/* The lower triangle of C = alpha A B' + alpha B A' + beta C. */
void syr2k(int n, int m, double alpha, double beta, double *C, const double *A, const double *B) {
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++)
            C[i * n + j] *= beta;
        for (int k = 0; k < m; k++)
            for (int j = 0; j <= i; j++)
                C[i * n + j] += A[j * m + k] * alpha * B[i * m + k] + B[j * m + k] * alpha * A[i * m + k];
    }
}

/* B = alpha A' B, A unit lower triangular. */
void trmm(int m, int n, double alpha, const double *A, double *B) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            for (int k = i + 1; k < m; k++)
                B[i * n + j] += A[k * m + i] * B[k * n + j];
            B[i * n + j] = alpha * B[i * n + j];
        }
}
