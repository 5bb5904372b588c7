// Filters of a signal processing benchmark.
#include <vector>
using namespace std;

int fir_small(int NTAPS, vector<int> input, vector<int> coefficient) {
    int sum = 0;
    for (int i = 0; i < NTAPS; ++i)
        sum += input[i] * coefficient[i];
    return sum;
}

int lmsfir1(int NTAPS, vector<int> input, vector<int> coefficient) {
    int sum = 0;
    for (int i = 0; i < NTAPS; ++i)
        sum += input[i] * coefficient[i];
    return sum;
}

vector<int> lmsfir2(int NTAPS, vector<int> input, vector<int> coefficient, int error) {
    vector<int> out;
    for (int i = 0; i < NTAPS - 1; ++i)
        out.push_back(coefficient[i] + input[i] * error);
    return out;
}
