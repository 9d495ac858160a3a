/* Optional kernels: loops over memory that NumPy can only do in several passes, each in one; threads that share large
 * loops; and stand-ins for NumPy's own functions of elements, whose calls take longer than small arrays do.
 *
 * Every function takes NumPy arrays that the caller has made, writes into the last ones, and returns True; or False,
 * with nothing written, where the arrays are not plain memory of the types it knows. Stand-ins make their result, and
 * call the function they stand for where they do not know the arrays. The kernels in NumPy are the source of truth:
 * results agree with theirs up to rounding. Nothing here knows tensors or operators.
 *
 * Arrays are read by the layout of their structure, which NumPy has kept since 1.7; `setup` compares it with the buffer
 * protocol on a sample and refuses where they differ, so no NumPy header is needed to build.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#define POOL 1
#endif
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HALF_INSTRUCTIONS 1
#endif

/* One copy of a loop for each generation of processors; the one that fits is chosen when the module is loaded. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__) && __GNUC__ >= 12
#define WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
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

/* ------------------------------------------------------------------------------------------------ threads */

/* Does the elements or rows from `from` to `to` of a loop; what it reads and writes is in `work`. */
typedef void (*Part)(const void *work, Py_ssize_t from, Py_ssize_t to);

#define PIECE (1 << 15) /* elements that a thread takes at a time */
#define MOST 64         /* threads */

/* From how many elements on another thread pays: where each takes a few instructions, and where it takes many. */
enum { LIGHT = 1 << 21, HEAVY = 1 << 19 };

static int threads = 1; /* that may work at a time, the caller's among them */

#ifdef POOL

/* One loop at a time is shared: the caller opens it, takes piece after piece as the others do, and closes it when none
 * is left. Threads that wake up later find it closed, so a busy machine makes nobody wait for a thread that has not
 * begun. A second caller meanwhile does its loop alone. */
static struct {
    pthread_mutex_t lock, caller;
    pthread_cond_t opened, left;
    Part part;
    const void *work;
    Py_ssize_t count, piece, next;
    unsigned long turn;
    int open, inside, made;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .caller = PTHREAD_MUTEX_INITIALIZER,
          .opened = PTHREAD_COND_INITIALIZER,
          .left = PTHREAD_COND_INITIALIZER};

static void take_pieces(void) {
    for (;;) {
        Py_ssize_t from = __atomic_fetch_add(&pool.next, pool.piece, __ATOMIC_RELAXED);
        if (from >= pool.count) return;
        pool.part(pool.work, from, pool.count - from < pool.piece ? pool.count : from + pool.piece);
    }
}

static void *help(void *unused) {
    unsigned long turn = 0;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (!pool.open || turn == pool.turn) pthread_cond_wait(&pool.opened, &pool.lock);
        turn = pool.turn;
        pool.inside++;
        pthread_mutex_unlock(&pool.lock);
        take_pieces();
        pthread_mutex_lock(&pool.lock);
        if (--pool.inside == 0) pthread_cond_signal(&pool.left);
    }
    return NULL;
}

/* A forked child has its own thread only: it starts with an empty pool. */
static void forget_threads(void) {
    pthread_mutex_init(&pool.lock, NULL);
    pthread_mutex_init(&pool.caller, NULL);
    pthread_cond_init(&pool.opened, NULL);
    pthread_cond_init(&pool.left, NULL);
    pool.open = pool.inside = pool.made = 0;
}

static void make_threads(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes)) return;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 1 << 18);
    while (pool.made < threads - 1 && pthread_create(&thread, &attributes, help, NULL) == 0) pool.made++;
    pthread_attr_destroy(&attributes);
}

static void share(Part part, const void *work, Py_ssize_t count, Py_ssize_t piece) {
    if (pthread_mutex_trylock(&pool.caller)) {
        part(work, 0, count);
        return;
    }
    pthread_mutex_lock(&pool.lock);
    if (pool.made < threads - 1) make_threads();
    pool.part = part;
    pool.work = work;
    pool.count = count;
    pool.piece = piece;
    pool.next = 0;
    pool.turn++;
    pool.open = 1;
    pthread_cond_broadcast(&pool.opened);
    pthread_mutex_unlock(&pool.lock);
    take_pieces();
    pthread_mutex_lock(&pool.lock);
    pool.open = 0;
    while (pool.inside) pthread_cond_wait(&pool.left, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    pthread_mutex_unlock(&pool.caller);
}

#endif

/* A loop over `count` elements or rows of `width` elements each, by all threads if these are `many` elements. */
static void run(Part part, const void *work, Py_ssize_t count, Py_ssize_t width, Py_ssize_t many) {
#ifdef POOL
    if (threads > 1 && count * width >= many && count > 1) {
        share(part, work, count, width < PIECE ? PIECE / width : 1);
        return;
    }
#endif
    part(work, 0, count);
}

/* set_threads(n) */
static PyObject *set_threads(PyObject *module, PyObject *number) {
    long n = PyLong_AsLong(number);
    if (n == -1 && PyErr_Occurred()) return NULL;
    threads = n < 1 ? 1 : n > MOST ? MOST : (int)n;
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------------------------------------ arrays */

typedef struct {
    PyObject_HEAD
    char *data;
    int nd;
    Py_ssize_t *dimensions;
    Py_ssize_t *strides;
    PyObject *base;
    PyObject *descr;
    int flags;
} Array;

enum { CONTIGUOUS = 0x1, ALIGNED = 0x100, WRITEABLE = 0x400 };

static PyTypeObject *array_type;
static PyObject *F32, *F64, *I64, *F16, *BF16, *BOOL;

/* An uninitialised array of the shape of another and of the type given (a reference that is taken over), or of its own
 * type: NumPy's function, at its place in the table of functions that NumPy's ABI fixes. */
typedef PyObject *(*NewLike)(PyObject *prototype, int order, PyObject *descr, int subok);
enum { NEW_LIKE = 277, KEEP_ORDER = 2 };
static NewLike new_like;

INLINE int plain(PyObject *object, PyObject *descr, int flags) {
    Array *a = (Array *)object;
    return Py_TYPE(object) == array_type && a->descr == descr && (a->flags & flags) == flags;
}

INLINE int readable(PyObject *object, PyObject *descr) { return plain(object, descr, CONTIGUOUS | ALIGNED); }
INLINE int writable(PyObject *object, PyObject *descr) {
    return plain(object, descr, CONTIGUOUS | ALIGNED | WRITEABLE);
}

INLINE Py_ssize_t count_of(PyObject *object) {
    Array *a = (Array *)object;
    Py_ssize_t count = 1;
    for (int i = 0; i < a->nd; i++) count *= a->dimensions[i];
    return count;
}

/* Whether two arrays of so many bytes are one and the same memory, or share none: a loop may write one from the other. */
INLINE int apart(PyObject *x, PyObject *out, Py_ssize_t bytes) {
    char *a = ((Array *)x)->data, *b = ((Array *)out)->data;
    return a == b || a + bytes <= b || b + bytes <= a;
}

INLINE int of_one_shape(PyObject *x, PyObject *y) {
    Array *a = (Array *)x, *b = (Array *)y;
    if (a->nd != b->nd) return 0;
    for (int i = 0; i < a->nd; i++)
        if (a->dimensions[i] != b->dimensions[i]) return 0;
    return 1;
}

INLINE void *data_of(PyObject *object) { return ((Array *)object)->data; }
INLINE Py_ssize_t last_of(PyObject *object) {
    Array *a = (Array *)object;
    return a->nd ? a->dimensions[a->nd - 1] : 1;
}

/* ------------------------------------------------------------------------------------------------ functions */

/* Products and sums may be fused into one rounding from here on. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
#endif

INLINE float from_bits(int32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
INLINE int32_t to_bits(float x) { int32_t bits; memcpy(&bits, &x, 4); return bits; }

#define ROUNDER 12582912.0f /* 1.5 * 2^23: adding it leaves the nearest integer in the low bits */

/* exp(x) = 2^n * (1 + tail), |x - n ln 2| <= ln 2 / 2; the tail is what a polynomial of degree 6 leaves of exp - 1. */
INLINE float exp_tail(float x, int32_t *n) {
    float t = x * 1.44269504f + ROUNDER;
    float whole = t - ROUNDER;
    *n = to_bits(t) - to_bits(ROUNDER);
    float r = x - whole * 0.693359375f;
    r = r + whole * 2.12194440e-4f;
    float q = 1.3814466740e-3f;
    q = q * r + 8.3687804291e-3f;
    q = q * r + 4.1668394217e-2f;
    q = q * r + 1.6666520108e-1f;
    q = q * r + 4.9999993412e-1f;
    return r + r * r * q;
}

INLINE float exp_of(float x) {
    x = x < -104.0f ? -104.0f : x; /* nan passes every comparison */
    x = x > 89.0f ? 89.0f : x;
    int32_t n;
    float tail = exp_tail(x, &n);
    int32_t half = n >> 1; /* in two steps, so that results among the subnormal numbers come out */
    return (1.0f + tail) * from_bits((half + 127) << 23) * from_bits((n - half + 127) << 23);
}

INLINE float tanh_of(float x) {
    float a = fabsf(x);
    a = a > 10.0f ? 10.0f : a;
    int32_t n;
    float tail = exp_tail(a + a, &n);
    float scale = from_bits((n + 127) << 23);
    float e = scale * tail + (scale - 1.0f); /* exp(2a) - 1 */
    return copysignf(e / (e + 2.0f), x);
}

INLINE float sigmoid_of(float x) { return 1.0f / (1.0f + exp_of(-x)); }

/* y / sqrt(1 + y^2) with y = x p(x^2) */
INLINE float erf_of(float x) {
    x = x < -4.5f ? -4.5f : x;
    x = x > 4.5f ? 4.5f : x;
    float s = x * x;
    float p = 2.9111048552463874e-06f;
    p = p * s + -9.9288981355304e-06f;
    p = p * s + 0.00022485994179959572f;
    p = p * s + 0.001208614742264115f;
    p = p * s + 0.012828581321129713f;
    p = p * s + 0.08037946242427384f;
    p = p * s + 0.3422342502361569f;
    p = p * s + 1.128378908605456f;
    p *= x;
    return p / sqrtf(p * p + 1.0f);
}

/* erfc(sqrt(half) x) for x >= 0: the square of x cut to half its digits is exact, exp of the small rest taken apart. */
INLINE float right_tail(float x, float half, float root) {
    float top = 10.5f / root;
    x = x > top ? top : x;
    float high = from_bits(to_bits(x) & -4096);
    float rest = (high - x) * (high + x) * half;
    float t = 1.0f / (1.0f + x * (0.5f * root));
    float p = -0.05919332057237625f;
    p = p * t + 0.28518277406692505f;
    p = p * t + -0.4884607791900635f;
    p = p * t + 0.279512494802475f;
    p = p * t + -0.0276233721524477f;
    p = p * t + 0.20310990512371063f;
    p = p * t + 0.24299661815166473f;
    p = p * t + 0.2823900580406189f;
    p = p * t + 0.2820855677127838f;
    return exp_of(high * high * -half) * exp_of(rest) * t * p;
}

INLINE float erfc_of(float x) {
    float tail = right_tail(fabsf(x), 1.0f, 1.0f);
    return x < 0.0f ? 2.0f - tail : tail;
}

INLINE float ndtr_of(float x) {
    float tail = 0.5f * right_tail(fabsf(x), 0.5f, 0.70710678f);
    return x < 0.0f ? tail : 1.0f - tail;
}

INLINE float gelu_of(float x) { return x * 0.5f * (1.0f + erf_of(x * 0.70710678f)); }

INLINE float gelu_inner(float x) { return x * (0.79788456f + 0.035677408f * x * x); }

INLINE float gelu_tanh_of(float x) { return x * 0.5f * (1.0f + tanh_of(gelu_inner(x))); }

INLINE float hardswish_of(float x) {
    float gate = x + 3.0f;
    gate = gate < 0.0f ? 0.0f : gate; /* nan stays nan */
    return x * (gate > 6.0f ? 6.0f : gate) / 6.0f;
}

INLINE float silu_of(float x) { return x / (1.0f + exp_of(-x)); }

INLINE float gelu_slope(float g, float x) {
    float density = 0.39894228f * exp_of(-0.5f * x * x);
    return g * (0.5f * (1.0f + erf_of(x * 0.70710678f)) + x * density);
}

INLINE float gelu_tanh_slope(float g, float x) {
    float t = tanh_of(gelu_inner(x));
    float inner = x * (0.39894228f + 0.053516112f * x * x);
    return g * (0.5f * (1.0f + t) + inner * (1.0f - t * t));
}

/* nan stays nan, and counts as above zero */
INLINE float relu_of(float x) { return x < 0.0f ? 0.0f : x; }

INLINE float silu_slope(float g, float x) {
    float s = sigmoid_of(x);
    return g * s * (1.0f + x * (1.0f - s));
}

/* ------------------------------------------------------------------------------------------------ elementwise */

typedef struct {
    const float *x, *y;
    float *out;
    Py_ssize_t n; /* elements of a row */
} Floats;


#define LOOP(NAME, FUNCTION)                                                                                           \
    WIDE static void NAME##_loop(const float *x, float *out, Py_ssize_t n) {                                           \
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = FUNCTION(x[i]);                                               \
    }                                                                                                                  \
    static void NAME##_part(const void *work, Py_ssize_t from, Py_ssize_t to) {                                        \
        const Floats *a = work;                                                                                        \
        NAME##_loop(a->x + from, a->out + from, to - from);                                                            \
    }

