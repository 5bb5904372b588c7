// Kernels of the other suites over float and double, by reference, with sized vectors and range loops.
#include <cstddef>
#include <vector>

using std::size_t;
using std::vector;

double dot(const vector<double> &a, const vector<double> &b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i)
        sum += a[i] * b[i];
    return sum;
}

vector<double> gemv(const vector<vector<double>> &A, const vector<double> &x) {
    vector<double> y(A.size(), 0.0);
    for (size_t i = 0; i < A.size(); ++i)
        for (size_t j = 0; j < x.size(); ++j)
            y[i] += A[i][j] * x[j];
    return y;
}

float sum_array(const vector<float> &a) {
    float sum = 0;
    for (float value : a)
        sum += value;
    return sum;
}

void scale_array(vector<float> &a, float s) {
    for (float &value : a)
        value *= s;
}

void mult_add_into_cpu(const vector<float> &X, const vector<float> &Y, vector<float> &Z) {
    for (size_t i = 0; i < X.size(); ++i)
        Z[i] += X[i] * Y[i];
}

vector<vector<float>> scale_matrix(const vector<vector<float>> &m, float scale) {
    vector<vector<float>> out(m.size(), vector<float>(m[0].size()));
    for (size_t i = 0; i < m.size(); ++i)
        for (size_t j = 0; j < m[0].size(); ++j)
            out[i][j] = m[i][j] * scale;
    return out;
}

void lmsfir2(const vector<float> &input, vector<float> &coefficient, int taps, float error) {
    for (int i = 0; i < taps - 1; ++i)
        coefficient[i] += input[i] * error;
}

vector<double> vrecip(const vector<double> &a) {
    vector<double> out;
    out.reserve(a.size());
    for (size_t i = 0; i < a.size(); ++i)
        out.push_back(1.0 / a[i]);
    return out;
}

void diveq(vector<float> &a, const vector<float> &b) {
    for (size_t i = 0; i < a.size(); ++i)
        a[i] /= b[i];
}

void cube_in_place(vector<long> &a) {
    for (size_t i = 0; i < a.size(); ++i)
        a[i] = a[i] * a[i] * a[i];
}
