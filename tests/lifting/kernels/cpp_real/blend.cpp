// Blend modes of layered images, with the constants and types of real images.
#include <algorithm>
#include <cstdint>
#include <vector>

typedef std::vector<uint8_t> Line;
typedef std::vector<std::vector<uint8_t>> Image;

std::vector<float> normal_blend_f(const std::vector<float> &base, const std::vector<float> &active,
                                  float opacity) {
    std::vector<float> out(base.size());
    for (size_t i = 0; i < base.size(); i++)
        out[i] = opacity * active[i] + (1.0f - opacity) * base[i];
    return out;
}

Line normal_blend_8(const Line &base, const Line &active, uint8_t opacity) {
    Line out;
    for (size_t i = 0; i < base.size(); i++)
        out.push_back((opacity * active[i] + (255 - opacity) * base[i]) / 255);
    return out;
}

Image linear_dodge_8(const Image &base, const Image &active) {
    Image out;
    for (size_t i = 0; i < base.size(); i++) {
        Line line;
        for (size_t j = 0; j < base[0].size(); j++)
            line.push_back(base[i][j] + active[i][j]);
        out.push_back(line);
    }
    return out;
}

Image linear_burn_8(const Image &base, const Image &active) {
    Image out;
    for (size_t i = 0; i < base.size(); i++) {
        Line line;
        for (size_t j = 0; j < base[0].size(); j++)
            line.push_back(base[i][j] + active[i][j] - 255);
        out.push_back(line);
    }
    return out;
}

Image multiply_blend_8(const Image &base, const Image &active) {
    Image out;
    for (size_t i = 0; i < base.size(); i++) {
        Line line;
        for (size_t j = 0; j < base[0].size(); j++)
            line.push_back((base[i][j] * active[i][j]) / 255);
        out.push_back(line);
    }
    return out;
}

Image screen_blend_8(const Image &base, const Image &active) {
    Image out;
    for (size_t i = 0; i < base.size(); i++) {
        Line line;
        for (size_t j = 0; j < base[0].size(); j++) {
            uint8_t pixel = base[i][j] + active[i][j] - (base[i][j] * active[i][j]) / 255;
            line.push_back(pixel);
        }
        out.push_back(line);
    }
    return out;
}

Image darken_blend_8(const Image &base, const Image &active) {
    Image out;
    for (size_t i = 0; i < base.size(); i++) {
        Line line;
        for (size_t j = 0; j < base[0].size(); j++)
            line.push_back(std::min(base[i][j], active[i][j]));
        out.push_back(line);
    }
    return out;
}

Image lighten_blend_8(const Image &base, const Image &active) {
    Image out;
    for (size_t i = 0; i < base.size(); i++) {
        Line line;
        for (size_t j = 0; j < base[0].size(); j++)
            line.push_back(std::max(base[i][j], active[i][j]));
        out.push_back(line);
    }
    return out;
}

Image color_burn_8(const Image &base, const Image &active) {
    Image out;
    for (size_t i = 0; i < base.size(); i++) {
        Line line;
        for (size_t j = 0; j < base[0].size(); j++) {
            uint8_t pixel = active[i][j] == 0 ? 255 : 255 - (255 - base[i][j]) / active[i][j];
            line.push_back(pixel);
        }
        out.push_back(line);
    }
    return out;
}

Image color_dodge_8(const Image &base, const Image &active) {
    Image out;
    for (size_t i = 0; i < base.size(); i++) {
        Line line;
        for (size_t j = 0; j < base[0].size(); j++) {
            uint8_t pixel = active[i][j] == 255 ? 255 : base[i][j] / (255 - active[i][j]);
            line.push_back(pixel);
        }
        out.push_back(line);
    }
    return out;
}

Image overlay_blend_8(const Image &base, const Image &active) {
    Image out;
    for (size_t i = 0; i < base.size(); i++) {
        Line line;
        for (size_t j = 0; j < base[0].size(); j++) {
            uint8_t b = base[i][j];
            if (b >= 128)
                line.push_back(2 * b + b - 2 * b * b / 255 - 255);
            else
                line.push_back(2 * b * b / 255);
        }
        out.push_back(line);
    }
    return out;
}

Image dissolve_blend_8(const Image &base, const Image &active, float opacity, int random) {
    Image out;
    for (size_t i = 0; i < base.size(); i++) {
        Line line;
        for (size_t j = 0; j < base[0].size(); j++) {
            float chance = ((random % 100) + 1) / 100.0f;
            line.push_back(opacity - chance >= 0 ? active[i][j] : base[i][j]);
        }
        out.push_back(line);
    }
    return out;
}
