#pragma once
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef long ssize_t;
#ifdef __cplusplus
#define NULL nullptr
#else
#define NULL ((void *)0)
#endif