#define UNARY(NAME, FUNCTION, MANY)                                                                                    \
    LOOP(NAME, FUNCTION)                                                                                               \
    static PyObject *NAME(PyObject *module, PyObject *const *args, Py_ssize_t count) {                                 \
        if (count != 2 || !readable(args[0], F32) || !writable(args[1], F32)) Py_RETURN_FALSE;                         \
        Py_ssize_t n = count_of(args[0]);                                                                              \
        if (n != count_of(args[1]) || !apart(args[0], args[1], 4 * n)) Py_RETURN_FALSE;                                \
        Floats work = {data_of(args[0]), NULL, data_of(args[1]), 1};                                                   \
        BEGIN(n)                                                                                                       \
        run(NAME##_part, &work, n, 1, MANY);                                                                           \
        END                                                                                                            \
        Py_RETURN_TRUE;                                                                                                \
    }

#define BINARY(NAME, FUNCTION, MANY)                                                                                   \
    WIDE static void NAME##_loop(const float *x, const float *y, float *out, Py_ssize_t n) {                           \
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = FUNCTION(x[i], y[i]);                                         \
    }                                                                                                                  \
    static void NAME##_part(const void *work, Py_ssize_t from, Py_ssize_t to) {                                        \
        const Floats *a = work;                                                                                        \
        NAME##_loop(a->x + from, a->y + from, a->out + from, to - from);                                               \
    }                                                                                                                  \
    static PyObject *NAME(PyObject *module, PyObject *const *args, Py_ssize_t count) {                                 \
        if (count != 3 || !readable(args[0], F32) || !readable(args[1], F32) || !writable(args[2], F32))               \
            Py_RETURN_FALSE;                                                                                           \
        Py_ssize_t n = count_of(args[0]);                                                                              \
        if (n != count_of(args[1]) || n != count_of(args[2])) Py_RETURN_FALSE;                                         \
        if (!apart(args[0], args[2], 4 * n) || !apart(args[1], args[2], 4 * n)) Py_RETURN_FALSE;                       \
        Floats work = {data_of(args[0]), data_of(args[1]), data_of(args[2]), 1};                                       \
        BEGIN(n)                                                                                                       \
        run(NAME##_part, &work, n, 1, MANY);                                                                           \
        END                                                                                                            \
        Py_RETURN_TRUE;                                                                                                \
    }

UNARY(sigmoid, sigmoid_of, HEAVY)
UNARY(gelu, gelu_of, HEAVY)
UNARY(gelu_tanh, gelu_tanh_of, HEAVY)
UNARY(silu, silu_of, HEAVY)
UNARY(relu, relu_of, LIGHT)
UNARY(hardswish, hardswish_of, LIGHT)
UNARY(erfc_, erfc_of, HEAVY)
UNARY(ndtr, ndtr_of, HEAVY)
BINARY(gelu_backward, gelu_slope, HEAVY)
BINARY(gelu_tanh_backward, gelu_tanh_slope, HEAVY)
BINARY(silu_backward, silu_slope, HEAVY)

WIDE static void threshold_loop(const float *g, const float *x, float limit, float *out, Py_ssize_t n) {
    SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = x[i] <= limit ? 0.0f : g[i];
}

typedef struct {
    Floats arrays;
    float limit;
} Limited;

static void threshold_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Limited *a = work;
    threshold_loop(a->arrays.x + from, a->arrays.y + from, a->limit, a->arrays.out + from, to - from);
}

/* threshold_backward(g, x, threshold, out) */
static PyObject *threshold_backward(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 4 || !readable(args[0], F32) || !readable(args[1], F32) || !writable(args[3], F32)) Py_RETURN_FALSE;
    double limit = PyFloat_AsDouble(args[2]);
    if (limit == -1.0 && PyErr_Occurred()) return NULL;
    Py_ssize_t n = count_of(args[0]);
    if (n != count_of(args[1]) || n != count_of(args[3])) Py_RETURN_FALSE;
    if (!apart(args[0], args[3], 4 * n) || !apart(args[1], args[3], 4 * n)) Py_RETURN_FALSE;
    Limited work = {{data_of(args[0]), data_of(args[1]), data_of(args[3]), 1}, (float)limit};
    BEGIN(n)
    run(threshold_part, &work, n, 1, LIGHT);
    END
    Py_RETURN_TRUE;
}

/* Stand-ins for NumPy's own ufuncs: plain arrays are done here, all else is passed on. */

static PyObject *out_name;

/* What is given as out=: NULL with *known where nothing is; not *known for what only NumPy takes. */
INLINE PyObject *given_out(PyObject *const *args, Py_ssize_t count, PyObject *names, PyObject *descr, int *known) {
    *known = 1;
    if (!names) return NULL;
    *known = PyTuple_GET_SIZE(names) == 1 && PyUnicode_Compare(PyTuple_GET_ITEM(names, 0), out_name) == 0;
    if (!*known || args[count] == Py_None) return NULL;
    *known = writable(args[count], descr) && of_one_shape(args[0], args[count]);
    return *known ? args[count] : NULL;
}

static PyObject *stand_in(PyObject *ufunc, Part part, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    int known = count == 1 && readable(args[0], F32);
    PyObject *out = known ? given_out(args, 1, names, F32, &known) : NULL;
    Py_ssize_t n = known ? count_of(args[0]) : 0;
    if (!known || (out && !apart(args[0], out, 4 * n))) return PyObject_Vectorcall(ufunc, args, count, names);
    out = out ? Py_NewRef(out) : new_like(args[0], KEEP_ORDER, NULL, 0);
    if (!out) return NULL;
    Floats work = {data_of(args[0]), NULL, data_of(out), 1};
    BEGIN(n)
    run(part, &work, n, 1, HEAVY);
    END
    return out;
}

LOOP(exp, exp_of)
LOOP(tanh, tanh_of)

static PyObject *numpy_exp, *numpy_tanh, *numpy_empty;

static PyObject *exp_(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    return stand_in(numpy_exp, exp_part, args, count, names);
}

static PyObject *tanh_(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    return stand_in(numpy_tanh, tanh_part, args, count, names);
}

/* ------------------------------------------------------------------------------------------------ arithmetic */

/* Floats of 16 bits, as bits: without branches, so that loops over them become vectors. */
INLINE float from_half(uint16_t h) {
    int32_t bits = (h & 0x7fff) << 13;
    float x = from_bits(bits) * 0x1p112f; /* the exponents are 112 apart */
    bits = bits >= 0x7c00 << 13 ? bits | 0x7f800000 : to_bits(x);
    return from_bits(bits | (int32_t)((uint32_t)(h & 0x8000) << 16));
}

INLINE uint16_t to_half(float x) {
    uint32_t bits = (uint32_t)to_bits(x), sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    /* Below the least normal number the sum with 1/2 rounds to its step; else to even by hand, a carry included. */
    uint32_t small = (uint32_t)to_bits(from_bits((int32_t)bits) + 0.5f) - 0x3f000000;
    uint32_t normal = (bits + 0xfff + (bits >> 13 & 1) - (112 << 23)) >> 13;
    uint32_t result = bits < 113 << 23 ? small : normal;
    result = bits >= 0x477ff000 ? 0x7c00 : result; /* 65520 and more */
    result = bits > 0x7f800000 ? 0x7e00 | (bits >> 13 & 0x3ff) : result;
    return (uint16_t)(result | sign);
}

#ifdef HALF_INSTRUCTIONS

/* Eight at a time by the processor's own instructions; how many were done. */
__attribute__((target("avx,f16c"))) static Py_ssize_t widen_eights(const uint16_t *x, float *out, Py_ssize_t n) {
    Py_ssize_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + i))));
    return i;
}

__attribute__((target("avx,f16c"))) static Py_ssize_t narrow_eights(const float *x, uint16_t *out, Py_ssize_t n) {
    Py_ssize_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    return i;
}

