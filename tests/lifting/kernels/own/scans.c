/* Running sums. */

void prefix_sum(const int *a, long *out, int n) {
    long sum = 0;
    for (int i = 0; i < n; i++) {
        sum += a[i];
        out[i] = sum;
    }
}

void prefix_sum_in_place(int *a, int n) {
    for (int i = 1; i < n; i++)
        a[i] += a[i - 1];
}

/* The summed-area table without its border. */
void row_sums(const int *in, int *out, int h, int w) {
    for (int y = 0; y < h; y++) {
        int sum = 0;
        for (int x = 0; x < w; x++) {
            sum += in[y * w + x];
            out[y * w + x] = sum;
        }
    }
}
