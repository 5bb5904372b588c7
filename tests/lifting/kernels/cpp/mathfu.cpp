// Vector operators of a geometry library.
#include <vector>
using namespace std;

int len(vector<int> a, int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i)
        sum += a[i] * a[i];
    return sum;
}

int len_sq(vector<int> a, int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i)
        sum += a[i] * a[i];
    return sum;
}

vector<int> negate(vector<int> a, int n) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(-a[i]);
    return out;
}

vector<int> pluseq(vector<int> a, vector<int> b, int n) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(a[i] + b[i]);
    return out;
}

vector<int> subeq(vector<int> a, vector<int> b, int n) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(a[i] - b[i]);
    return out;
}

vector<int> muleq(vector<int> a, vector<int> b, int n) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(a[i] * b[i]);
    return out;
}

vector<int> diveq(vector<int> a, vector<int> b, int n) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(a[i] / b[i]);
    return out;
}

vector<int> subeq_sca(vector<int> a, int b, int n) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(a[i] - b);
    return out;
}

vector<int> muleq_sca(vector<int> a, int b, int n) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(a[i] * b);
    return out;
}

vector<int> diveq_sca(vector<int> a, int b, int n) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(a[i] / b);
    return out;
}

vector<vector<int>> matmul_sca(vector<vector<int>> A, int v, int m, int n) {
    vector<vector<int>> out;
    for (int i = 0; i < m; ++i) {
        vector<int> row;
        for (int j = 0; j < n; ++j)
            row.push_back(A[i][j] * v);
        out.push_back(row);
    }
    return out;
}