static int has_half_instructions(void) { return __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c"); }

#else

static Py_ssize_t widen_eights(const uint16_t *x, float *out, Py_ssize_t n) { return 0; }
static Py_ssize_t narrow_eights(const float *x, uint16_t *out, Py_ssize_t n) { return 0; }
static int has_half_instructions(void) { return 0; }

#endif

static int half_instructions;

WIDE static void widen_halves(const uint16_t *x, float *out, Py_ssize_t n) {
    Py_ssize_t done = half_instructions ? widen_eights(x, out, n) : 0;
    SIMD for (Py_ssize_t i = done; i < n; i++) out[i] = from_half(x[i]);
}

WIDE static void narrow_halves(const float *x, uint16_t *out, Py_ssize_t n) {
    Py_ssize_t done = half_instructions ? narrow_eights(x, out, n) : 0;
    SIMD for (Py_ssize_t i = done; i < n; i++) out[i] = to_half(x[i]);
}

INLINE float from_brain(uint16_t b) { return from_bits((int32_t)((uint32_t)b << 16)); }

INLINE uint16_t to_brain(float x) {
    uint32_t bits = (uint32_t)to_bits(x);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16 & 0x8000) | 0x7fc0 : rounded);
}

#define SAME(X) (X)
#define PLUS(X, Y) ((X) + (Y))
#define MINUS(X, Y) ((X) - (Y))
#define TIMES(X, Y) ((X) * (Y))
#define OVER(X, Y) ((X) / (Y))
#define EQUAL(X, Y) ((X) == (Y))
#define UNEQUAL(X, Y) ((X) != (Y))
#define LESS(X, Y) ((X) < (Y))
#define AT_MOST(X, Y) ((X) <= (Y))
#define MORE(X, Y) ((X) > (Y))
#define AT_LEAST(X, Y) ((X) >= (Y))
#define LARGER(X, Y) ((X) >= (Y) || (X) != (X) ? (X) : (Y)) /* nan is larger than all, and smaller */
#define SMALLER(X, Y) ((X) <= (Y) || (X) != (X) ? (X) : (Y))

typedef struct {
    const void *x, *y;
    void *out;
    int one; /* whether y is a single number */
} Operands;

#define OPERATION(NAME, TYPE, RESULT, READ, WRITE, RULE)                                                               \
    WIDE static void NAME(const void *work, Py_ssize_t from, Py_ssize_t to) {                                          \
        const Operands *a = work;                                                                                      \
        const TYPE *x = a->x, *y = a->y;                                                                               \
        RESULT *out = a->out;                                                                                          \
        if (a->one) {                                                                                                  \
            TYPE number = *y;                                                                                          \
            SIMD for (Py_ssize_t i = from; i < to; i++) out[i] = WRITE(RULE(READ(x[i]), READ(number)));                \
        } else {                                                                                                       \
            SIMD for (Py_ssize_t i = from; i < to; i++) out[i] = WRITE(RULE(READ(x[i]), READ(y[i])));                  \
        }                                                                                                              \
    }

enum { KINDS = 5 }; /* of elements: float32, float64, int64, float16, bfloat16 */

INLINE int kind_of(PyObject *object) {
    PyObject *descr = ((Array *)object)->descr;
    return descr == F32 ? 0 : descr == F64 ? 1 : descr == I64 ? 2 : descr == F16 ? 3 : descr == BF16 ? 4 : KINDS;
}

/* Two plain arrays of one shape and type, or an array and a number of its type; all else is NumPy's. */
INLINE PyObject *operation(PyObject *ufunc, const Part *loops, PyObject *made, PyObject *const *args, Py_ssize_t count,
                           PyObject *names) {
    int known = count == 2 && Py_TYPE(args[0]) == array_type, kind = known ? kind_of(args[0]) : KINDS;
    known = kind < KINDS && loops[kind];
    PyObject *descr = known ? ((Array *)args[0])->descr : NULL, *out = NULL;
    known = known && readable(args[0], descr) && readable(args[1], descr);
    int one = known && ((Array *)args[1])->nd == 0;
    known = known && (one || of_one_shape(args[0], args[1]));
    if (known && names) out = given_out(args, 2, names, made ? made : descr, &known);
    Py_ssize_t n = known ? count_of(args[0]) : 0;
    if (known && out) {
        Py_ssize_t bytes = n * (kind == 0 ? 4 : kind < 3 ? 8 : 2);
        known = !made && apart(args[0], out, bytes) && (one || apart(args[1], out, bytes));
    }
    if (!known) return PyObject_Vectorcall(ufunc, args, count, names);
    out = out ? Py_NewRef(out) : new_like(args[0], KEEP_ORDER, Py_XNewRef(made), 0);
    if (!out) return NULL;
    Operands work = {data_of(args[0]), data_of(args[1]), data_of(out), one};
    BEGIN(n)
    run(loops[kind], &work, n, 1, LIGHT / 4);
    END
    return out;
}

/* Numbers of 16 bits in stretches that stay in the cache, in single precision. */
#define STRETCH 512

#define HALVES(NAME, LOOP)                                                                                             \
    WIDE static void NAME(const void *work, Py_ssize_t from, Py_ssize_t to) {                                          \
        const Operands *a = work;                                                                                      \
        float x[STRETCH], y[STRETCH], number = a->one ? from_half(*(const uint16_t *)a->y) : 0.0f;                     \
        for (Py_ssize_t n; from < to; from += n) {                                                                     \
            n = to - from < STRETCH ? to - from : STRETCH;                                                             \
            widen_halves((const uint16_t *)a->x + from, x, n);                                                         \
            if (a->one)                                                                                                \
                for (Py_ssize_t i = 0; i < n; i++) y[i] = number;                                                      \
            else                                                                                                       \
                widen_halves((const uint16_t *)a->y + from, y, n);                                                     \
            LOOP                                                                                                       \
        }                                                                                                              \
    }

