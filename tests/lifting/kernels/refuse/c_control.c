/* Functions that no tensor program stands for: control flow. The words after "refuses:" name what the sentence
   of the refusal has to speak of, any one of them. */
#include <setjmp.h>
#include <stdlib.h>

/* refuses: while|trip|iterations|condition */
int collatz(int n) {
    int steps = 0;
    while (n != 1) {
        n = n % 2 ? 3 * n + 1 : n / 2;
        steps++;
    }
    return steps;
}

/* refuses: return|early|exit|leaves */
int steps_until_negative(const int *a, int n, int step) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        if (a[i] < 0)
            return sum;
        sum += step;
    }
    return sum;
}

/* refuses: return|break|early|exit|leaves */
int sum_until_zero(const int *a, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        if (a[i] == 0)
            return sum;
        sum += a[i];
    }
    return sum;
}

/* refuses: while|trip|iterations|condition|zero */
int string_length(const char *s) {
    int n = 0;
    while (s[n])
        n++;
    return n;
}

/* refuses: goto|label */
int sum_by_goto(const int *a, int n) {
    int i = 0, sum = 0;
again:
    if (i < n) {
        sum += a[i++];
        goto again;
    }
    return sum;
}

/* refuses: recurs|calls itself */
int factorial(int n) {
    return n <= 1 ? 1 : n * factorial(n - 1);
}

static int is_odd(int n);
static int is_even(int n) {
    return n == 0 ? 1 : is_odd(n - 1);
}
/* refuses: recurs|calls itself */
static int is_odd(int n) {
    return n == 0 ? 0 : is_even(n - 1);
}

/* refuses: end|endless|never|while|for|iterations|condition */
void spin_for_ever(int *a) {
    while (1)
        a[0]++;
}

/* refuses: end|endless|never|iterations|condition|step */
int no_step(int n) {
    int sum = 0;
    for (int i = 0; i < n;)
        sum++;
    return sum;
}

/* refuses: switch|case|fall */
int fall_through(const int *a, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        switch (a[i]) {
        case 0:
            sum += 1;
        case 1:
            sum += 2;
            break;
        default:
            sum += 3;
        }
    return sum;
}

/* refuses: function pointer|call|pointer */
void map_by_pointer(int *a, int n, int (*f)(int)) {
    for (int i = 0; i < n; i++)
        a[i] = f(a[i]);
}

/* refuses: setjmp|call|function */
int jumps(jmp_buf where, int n) {
    if (setjmp(where))
        return 0;
    return n;
}

/* refuses: exit|call|function */
void exits(const int *a, int n) {
    for (int i = 0; i < n; i++)
        if (a[i] < 0)
            exit(1);
}

/* refuses: geometric|step|trip|iterations|condition|affine|doubl|multipl */
int halving(int n) {
    int steps = 0;
    for (int i = 1; i < n; i *= 2)
        steps++;
    return steps;
}

/* refuses: bound|trip|iterations|condition|data|limit */
int moving_bound(int *a, int n) {
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (a[i] > 0)
            n--;
        count++;
    }
    return count;
}
