// Small array programs.
#include <vector>
using namespace std;

vector<int> array_inc(vector<int> a, int n) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(a[i] + 1);
    return out;
}

int array_sum(vector<int> a, int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i)
        sum += a[i];
    return sum;
}

vector<int> cube_in_place(vector<int> a, int n) {
    vector<int> out;
    for (int i = 0; i < n; ++i)
        out.push_back(a[i] * a[i] * a[i]);
    return out;
}

vector<int> fourth_in_place(vector<int> a, int n) {
    vector<int> out;
    for (int i = 0; i < n; ++i) {
        int square = a[i] * a[i];
        out.push_back(square * square);
    }
    return out;
}

int sum_elts(vector<int> a, int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i)
        sum += a[i];
    return sum;
}
