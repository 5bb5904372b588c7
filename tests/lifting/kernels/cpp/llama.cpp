// The inner loops of a transformer's forward pass; int stands for float.
#include <cmath>
#include <vector>
using namespace std;

int rmsnorm_part1(vector<int> input, vector<int> weight) {
    int ss = 0;
    for (int i = 0; i < input.size(); i++)
        ss += input[i] * input[i];
    return ss;
}

vector<int> rmsnorm_part2(vector<int> input, vector<int> weight, int ss) {
    vector<int> output;
    int size = input.size();
    int inv_ss = ss / size + 1;
    int scale = 1 / sqrt(inv_ss);
    for (int i = 0; i < size; i++)
        output.push_back(scale * input[i] * weight[i]);
    return output;
}

int softmax_part1(vector<int> input, int max_pos) {
    int max_val = input[0];
    for (int i = 1; i < max_pos; i++)
        if (input[i] > max_val)
            max_val = input[i];
    return max_val;
}

vector<int> softmax_part2(vector<int> input, int max_pos, int max_val) {
    vector<int> output;
    for (int i = 0; i < max_pos; i++) {
        int cur = exp(input[i] - max_val);
        output.push_back(cur);
    }
    return output;
}

int softmax_part3(vector<int> output, int max_pos) {
    int sum = 0;
    for (int i = 0; i < max_pos; i++)
        sum += output[i];
    return sum;
}

vector<int> softmax_part4(vector<int> unnormalized, int max_pos, int sum) {
    vector<int> output;
    for (int i = 0; i < max_pos; i++)
        output.push_back(unnormalized[i] / sum);
    return output;
}

vector<int> transformer_part1(int tokens, int head, int head_size, vector<vector<int>> keys, vector<int> query) {
    vector<int> attention;
    for (int t = 0; t < tokens; t++) {
        int score = 0;
        for (int i = 0; i < head_size; ++i)
            score += query[head * head_size + i] * keys[t][head * head_size + i];
        score /= sqrt(head_size);
        attention.push_back(score);
    }
    return attention;
}

vector<int> transformer_part2(int position, int head, int head_size, vector<vector<int>> keys,
                              vector<int> attention) {
    vector<int> xb;
    for (int i = 0; i < head_size; i++) {
        int cur = 0;
        for (int t = 0; t <= position; t++)
            cur += attention[t] * keys[t][head * head_size + i];
        xb.push_back(cur);
    }
    return xb;
}

vector<int> transformer_part3(vector<int> input, int hidden_dim) {
    vector<int> output;
    for (int i = 0; i < hidden_dim; i++) {
        int cur = 1 / (1 + exp(-input[i])) * input[i];
        output.push_back(cur);
    }
    return output;
}

vector<int> transformer_part4(vector<int> input1, vector<int> input2, int hidden_dim) {
    vector<int> output;
    for (int i = 0; i < hidden_dim; i++)
        output.push_back(input1[i] * input2[i]);
    return output;
}

vector<int> matmul(vector<vector<int>> weight, vector<int> input) {
    vector<int> output;
    int rows = weight.size();
    int cols = input.size();
    for (int row = 0; row < rows; row++) {
        int sum = 0;
        for (int col = 0; col < cols; col++)
            sum += weight[row][col] * input[col];
        output.push_back(sum);
    }
    return output;
}
