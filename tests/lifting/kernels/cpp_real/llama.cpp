// The inner loops of a transformer's forward pass, in single precision.
#include <cmath>
#include <vector>

using std::vector;

float rmsnorm_part1(const vector<float> &x, const vector<float> &weight) {
    float ss = 0.0f;
    for (size_t i = 0; i < x.size(); i++)
        ss += x[i] * x[i];
    return ss;
}

vector<float> rmsnorm_part2(const vector<float> &x, const vector<float> &weight, float ss) {
    vector<float> out;
    float scale = 1.0f / std::sqrt(ss / x.size() + 1e-5f);
    for (size_t i = 0; i < x.size(); i++)
        out.push_back(weight[i] * (scale * x[i]));
    return out;
}

float softmax_part1(const vector<float> &x, int max_pos) {
    float max_val = x[0];
    for (int i = 1; i < max_pos; i++)
        if (x[i] > max_val)
            max_val = x[i];
    return max_val;
}

vector<float> softmax_part2(const vector<float> &x, int max_pos, float max_val) {
    vector<float> out(max_pos);
    for (int i = 0; i < max_pos; i++)
        out[i] = std::exp(x[i] - max_val);
    return out;
}

float softmax_part3(const vector<float> &x, int max_pos) {
    float sum = 0.0f;
    for (int i = 0; i < max_pos; i++)
        sum += x[i];
    return sum;
}

vector<float> softmax_part4(const vector<float> &x, int max_pos, float sum) {
    vector<float> out;
    for (int i = 0; i < max_pos; i++)
        out.push_back(x[i] / sum);
    return out;
}

vector<float> transformer_part1(int tokens, int head, int head_size, const vector<vector<float>> &keys,
                                const vector<float> &query) {
    vector<float> attention;
    for (int t = 0; t < tokens; t++) {
        float score = 0.0f;
        for (int i = 0; i < head_size; ++i)
            score += query[head * head_size + i] * keys[t][head * head_size + i];
        attention.push_back(score / std::sqrt((float)head_size));
    }
    return attention;
}

vector<float> transformer_part2(int position, int head, int head_size, const vector<vector<float>> &values,
                                const vector<float> &attention) {
    vector<float> xb;
    for (int i = 0; i < head_size; i++) {
        float sum = 0.0f;
        for (int t = 0; t <= position; t++)
            sum += attention[t] * values[t][head * head_size + i];
        xb.push_back(sum);
    }
    return xb;
}

vector<float> transformer_part3(const vector<float> &x, int hidden_dim) {
    vector<float> out;
    for (int i = 0; i < hidden_dim; i++)
        out.push_back(x[i] * (1.0f / (1.0f + std::exp(-x[i]))));
    return out;
}

void transformer_part4(vector<float> &hb, const vector<float> &hb2, int hidden_dim) {
    for (int i = 0; i < hidden_dim; i++)
        hb[i] *= hb2[i];
}

void matmul(vector<float> &out, const vector<vector<float>> &weight, const vector<float> &x) {
    for (size_t i = 0; i < weight.size(); i++) {
        out[i] = 0.0f;
        for (size_t j = 0; j < x.size(); j++)
            out[i] += weight[i][j] * x[j];
    }
}
