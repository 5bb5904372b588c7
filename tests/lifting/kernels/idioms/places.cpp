#include <vector>

int argmax(const std::vector<double> &a) {
    int k = 0;
    for (int i = 0; i < (int)a.size(); ++i)
        if (a[i] > a[k])
            k = i;
    return k;
}

int argmin(const std::vector<int> &a) {
    int k = 0;
    for (int i = 1; i < (int)a.size(); ++i)
        if (a[i] < a[k])
            k = i;
    return k;
}
