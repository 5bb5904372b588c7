// Two kernels of a compiler benchmark for signal processors.
#include <vector>
using namespace std;

vector<int> mat1x3(int N, vector<vector<int>> h, vector<int> x) {
    vector<int> y;
    for (int i = 0; i < N; i++) {
        int sum = 0;
        for (int f = 0; f < N; f++)
            sum += h[i][f] * x[f];
        y.push_back(sum);
    }
    return y;
}

vector<int> n_real_updates(int N, vector<int> A, vector<int> B, vector<int> C) {
    vector<int> D;
    for (int i = 0; i < N; i++)
        D.push_back(C[i] + A[i] * B[i]);
    return D;
}
