// Vectors and matrices of a signal processing library.
#include <vector>
using namespace std;

vector<int> vadd(vector<int> a, vector<int> b, int n) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(a[i] + b[i]);
    return out;
}

vector<int> vsub(vector<int> a, vector<int> b, int n) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(a[i] - b[i]);
    return out;
}

vector<int> vmul(vector<int> a, vector<int> b, int n) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(a[i] * b[i]);
    return out;
}

vector<int> vcopy(vector<int> a, int n) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(a[i]);
    return out;
}

vector<int> vneg(vector<int> a, int n) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(-a[i]);
    return out;
}

vector<int> voffset(vector<int> a, int v, int n) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(a[i] + v);
    return out;
}

vector<int> vrecip(vector<int> a, int n) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(1 / a[i]);
    return out;
}

vector<int> vscal(vector<int> a, int v, int n) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(a[i] * v);
    return out;
}

vector<int> wvec(vector<int> a, vector<int> b, int m, int n) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(m * a[i] + b[i]);
    return out;
}

vector<vector<int>> matadd(vector<vector<int>> A, vector<vector<int>> B, int m, int n) {
    vector<vector<int>> out;
    for (int i = 0; i < m; ++i) {
        vector<int> row;
        for (int j = 0; j < n; ++j)
            row.push_back(A[i][j] + B[i][j]);
        out.push_back(row);
    }
    return out;
}

vector<vector<int>> matsub(vector<vector<int>> A, vector<vector<int>> B, int m, int n) {
    vector<vector<int>> out;
    for (int i = 0; i < m; ++i) {
        vector<int> row;
        for (int j = 0; j < n; ++j)
            row.push_back(A[i][j] - B[i][j]);
        out.push_back(row);
    }
    return out;
}

vector<vector<int>> matscal(vector<vector<int>> A, int v, int m, int n) {
    vector<vector<int>> out;
    for (int i = 0; i < m; ++i) {
        vector<int> row;
        for (int j = 0; j < n; ++j)
            row.push_back(A[i][j] * v);
        out.push_back(row);
    }
    return out;
}
