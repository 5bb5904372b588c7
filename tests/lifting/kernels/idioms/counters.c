/* Counters of every width. */
#include <stddef.h>
#include <stdint.h>

int eight_bits(const int *a)
{
    int s = 0;
    for (uint8_t i = 0; i < 10; i++)
        s += a[i];
    return s;
}

int up_to_eight_bits(uint8_t n, const int *a)
{
    int s = 0;
    for (uint8_t i = 0; i < n; i++)
        s += a[i];
    return s;
}

int sixteen_bits(short n, const int *a)
{
    int s = 0;
    for (short i = 0; i < n; i++)
        s += a[i];
    return s;
}

int downward(const int *a)
{
    int s = 0;
    for (int8_t i = 9; i >= 0; i--)
        s += a[i];
    return s;
}

int by_characters(const int *a)
{
    int s = 0;
    for (char c = 0; c < 26; c++)
        s += a[c];
    return s;
}
