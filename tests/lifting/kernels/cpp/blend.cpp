// Blend modes of layered images. The int forms: 32 stands for 255 and 16 for 128, int for uint8_t.
#include <vector>
using namespace std;

vector<int> normal_blend_f(vector<int> base, vector<int> active, int opacity) {
    vector<int> out;
    for (int i = 0; i < base.size(); i++)
        out.push_back(opacity * active[i] + (1 - opacity) * base[i]);
    return out;
}

vector<int> normal_blend_8(vector<int> base, vector<int> active, int opacity) {
    vector<int> out;
    for (int i = 0; i < base.size(); i++)
        out.push_back(opacity * active[i] + (32 - opacity) * base[i]);
    return out;
}

vector<vector<int>> linear_dodge_8(vector<vector<int>> base, vector<vector<int>> active) {
    vector<vector<int>> out;
    int rows = base.size();
    int cols = base[0].size();
    for (int i = 0; i < rows; i++) {
        vector<int> line;
        for (int j = 0; j < cols; j++) {
            int pixel = base[i][j] + active[i][j];
            line.push_back(pixel);
        }
        out.push_back(line);
    }
    return out;
}

vector<vector<int>> linear_burn_8(vector<vector<int>> base, vector<vector<int>> active) {
    vector<vector<int>> out;
    int rows = base.size();
    int cols = base[0].size();
    for (int i = 0; i < rows; i++) {
        vector<int> line;
        for (int j = 0; j < cols; j++) {
            int pixel = base[i][j] + active[i][j] - 32;
            line.push_back(pixel);
        }
        out.push_back(line);
    }
    return out;
}

vector<vector<int>> multiply_blend_8(vector<vector<int>> base, vector<vector<int>> active) {
    vector<vector<int>> out;
    int rows = base.size();
    int cols = base[0].size();
    for (int i = 0; i < rows; i++) {
        vector<int> line;
        for (int j = 0; j < cols; j++) {
            int pixel = (base[i][j] * active[i][j]) / 32;
            line.push_back(pixel);
        }
        out.push_back(line);
    }
    return out;
}

vector<vector<int>> screen_blend_8(vector<vector<int>> base, vector<vector<int>> active) {
    vector<vector<int>> out;
    int rows = base.size();
    int cols = base[0].size();
    for (int i = 0; i < rows; i++) {
        vector<int> line;
        for (int j = 0; j < cols; j++) {
            int pixel = base[i][j] + active[i][j] - (base[i][j] * active[i][j]) / 32;
            line.push_back(pixel);
        }
        out.push_back(line);
    }
    return out;
}

vector<vector<int>> darken_blend_8(vector<vector<int>> base, vector<vector<int>> active) {
    vector<vector<int>> out;
    int rows = base.size();
    int cols = base[0].size();
    for (int i = 0; i < rows; i++) {
        vector<int> line;
        for (int j = 0; j < cols; j++) {
            int pixel;
            if (base[i][j] > active[i][j])
                pixel = active[i][j];
            else
                pixel = base[i][j];
            line.push_back(pixel);
        }
        out.push_back(line);
    }
    return out;
}

vector<vector<int>> lighten_blend_8(vector<vector<int>> base, vector<vector<int>> active) {
    vector<vector<int>> out;
    int rows = base.size();
    int cols = base[0].size();
    for (int i = 0; i < rows; i++) {
        vector<int> line;
        for (int j = 0; j < cols; j++) {
            int pixel;
            if (base[i][j] < active[i][j])
                pixel = active[i][j];
            else
                pixel = base[i][j];
            line.push_back(pixel);
        }
        out.push_back(line);
    }
    return out;
}

vector<vector<int>> color_burn_8(vector<vector<int>> base, vector<vector<int>> active) {
    vector<vector<int>> out;
    int rows = base.size();
    int cols = base[0].size();
    for (int i = 0; i < rows; i++) {
        vector<int> line;
        for (int j = 0; j < cols; j++) {
            int pixel;
            if (active[i][j] == 0)
                pixel = 32;
            else
                pixel = 32 - (32 - base[i][j]) / active[i][j];
            line.push_back(pixel);
        }
        out.push_back(line);
    }
    return out;
}

vector<vector<int>> color_dodge_8(vector<vector<int>> base, vector<vector<int>> active) {
    vector<vector<int>> out;
    int rows = base.size();
    int cols = base[0].size();
    for (int i = 0; i < rows; i++) {
        vector<int> line;
        for (int j = 0; j < cols; j++) {
            int pixel;
            if (active[i][j] == 32)
                pixel = 32;
            else
                pixel = base[i][j] / (32 - active[i][j]);
            line.push_back(pixel);
        }
        out.push_back(line);
    }
    return out;
}

vector<vector<int>> overlay_blend_8(vector<vector<int>> base, vector<vector<int>> active) {
    vector<vector<int>> out;
    int rows = base.size();
    int cols = base[0].size();
    for (int i = 0; i < rows; i++) {
        vector<int> line;
        for (int j = 0; j < cols; j++) {
            int pixel;
            if (base[i][j] >= 16)
                pixel = 2 * base[i][j] + base[i][j] - 2 * base[i][j] * base[i][j] / 32 - 32;
            else
                pixel = 2 * base[i][j] * base[i][j] / 32;
            line.push_back(pixel);
        }
        out.push_back(line);
    }
    return out;
}

vector<vector<int>> dissolve_blend_8(vector<vector<int>> base, vector<vector<int>> active, int opacity,
                                     int rand_value) {
    vector<vector<int>> out;
    int rows = base.size();
    int cols = base[0].size();
    for (int i = 0; i < rows; i++) {
        vector<int> line;
        for (int j = 0; j < cols; j++) {
            int chance = ((rand_value % 100) + 1) / 100;
            int pixel;
            if (opacity - chance >= 0)
                pixel = active[i][j];
            else
                pixel = base[i][j];
            line.push_back(pixel);
        }
        out.push_back(line);
    }
    return out;
}
