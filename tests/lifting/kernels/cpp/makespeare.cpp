// A textbook reduction.
#include <vector>
using namespace std;

int sum_of_squares(vector<int> a, int n) {
    int total = 0;
    for (int i = 0; i < n; ++i)
        total += a[i] * a[i];
    return total;
}
