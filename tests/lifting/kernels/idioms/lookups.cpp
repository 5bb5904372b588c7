#include <vector>

std::vector<double> take(const std::vector<int> &ids, const std::vector<double> &table) {
    std::vector<double> out;
    for (int id : ids)
        out.push_back(table[id]);
    return out;
}

std::vector<std::vector<double>> rows(const std::vector<int> &ids, const std::vector<std::vector<double>> &table) {
    std::vector<std::vector<double>> out;
    for (size_t i = 0; i < ids.size(); i++) {
        std::vector<double> row;
        for (size_t j = 0; j < table[0].size(); j++)
            row.push_back(table[ids[i]][j]);
        out.push_back(row);
    }
    return out;
}

std::vector<float> picked(const std::vector<std::vector<float>> &a, const std::vector<unsigned> &k) {
    std::vector<float> out(k.size());
    for (size_t i = 0; i < k.size(); i++)
        out[i] = 2 * a[i][k[i]];
    return out;
}
