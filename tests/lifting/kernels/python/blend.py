"""Blend modes of layered images, as lists of rows of pixels."""


def normal_blend_f(base: list[float], active: list[float], opacity: float) -> list[float]:
    out = []
    for i in range(len(base)):
        out.append(opacity * active[i] + (1 - opacity) * base[i])
    return out


def normal_blend_8(base, active, opacity):
    out = []
    for i in range(len(base)):
        out.append((opacity * active[i] + (255 - opacity) * base[i]) // 255)
    return out


def linear_dodge_8(base, active):
    out = []
    for i in range(len(base)):
        row = []
        for j in range(len(base[0])):
            row.append(base[i][j] + active[i][j])
        out.append(row)
    return out


def linear_burn_8(base, active):
    out = []
    for i in range(len(base)):
        row = []
        for j in range(len(base[i])):
            row.append(base[i][j] + active[i][j] - 255)
        out.append(row)
    return out


def multiply_blend_8(base, active):
    return [[(base[i][j] * active[i][j]) // 255 for j in range(len(base[0]))] for i in range(len(base))]


def screen_blend_8(base, active):
    out = []
    for b_row, a_row in zip(base, active):
        out.append([b + a - (b * a) // 255 for b, a in zip(b_row, a_row)])
    return out


def darken_blend_8(base, active):
    out = []
    for i in range(len(base)):
        row = []
        for j in range(len(base[0])):
            if base[i][j] > active[i][j]:
                pixel = active[i][j]
            else:
                pixel = base[i][j]
            row.append(pixel)
        out.append(row)
    return out


def lighten_blend_8(base, active):
    out = []
    for i in range(len(base)):
        row = []
        for j in range(len(base[0])):
            pixel = base[i][j]
            if pixel < active[i][j]:
                pixel = active[i][j]
            row.append(pixel)
        out.append(row)
    return out


def color_burn_8(base, active):
    out = []
    for i in range(len(base)):
        row = []
        for j in range(len(base[0])):
            if active[i][j] == 0:
                row.append(255)
            else:
                row.append(255 - (255 - base[i][j]) // active[i][j])
        out.append(row)
    return out


def color_dodge_8(base, active):
    out = []
    for i in range(len(base)):
        row = []
        for j in range(len(base[0])):
            pixel = 255
            if active[i][j] != 255:
                pixel = base[i][j] // (255 - active[i][j])
            row.append(pixel)
        out.append(row)
    return out


def overlay_blend_8(base, active):
    out = []
    for i in range(len(base)):
        row = []
        for j in range(len(base[0])):
            b = base[i][j]
            if b >= 128:
                row.append(2 * b + b - 2 * b * b // 255 - 255)
            else:
                row.append(2 * b * b // 255)
        out.append(row)
    return out


def dissolve_blend_8(base, active, opacity: float, random: int):
    out = []
    for i in range(len(base)):
        row = []
        for j in range(len(base[0])):
            chance = ((random % 100) + 1) / 100
            if opacity - chance >= 0:
                row.append(active[i][j])
            else:
                row.append(base[i][j])
        out.append(row)
    return out
