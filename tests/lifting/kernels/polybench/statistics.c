/* Whole kernels of a polyhedral benchmark, sizes as parameters: n samples of m variables. */
#include <math.h>

void correlation(int m, int n, double float_n, double *data, double *corr, double *mean, double *stddev) {
    double eps = 0.1;
    for (int j = 0; j < m; j++) {
        mean[j] = 0.0;
        for (int i = 0; i < n; i++)
            mean[j] += data[i * m + j];
        mean[j] /= float_n;
    }
    for (int j = 0; j < m; j++) {
        stddev[j] = 0.0;
        for (int i = 0; i < n; i++)
            stddev[j] += (data[i * m + j] - mean[j]) * (data[i * m + j] - mean[j]);
        stddev[j] /= float_n;
        stddev[j] = sqrt(stddev[j]);
        stddev[j] = stddev[j] <= eps ? 1.0 : stddev[j];
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            data[i * m + j] -= mean[j];
            data[i * m + j] /= sqrt(float_n) * stddev[j];
        }
    for (int i = 0; i < m - 1; i++) {
        corr[i * m + i] = 1.0;
        for (int j = i + 1; j < m; j++) {
            corr[i * m + j] = 0.0;
            for (int k = 0; k < n; k++)
                corr[i * m + j] += data[k * m + i] * data[k * m + j];
            corr[j * m + i] = corr[i * m + j];
        }
    }
    corr[(m - 1) * m + m - 1] = 1.0;
}

void covariance(int m, int n, double float_n, double *data, double *cov, double *mean) {
    for (int j = 0; j < m; j++) {
        mean[j] = 0.0;
        for (int i = 0; i < n; i++)
            mean[j] += data[i * m + j];
        mean[j] /= float_n;
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            data[i * m + j] -= mean[j];
    for (int i = 0; i < m; i++)
        for (int j = i; j < m; j++) {
            cov[i * m + j] = 0.0;
            for (int k = 0; k < n; k++)
                cov[i * m + j] += data[k * m + i] * data[k * m + j];
            cov[i * m + j] /= (float_n - 1.0);
            cov[j * m + i] = cov[i * m + j];
        }
}