#define FLOATS(NAME, RULE)                                                                                             \
    OPERATION(NAME##_f32, float, float, SAME, SAME, RULE)                                                              \
    OPERATION(NAME##_f64, double, double, SAME, SAME, RULE)                                                            \
    HALVES(NAME##_f16, for (Py_ssize_t i = 0; i < n; i++) x[i] = RULE(x[i], y[i]);                                     \
           narrow_halves(x, (uint16_t *)a->out + from, n);)                                                            \
    OPERATION(NAME##_bf16, uint16_t, uint16_t, from_brain, to_brain, RULE)

#define STANDS_FOR(NAME, INTEGERS)                                                                                     \
    static PyObject *numpy_##NAME;                                                                                     \
    static PyObject *NAME(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names) {                \
        static const Part loops[KINDS] = {NAME##_f32, NAME##_f64, INTEGERS, NAME##_f16, NAME##_bf16};                  \
        return operation(numpy_##NAME, loops, NULL, args, count, names);                                               \
    }

FLOATS(add, PLUS)
FLOATS(subtract, MINUS)
FLOATS(multiply, TIMES)
FLOATS(divide, OVER)
OPERATION(add_i64, uint64_t, uint64_t, SAME, SAME, PLUS) /* unsigned, so that they wrap around */
OPERATION(subtract_i64, uint64_t, uint64_t, SAME, SAME, MINUS)
OPERATION(multiply_i64, uint64_t, uint64_t, SAME, SAME, TIMES)
FLOATS(maximum, LARGER)
FLOATS(minimum, SMALLER)
OPERATION(maximum_i64, int64_t, int64_t, SAME, SAME, LARGER)
OPERATION(minimum_i64, int64_t, int64_t, SAME, SAME, SMALLER)
STANDS_FOR(add, add_i64)
STANDS_FOR(subtract, subtract_i64)
STANDS_FOR(multiply, multiply_i64)
STANDS_FOR(divide, NULL)
STANDS_FOR(maximum, maximum_i64)
STANDS_FOR(minimum, minimum_i64)

#define COMPARISON(NAME, RULE)                                                                                         \
    OPERATION(NAME##_f32, float, uint8_t, SAME, SAME, RULE)                                                            \
    OPERATION(NAME##_f64, double, uint8_t, SAME, SAME, RULE)                                                           \
    OPERATION(NAME##_i64, int64_t, uint8_t, SAME, SAME, RULE)                                                          \
    HALVES(NAME##_f16, uint8_t *out = (uint8_t *)a->out + from;                                                        \
           for (Py_ssize_t i = 0; i < n; i++) out[i] = RULE(x[i], y[i]);)                                              \
    OPERATION(NAME##_bf16, uint16_t, uint8_t, from_brain, SAME, RULE)                                                  \
    static PyObject *numpy_##NAME;                                                                                     \
    static PyObject *NAME(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names) {                \
        static const Part loops[KINDS] = {NAME##_f32, NAME##_f64, NAME##_i64, NAME##_f16, NAME##_bf16};                \
        return operation(numpy_##NAME, loops, BOOL, args, count, names);                                               \
    }

COMPARISON(equal, EQUAL)
COMPARISON(not_equal, UNEQUAL)
COMPARISON(less, LESS)
COMPARISON(less_equal, AT_MOST)
COMPARISON(greater, MORE)
COMPARISON(greater_equal, AT_LEAST)

#define CONVERSION(NAME, TYPE, RESULT, FUNCTION)                                                                       \
    WIDE static void NAME(const void *work, Py_ssize_t from, Py_ssize_t to) {                                          \
        const Operands *a = work;                                                                                      \
        const TYPE *x = a->x;                                                                                          \
        RESULT *out = a->out;                                                                                          \
        SIMD for (Py_ssize_t i = from; i < to; i++) out[i] = FUNCTION(x[i]);                                           \
    }

static void half_to_float(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Operands *a = work;
    widen_halves((const uint16_t *)a->x + from, (float *)a->out + from, to - from);
}

static void float_to_half(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Operands *a = work;
    narrow_halves((const float *)a->x + from, (uint16_t *)a->out + from, to - from);
}

CONVERSION(brain_to_float, uint16_t, float, from_brain)
CONVERSION(float_to_brain, float, uint16_t, to_brain)

/* convert(x, out): from 16 bits to float32 or back. */
static PyObject *convert(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || Py_TYPE(args[0]) != array_type || Py_TYPE(args[1]) != array_type) Py_RETURN_FALSE;
    PyObject *from = ((Array *)args[0])->descr, *to = ((Array *)args[1])->descr;
    Part part = from == F16 && to == F32    ? half_to_float
                : from == F32 && to == F16  ? float_to_half
                : from == BF16 && to == F32 ? brain_to_float
                : from == F32 && to == BF16 ? float_to_brain
                                            : NULL;
    if (!part || !readable(args[0], from) || !writable(args[1], to) || !of_one_shape(args[0], args[1])) Py_RETURN_FALSE;
    Operands work = {data_of(args[0]), NULL, data_of(args[1]), 0};
    Py_ssize_t n = count_of(args[0]);
    BEGIN(n)
    run(part, &work, n, 1, LIGHT);
    END
    Py_RETURN_TRUE;
}

/* Of one array, in float32 and float64. */
#define SINGLE(NAME, RULE)                                                                                             \
    CONVERSION(NAME##_f32, float, float, RULE)                                                                         \
    CONVERSION(NAME##_f64, double, double, RULE)                                                                       \
    static PyObject *numpy_##NAME;                                                                                     \
    static PyObject *NAME(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names) {                \
        return on_floats(numpy_##NAME, NAME##_f32, NAME##_f64, args, count, names);                                    \
    }

static PyObject *on_floats(PyObject *ufunc, Part single, Part twice, PyObject *const *args, Py_ssize_t count,
                           PyObject *names) {
    if (count != 1 || names || !(readable(args[0], F32) || readable(args[0], F64)))
        return PyObject_Vectorcall(ufunc, args, count, names);
    PyObject *out = new_like(args[0], KEEP_ORDER, NULL, 0);
    if (!out) return NULL;
    Operands work = {data_of(args[0]), NULL, data_of(out), 0};
    Py_ssize_t n = count_of(args[0]);
    BEGIN(n)
    run(((Array *)args[0])->descr == F32 ? single : twice, &work, n, 1, LIGHT);
    END
    return out;
}

#define NEGATED(X) (-(X))
#define SQUARED(X) ((X) * (X))
#define INVERTED(X) (1 / (X))
#define SIZE(X) _Generic((X), float: fabsf, default: fabs)(X)
#define ROOT(X) _Generic((X), float: sqrtf, default: sqrt)(X)

SINGLE(negative, NEGATED)
SINGLE(absolute, SIZE)
SINGLE(sqrt_, ROOT)
SINGLE(square, SQUARED)
SINGLE(reciprocal, INVERTED)

/* ------------------------------------------------------------------------------------------------ rows */

#define PART 1024 /* so many are added up in single precision; the rest in double */

#define LANES 32

/* The sum of TERM for j in [0, n), in many sums that are added up in double precision before they grow long. */
#define SUMMED(TERM)                                                                                                   \
    double total = 0.0;                                                                                                \
    Py_ssize_t i = 0, j;                                                                                               \
    while (i + LANES <= n) {                                                                                           \
        float sums[LANES] = {0};                                                                                       \
        for (Py_ssize_t stop = i + PART < n ? i + PART : n; i + LANES <= stop; i += LANES)                             \
            for (int k = 0; k < LANES; k++) {                                                                          \
                j = i + k;                                                                                             \
                sums[k] += TERM;                                                                                       \
            }                                                                                                          \
        for (int width = LANES / 2; width; width /= 2)                                                                 \
            for (int k = 0; k < width; k++) sums[k] += sums[k + width];                                                \
        total += sums[0];                                                                                              \
    }                                                                                                                  \
    for (j = i; j < n; j++) total += TERM;                                                                             \
    return total;

INLINE double sum_of(const float *x, Py_ssize_t n) { SUMMED(x[j]) }
INLINE double dot_of(const float *x, const float *y, Py_ssize_t n) { SUMMED(x[j] * y[j]) }
INLINE double spread_of(const float *x, float mean, Py_ssize_t n) { SUMMED((x[j] - mean) * (x[j] - mean)) }

/* The largest; nan is passed over, and shows in the differences from it. */
INLINE float peak_of(const float *x, Py_ssize_t n) {
    float peak = -INFINITY;
    SIMD_SUM(omp simd reduction(max : peak)) for (Py_ssize_t i = 0; i < n; i++) peak = x[i] > peak ? x[i] : peak;
    return peak;
}

WIDE static void sum_loop(const float *x, float *out, Py_ssize_t rows, Py_ssize_t n) {
    for (Py_ssize_t r = 0; r < rows; r++) out[r] = (float)sum_of(x + r * n, n);
}

#define SHORT 64
#define SHELF 1024

/* Rows too short for a vector loop each: as many as fit on a shelf go through exp together. */
#define SHORT_ROWS(FINISH)                                                                                             \
    float shelf[SHELF];                                                                                                \
    for (Py_ssize_t group = SHELF / n; rows > 0; rows -= group, x += group * n, out += group * n) {                    \
        if (group > rows) group = rows;                                                                                \
        for (Py_ssize_t r = 0; r < group; r++) {                                                                       \
            float peak = peak_of(x + r * n, n);                                                                        \
            for (Py_ssize_t i = r * n; i < (r + 1) * n; i++) out[i] = x[i] - peak;                                     \
        }                                                                                                              \
        SIMD for (Py_ssize_t i = 0; i < group * n; i++) shelf[i] = exp_of(out[i]);                                     \
        for (Py_ssize_t r = 0; r < group; r++) {                                                                       \
            double sum = sum_of(shelf + r * n, n);                                                                     \
            FINISH                                                                                                     \
        }                                                                                                              \
    }

WIDE static void softmax_loop(const float *x, float *out, Py_ssize_t rows, Py_ssize_t n) {
    if (n < SHORT) {
        SHORT_ROWS(float scale = (float)(1.0 / sum);
                   for (Py_ssize_t i = r * n; i < (r + 1) * n; i++) out[i] = shelf[i] * scale;)
        return;
    }
    for (Py_ssize_t r = 0; r < rows; r++, x += n, out += n) {
        float peak = peak_of(x, n);
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = exp_of(x[i] - peak);
        float scale = (float)(1.0 / sum_of(out, n));
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] *= scale;
    }
}

WIDE static void log_softmax_loop(const float *x, float *out, Py_ssize_t rows, Py_ssize_t n) {
    if (n < SHORT) {
        SHORT_ROWS(float level = (float)log(sum); for (Py_ssize_t i = r * n; i < (r + 1) * n; i++) out[i] -= level;)
        return;
    }
    for (Py_ssize_t r = 0; r < rows; r++, x += n, out += n) {
        float peak = peak_of(x, n);
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = exp_of(x[i] - peak);
        float level = (float)log(sum_of(out, n));
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = x[i] - peak - level;
    }
}

WIDE static void softmax_backward_loop(const float *g, const float *y, float *out, Py_ssize_t rows, Py_ssize_t n) {
    for (Py_ssize_t r = 0; r < rows; r++, g += n, y += n, out += n) {
        float along = (float)dot_of(g, y, n);
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = (g[i] - along) * y[i];
    }
}

WIDE static void log_softmax_backward_loop(const float *g, const float *y, float *out, Py_ssize_t rows, Py_ssize_t n) {
    for (Py_ssize_t r = 0; r < rows; r++, g += n, y += n, out += n) {
        float level = (float)sum_of(g, n);
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = g[i] - exp_of(y[i]) * level;
    }
}

#define ROWS(NAME)                                                                                                     \
    static void NAME##_part(const void *work, Py_ssize_t from, Py_ssize_t to) {                                        \
        const Floats *a = work;                                                                                        \
        NAME##_loop(a->x + from * a->n, a->out + from * a->n, to - from, a->n);                                        \
    }                                                                                                                  \
    static PyObject *NAME(PyObject *module, PyObject *const *args, Py_ssize_t count) {                                 \
        if (count != 2 || !readable(args[0], F32) || !writable(args[1], F32)) Py_RETURN_FALSE;                         \
        Py_ssize_t total = count_of(args[0]), n = last_of(args[0]);                                                    \
        if (total == 0 || total != count_of(args[1])) Py_RETURN_FALSE;                                                 \
        Floats work = {data_of(args[0]), NULL, data_of(args[1]), n};                                                   \
        BEGIN(total)                                                                                                   \
        run(NAME##_part, &work, total / n, n, HEAVY);                                                                  \
        END                                                                                                            \
        Py_RETURN_TRUE;                                                                                                \
    }

#define ROW_PAIRS(NAME)                                                                                                \
    static void NAME##_part(const void *work, Py_ssize_t from, Py_ssize_t to) {                                        \
        const Floats *a = work;                                                                                        \
        NAME##_loop(a->x + from * a->n, a->y + from * a->n, a->out + from * a->n, to - from, a->n);                    \
    }                                                                                                                  \
    static PyObject *NAME(PyObject *module, PyObject *const *args, Py_ssize_t count) {                                 \
        if (count != 3 || !readable(args[0], F32) || !readable(args[1], F32) || !writable(args[2], F32))               \
            Py_RETURN_FALSE;                                                                                           \
        Py_ssize_t total = count_of(args[1]), n = last_of(args[1]);                                                    \
        if (total == 0 || total != count_of(args[0]) || total != count_of(args[2])) Py_RETURN_FALSE;                   \
        Floats work = {data_of(args[0]), data_of(args[1]), data_of(args[2]), n};                                       \
        BEGIN(total)                                                                                                   \
        run(NAME##_part, &work, total / n, n, HEAVY);                                                                  \
        END                                                                                                            \
        Py_RETURN_TRUE;                                                                                                \
    }

ROWS(softmax)
ROWS(log_softmax)
ROW_PAIRS(softmax_backward)
ROW_PAIRS(log_softmax_backward)

static void cumsum_loop(const float *x, float *out, Py_ssize_t rows, Py_ssize_t n) {
    for (Py_ssize_t r = 0; r < rows; r++) {
        double total = 0.0;
        for (Py_ssize_t i = 0; i < n; i++) *out++ = (float)(total += *x++);
    }
}

static void cumprod_loop(const float *x, float *out, Py_ssize_t rows, Py_ssize_t n) {
    for (Py_ssize_t r = 0; r < rows; r++) {
        double product = 1.0;
        for (Py_ssize_t i = 0; i < n; i++) *out++ = (float)(product *= *x++);
    }
}

ROWS(cumsum)
ROWS(cumprod)

typedef struct {
    const float *x;
    float *values;
    int64_t *index;
    Py_ssize_t n;
    int least;
} Extremes;

static void extremes_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Extremes *a = work;
    for (Py_ssize_t r = from; r < to; r++) {
        const float *x = a->x + r * a->n;
        float best = x[0];
        int64_t place = 0;
        for (Py_ssize_t i = 0; i < a->n; i++) {
            int better = x[i] != x[i] || (a->least ? x[i] <= best : x[i] >= best);
            best = better ? x[i] : best;
            place = better ? i : place;
            a->values[r * a->n + i] = best;
            a->index[r * a->n + i] = place;
        }
    }
}

/* running_extremes(x, least, values, index): the largest or least so far along the last dimension and its last place;
 * nan is the largest and the least, and stays. */
static PyObject *running_extremes(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 4 || !readable(args[0], F32) || !PyBool_Check(args[1]) || !writable(args[2], F32) ||
        !writable(args[3], I64))
        Py_RETURN_FALSE;
    Py_ssize_t total = count_of(args[0]), n = last_of(args[0]);
    if (total == 0 || total != count_of(args[2]) || total != count_of(args[3])) Py_RETURN_FALSE;
    Extremes work = {data_of(args[0]), data_of(args[2]), data_of(args[3]), n, args[1] == Py_True};
    BEGIN(total)
    run(extremes_part, &work, total / n, n, HEAVY);
    END
    Py_RETURN_TRUE;
}

/* largest(x, out): out is the largest of all, nan where there is one. */
static PyObject *largest(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !readable(args[0], F32) || !writable(args[1], F32)) Py_RETURN_FALSE;
    Py_ssize_t n = count_of(args[0]);
    if (n == 0 || count_of(args[1]) != 1) Py_RETURN_FALSE;
    const float *x = data_of(args[0]);
    float peak = x[0];
    for (Py_ssize_t i = 1; i < n; i++)
        if (!(x[i] <= peak)) peak = x[i] > peak || x[i] != x[i] ? x[i] : peak;
    *(float *)data_of(args[1]) = peak;
    Py_RETURN_TRUE;
}

/* sum_rows(x, out): out has one element for each run of x. */
static PyObject *sum_rows(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !readable(args[0], F32) || !writable(args[1], F32)) Py_RETURN_FALSE;
    Py_ssize_t total = count_of(args[0]), rows = count_of(args[1]);
    if (rows == 0 || total % rows) Py_RETURN_FALSE;
    BEGIN(total)
    sum_loop(data_of(args[0]), data_of(args[1]), rows, total / rows);
    END
    Py_RETURN_TRUE;
}

/* ------------------------------------------------------------------------------------------------ layer_norm */

WIDE static void layer_norm_loop(const float *x, const float *w, const float *b, float *out, float *means, float *rstds,
                                 float eps, Py_ssize_t rows, Py_ssize_t n) {
    for (Py_ssize_t r = 0; r < rows; r++, x += n, out += n) {
        float mean = (float)(sum_of(x, n) / (double)n);
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = x[i] - mean;
        float rstd = (float)(1.0 / sqrt(dot_of(out, out, n) / (double)n + (double)eps));
        means[r] = mean;
        rstds[r] = rstd;
        if (w && b) {
            SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = out[i] * rstd * w[i] + b[i];
        } else if (w) {
            SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = out[i] * rstd * w[i];
        } else {
            SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] *= rstd;
            if (b) { SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] += b[i]; }
        }
    }
}

typedef struct {
    const float *x, *w, *b;
    float *out, *means, *rstds, eps;
    Py_ssize_t n;
} Normalized;

static void layer_norm_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Normalized *a = work;
    layer_norm_loop(a->x + from * a->n, a->w, a->b, a->out + from * a->n, a->means + from, a->rstds + from, a->eps,
                    to - from, a->n);
}

INLINE int optional(PyObject *object, Py_ssize_t n, float **data) {
    *data = NULL;
    if (object == Py_None) return 1;
    if (!readable(object, F32) || count_of(object) != n) return 0;
    *data = data_of(object);
    return 1;
}

/* layer_norm(x, weight | None, bias | None, eps, out, mean, rstd) */
static PyObject *layer_norm(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 7 || !readable(args[0], F32) || !PyFloat_CheckExact(args[3])) Py_RETURN_FALSE;
    for (int i = 4; i < 7; i++)
        if (!writable(args[i], F32)) Py_RETURN_FALSE;
    Py_ssize_t total = count_of(args[0]), rows = count_of(args[5]);
    if (total == 0 || total != count_of(args[4]) || rows != count_of(args[6]) || rows == 0 || total % rows)
        Py_RETURN_FALSE;
    Py_ssize_t n = total / rows;
    float *w, *b, eps = (float)PyFloat_AS_DOUBLE(args[3]);
    if (!optional(args[1], n, &w) || !optional(args[2], n, &b)) Py_RETURN_FALSE;
    Normalized work = {data_of(args[0]), w, b, data_of(args[4]), data_of(args[5]), data_of(args[6]), eps, n};
    BEGIN(total)
    run(layer_norm_part, &work, rows, n, HEAVY);
    END
    Py_RETURN_TRUE;
}

#define GROUP 64 /* rows whose share in the gradient of a weight is added up in single precision */

/* `work` has room for 3 n floats. */
WIDE static void layer_norm_backward_loop(const float *g, const float *x, const float *means, const float *rstds,
                                          const float *w, float *dx, double *dw, double *db, float *work,
                                          Py_ssize_t rows, Py_ssize_t n) {
    float *xhat = work, *pw = work + n, *pb = work + 2 * n;
    memset(pw, 0, 2 * n * sizeof(float));
    for (Py_ssize_t r = 0; r < rows; r++, g += n, x += n) {
        float mean = means[r], rstd = rstds[r];
        SIMD for (Py_ssize_t i = 0; i < n; i++) {
            xhat[i] = (x[i] - mean) * rstd;
            pw[i] += g[i] * xhat[i];
            pb[i] += g[i];
        }
        if (dx) {
            float level = 0.0f, along = 0.0f;
            SIMD for (Py_ssize_t i = 0; i < n; i++) dx[i] = w ? g[i] * w[i] : g[i];
            level = (float)(sum_of(dx, n) / (double)n);
            along = (float)(dot_of(dx, xhat, n) / (double)n);
            SIMD for (Py_ssize_t i = 0; i < n; i++) dx[i] = (dx[i] - level - xhat[i] * along) * rstd;
            dx += n;
        }
        if (r % GROUP == GROUP - 1 || r == rows - 1) {
            for (Py_ssize_t i = 0; i < n; i++) {
                dw[i] += pw[i];
                db[i] += pb[i];
                pw[i] = pb[i] = 0.0f;
            }
        }
    }
}

/* layer_norm_backward(g, x, mean, rstd, weight | None, dx | None, dw | None, db | None) */
static PyObject *layer_norm_backward(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 8) Py_RETURN_FALSE;
    for (int i = 0; i < 4; i++)
        if (!readable(args[i], F32)) Py_RETURN_FALSE;
    Py_ssize_t total = count_of(args[1]), rows = count_of(args[2]);
    if (rows == 0 || total == 0 || total % rows || total != count_of(args[0]) || rows != count_of(args[3]))
        Py_RETURN_FALSE;
    Py_ssize_t n = total / rows;
    float *w, *dx, *dw, *db;
    if (!optional(args[4], n, &w) || !optional(args[5], total, &dx) || !optional(args[6], n, &dw) ||
        !optional(args[7], n, &db))
        Py_RETURN_FALSE;
    double *sums = PyMem_RawCalloc(2 * n, sizeof(double));
    float *work = PyMem_RawMalloc(3 * n * sizeof(float));
    if (sums && work) {
        BEGIN(total)
        layer_norm_backward_loop(data_of(args[0]), data_of(args[1]), data_of(args[2]), data_of(args[3]), w, dx, sums,
                                 sums + n, work, rows, n);
        for (Py_ssize_t i = 0; i < n; i++) {
            if (dw) dw[i] = (float)sums[i];
            if (db) db[i] = (float)sums[n + i];
        }
        END
    }
    int done = sums && work;
    PyMem_RawFree(sums);
    PyMem_RawFree(work);
    return PyBool_FromLong(done);
}

/* ------------------------------------------------------------------------------------------------ channels */

/* Arrays of (batch, channels, places), as three counts. A channel of one sample is a run of memory. */
typedef struct {
    Py_ssize_t batch, channels, places;
} Layout;

INLINE int layout_of(PyObject *object, Layout *shape) {
    Array *a = (Array *)object;
    if (a->nd < 2) return 0;
    shape->batch = a->dimensions[0];
    shape->channels = a->dimensions[1];
    shape->places = 1;
    for (int i = 2; i < a->nd; i++) shape->places *= a->dimensions[i];
    return shape->batch * shape->channels * shape->places > 0;
}

/* What a loop over channels reads and writes: arrays of that layout, then one float for each channel. */
typedef struct {
    const float *g, *x;
    float *out;
    const float *means, *as, *bs, *ds;
    float *first, *second;
    Layout s;
} Channels;

WIDE static void moments_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Channels *a = work;
    Layout s = a->s;
    double count = (double)(s.batch * s.places);
    for (Py_ssize_t c = from; c < to; c++) {
        double sum = 0.0, squares = 0.0;
        for (Py_ssize_t b = 0; b < s.batch; b++) sum += sum_of(a->x + (b * s.channels + c) * s.places, s.places);
        float mean = (float)(sum / count);
        for (Py_ssize_t b = 0; b < s.batch; b++)
            squares += spread_of(a->x + (b * s.channels + c) * s.places, mean, s.places);
        a->first[c] = mean;
        a->second[c] = (float)(squares / count);
    }
}

/* out = x * a + d */
WIDE static void affine_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Channels *a = work;
    Py_ssize_t places = a->s.places;
    for (Py_ssize_t r = from; r < to; r++) {
        const float *x = a->x + r * places, scale = a->as[r % a->s.channels], shift = a->ds[r % a->s.channels];
        float *out = a->out + r * places;
        SIMD for (Py_ssize_t i = 0; i < places; i++) out[i] = x[i] * scale + shift;
    }
}

/* For each channel the sum of g and that of g (x - mean). */
WIDE static void products_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Channels *a = work;
    Layout s = a->s;
    for (Py_ssize_t c = from; c < to; c++) {
        double sum = 0.0, product = 0.0;
        float mean = a->means[c];
        for (Py_ssize_t b = 0; b < s.batch; b++) {
            const float *gs = a->g + (b * s.channels + c) * s.places, *xs = a->x + (b * s.channels + c) * s.places;
            for (Py_ssize_t start = 0; start < s.places; start += PART) {
                Py_ssize_t stop = s.places - start < PART ? s.places : start + PART;
                float p = 0.0f, q = 0.0f;
                SIMD_SUM(omp simd reduction(+ : p, q)) for (Py_ssize_t i = start; i < stop; i++) {
                    p += gs[i];
                    q += gs[i] * (xs[i] - mean);
                }
                sum += p;
                product += q;
            }
        }
        a->first[c] = (float)sum;
        a->second[c] = (float)product;
    }
}

