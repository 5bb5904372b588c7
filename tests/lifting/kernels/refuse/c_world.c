/* Functions that no tensor program stands for: the world outside, and arithmetic without a meaning. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* refuses: printf|call|function */
int prints(const int *a, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        printf("%d\n", a[i]);
        sum += a[i];
    }
    return sum;
}

/* refuses: file|fread|call|function|fgetc|FILE|pointer|type */
int reads_a_file(FILE *file, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += fgetc(file);
    return sum;
}

/* refuses: rand|call|function */
void noise(int *a, int n) {
    for (int i = 0; i < n; i++)
        a[i] = rand();
}

/* refuses: time|call|function */
long stamp(const int *a, int n) {
    return (long)time(NULL) + n;
}

/* refuses: getenv|call|function|system */
int shell(int n) {
    return system("true") + n;
}

/* refuses: asm|assembly */
int machine_code(int n) {
    __asm__("nop");
    return n;
}

/* refuses: zero|division|divis */
void divides_by_zero(int *a, int n) {
    for (int i = 0; i < n; i++)
        a[i] = a[i] / 0;
}

/* refuses: zero|division|divis */
void divides_by_low_bits(int *a, const int *d, int n) {
    for (int i = 0; i < n; i++)
        a[i] = a[i] / (unsigned char)d[i];
}

/* refuses: shift|undefined|bits|overflow */
void shifts_too_far(int *a, int n) {
    for (int i = 0; i < n; i++)
        a[i] = a[i] << 33;
}

/* refuses: shift|overflow|undefined|sign|bits */
int shifts_out_the_sign(int n) {
    return (n & 0) + ((int)1 << 31 << 1);
}

/* refuses: output|nothing|returns|writes|effect */
void does_nothing(const int *a, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i];
}

int opaque(int x);
/* refuses: declar|unknown|body|definition|call|function|opaque */
void calls_the_unknown(int *a, int n) {
    for (int i = 0; i < n; i++)
        a[i] = opaque(a[i]);
}

/* restricted: zero|!= 0|nonzero */
int mean(const int *a, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i];
    return sum / n;
}

/* restricted: len|at least|>= */
int last(const int *a, int n) {
    return a[n - 1];
}
