/* Sums, softmax and running results along rows. */

#define PART 1024 /* so many are added up in single precision; the rest in double */

#define LANES 32

/* The sum of TERM for j in [0, n), in many sums that are added up in double precision before they grow long. */
#define SUMMED(TYPE, TERM)                                                                                                   \
    double total = 0.0;                                                                                                \
    Py_ssize_t i = 0, j;                                                                                               \
    while (i + LANES <= n) {                                                                                           \
        TYPE sums[LANES] = {0};                                                                                        \
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

#define SUMS(KIND, TYPE)                                                                                               \
    INLINE double sum_of_##KIND(const TYPE *x, Py_ssize_t n) { SUMMED(TYPE, x[j]) }                                    \
    INLINE double dot_of_##KIND(const TYPE *x, const TYPE *y, Py_ssize_t n) { SUMMED(TYPE, x[j] * y[j]) }              \
    INLINE double spread_of_##KIND(const TYPE *x, TYPE mean, Py_ssize_t n) {                                           \
        SUMMED(TYPE, (x[j] - mean) * (x[j] - mean))                                                                    \
    }

SUMS(f32, float)
SUMS(f64, double)

/* The same of rows: short ones are added up in one vector. */
#define ROW_SUMS(KIND, TYPE)                                                                                           \
    INLINE double row_sum_##KIND(const TYPE *x, Py_ssize_t n) {                                                        \
        if (n > PART) return sum_of_##KIND(x, n);                                                                      \
        TYPE sum = 0;                                                                                                  \
        SIMD_SUM(omp simd reduction(+ : sum)) for (Py_ssize_t i = 0; i < n; i++) sum += x[i];                          \
        return sum;                                                                                                    \
    }                                                                                                                  \
    INLINE double row_dot_##KIND(const TYPE *x, const TYPE *y, Py_ssize_t n) {                                         \
        if (n > PART) return dot_of_##KIND(x, y, n);                                                                   \
        TYPE sum = 0;                                                                                                  \
        SIMD_SUM(omp simd reduction(+ : sum)) for (Py_ssize_t i = 0; i < n; i++) sum += x[i] * y[i];                   \
        return sum;                                                                                                    \
    }

ROW_SUMS(f32, float)
ROW_SUMS(f64, double)

/* The largest; nan is passed over, and shows in the differences from it. */
INLINE float peak_of_f32(const float *x, Py_ssize_t n) {
    float peak = -INFINITY;
    SIMD_SUM(omp simd reduction(max : peak)) for (Py_ssize_t i = 0; i < n; i++) peak = x[i] > peak ? x[i] : peak;
    return peak;
}

WIDE static void sum_loop(const float *x, float *out, Py_ssize_t rows, Py_ssize_t n) {
    for (Py_ssize_t r = 0; r < rows; r++) out[r] = (float)sum_of_f32(x + r * n, n);
}

static void sum_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Floats *a = work;
    sum_loop(a->x + from * a->n, a->out + from, to - from, a->n);
}

/* The sums of parts of a row of `n` elements. */
typedef struct {
    const float *x;
    double *sums;
    Py_ssize_t n, part;
} Summed;

WIDE static void sum_parts(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Summed *a = work;
    for (Py_ssize_t i = from; i < to; i++) {
        Py_ssize_t left = a->n - i * a->part;
        a->sums[i] = sum_of_f32(a->x + i * a->part, left < a->part ? left : a->part);
    }
}

static void sum_long_rows(const float *x, float *out, Py_ssize_t rows, Py_ssize_t n) {
    double sums[MOST_PARTS];
    for (; rows; rows--, x += n) {
        Summed work = {x, sums, n, part_of_row(n)};
        Py_ssize_t parts = (n + work.part - 1) / work.part;
        run(sum_parts, &work, parts, work.part, LIGHT);
        double total = 0.0;
        for (Py_ssize_t i = 0; i < parts; i++) total += sums[i];
        *out++ = (float)total;
    }
}