/* out = g * a + (x - mean) * b + d */
WIDE static void mix_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Channels *w = work;
    Py_ssize_t places = w->s.places;
    for (Py_ssize_t r = from; r < to; r++) {
        Py_ssize_t c = r % w->s.channels;
        const float *g = w->g + r * places, *x = w->x + r * places;
        float *out = w->out + r * places, mean = w->means[c], a = w->as[c], b = w->bs[c], d = w->ds[c];
        SIMD for (Py_ssize_t i = 0; i < places; i++) out[i] = g[i] * a + (x[i] - mean) * b + d;
    }
}

/* Whether args[first] to args[last - 1] are vectors of one float for each channel. */
INLINE int vectors(PyObject *const *args, int first, int last, Py_ssize_t channels) {
    for (int i = first; i < last; i++)
        if (!readable(args[i], F32) || count_of(args[i]) != channels) return 0;
    return 1;
}

/* channel_moments(x, mean, variance) */
static PyObject *channel_moments(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Layout s;
    if (count != 3 || !readable(args[0], F32) || !layout_of(args[0], &s) || !vectors(args, 1, 3, s.channels))
        Py_RETURN_FALSE;
    Channels work = {.x = data_of(args[0]), .first = data_of(args[1]), .second = data_of(args[2]), .s = s};
    BEGIN(s.batch * s.channels * s.places)
    run(moments_part, &work, s.channels, s.batch * s.places, LIGHT);
    END
    Py_RETURN_TRUE;
}

