/* What all kernels need: headers, and how loops are compiled and run. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <signal.h>
#define POOL 1
#endif
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HALF_INSTRUCTIONS 1
#endif

/* One copy of a loop for each generation of processors; the one that fits is chosen when the module is loaded. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__) && __GNUC__ >= 12
#define WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define CLONES 1
#elif defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif
#define INLINE static inline __attribute__((always_inline))
#define SIMD _Pragma("omp simd")
#define SIMD_SUM(...) _Pragma(#__VA_ARGS__)

/* Around a loop: large ones let other threads run meanwhile; for small ones that would take longer than the loop. */
#define LARGE 16384
#define BEGIN(COUNT) { PyThreadState *state_ = (COUNT) > LARGE ? PyEval_SaveThread() : NULL;
#define END if (state_) PyEval_RestoreThread(state_); }
