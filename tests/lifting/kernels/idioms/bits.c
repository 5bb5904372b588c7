/* Complements. */

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