/* channel_affine(x, scale, shift, out) */
static PyObject *channel_affine(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Layout s;
    if (count != 4 || !readable(args[0], F32) || !layout_of(args[0], &s) || !vectors(args, 1, 3, s.channels) ||
        !writable(args[3], F32) || count_of(args[3]) != count_of(args[0]))
        Py_RETURN_FALSE;
    Channels work = {.x = data_of(args[0]), .as = data_of(args[1]), .ds = data_of(args[2]), .out = data_of(args[3]), .s = s};
    BEGIN(s.batch * s.channels * s.places)
    run(affine_part, &work, s.batch * s.channels, s.places, LIGHT);
    END
    Py_RETURN_TRUE;
}

/* channel_products(g, x, mean, sums, products) */
static PyObject *channel_products(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Layout s;
    if (count != 5 || !readable(args[0], F32) || !readable(args[1], F32) || !layout_of(args[1], &s) ||
        count_of(args[0]) != count_of(args[1]) || !vectors(args, 2, 5, s.channels))
        Py_RETURN_FALSE;
    Channels work = {.g = data_of(args[0]), .x = data_of(args[1]), .means = data_of(args[2]),
                     .first = data_of(args[3]), .second = data_of(args[4]), .s = s};
    BEGIN(s.batch * s.channels * s.places)
    run(products_part, &work, s.channels, s.batch * s.places, LIGHT);
    END
    Py_RETURN_TRUE;
}

/* channel_mix(g, x, mean, a, b, d, out) */
static PyObject *channel_mix(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Layout s;
    if (count != 7 || !readable(args[0], F32) || !readable(args[1], F32) || !layout_of(args[1], &s) ||
        count_of(args[0]) != count_of(args[1]) || !vectors(args, 2, 6, s.channels) || !writable(args[6], F32) ||
        count_of(args[6]) != count_of(args[1]))
        Py_RETURN_FALSE;
    Channels work = {.g = data_of(args[0]), .x = data_of(args[1]), .means = data_of(args[2]), .as = data_of(args[3]),
                     .bs = data_of(args[4]), .ds = data_of(args[5]), .out = data_of(args[6]), .s = s};
    BEGIN(s.batch * s.channels * s.places)
    run(mix_part, &work, s.batch * s.channels, s.places, LIGHT);
    END
    Py_RETURN_TRUE;
}

/* ------------------------------------------------------------------------------------------------ places */

INLINE int in_range(const int64_t *index, Py_ssize_t count, Py_ssize_t size) {
    uint64_t outside = 0;
    for (Py_ssize_t i = 0; i < count; i++) outside |= (uint64_t)((uint64_t)index[i] >= (uint64_t)size);
    return !outside;
}

/* inside(index, size): whether all of index lies in [0, size); None where index is not plain memory of int64. */
static PyObject *inside(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !readable(args[0], I64)) Py_RETURN_NONE;
    Py_ssize_t size = PyLong_AsSsize_t(args[1]);
    if (size == -1 && PyErr_Occurred()) return NULL;
    return PyBool_FromLong(in_range(data_of(args[0]), count_of(args[0]), size));
}

/* Rows of n elements in memory, m places in each; `wide` elements have eight bytes. */
typedef struct {
    const int64_t *index;
    const void *x;
    void *out;
    Py_ssize_t n, m;
    int wide, *outside;
} Places;

static void in_range_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Places *a = work;
    if (!in_range(a->index + from * a->m, (to - from) * a->m, a->n)) __atomic_store_n(a->outside, 1, __ATOMIC_RELAXED);
}

#define GATHER(TYPE)                                                                                                   \
    for (Py_ssize_t r = from; r < to; r++)                                                                             \
        for (Py_ssize_t i = 0; i < m; i++) ((TYPE *)a->out)[r * m + i] = ((const TYPE *)a->x)[r * n + a->index[r * m + i]];

static void gather_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Places *a = work;
    Py_ssize_t n = a->n, m = a->m;
    if (a->wide) { GATHER(uint64_t) } else { GATHER(uint32_t) }
}

#define ADD_PLACES(TYPE)                                                                                               \
    for (Py_ssize_t r = from; r < to; r++)                                                                             \
        for (Py_ssize_t i = 0; i < m; i++) ((TYPE *)a->out)[r * n + a->index[r * m + i]] += ((const TYPE *)a->x)[r * m + i];

static void add_places_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Places *a = work;
    Py_ssize_t n = a->n, m = a->m;
    if (a->wide) { ADD_PLACES(double) } else { ADD_PLACES(float) }
}

/* `part` over all rows, if every place lies inside them. */
static PyObject *at_places(Part part, Places work, Py_ssize_t rows) {
    int outside = 0;
    work.outside = &outside;
    BEGIN(rows * work.m)
    run(in_range_part, &work, rows, work.m, LIGHT);
    if (!outside) run(part, &work, rows, work.m, HEAVY);
    END
    return PyBool_FromLong(!outside);
}

/* gather(x, index, out): along the last dimension; the others are the same. */
static PyObject *gather(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !readable(args[1], I64)) Py_RETURN_FALSE;
    int single = readable(args[0], F32) && writable(args[2], F32);
    if (!single && !(readable(args[0], F64) && writable(args[2], F64)) &&
        !(readable(args[0], I64) && writable(args[2], I64)))
        Py_RETURN_FALSE;
    Py_ssize_t n = last_of(args[0]), m = last_of(args[1]), total = count_of(args[1]);
    if (total == 0 || total != count_of(args[2]) || count_of(args[0]) / n * m != total) Py_RETURN_FALSE;
    Places work = {data_of(args[1]), data_of(args[0]), data_of(args[2]), n, m, !single, NULL};
    return at_places(gather_part, work, total / m);
}

/* add_places(target, index, values): target[..., index] += values along the last dimension, repeated indices counted. */
static PyObject *add_places(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !readable(args[1], I64)) Py_RETURN_FALSE;
    int single = writable(args[0], F32) && readable(args[2], F32);
    if (!single && !(writable(args[0], F64) && readable(args[2], F64))) Py_RETURN_FALSE;
    Py_ssize_t n = last_of(args[0]), m = last_of(args[1]), total = count_of(args[1]);
    if (total == 0 || total != count_of(args[2]) || m != last_of(args[2]) || n == 0 || count_of(args[0]) / n * m != total)
        Py_RETURN_FALSE;
    Places work = {data_of(args[1]), data_of(args[2]), data_of(args[0]), n, m, !single, NULL};
    return at_places(add_places_part, work, total / m);
}

typedef struct {
    const float *planes, *weights;
    const int64_t *places;
    float *out;
    Py_ssize_t channels, size, n;
} Sampled;

static void add_sampled_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Sampled *a = work;
    for (Py_ssize_t p = from; p < to; p++) {
        const float *plane = a->planes + p * a->size, *weights = a->weights + p / a->channels * a->n;
        const int64_t *places = a->places + p / a->channels * a->n;
        float *out = a->out + p * a->n;
        for (Py_ssize_t i = 0; i < a->n; i++) out[i] += plane[places[i]] * weights[i];
    }
}

/* add_sampled(planes, places, weights, out): out[i, c] += planes[i, c, places[i]] * weights[i]. */
static PyObject *add_sampled(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 4 || !readable(args[0], F32) || !readable(args[1], I64) || !readable(args[2], F32) ||
        !writable(args[3], F32) || ((Array *)args[0])->nd != 3 || ((Array *)args[1])->nd != 2)
        Py_RETURN_FALSE;
    Py_ssize_t *shape = ((Array *)args[0])->dimensions, n = last_of(args[1]), planes = shape[0] * shape[1];
    if (n == 0 || planes == 0 || count_of(args[1]) != shape[0] * n || count_of(args[2]) != shape[0] * n ||
        count_of(args[3]) != planes * n || !in_range(data_of(args[1]), shape[0] * n, shape[2]))
        Py_RETURN_FALSE;
    Sampled work = {data_of(args[0]), data_of(args[2]), data_of(args[1]), data_of(args[3]), shape[1], shape[2], n};
    BEGIN(planes * n)
    run(add_sampled_part, &work, planes, n, HEAVY);
    END
    Py_RETURN_TRUE;
}

WIDE static void add_rows_loop(float *out, const int64_t *index, const float *rows, Py_ssize_t m, Py_ssize_t n) {
    for (Py_ssize_t r = 0; r < m; r++, rows += n) {
        float *row = out + index[r] * n;
        SIMD for (Py_ssize_t i = 0; i < n; i++) row[i] += rows[i];
    }
}

/* add_rows(target, index, rows): target[index] += rows for (n, d) and (m, d) arrays, repeated indices counted. */
static PyObject *add_rows(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !writable(args[0], F32) || !readable(args[1], I64) || !readable(args[2], F32)) Py_RETURN_FALSE;
    Py_ssize_t n = last_of(args[0]), m = count_of(args[1]), total = count_of(args[0]);
    if (((Array *)args[0])->nd != 2 || total == 0 || count_of(args[2]) != m * n) Py_RETURN_FALSE;
    int fits;
    BEGIN(m * n)
    fits = in_range(data_of(args[1]), m, total / n);
    if (fits) add_rows_loop(data_of(args[0]), data_of(args[1]), data_of(args[2]), m, n);
    END
    return PyBool_FromLong(fits);
}

/* swap_in_turn(order, targets): order[i] and order[targets[i]] change places, for one i after the other. */
static PyObject *swap_in_turn(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !writable(args[0], I64) || !readable(args[1], I64)) Py_RETURN_FALSE;
    Py_ssize_t n = count_of(args[0]), m = count_of(args[1]);
    int64_t *order = data_of(args[0]);
    const int64_t *targets = data_of(args[1]);
    if (m > n || !in_range(targets, m, n)) Py_RETURN_FALSE;
    for (Py_ssize_t i = 0; i < m; i++) {
        int64_t held = order[i];
        order[i] = order[targets[i]];
        order[targets[i]] = held;
    }
    Py_RETURN_TRUE;
}

/* Whether args[0] is (n, m) of float32 and args[1] n places in its rows. */
INLINE int rows_and_places(PyObject *const *args) {
    Array *a = (Array *)args[0];
    return readable(args[0], F32) && readable(args[1], I64) && a->nd == 2 && count_of(args[1]) == a->dimensions[0] &&
           a->dimensions[0] > 0 && in_range(data_of(args[1]), a->dimensions[0], a->dimensions[1]);
}

