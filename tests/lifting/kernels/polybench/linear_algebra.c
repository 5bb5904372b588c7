/* Whole kernels of a polyhedral benchmark, sizes as parameters: products and updates. */

/* D = alpha A B C + beta D: A ni nk, B nk nj, C nj nl. */
void k2mm(int ni, int nj, int nk, int nl, double alpha, double beta, double *tmp, const double *A,
          const double *B, const double *C, double *D) {
    for (int i = 0; i < ni; i++)
        for (int j = 0; j < nj; j++) {
            tmp[i * nj + j] = 0.0;
            for (int k = 0; k < nk; ++k)
                tmp[i * nj + j] += alpha * A[i * nk + k] * B[k * nj + j];
        }
    for (int i = 0; i < ni; i++)
        for (int j = 0; j < nl; j++) {
            D[i * nl + j] *= beta;
            for (int k = 0; k < nj; ++k)
                D[i * nl + j] += tmp[i * nj + k] * C[k * nl + j];
        }
}

/* G = (A B)(C D). */
void k3mm(int ni, int nj, int nk, int nl, int nm, double *E, const double *A, const double *B, double *F,
          const double *C, const double *D, double *G) {
    for (int i = 0; i < ni; i++)
        for (int j = 0; j < nj; j++) {
            E[i * nj + j] = 0.0;
            for (int k = 0; k < nk; ++k)
                E[i * nj + j] += A[i * nk + k] * B[k * nj + j];
        }
    for (int i = 0; i < nj; i++)
        for (int j = 0; j < nl; j++) {
            F[i * nl + j] = 0.0;
            for (int k = 0; k < nm; ++k)
                F[i * nl + j] += C[i * nm + k] * D[k * nl + j];
        }
    for (int i = 0; i < ni; i++)
        for (int j = 0; j < nl; j++) {
            G[i * nl + j] = 0.0;
            for (int k = 0; k < nj; ++k)
                G[i * nl + j] += E[i * nj + k] * F[k * nl + j];
        }
}

/* y = A' (A x). */
void atax(int m, int n, const double *A, const double *x, double *y, double *tmp) {
    for (int i = 0; i < n; i++)
        y[i] = 0.0;
    for (int i = 0; i < m; i++) {
        tmp[i] = 0.0;
        for (int j = 0; j < n; j++)
            tmp[i] = tmp[i] + A[i * n + j] * x[j];
        for (int j = 0; j < n; j++)
            y[j] = y[j] + A[i * n + j] * tmp[i];
    }
}

/* s = A' r, q = A p. */
void bicg(int m, int n, const double *A, double *s, double *q, const double *p, const double *r) {
    for (int i = 0; i < m; i++)
        s[i] = 0.0;
    for (int i = 0; i < n; i++) {
        q[i] = 0.0;
        for (int j = 0; j < m; j++) {
            s[j] = s[j] + r[i] * A[i * m + j];
            q[i] = q[i] + A[i * m + j] * p[j];
        }
    }
}

/* A[r][q][p] = sum A[r][q][s] C4[s][p], in place. */
void doitgen(int nr, int nq, int np, double *A, const double *C4, double *sum) {
    for (int r = 0; r < nr; r++)
        for (int q = 0; q < nq; q++) {
            for (int p = 0; p < np; p++) {
                sum[p] = 0.0;
                for (int s = 0; s < np; s++)
                    sum[p] += A[(r * nq + q) * np + s] * C4[s * np + p];
            }
            for (int p = 0; p < np; p++)
                A[(r * nq + q) * np + p] = sum[p];
        }
}

/* C = alpha A B + beta C. */
void gemm(int ni, int nj, int nk, double alpha, double beta, double *C, const double *A, const double *B) {
    for (int i = 0; i < ni; i++) {
        for (int j = 0; j < nj; j++)
            C[i * nj + j] *= beta;
        for (int k = 0; k < nk; k++)
            for (int j = 0; j < nj; j++)
                C[i * nj + j] += alpha * A[i * nk + k] * B[k * nj + j];
    }
}

/* A += u1 v1' + u2 v2', x += beta A' y + z, w += alpha A x. */
void gemver(int n, double alpha, double beta, double *A, const double *u1, const double *v1, const double *u2,
            const double *v2, double *w, double *x, const double *y, const double *z) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            A[i * n + j] = A[i * n + j] + u1[i] * v1[j] + u2[i] * v2[j];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            x[i] = x[i] + beta * A[j * n + i] * y[j];
    for (int i = 0; i < n; i++)
        x[i] = x[i] + z[i];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            w[i] = w[i] + alpha * A[i * n + j] * x[j];
}

/* y = alpha A x + beta B x. */
void gesummv(int n, double alpha, double beta, const double *A, const double *B, double *tmp, const double *x,
             double *y) {
    for (int i = 0; i < n; i++) {
        tmp[i] = 0.0;
        y[i] = 0.0;
        for (int j = 0; j < n; j++) {
            tmp[i] = A[i * n + j] * x[j] + tmp[i];
            y[i] = B[i * n + j] * x[j] + y[i];
        }
        y[i] = alpha * tmp[i] + beta * y[i];
    }
}

/* x1 += A y1, x2 += A' y2. */
void mvt(int n, double *x1, double *x2, const double *y1, const double *y2, const double *A) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            x1[i] = x1[i] + A[i * n + j] * y1[j];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            x2[i] = x2[i] + A[j * n + i] * y2[j];
}
