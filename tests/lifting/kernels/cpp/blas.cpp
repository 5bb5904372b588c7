// Two of the basic linear algebra subprograms.
#include <vector>
using namespace std;

int dot(vector<int> a, vector<int> b, int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i)
        sum += a[i] * b[i];
    return sum;
}

vector<int> gemv(int M, int N, vector<vector<int>> A, vector<int> x) {
    vector<int> y;
    for (int i = 0; i < M; ++i) {
        int sum = 0;
        for (int j = 0; j < N; ++j)
            sum += A[i][j] * x[j];
        y.push_back(sum);
    }
    return y;
}
