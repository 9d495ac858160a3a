/* Floats of 16 bits, and stand-ins for NumPy's functions of two arrays and of one. */

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

/* How y is spread over x, where it is one number, has the last dimensions of x, or all but the last one: how many elements
 * of x lie side by side that meet one y, or (`one`) a number of it each. -1 for all else. */
INLINE Py_ssize_t spread_over(PyObject *x, PyObject *y, int *one) {
    Array *a = (Array *)x, *b = (Array *)y;
    int shift = a->nd - b->nd, lead = 0;
    Py_ssize_t n = 1;
    if (shift < 0) return -1;
    while (lead < b->nd && b->dimensions[lead] == 1) lead++;
    *one = lead == b->nd;
    if (*one) return count_of(x);
    int alike = b->nd; /* dimensions up to here are those of x */
    *one = shift == 0 && b->dimensions[b->nd - 1] == 1 && last_of(x) != 1;
    if (*one) alike--, lead = 0;
    for (int i = lead; i < alike; i++) {
        if (b->dimensions[i] != a->dimensions[shift + i]) return -1;
        n *= b->dimensions[i];
    }
    return *one ? last_of(x) : n;
}

/* Numbers taken at a time where they are laid out anew; what is laid out stays in the cache. */
#define STRETCH 512

/* How two arrays meet: the axes of what both are spread over, and how many bytes each goes on along an axis. */
enum { MOST_AXES = 8 };
typedef struct {
    int nd;
    Py_ssize_t shape[MOST_AXES], steps[2][MOST_AXES], size;
    Part loop;
    const char *x, *y;
    char *out;
    Py_ssize_t result_size;
    int dense[2], same[2]; /* whether all of an array lies as the result does; whether its lines are one */
} Meeting;

/* Whether an axis follows upon the one before it as if the two were one. */
INLINE int one_axis(const Meeting *m, int i) {
    return m->steps[0][i - 1] == m->steps[0][i] * m->shape[i] && m->steps[1][i - 1] == m->steps[1][i] * m->shape[i];
}

/* Whether two arrays meet in elements that lie side by side, or in a number of one of them; `shape` is of all axes. Arrays
 * in another order than that of their axes are NumPy's, whose result has their order. */
static int meet(PyObject *x, PyObject *y, Py_ssize_t size, Meeting *m, int *nd, Py_ssize_t *shape) {
    Array *arrays[2] = {(Array *)x, (Array *)y};
    *nd = arrays[0]->nd > arrays[1]->nd ? arrays[0]->nd : arrays[1]->nd;
    if (*nd > MOST_AXES) return 0;
    m->nd = 0;
    Py_ssize_t last[2] = {PY_SSIZE_T_MAX, PY_SSIZE_T_MAX};
    for (int i = 0; i < *nd; i++) {
        Py_ssize_t *steps[2] = {&m->steps[0][m->nd], &m->steps[1][m->nd]};
        shape[i] = 1;
        for (int k = 0; k < 2; k++) {
            int at = i - *nd + arrays[k]->nd;
            Py_ssize_t count = at < 0 ? 1 : arrays[k]->dimensions[at];
            *steps[k] = count == 1 ? 0 : arrays[k]->strides[at];
            if (count != 1 && shape[i] != 1 && count != shape[i]) return 0;
            if (count != 1) shape[i] = count;
            if (*steps[k] < 0 || *steps[k] > last[k]) return 0;
            if (*steps[k]) last[k] = *steps[k];
        }
        if (shape[i] == 0) return 0;
        if (shape[i] == 1) continue;
        m->shape[m->nd] = shape[i];
        if (m->nd && one_axis(m, m->nd)) {
            if (__builtin_mul_overflow(m->shape[m->nd - 1], shape[i], &m->shape[m->nd - 1])) return 0;
            for (int k = 0; k < 2; k++) m->steps[k][m->nd - 1] = *steps[k];
        } else
            m->nd++;
    }
    if (!m->nd) return 0;
    Py_ssize_t inner[2] = {m->steps[0][m->nd - 1], m->steps[1][m->nd - 1]};
    m->size = size;
    return (inner[0] == size && (inner[1] == size || inner[1] == 0)) || (inner[0] == 0 && inner[1] == size);
}

