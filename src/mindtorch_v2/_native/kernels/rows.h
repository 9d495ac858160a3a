/* Sums, softmax and running results along rows. */

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

/* Sums of few elements in the order in which NumPy's add.reduce adds them, hence with its bits: along rows eight sums
 * side by side, across rows one row after the other; zero comes first, which makes a sum of -0.0 one of 0.0. */
#define ADD_UP(TYPE)                                                                                                   \
    static TYPE add_row_##TYPE(const TYPE *x, Py_ssize_t n) {                                                          \
        if (n < 8) {                                                                                                   \
            TYPE sum = (TYPE)-0.0;                                                                                     \
            for (Py_ssize_t i = 0; i < n; i++) sum += x[i];                                                            \
            return sum;                                                                                                \
        }                                                                                                              \
        TYPE r[8];                                                                                                     \
        Py_ssize_t i = 8;                                                                                              \
        for (int k = 0; k < 8; k++) r[k] = x[k];                                                                       \
        for (; i < n - n % 8; i += 8)                                                                                  \
            for (int k = 0; k < 8; k++) r[k] += x[i + k];                                                              \
        TYPE sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));                                  \
        for (; i < n; i++) sum += x[i];                                                                                \
        return sum;                                                                                                    \
    }                                                                                                                  \
    static void add_up_##TYPE(const TYPE *x, TYPE *out, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner) {            \
        for (; outer; outer--, x += n * inner, out += inner) {                                                         \
            if (inner == 1) {                                                                                          \
                out[0] = 0 + add_row_##TYPE(x, n);                                                                     \
                continue;                                                                                              \
            }                                                                                                          \
            for (Py_ssize_t k = 0; k < inner; k++) out[k] = 0 + x[k];                                                  \
            for (Py_ssize_t i = 1; i < n; i++)                                                                         \
                for (Py_ssize_t k = 0; k < inner; k++) out[k] += x[i * inner + k];                                     \
        }                                                                                                              \
    }

ADD_UP(float)
ADD_UP(double)

/* add_up(x, axis, out): the sum along one axis of up to 128 elements. */
static PyObject *add_up(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !PyLong_Check(args[1])) Py_RETURN_FALSE;
    int single = readable(args[0], F32) && writable(args[2], F32);
    if (!single && !(readable(args[0], F64) && writable(args[2], F64))) Py_RETURN_FALSE;
    Array *a = (Array *)args[0];
    Py_ssize_t axis = PyLong_AsSsize_t(args[1]), outer = 1, inner = 1;
    if (axis == -1 && PyErr_Occurred()) return NULL;
    axis += axis < 0 ? a->nd : 0;
    if (axis < 0 || axis >= a->nd) Py_RETURN_FALSE;
    for (int i = 0; i < a->nd; i++) *(i < axis ? &outer : &inner) *= i == axis ? 1 : a->dimensions[i];
    Py_ssize_t n = a->dimensions[axis];
    if (n < 1 || n > 128 || outer * inner != count_of(args[2])) Py_RETURN_FALSE;
    if (single)
        add_up_float(data_of(args[0]), data_of(args[2]), outer, n, inner);
    else
        add_up_double(data_of(args[0]), data_of(args[2]), outer, n, inner);
    Py_RETURN_TRUE;
}
