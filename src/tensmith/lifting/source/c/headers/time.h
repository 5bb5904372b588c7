#pragma once
typedef long time_t;
typedef long clock_t;
#define CLOCKS_PER_SEC 1000000
time_t time(time_t *to);
clock_t clock(void);