#define SHORT 64
#define SHELF 1024

/* Rows too short for a vector loop each: as many as fit on a shelf go through exp together. */
#define SHORT_ROWS(FINISH)                                                                                             \
    float shelf[SHELF];                                                                                                \
    for (Py_ssize_t group = SHELF / n; rows > 0; rows -= group, x += group * n, out += group * n) {                    \
        if (group > rows) group = rows;                                                                                \
        for (Py_ssize_t r = 0; r < group; r++) {                                                                       \
            float peak = peak_of_f32(x + r * n, n);                                                                        \
            for (Py_ssize_t i = r * n; i < (r + 1) * n; i++) out[i] = x[i] - peak;                                     \
        }                                                                                                              \
        SIMD for (Py_ssize_t i = 0; i < group * n; i++) shelf[i] = exp_of(out[i]);                                     \
        for (Py_ssize_t r = 0; r < group; r++) {                                                                       \
            double sum = sum_of_f32(shelf + r * n, n);                                                                 \
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
        float peak = peak_of_f32(x, n);
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = exp_of(x[i] - peak);
        float scale = (float)(1.0 / sum_of_f32(out, n));
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] *= scale;
    }
}

WIDE static void log_softmax_loop(const float *x, float *out, Py_ssize_t rows, Py_ssize_t n) {
    if (n < SHORT) {
        SHORT_ROWS(float level = (float)log(sum); for (Py_ssize_t i = r * n; i < (r + 1) * n; i++) out[i] -= level;)
        return;
    }
    for (Py_ssize_t r = 0; r < rows; r++, x += n, out += n) {
        float peak = peak_of_f32(x, n);
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = exp_of(x[i] - peak);
        float level = (float)log(sum_of_f32(out, n));
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = x[i] - peak - level;
    }
}

WIDE static void softmax_backward_loop(const float *g, const float *y, float *out, Py_ssize_t rows, Py_ssize_t n) {
    for (Py_ssize_t r = 0; r < rows; r++, g += n, y += n, out += n) {
        float along = (float)dot_of_f32(g, y, n);
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = (g[i] - along) * y[i];
    }
}

WIDE static void log_softmax_backward_loop(const float *g, const float *y, float *out, Py_ssize_t rows, Py_ssize_t n) {
    for (Py_ssize_t r = 0; r < rows; r++, g += n, y += n, out += n) {
        float level = (float)sum_of_f32(g, n);
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = g[i] - exp_of(y[i]) * level;
    }
}

/* The same in double precision. */
INLINE double peak_of_f64(const double *x, Py_ssize_t n) {
    double peak = -INFINITY;
    SIMD_SUM(omp simd reduction(max : peak)) for (Py_ssize_t i = 0; i < n; i++) peak = x[i] > peak ? x[i] : peak;
    return peak;
}

WIDE static void softmax_doubles(const double *x, double *out, Py_ssize_t rows, Py_ssize_t n) {
    for (; rows; rows--, x += n, out += n) {
        double peak = peak_of_f64(x, n);
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = exp_double(x[i] - peak);
        double sum = sum_of_f64(out, n);
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] /= sum;
    }
}

WIDE static void log_softmax_doubles(const double *x, double *out, Py_ssize_t rows, Py_ssize_t n) {
    for (; rows; rows--, x += n, out += n) {
        double peak = peak_of_f64(x, n);
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = exp_double(x[i] - peak);
        double level = log(sum_of_f64(out, n));
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = x[i] - peak - level;
    }
}

WIDE static void softmax_backward_doubles(const double *g, const double *y, double *out, Py_ssize_t rows, Py_ssize_t n) {
    for (; rows; rows--, g += n, y += n, out += n) {
        double along = dot_of_f64(g, y, n);
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = (g[i] - along) * y[i];
    }
}

