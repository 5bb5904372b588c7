/* Filters of a signal processing benchmark. */

float fir_small(const float input[], const float coefficient[], int taps) {
    float sum = 0.0;
    for (int i = 0; i < taps; ++i)
        sum += input[i] * coefficient[i];
    return sum;
}

float lmsfir1(const float input[], const float coefficient[], int taps) {
    float sum = 0.0;
    for (int i = 0; i < taps; ++i)
        sum += input[i] * coefficient[i];
    return sum;
}

void lmsfir2(const float input[], float coefficient[], int taps, float error) {
    for (int i = 0; i < taps - 1; ++i)
        coefficient[i] += input[i] * error;
}