/* The lines of the last axis from `from` to `to`. */
static void meeting_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Meeting *m = work;
    int last = m->nd - 1;
    Py_ssize_t n = m->shape[last], size = m->size;
    double laid[STRETCH];
    char *numbers = (char *)laid;
    for (Py_ssize_t line = from; line < to; line++) {
        const char *x = m->x, *y = m->y;
        Py_ssize_t left = line;
        for (int i = last - 1; i >= 0; i--) {
            Py_ssize_t at = left % m->shape[i];
            left /= m->shape[i];
            x += at * m->steps[0][i], y += at * m->steps[1][i];
        }
        Operands a = {x, y, m->out + line * n * m->result_size, m->steps[1][last] == 0};
        if (m->steps[0][last]) {
            m->loop(&a, 0, n);
            continue;
        }
        a.x = numbers; /* one number of x: it is laid out for as many of y as are taken at a time */
        Py_ssize_t bytes = (n < STRETCH ? n : STRETCH) * size;
        memcpy(numbers, x, size);
        for (Py_ssize_t i = size; i < bytes; i *= 2) memcpy(numbers + i, numbers, 2 * i < bytes ? i : bytes - i);
        for (Py_ssize_t i = 0; i < n; i += STRETCH) {
            m->loop(&a, 0, n - i < STRETCH ? n - i : STRETCH);
            a.y = (const char *)a.y + STRETCH * size, a.out = (char *)a.out + STRETCH * m->result_size;
        }
    }
}

/* So many elements of one line: side by side, or one of them again and again. */
INLINE void lay_line(char *to, const char *from, Py_ssize_t step, Py_ssize_t n, Py_ssize_t size) {
    if (step && size == 4)
        for (Py_ssize_t i = 0; i < n; i++) ((uint32_t *)to)[i] = ((const uint32_t *)from)[i];
    else if (step) memcpy(to, from, n * size);
    else if (size == 4)
        for (Py_ssize_t i = 0; i < n; i++) ((uint32_t *)to)[i] = *(const uint32_t *)from;
    else
        for (Py_ssize_t i = 0; i < n; i++) memcpy(to + i * size, from, size);
}

/* The same where lines are short: as many as make a stretch are laid out, one that is always the same but once, and done
 * together. */
enum { SHORT_LINE = 32 };
static void short_lines_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Meeting *m = work;
    int last = m->nd - 1;
    Py_ssize_t n = m->shape[last], size = m->size, at[MOST_AXES], left = from;
    double laid[2][STRETCH];
    int needed[2] = {!m->dense[0], !m->dense[1]};
    const char *places[2] = {m->x, m->y};
    for (int i = last - 1; i >= 0; left /= m->shape[i--]) {
        at[i] = left % m->shape[i];
        for (int k = 0; k < 2; k++) places[k] += at[i] * m->steps[k][i];
    }
    for (Py_ssize_t lines; from < to; from += lines) {
        lines = to - from < STRETCH / n ? to - from : STRETCH / n;
        for (Py_ssize_t line = 0; line < lines && (needed[0] || needed[1]); line++) {
            for (int k = 0; k < 2; k++)
                if (needed[k]) lay_line((char *)laid[k] + line * n * size, places[k], m->steps[k][last], n, size);
            for (int i = last - 1; i >= 0; i--) {
                int more = ++at[i] < m->shape[i];
                for (int k = 0; k < 2; k++) places[k] += m->steps[k][i] * (more ? 1 : 1 - m->shape[i]);
                if (more) break;
                at[i] = 0;
            }
        }
        Operands a = {m->dense[0] ? m->x + from * n * size : (char *)laid[0],
                      m->dense[1] ? m->y + from * n * size : (char *)laid[1], m->out + from * n * m->result_size, 0};
        m->loop(&a, 0, lines * n);
        for (int k = 0; k < 2; k++) needed[k] = needed[k] && !m->same[k];
    }
}

/* A fresh array of two that are spread over one another, or parts of larger ones; else NumPy's. */
static PyObject *meeting(PyObject *ufunc, Part loop, PyObject *made, PyObject *const *args, Py_ssize_t count,
                         PyObject *names) {
    Meeting m;
    int nd = 0;
    Py_ssize_t shape[MOST_AXES], size = loop ? size_of_element(((Array *)args[0])->descr) : 0, n = 1;
    int known = loop && !names && Py_TYPE(args[1]) == array_type && plain(args[0], ((Array *)args[0])->descr, ALIGNED) &&
                plain(args[1], ((Array *)args[0])->descr, ALIGNED) && meet(args[0], args[1], size, &m, &nd, shape);
    if (!known) return call_numpy(ufunc, args, count, names);
    PyObject *descr = made ? made : ((Array *)args[0])->descr;
    PyObject *out = new_array(descr, nd, shape);
    if (!out) return NULL;
    m.loop = loop, m.x = data_of(args[0]), m.y = data_of(args[1]), m.out = data_of(out), m.result_size = made ? 1 : size;
    for (int i = 0; i < m.nd - 1; i++) n *= m.shape[i];
    for (int k = 0; k < 2; k++) {
        m.dense[k] = m.steps[k][m.nd - 1] == size, m.same[k] = 1;
        for (int i = m.nd - 1; i > 0; i--) {
            m.dense[k] = m.dense[k] && m.steps[k][i - 1] == m.steps[k][i] * m.shape[i];
            m.same[k] = m.same[k] && m.steps[k][i - 1] == 0;
        }
    }
    int together = m.shape[m.nd - 1] <= SHORT_LINE && (m.dense[0] || m.dense[1]); /* else all would be laid out */
    BEGIN(n * m.shape[m.nd - 1])
    run(together ? short_lines_part : meeting_part, &m, n, m.shape[m.nd - 1], LIGHT / 4);
    END
    return out;
}

