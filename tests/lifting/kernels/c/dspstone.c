/* Two kernels of a compiler benchmark for signal processors, as pointer walks. */

void mat1x3(const int *h, const int *x, int *y, int n) {
    const int *p_h = h;
    int *p_y = y;
    for (int i = 0; i < n; i++) {
        const int *p_x = x;
        *p_y = 0;
        for (int f = 0; f < n; f++)
            *p_y += *p_h++ * *p_x++;
        p_y++;
    }
}

void n_real_updates(const int *a, const int *b, const int *c, int *d, int n) {
    const int *p_a = a, *p_b = b, *p_c = c;
    int *p_d = d;
    for (int i = 0; i < n; i++)
        *p_d++ = *p_c++ + *p_a++ * *p_b++;
}
