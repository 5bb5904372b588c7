#pragma once
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
int abs(int x);
long labs(long x);
long long llabs(long long x);
void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);
void *realloc(void *memory, size_t bytes);
void free(void *memory);
int rand(void);
void srand(unsigned seed);
void exit(int status);
void abort(void);
int system(const char *command);
char *getenv(const char *name);
int atoi(const char *text);
double atof(const char *text);
#ifdef __cplusplus
}
#endif
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#define RAND_MAX 2147483647