/* sum_picked(x, index): the sum of x[i, index[i]], or None. */
static PyObject *sum_picked(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !rows_and_places(args)) Py_RETURN_NONE;
    const float *x = data_of(args[0]);
    const int64_t *index = data_of(args[1]);
    Py_ssize_t m = last_of(args[0]), n = count_of(args[1]);
    double total = 0.0;
    for (Py_ssize_t i = 0; i < n; i++) total += x[i * m + index[i]];
    return PyFloat_FromDouble(total);
}

/* put_picked(out, index, value): out[i, index[i]] = value, and 0 elsewhere. */
static PyObject *put_picked(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !rows_and_places(args) || !writable(args[0], F32)) Py_RETURN_FALSE;
    double value = PyFloat_AsDouble(args[2]);
    if (value == -1.0 && PyErr_Occurred()) return NULL;
    float *out = data_of(args[0]);
    const int64_t *index = data_of(args[1]);
    Py_ssize_t m = last_of(args[0]), n = count_of(args[1]);
    memset(out, 0, n * m * sizeof(float));
    for (Py_ssize_t i = 0; i < n; i++) out[i * m + index[i]] = (float)value;
    Py_RETURN_TRUE;
}

/* ------------------------------------------------------------------------------------------------ joining */

/* Whether all arrays of a list are plain memory of one known type and rank, and differ in no dimension but `dim`. */
INLINE int are_alike(PyObject *list, Py_ssize_t dim) {
    Array *first = (Array *)PyList_GET_ITEM(list, 0);
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); k++) {
        PyObject *object = PyList_GET_ITEM(list, k);
        Array *a = (Array *)object;
        if (Py_TYPE(object) != array_type || a->descr != first->descr || !readable(object, first->descr) ||
            a->nd != first->nd)
            return 0;
        for (int i = 0; i < a->nd; i++)
            if (i != dim && a->dimensions[i] != first->dimensions[i]) return 0;
    }
    return first->descr == F32 || first->descr == F64 || first->descr == I64;
}

/* A fresh array of the shape of `like`, where `dim` has `size` elements; or, with `extra`, an additional dimension. */
static PyObject *joined_empty(Array *like, Py_ssize_t dim, Py_ssize_t size, int extra) {
    PyObject *shape = PyTuple_New(like->nd + extra);
    if (!shape) return NULL;
    for (Py_ssize_t i = 0, j = 0; i < like->nd + extra; i++) {
        Py_ssize_t n = i == dim ? size : like->dimensions[j];
        if (!(extra && i == dim)) j++;
        PyObject *number = PyLong_FromSsize_t(n);
        if (!number) {
            Py_DECREF(shape);
            return NULL;
        }
        PyTuple_SET_ITEM(shape, i, number);
    }
    PyObject *made = PyObject_CallFunctionObjArgs(numpy_empty, shape, like->descr, NULL);
    Py_DECREF(shape);
    return made;
}

static void join_loop(PyObject *list, char *out, Py_ssize_t outer, Py_ssize_t bytes) {
    for (Py_ssize_t r = 0; r < outer; r++)
        for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); k++) {
            PyObject *object = PyList_GET_ITEM(list, k);
            Py_ssize_t part = count_of(object) / outer * bytes;
            memcpy(out, (char *)data_of(object) + r * part, part);
            out += part;
        }
}

INLINE PyObject *joined(PyObject *const *args, Py_ssize_t count, int extra) {
    if (count != 2 || !PyList_CheckExact(args[0]) || PyList_GET_SIZE(args[0]) == 0 || !PyLong_CheckExact(args[1]))
        Py_RETURN_NONE;
    PyObject *list = args[0];
    Py_ssize_t dim = PyLong_AsSsize_t(args[1]), size = 0, outer = 1;
    if (dim == -1 && PyErr_Occurred()) return NULL;
    Array *first = (Array *)PyList_GET_ITEM(list, 0);
    if (Py_TYPE((PyObject *)first) != array_type) Py_RETURN_NONE;
    if (dim < 0) dim += first->nd + extra;
    if (dim < 0 || dim >= first->nd + extra || first->nd == 0 || !are_alike(list, extra ? -1 : dim)) Py_RETURN_NONE;
    for (Py_ssize_t i = 0; i < dim; i++) outer *= first->dimensions[i];
    if (outer == 0) Py_RETURN_NONE;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); k++)
        size += extra ? 1 : ((Array *)PyList_GET_ITEM(list, k))->dimensions[dim];
    PyObject *out = joined_empty(first, dim, size, extra);
    if (out) join_loop(list, data_of(out), outer, first->descr == F32 ? 4 : 8);
    return out;
}

/* cat(arrays, dim): a fresh array of the arrays in the list one after another along dim; None for what is not plain. */
static PyObject *cat(PyObject *module, PyObject *const *args, Py_ssize_t count) { return joined(args, count, 0); }

/* stack(arrays, dim): the same along a new dimension. */
static PyObject *stack(PyObject *module, PyObject *const *args, Py_ssize_t count) { return joined(args, count, 1); }

/* ------------------------------------------------------------------------------------------------ recurrent networks */

WIDE static void lstm_loop(float *gates, const float *added, const float *before, float *cell, float *out,
                           Py_ssize_t rows, Py_ssize_t h) {
    for (Py_ssize_t r = 0; r < rows; r++, gates += 4 * h, added += 4 * h, before += h, cell += h, out += h) {
        for (int k = 0; k < 4; k++) {
            float *g = gates + k * h;
            const float *a = added + k * h;
            if (k == 2) {
                SIMD for (Py_ssize_t i = 0; i < h; i++) g[i] = tanh_of(g[i] + a[i]);
            } else {
                SIMD for (Py_ssize_t i = 0; i < h; i++) g[i] = 0.5f * tanh_of(g[i] + a[i]) + 0.5f;
            }
        }
        SIMD for (Py_ssize_t i = 0; i < h; i++) {
            cell[i] = gates[h + i] * before[i] + gates[i] * gates[2 * h + i];
            out[i] = tanh_of(cell[i]) * gates[3 * h + i];
        }
    }
}

/* lstm_step(gates, added, cell before, cell, out): gates of input, forget and output come at half their size. */
static PyObject *lstm_step(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 5 || !writable(args[0], F32) || !readable(args[1], F32) || !readable(args[2], F32) ||
        !writable(args[3], F32) || !writable(args[4], F32))
        Py_RETURN_FALSE;
    Py_ssize_t h = last_of(args[3]), total = count_of(args[3]);
    if (total == 0 || count_of(args[0]) != 4 * total || count_of(args[1]) != 4 * total ||
        count_of(args[2]) != total || count_of(args[4]) != total)
        Py_RETURN_FALSE;
    BEGIN(total)
    lstm_loop(data_of(args[0]), data_of(args[1]), data_of(args[2]), data_of(args[3]), data_of(args[4]), total / h, h);
    END
    Py_RETURN_TRUE;
}

WIDE static void gru_loop(float *gates, const float *added, const float *bias, const float *before, float *inner,
                          float *out, Py_ssize_t rows, Py_ssize_t h) {
    for (Py_ssize_t r = 0; r < rows; r++, gates += 3 * h, added += 3 * h, before += h, inner += h, out += h) {
        float *fresh = gates + 2 * h;
        SIMD for (Py_ssize_t i = 0; i < 2 * h; i++) gates[i] = 1.0f / (1.0f + exp_of(gates[i] + added[i]));
        if (bias) {
            SIMD for (Py_ssize_t i = 0; i < h; i++) inner[i] = added[2 * h + i] + bias[i];
        } else {
            memcpy(inner, added + 2 * h, h * sizeof(float));
        }
        SIMD for (Py_ssize_t i = 0; i < h; i++) {
            fresh[i] = tanh_of(fresh[i] + gates[i] * inner[i]);
            out[i] = (before[i] - fresh[i]) * gates[h + i] + fresh[i];
        }
    }
}

/* gru_step(gates, added, bias | None, state before, inner, out): gates of reset and keep come with the sign changed. */
static PyObject *gru_step(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 6 || !writable(args[0], F32) || !readable(args[1], F32) || !readable(args[3], F32) ||
        !writable(args[4], F32) || !writable(args[5], F32))
        Py_RETURN_FALSE;
    Py_ssize_t h = last_of(args[5]), total = count_of(args[5]);
    float *bias;
    if (total == 0 || count_of(args[0]) != 3 * total || count_of(args[1]) != 3 * total ||
        count_of(args[3]) != total || count_of(args[4]) != total || !optional(args[2], h, &bias))
        Py_RETURN_FALSE;
    BEGIN(total)
    gru_loop(data_of(args[0]), data_of(args[1]), bias, data_of(args[3]), data_of(args[4]), data_of(args[5]), total / h,
             h);
    END
    Py_RETURN_TRUE;
}

/* ------------------------------------------------------------------------------------------------ depthwise */

typedef struct {
    Py_ssize_t h, w, out_h, out_w, taps_h, taps_w, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w;
} Window;

/* One plane: each row of the result is a sum of rows of the input, moved and scaled, where they lie inside. */
WIDE static void depthwise_loop(const float *x, const float *taps, float *out, Window g) {
    for (Py_ssize_t y = 0; y < g.out_h; y++, out += g.out_w) {
        memset(out, 0, g.out_w * sizeof(float));
        for (Py_ssize_t i = 0; i < g.taps_h; i++) {
            Py_ssize_t at = y * g.stride_h + i * g.dilation_h - g.pad_h, s = g.stride_w;
            if (at < 0 || at >= g.h) continue;
            for (Py_ssize_t j = 0; j < g.taps_w; j++) {
                Py_ssize_t move = j * g.dilation_w - g.pad_w;
                Py_ssize_t start = move < 0 ? (s - 1 - move) / s : 0, stop = move < g.w ? (g.w - 1 - move) / s + 1 : 0;
                const float *row = x + at * g.w + move;
                float tap = taps[i * g.taps_w + j];
                if (stop > g.out_w) stop = g.out_w;
                if (s == 1) {
                    SIMD for (Py_ssize_t k = start; k < stop; k++) out[k] += tap * row[k];
                } else {
                    SIMD for (Py_ssize_t k = start; k < stop; k++) out[k] += tap * row[k * s];
                }
            }
        }
    }
}

typedef struct {
    const float *x, *taps;
    float *out;
    Py_ssize_t channels, made; /* of the input and of the result */
    Window g;
} Planes;

static void depthwise_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Planes *a = work;
    Window g = a->g;
    for (Py_ssize_t p = from; p < to; p++) {
        Py_ssize_t image = p / a->made, channel = p % a->made / (a->made / a->channels);
        depthwise_loop(a->x + (image * a->channels + channel) * g.h * g.w, a->taps + p % a->made * g.taps_h * g.taps_w,
                       a->out + p * g.out_h * g.out_w, g);
    }
}

