// Array helpers of a convolutional network library.
#include <vector>
using namespace std;

int mag_array(vector<int> a, int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i)
        sum += a[i] * a[i];
    return sum;
}

int mse_array(vector<int> a, int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i)
        sum += a[i] * a[i];
    return sum;
}

int sum_array(vector<int> a, int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i)
        sum += a[i];
    return sum;
}

vector<int> scale_array(vector<int> a, int n, int s) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(s * a[i]);
    return out;
}

vector<int> translate_array(vector<int> a, int n, int s) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(a[i] + s);
    return out;
}

vector<int> mult_add_into_cpu(int N, vector<int> X, vector<int> Y, vector<int> Z) {
    vector<int> out;
    for (int i = 0; i < N; ++i)
        out.push_back(Z[i] + X[i] * Y[i]);
    return out;
}

vector<int> ol_l2_cpu1(int n, vector<int> pred, vector<int> truth) {
    vector<int> error;
    for (int i = 0; i < n; ++i) {
        int diff = truth[i] - pred[i];
        error.push_back(diff * diff);
    }
    return error;
}

vector<int> ol_l2_cpu2(int n, vector<int> pred, vector<int> truth) {
    vector<int> delta;
    for (int i = 0; i < n; ++i) {
        int diff = truth[i] - pred[i];
        delta.push_back(diff);
    }
    return delta;
}

vector<vector<int>> matrix_add_matrix(vector<vector<int>> from, vector<vector<int>> to) {
    vector<vector<int>> out;
    for (int i = 0; i < from.size(); ++i) {
        vector<int> row;
        for (int j = 0; j < from[0].size(); ++j)
            row.push_back(from[i][j] + to[i][j]);
        out.push_back(row);
    }
    return out;
}

vector<vector<int>> scale_matrix(vector<vector<int>> m, int scale) {
    vector<vector<int>> out;
    for (int i = 0; i < m.size(); ++i) {
        vector<int> row;
        for (int j = 0; j < m[0].size(); ++j)
            row.push_back(m[i][j] * scale);
        out.push_back(row);
    }
    return out;
}