WIDE static void log_softmax_backward_doubles(const double *g, const double *y, double *out, Py_ssize_t rows,
                                              Py_ssize_t n) {
    for (; rows; rows--, g += n, y += n, out += n) {
        double level = sum_of_f64(g, n);
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = g[i] - exp_double(y[i]) * level;
    }
}

/* An array as (outer, n, inner) around one of its axes, the last one if none is given. */
typedef struct {
    Py_ssize_t outer, n, inner;
} Lines;

static int lines_of(PyObject *array, PyObject *given, Lines *lines) {
    Array *a = (Array *)array;
    Py_ssize_t axis = -1;
    if (given && !read_size(given, &axis)) return 0;
    axis += axis < 0 ? a->nd : 0;
    if (axis < 0 || axis >= a->nd) return 0;
    *lines = (Lines){1, a->dimensions[axis], 1};
    for (int i = 0; i < a->nd; i++)
        if (i != axis) *(i < axis ? &lines->outer : &lines->inner) *= a->dimensions[i];
    return 1;
}

/* Few enough to be turned into rows and back on the stack. */
#define TURNED 4096

/* (outer, n, inner) as (outer, inner, n) */
#define TURN(TYPE)                                                                                                     \
    static void turn_##TYPE(const TYPE *x, TYPE *out, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner) {              \
        for (; outer; outer--, x += n * inner)                                                                         \
            for (Py_ssize_t k = 0; k < inner; k++)                                                                     \
                for (Py_ssize_t i = 0; i < n; i++) *out++ = x[i * inner + k];                                          \
    }

TURN(float)
TURN(double)

/* A loop over rows, along an axis that is not the last one: of one or two arrays. */
#define ALONG(TYPE, LOOP, READ)                                                                                        \
    static int LOOP##_along(PyObject *const *args, PyObject *result, Lines at) {                                       \
        Py_ssize_t total = at.outer * at.n * at.inner;                                                                 \
        if (total > TURNED) return 0;                                                                                  \
        TYPE rows[READ][TURNED], out[TURNED];                                                                          \
        for (int i = 0; i < READ; i++) turn_##TYPE(data_of(args[i]), rows[i], at.outer, at.n, at.inner);               \
        LOOP(ROWS_##READ, out, total / at.n, at.n);                                                                    \
        turn_##TYPE(out, data_of(result), at.outer, at.inner, at.n);                                                   \
        return 1;                                                                                                      \
    }
#define ROWS_1 rows[0]
#define ROWS_2 rows[0], rows[1]

/* So many columns go side by side through an axis that is not the last one, with the values that rows would have. */
#define SIDE 16

INLINE void exps_of_columns(const float *x, float *out, Py_ssize_t n, Py_ssize_t step, float *peaks) {
    for (int k = 0; k < SIDE; k++) peaks[k] = -INFINITY;
    for (Py_ssize_t i = 0; i < n; i++) {
        SIMD for (int k = 0; k < SIDE; k++) peaks[k] = x[i * step + k] > peaks[k] ? x[i * step + k] : peaks[k];
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        SIMD for (int k = 0; k < SIDE; k++) out[i * step + k] = exp_of(x[i * step + k] - peaks[k]);
    }
}

/* `sum_of` of each column. */
INLINE void sums_of_columns(const float *x, Py_ssize_t n, Py_ssize_t step, double *totals) {
    Py_ssize_t i = 0;
    for (int k = 0; k < SIDE; k++) totals[k] = 0.0;
    while (i + LANES <= n) {
        float sums[LANES][SIDE] = {{0}};
        for (Py_ssize_t stop = i + PART < n ? i + PART : n; i + LANES <= stop; i += LANES)
            for (int lane = 0; lane < LANES; lane++)
                for (int k = 0; k < SIDE; k++) sums[lane][k] += x[(i + lane) * step + k];
        for (int width = LANES / 2; width; width /= 2)
            for (int lane = 0; lane < width; lane++)
                for (int k = 0; k < SIDE; k++) sums[lane][k] += sums[lane + width][k];
        for (int k = 0; k < SIDE; k++) totals[k] += sums[0][k];
    }
    for (; i < n; i++)
        for (int k = 0; k < SIDE; k++) totals[k] += x[i * step + k];
}