/* depthwise(x, weight, out, strides, dilations, pads before): (n, c, h, w) with (c * m, 1, i, j), each pair as two. */
static PyObject *depthwise(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 9 || !readable(args[0], F32) || !readable(args[1], F32) || !writable(args[2], F32)) Py_RETURN_FALSE;
    Array *x = (Array *)args[0], *w = (Array *)args[1], *out = (Array *)args[2];
    Py_ssize_t given[6];
    for (int i = 0; i < 6; i++) {
        given[i] = PyLong_AsSsize_t(args[3 + i]);
        if (given[i] == -1 && PyErr_Occurred()) return NULL;
    }
    if (x->nd != 4 || w->nd != 4 || out->nd != 4 || w->dimensions[1] != 1 || given[0] < 1 || given[1] < 1) Py_RETURN_FALSE;
    Py_ssize_t channels = x->dimensions[1], made = out->dimensions[1], planes = x->dimensions[0] * made;
    if (channels == 0 || made % channels || w->dimensions[0] != made || out->dimensions[0] != x->dimensions[0])
        Py_RETURN_FALSE;
    Window g = {x->dimensions[2], x->dimensions[3], out->dimensions[2], out->dimensions[3], w->dimensions[2],
                w->dimensions[3], given[0], given[1], given[2], given[3], given[4], given[5]};
    Planes work = {data_of(args[0]), data_of(args[1]), data_of(args[2]), channels, made, g};
    BEGIN(count_of(args[2]))
    run(depthwise_part, &work, planes, g.out_h * g.out_w, HEAVY);
    END
    Py_RETURN_TRUE;
}

/* ------------------------------------------------------------------------------------------------ optimizers */

/* These round after every operation, as the operators they stand for do. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

WIDE static void descend_loop(float *p, const float *g, float rate, Py_ssize_t n) {
    SIMD for (Py_ssize_t i = 0; i < n; i++) p[i] += g[i] * rate;
}

/* descend(parameter, gradient, rate): parameter += gradient * rate */
static PyObject *descend(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !writable(args[0], F32) || !readable(args[1], F32)) Py_RETURN_FALSE;
    double rate = PyFloat_AsDouble(args[2]);
    if (rate == -1.0 && PyErr_Occurred()) return NULL;
    Py_ssize_t n = count_of(args[0]);
    if (n != count_of(args[1]) || !apart(args[0], args[1], 4 * n)) Py_RETURN_FALSE;
    BEGIN(n)
    descend_loop(data_of(args[0]), data_of(args[1]), (float)rate, n);
    END
    Py_RETURN_TRUE;
}

typedef struct {
    float shrink, toward, keep, fresh, root, eps, rate;
} Rates;

WIDE static void adam_loop(float *p, const float *g, float *mean, float *square, Rates r, Py_ssize_t n) {
    SIMD for (Py_ssize_t i = 0; i < n; i++) {
        float m = mean[i] + (g[i] - mean[i]) * r.toward;
        float s = square[i] * r.keep + g[i] * g[i] * r.fresh;
        mean[i] = m;
        square[i] = s;
        p[i] = p[i] * r.shrink + m * r.rate / (sqrtf(s) / r.root + r.eps);
    }
}

/* adam(parameter, gradient, mean, square, shrink, toward, keep, fresh, root, eps, rate) */
static PyObject *adam(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 11 || !writable(args[0], F32) || !readable(args[1], F32) || !writable(args[2], F32) ||
        !writable(args[3], F32))
        Py_RETURN_FALSE;
    Py_ssize_t n = count_of(args[0]);
    float values[7];
    for (int i = 1; i < 4; i++)
        if (count_of(args[i]) != n) Py_RETURN_FALSE;
    for (int i = 0; i < 7; i++) {
        double value = PyFloat_AsDouble(args[4 + i]);
        if (value == -1.0 && PyErr_Occurred()) return NULL;
        values[i] = (float)value;
    }
    Rates r = {values[0], values[1], values[2], values[3], values[4], values[5], values[6]};
    BEGIN(n)
    adam_loop(data_of(args[0]), data_of(args[1]), data_of(args[2]), data_of(args[3]), r, n);
    END
    Py_RETURN_TRUE;
}

/* ------------------------------------------------------------------------------------------------ module */

static const struct {
    const char *name;
    PyObject **function;
} borrowed[] = {
    {"exp", &numpy_exp}, {"tanh", &numpy_tanh}, {"empty", &numpy_empty}, {"add", &numpy_add},
    {"subtract", &numpy_subtract}, {"multiply", &numpy_multiply}, {"divide", &numpy_divide}, {"equal", &numpy_equal},
    {"not_equal", &numpy_not_equal}, {"less", &numpy_less}, {"less_equal", &numpy_less_equal},
    {"greater", &numpy_greater}, {"greater_equal", &numpy_greater_equal}, {"maximum", &numpy_maximum},
    {"minimum", &numpy_minimum}, {"negative", &numpy_negative}, {"absolute", &numpy_absolute}, {"sqrt", &numpy_sqrt_},
    {"square", &numpy_square}, {"reciprocal", &numpy_reciprocal},
};

/* Whether NumPy's table of functions makes an array like the sample. */
static int find_new_like(PyObject *table, PyObject *sample) {
    void **functions = PyCapsule_GetPointer(table, PyCapsule_GetName(table));
    if (!functions) return -1;
    new_like = (NewLike)functions[NEW_LIKE];
    PyObject *made = new_like(sample, KEEP_ORDER, NULL, 0);
    if (!made) return -1;
    int fits = Py_TYPE(made) == Py_TYPE(sample) && ((Array *)made)->descr == ((Array *)sample)->descr &&
               of_one_shape(made, sample);
    Py_DECREF(made);
    return fits;
}

/* setup(sample, numpy, table, dtypes of float64, int64, float16, bfloat16, bool): whether arrays are laid out as assumed;
 * sample is a writable (2, 3) array of float32, table what NumPy keeps its functions for C in. */
static PyObject *setup(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 8) Py_RETURN_FALSE;
    Py_buffer view;
    if (PyObject_GetBuffer(args[0], &view, PyBUF_RECORDS) < 0) return NULL;
    PyObject *descr = PyObject_GetAttrString(args[0], "dtype");
    Array *a = (Array *)args[0];
    int flags = CONTIGUOUS | ALIGNED | WRITEABLE;
    int fits = descr && Py_TYPE(args[0])->tp_basicsize >= (Py_ssize_t)sizeof(Array) && a->data == view.buf &&
               a->nd == 2 && view.ndim == 2 && a->dimensions[0] == view.shape[0] && a->dimensions[1] == view.shape[1] &&
               a->strides[0] == view.strides[0] && a->strides[1] == view.strides[1] && a->descr == descr &&
               (a->flags & flags) == flags;
    PyBuffer_Release(&view);
    if (!descr) return NULL;
    if (fits) fits = find_new_like(args[2], args[0]);
    if (fits < 0) return NULL;
    if (!fits) Py_RETURN_FALSE;
    half_instructions = has_half_instructions();
    array_type = Py_TYPE(args[0]);
    F32 = descr;
    PyObject **dtypes[] = {&F64, &I64, &F16, &BF16, &BOOL};
    for (int i = 0; i < 5; i++) *dtypes[i] = Py_NewRef(args[3 + i]);
    for (size_t i = 0; i < sizeof borrowed / sizeof *borrowed; i++)
        if (!(*borrowed[i].function = PyObject_GetAttrString(args[1], borrowed[i].name))) return NULL;
    out_name = PyUnicode_InternFromString("out");
    return out_name ? PyBool_FromLong(1) : NULL;
}

#define METHOD(NAME, FUNCTION) {NAME, (PyCFunction)(void (*)(void))FUNCTION, METH_FASTCALL, NULL}

#define PAIR(NAME)                                                                                                     \
    {#NAME, (PyCFunction)(void (*)(void))NAME, METH_FASTCALL | METH_KEYWORDS, #NAME "(x, y, /, out=None)\n--\n\n"}

#define STAND_IN(NAME, FUNCTION)                                                                                       \
    {NAME, (PyCFunction)(void (*)(void))FUNCTION, METH_FASTCALL | METH_KEYWORDS, NAME "(x, /, out=None)\n--\n\n"}

static PyMethodDef methods[] = {
    METHOD("setup", setup),
    {"set_threads", set_threads, METH_O, NULL},
    STAND_IN("exp", exp_),
    STAND_IN("tanh", tanh_),
    PAIR(add),
    PAIR(subtract),
    PAIR(multiply),
    PAIR(divide),
    PAIR(equal),
    PAIR(not_equal),
    PAIR(less),
    PAIR(less_equal),
    PAIR(greater),
    PAIR(greater_equal),
    PAIR(maximum),
    PAIR(minimum),
    STAND_IN("negative", negative),
    STAND_IN("absolute", absolute),
    STAND_IN("sqrt", sqrt_),
    STAND_IN("square", square),
    STAND_IN("reciprocal", reciprocal),
    METHOD("convert", convert),
    METHOD("sigmoid", sigmoid),
    METHOD("gelu", gelu),
    METHOD("gelu_tanh", gelu_tanh),
    METHOD("silu", silu),
    METHOD("relu", relu),
    METHOD("hardswish", hardswish),
    METHOD("erfc", erfc_),
    METHOD("ndtr", ndtr),
    METHOD("threshold_backward", threshold_backward),
    METHOD("gelu_backward", gelu_backward),
    METHOD("gelu_tanh_backward", gelu_tanh_backward),
    METHOD("silu_backward", silu_backward),
    METHOD("sum_rows", sum_rows),
    METHOD("softmax", softmax),
    METHOD("log_softmax", log_softmax),
    METHOD("softmax_backward", softmax_backward),
    METHOD("log_softmax_backward", log_softmax_backward),
    METHOD("layer_norm", layer_norm),
    METHOD("layer_norm_backward", layer_norm_backward),
    METHOD("channel_moments", channel_moments),
    METHOD("channel_affine", channel_affine),
    METHOD("channel_products", channel_products),
    METHOD("channel_mix", channel_mix),
    METHOD("cumsum", cumsum),
    METHOD("cumprod", cumprod),
    METHOD("running_extremes", running_extremes),
    METHOD("swap_in_turn", swap_in_turn),
    METHOD("largest", largest),
    METHOD("inside", inside),
    METHOD("gather", gather),
    METHOD("add_places", add_places),
    METHOD("add_rows", add_rows),
    METHOD("add_sampled", add_sampled),
    METHOD("sum_picked", sum_picked),
    METHOD("put_picked", put_picked),
    METHOD("cat", cat),
    METHOD("stack", stack),
    METHOD("lstm_step", lstm_step),
    METHOD("gru_step", gru_step),
    METHOD("depthwise", depthwise),
    METHOD("descend", descend),
    METHOD("adam", adam),
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernels", "Optional compiled kernels.", -1, methods};

PyMODINIT_FUNC PyInit__kernels(void) {
#ifdef POOL
    pthread_atfork(NULL, NULL, forget_threads);
#endif
    return PyModule_Create(&definition);
}