/* Two plain arrays of one type, the second of the shape of the first or of a part of it. */
INLINE PyObject *operation(PyObject *ufunc, const Part *loops, PyObject *made, PyObject *const *args, Py_ssize_t count,
                           PyObject *names) {
    int known = count == 2 && Py_TYPE(args[0]) == array_type, kind = known ? kind_of(args[0]) : KINDS;
    known = kind < KINDS && loops[kind];
    Part loop = known ? loops[kind] : NULL;
    PyObject *descr = known ? ((Array *)args[0])->descr : NULL, *out = NULL;
    known = known && readable(args[0], descr) && readable(args[1], descr);
    int one = 0;
    Py_ssize_t n = known ? count_of(args[0]) : 0, m = known ? spread_over(args[0], args[1], &one) : -1;
    known = m == n || (m > 0 && (n <= LARGE || names)); /* threads share the lines of large ones that are fresh */
    if (known && names) out = given_out(args, 2, names, made ? made : descr, &known);
    Py_ssize_t size = kind == 0 ? 4 : kind < 3 ? 8 : 2, result_size = made ? 1 : size;
    if (known && out) {
        known = !made && apart(args[0], out, n * size);
        if (m != n || !one)
            known = known && apart(args[1], out, n * size) && (m == n || data_of(args[1]) != data_of(out));
        else /* each thread reads the number when it begins, so none may have been written over it */
            known = known && (n <= 1 || disjoint(args[1], size, out, n * size));
    }
    if (!known) return meeting(ufunc, loop, made, args, count, names);
    out = out ? Py_NewRef(out) : new_like(args[0], KEEP_ORDER, Py_XNewRef(made), 0);
    if (!out) return NULL;
    Operands work = {data_of(args[0]), data_of(args[1]), data_of(out), one};
    BEGIN(n)
    if (n && m == n) run(loop, &work, n, 1, LIGHT / 4); /* without elements there may be no number either */
    else
        for (char *x = data_of(args[0]), *end = x + n * size; x < end; x += m * size) {
            loop(&work, 0, m);
            work.x = x + m * size, work.out = (char *)work.out + m * result_size;
            work.y = (const char *)work.y + (one ? size : 0);
        }
    END
    return out;
}

/* Numbers of 16 bits, a stretch at a time, in single precision. */
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
        return settled(operation(numpy_##NAME, loops, NULL, args, count, names), args, count, names);                  \
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
        return settled(operation(numpy_##NAME, loops, BOOL, args, count, names), args, count, names);                  \
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

/* The loop from 16 bits to float32 or back; NULL for all else. */
INLINE Part between_widths(PyObject *from, PyObject *to) {
    return from == F16 && to == F32    ? half_to_float
           : from == F32 && to == F16  ? float_to_half
           : from == BF16 && to == F32 ? brain_to_float
           : from == F32 && to == BF16 ? float_to_brain
                                       : NULL;
}

/* Of one array, in float32 and float64. */
#define SINGLE(NAME, RULE)                                                                                             \
    CONVERSION(NAME##_f32, float, float, RULE)                                                                         \
    CONVERSION(NAME##_f64, double, double, RULE)                                                                       \
    static PyObject *numpy_##NAME;                                                                                     \
    static PyObject *NAME(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names) {                \
        PyObject *made = on_floats(numpy_##NAME, NAME##_f32, NAME##_f64, args, count, names);                          \
        return settled(made, args, count, names);                                                                      \
    }

static PyObject *on_floats(PyObject *ufunc, Part single, Part twice, PyObject *const *args, Py_ssize_t count,
                           PyObject *names) {
    if (count != 1 || names || !(readable(args[0], F32) || readable(args[0], F64)))
        return call_numpy(ufunc, args, count, names);
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
