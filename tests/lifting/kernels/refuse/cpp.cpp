// Functions that no tensor program stands for, in C++.
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using std::vector;

// refuses: throw|exception
int checked_sum(const vector<int> &a) {
    int sum = 0;
    for (size_t i = 0; i < a.size(); i++) {
        if (a[i] < 0)
            throw std::invalid_argument("negative");
        sum += a[i];
    }
    return sum;
}

// refuses: try|catch|exception
int guarded(const vector<int> &a) {
    try {
        return a.at(0);
    } catch (...) {
        return 0;
    }
}

// refuses: thread|call|type|function|lambda
void in_a_thread(vector<int> &a) {
    std::thread worker([&a] { a[0] = 1; });
    worker.join();
}

// refuses: string|type|vector
int vowels(const std::string &s) {
    int count = 0;
    for (char c : s)
        count += c == 'a' || c == 'e';
    return count;
}

// refuses: map|type|method
int lookups(std::map<int, int> &table, const vector<int> &keys) {
    int sum = 0;
    for (int key : keys)
        sum += table[key];
    return sum;
}

// refuses: cout|iostream|stream|call|operator|std
void shows(const vector<int> &a) {
    for (int value : a)
        std::cout << value;
}

struct Shape {
    virtual int area() const = 0;
};
// refuses: virtual|method|call|class|type|Shape|struct
int total_area(const Shape &shape, int n) {
    return shape.area() * n;
}

// refuses: function|call|type
int apply(std::function<int(int)> f, int x) {
    return f(x);
}

// refuses: new|alloc
int *fresh(int n) {
    int *out = new int[n];
    for (int i = 0; i < n; i++)
        out[i] = i;
    return out;
}

// refuses: push_back|data|condition|append|length|grow
vector<int> positives(vector<int> a) {
    vector<int> out;
    for (int value : a)
        if (value > 0)
            out.push_back(value);
    return out;
}

// refuses: row|equal length|ragged|triang|length
vector<vector<int>> pascal_shape(int n) {
    vector<vector<int>> out;
    for (int i = 0; i < n; i++) {
        vector<int> row;
        for (int j = 0; j <= i; j++)
            row.push_back(1);
        out.push_back(row);
    }
    return out;
}

// refuses: sort|call|function|recurrence|carried|earlier|iteration|while|break
void insertion(vector<int> &a) {
    for (int i = 1; i < (int)a.size(); i++)
        for (int j = i; j > 0 && a[j - 1] > a[j]; j--) {
            int t = a[j];
            a[j] = a[j - 1];
            a[j - 1] = t;
        }
}

// refuses: closed|recurrence|carried|earlier|iteration|depends|own
vector<int> fibonacci(int n) {
    vector<int> out(n);
    int a = 0, b = 1;
    for (int i = 0; i < n; i++) {
        out[i] = a;
        int next = a + b;
        a = b;
        b = next;
    }
    return out;
}
