// Read anew at each #include, as C has it: NDEBUG may have changed.
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) __builtin_tensmith_assert(!!(condition))
#endif
#ifndef TENSMITH_ASSERT
#define TENSMITH_ASSERT
#ifdef __cplusplus
extern "C"
#else
#define static_assert _Static_assert
#endif
void __builtin_tensmith_assert(int condition);
#endif