WIDE static void softmax_columns(const float *x, float *out, Py_ssize_t n, Py_ssize_t step) {
    float peaks[SIDE], scales[SIDE];
    double sums[SIDE];
    exps_of_columns(x, out, n, step, peaks);
    sums_of_columns(out, n, step, sums);
    for (int k = 0; k < SIDE; k++) scales[k] = (float)(1.0 / sums[k]);
    for (Py_ssize_t i = 0; i < n; i++) {
        SIMD for (int k = 0; k < SIDE; k++) out[i * step + k] *= scales[k];
    }
}

WIDE static void log_softmax_columns(const float *x, float *out, Py_ssize_t n, Py_ssize_t step) {
    float peaks[SIDE], levels[SIDE];
    double sums[SIDE];
    exps_of_columns(x, out, n, step, peaks);
    sums_of_columns(out, n, step, sums);
    for (int k = 0; k < SIDE; k++) levels[k] = (float)log(sums[k]);
    for (Py_ssize_t i = 0; i < n; i++) {
        SIMD for (int k = 0; k < SIDE; k++) out[i * step + k] = x[i * step + k] - peaks[k] - levels[k];
    }
}

/* The last columns may be done twice, so that there are always as many; fewer are turned into rows. */
#define ALONG_COLUMNS(NAME)                                                                                            \
    ALONG(float, NAME##_loop, 1)                                                                                       \
    static int NAME##_along(PyObject *const *args, PyObject *result, Lines at) {                                       \
        Py_ssize_t size = at.n * at.inner;                                                                             \
        if (at.inner < SIDE || at.outer * size > TURNED) return NAME##_loop_along(args, result, at);                   \
        const float *x = data_of(args[0]);                                                                             \
        float *out = data_of(result);                                                                                  \
        for (; at.outer; at.outer--, x += size, out += size)                                                           \
            for (Py_ssize_t k = 0; k < at.inner; k += SIDE) {                                                          \
                Py_ssize_t from = k + SIDE > at.inner ? at.inner - SIDE : k;                                           \
                NAME##_columns(x + from, out + from, at.n, at.inner);                                                  \
            }                                                                                                          \
        return 1;                                                                                                      \
    }

