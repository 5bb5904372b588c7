/* Complements and shifts of unsigned numbers. */

void inverted(int n, const unsigned char *a, unsigned char *b)
{
    for (int i = 0; i < n; i++)
        b[i] = ~a[i];
}

void complement(int n, const int *a, int *b)
{
    for (int i = 0; i < n; i++)
        b[i] = ~a[i] & 15;
}

void rotate(int n, const unsigned *a, unsigned *b)
{
    for (int i = 0; i < n; i++)
        b[i] = (a[i] >> 7) | (a[i] << 25);
}

void shift_out(int n, const unsigned *a, unsigned *b)
{
    for (int i = 0; i < n; i++)
        b[i] = (a[i] << 5) >> 5;
}