#define ROWS(NAME, FLOATS_ALONG)                                                                                       \
    ALONG(double, NAME##_doubles, 1)                                                                                   \
    static void NAME##_part(const void *work, Py_ssize_t from, Py_ssize_t to) {                                        \
        const Floats *a = work;                                                                                        \
        NAME##_loop(a->x + from * a->n, a->out + from * a->n, to - from, a->n);                                        \
    }                                                                                                                  \
    static PyObject *NAME(PyObject *module, PyObject *const *args, Py_ssize_t count) {                                 \
        Lines at;                                                                                                      \
        if (count < 2) Py_RETURN_FALSE;                                                                                \
        int single = readable(args[0], F32) && writable(args[1], F32);                                                 \
        if (!single && !(readable(args[0], F64) && writable(args[1], F64))) Py_RETURN_FALSE;                           \
        Py_ssize_t total = count_of(args[0]);                                                                          \
        if (total == 0 || total != count_of(args[1]) || !lines_of(args[0], count > 2 ? args[2] : NULL, &at))           \
            Py_RETURN_FALSE;                                                                                           \
        if (at.inner > 1)                                                                                              \
            return PyBool_FromLong((single ? FLOATS_ALONG : NAME##_doubles_along)(args, args[1], at));                 \
        Floats work = {data_of(args[0]), NULL, data_of(args[1]), at.n};                                                \
        BEGIN(total)                                                                                                   \
        if (single)                                                                                                    \
            run(NAME##_part, &work, total / at.n, at.n, HEAVY);                                                        \
        else                                                                                                           \
            NAME##_doubles(data_of(args[0]), data_of(args[1]), total / at.n, at.n);                                    \
        END                                                                                                            \
        Py_RETURN_TRUE;                                                                                                \
    }

#define ROW_PAIRS(NAME)                                                                                                \
    ALONG(float, NAME##_loop, 2)                                                                                       \
    ALONG(double, NAME##_doubles, 2)                                                                                   \
    static void NAME##_part(const void *work, Py_ssize_t from, Py_ssize_t to) {                                        \
        const Floats *a = work;                                                                                        \
        NAME##_loop(a->x + from * a->n, a->y + from * a->n, a->out + from * a->n, to - from, a->n);                    \
    }                                                                                                                  \
    static PyObject *NAME(PyObject *module, PyObject *const *args, Py_ssize_t count) {                                 \
        Lines at;                                                                                                      \
        if (count < 3) Py_RETURN_FALSE;                                                                                \
        int single = readable(args[0], F32) && readable(args[1], F32) && writable(args[2], F32);                       \
        if (!single && !(readable(args[0], F64) && readable(args[1], F64) && writable(args[2], F64)))                  \
            Py_RETURN_FALSE;                                                                                           \
        Py_ssize_t total = count_of(args[1]);                                                                          \
        if (total == 0 || total != count_of(args[0]) || total != count_of(args[2]) ||                                  \
            !lines_of(args[1], count > 3 ? args[3] : NULL, &at))                                                       \
            Py_RETURN_FALSE;                                                                                           \
        if (at.inner > 1)                                                                                              \
            return PyBool_FromLong((single ? NAME##_loop_along : NAME##_doubles_along)(args, args[2], at));            \
        Floats work = {data_of(args[0]), data_of(args[1]), data_of(args[2]), at.n};                                    \
        BEGIN(total)                                                                                                   \
        if (single)                                                                                                    \
            run(NAME##_part, &work, total / at.n, at.n, HEAVY);                                                        \
        else                                                                                                           \
            NAME##_doubles(data_of(args[0]), data_of(args[1]), data_of(args[2]), total / at.n, at.n);                  \
        END                                                                                                            \
        Py_RETURN_TRUE;                                                                                                \
    }

ALONG_COLUMNS(softmax)
ALONG_COLUMNS(log_softmax)
ROWS(softmax, softmax_along)
ROWS(log_softmax, log_softmax_along)
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

static void cumsum_doubles(const double *x, double *out, Py_ssize_t rows, Py_ssize_t n) {
    for (; rows; rows--) {
        double total = 0.0;
        for (Py_ssize_t i = 0; i < n; i++) *out++ = total += *x++;
    }
}

static void cumprod_doubles(const double *x, double *out, Py_ssize_t rows, Py_ssize_t n) {
    for (; rows; rows--) {
        double product = 1.0;
        for (Py_ssize_t i = 0; i < n; i++) *out++ = product *= *x++;
    }
}

ALONG(float, cumsum_loop, 1)
ALONG(float, cumprod_loop, 1)
ROWS(cumsum, cumsum_loop_along)
ROWS(cumprod, cumprod_loop_along)

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

/* sum_rows(x, out): out has one element for each run of x. */
static PyObject *sum_rows(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !readable(args[0], F32) || !writable(args[1], F32)) Py_RETURN_FALSE;
    Py_ssize_t total = count_of(args[0]), rows = count_of(args[1]);
    if (rows == 0 || total % rows) Py_RETURN_FALSE;
    Floats work = {data_of(args[0]), NULL, data_of(args[1]), total / rows};
    BEGIN(total)
    if (work.n < LONG_ROW) run(sum_part, &work, rows, work.n, LIGHT);
    else sum_long_rows(work.x, work.out, rows, work.n);
    END
    Py_RETURN_TRUE;
}
