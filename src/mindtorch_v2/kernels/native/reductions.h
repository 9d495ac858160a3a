/* Sums, products, lengths and extremes of few elements: of all, or along one axis. Each makes its result, and gives None for
 * arrays that it does not take. */

/* `lines_of`, or those of a number, which may be asked for along its only element. */
static int lines_or_number(PyObject *x, PyObject *axis, Lines *at) {
    if (((Array *)x)->nd) return lines_of(x, axis, at);
    Py_ssize_t given;
    *at = (Lines){1, 1, 1};
    return read_size(axis, &given) && (given == 0 || given == -1);
}

/* A new array for what is left of x along an axis (all of it for None), and how x lies around that axis; NULL without an
 * exception for an axis that x does not have, for a `keepdim` that is no truth value, and for nothing. */
static PyObject *new_reduced(PyObject *x, PyObject *axis, PyObject *keepdim, PyObject *descr, Lines *at) {
    Array *a = (Array *)x;
    Py_ssize_t shape[MOST_DIMS];
    int nd = 0, keep;
    *at = (Lines){1, count_of(x), 1};
    if (at->n == 0 || a->nd > MOST_DIMS || !read_truth(keepdim, &keep)) return NULL;
    if (axis == Py_None) {
        while (keep && nd < a->nd) shape[nd++] = 1;
    } else if (!lines_or_number(x, axis, at)) {
        return NULL;
    } else if (a->nd) {
        int gone = read_dim(axis, a->nd);
        for (int i = 0; i < a->nd; i++)
            if (i != gone || keep) shape[nd++] = i == gone ? 1 : a->dimensions[i];
    }
    return new_array(descr, nd, shape);
}

INLINE int is_plain(PyObject *x) {
    int flags = CONTIGUOUS | ALIGNED;
    return Py_TYPE(x) == array_type && (((Array *)x)->flags & flags) == flags;
}

/* Sums of few elements in the order in which NumPy's add.reduce adds them, hence with its bits: along rows eight sums
 * side by side, across rows one row after the other; zero comes first, which makes a sum of -0.0 one of 0.0. */
#define ADD_UP(NAME, TYPE, SUM, TERM)                                                                                  \
    static SUM NAME##_row(const TYPE *x, Py_ssize_t n) {                                                               \
        if (n < 8) {                                                                                                   \
            SUM sum = (SUM)-0.0;                                                                                       \
            for (Py_ssize_t i = 0; i < n; i++) sum += TERM(x[i]);                                                      \
            return sum;                                                                                                \
        }                                                                                                              \
        if (n > 128) {                                                                                                 \
            Py_ssize_t half = n / 2 - n / 2 % 8;                                                                       \
            return NAME##_row(x, half) + NAME##_row(x + half, n - half);                                               \
        }                                                                                                              \
        SUM r[8];                                                                                                      \
        Py_ssize_t i = 8;                                                                                              \
        for (int k = 0; k < 8; k++) r[k] = TERM(x[k]);                                                                 \
        for (; i < n - n % 8; i += 8)                                                                                  \
            for (int k = 0; k < 8; k++) r[k] += TERM(x[i + k]);                                                        \
        SUM sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));                                   \
        for (; i < n; i++) sum += TERM(x[i]);                                                                          \
        return sum;                                                                                                    \
    }                                                                                                                  \
    WIDE static void NAME(const TYPE *x, SUM *out, Lines at) {                                                         \
        for (Py_ssize_t inner = at.inner; at.outer; at.outer--, x += at.n * inner, out += inner) {                     \
            if (inner == 1) {                                                                                          \
                out[0] = 0 + NAME##_row(x, at.n);                                                                      \
                continue;                                                                                              \
            }                                                                                                          \
            SIMD for (Py_ssize_t k = 0; k < inner; k++) out[k] = 0 + TERM(x[k]);                                       \
            for (Py_ssize_t i = 1; i < at.n; i++)                                                                      \
                SIMD for (Py_ssize_t k = 0; k < inner; k++) out[k] += TERM(x[i * inner + k]);                          \
        }                                                                                                              \
    }

ADD_UP(add_floats, float, float, SAME)
ADD_UP(add_doubles, double, double, SAME)
ADD_UP(add_integers, uint64_t, uint64_t, SAME)
ADD_UP(add_truths, uint8_t, int64_t, SAME)
ADD_UP(square_floats, float, float, SQUARED)
ADD_UP(square_doubles, double, double, SQUARED)

/* Whether a running sum of floats stays as exact as NumPy's. */
INLINE int is_short(Lines at) { return at.n <= 128 || at.inner == 1; }

/* add_up(x, axis, keepdim, divisor): the sum, integers and truth values in int64; divided where there is a divisor. */
static PyObject *add_up(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count < 3 || !is_plain(args[0])) Py_RETURN_NONE;
    PyObject *x = args[0], *descr = ((Array *)x)->descr, *out;
    Lines at;
    int floats = descr == F32 || descr == F64;
    if (!floats && ((descr != I64 && descr != BOOL) || count > 3)) Py_RETURN_NONE;
    double divisor = 1.0;
    if (count > 3 && !read_number(args[3], &divisor)) Py_RETURN_NONE;
    if (!(out = new_reduced(x, args[1], args[2], floats ? descr : I64, &at))) goto unknown;
    if (floats && !is_short(at)) goto unknown;
    Py_ssize_t made = at.outer * at.inner;
    float *single = data_of(out);
    double *twice = data_of(out);
    if (descr == F32) add_floats(data_of(x), single, at);
    else if (descr == F64) add_doubles(data_of(x), twice, at);
    else if (descr == I64) add_integers(data_of(x), data_of(out), at);
    else add_truths(data_of(x), data_of(out), at);
    for (Py_ssize_t i = 0; count > 3 && i < made; i++)
        if (descr == F32) single[i] /= (float)divisor;
        else twice[i] /= divisor;
    return out;
unknown:
    Py_XDECREF(out);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* length(x, axis, keepdim): the root of the sum of squares. */
static PyObject *length(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !is_plain(args[0])) Py_RETURN_NONE;
    PyObject *x = args[0], *descr = ((Array *)x)->descr;
    Lines at;
    if (descr != F32 && descr != F64) Py_RETURN_NONE;
    PyObject *out = new_reduced(x, args[1], args[2], descr, &at);
    if (!out || !is_short(at)) {
        Py_XDECREF(out);
        if (PyErr_Occurred()) return NULL;
        Py_RETURN_NONE;
    }
    if (descr == F32) square_floats(data_of(x), data_of(out), at);
    else square_doubles(data_of(x), data_of(out), at);
    for (Py_ssize_t i = 0; i < at.outer * at.inner; i++)
        if (descr == F32) ((float *)data_of(out))[i] = sqrtf(((float *)data_of(out))[i]);
        else ((double *)data_of(out))[i] = sqrt(((double *)data_of(out))[i]);
    return out;
}

/* Folded by a rule of two: many of a row side by side, rows one after the other; and where the result first stands, or the
 * first nan. */
enum { SIDES = 16 };

#define FOLD(NAME, TYPE, RULE)                                                                                         \
    WIDE static void NAME(const TYPE *x, TYPE *out, Lines at) {                                                        \
        for (Py_ssize_t inner = at.inner; at.outer; at.outer--, x += at.n * inner, out += inner) {                     \
            Py_ssize_t i = 1;                                                                                          \
            if (inner > 1) {                                                                                           \
                for (Py_ssize_t k = 0; k < inner; k++) out[k] = x[k];                                                  \
                for (; i < at.n; i++)                                                                                  \
                    SIMD for (Py_ssize_t k = 0; k < inner; k++) out[k] = RULE(out[k], x[i * inner + k]);               \
                continue;                                                                                              \
            }                                                                                                          \
            TYPE best = x[0], side[SIDES];                                                                             \
            if (at.n >= 4 * SIDES) {                                                                                   \
                for (int k = 0; k < SIDES; k++) side[k] = x[k];                                                        \
                for (i = SIDES; i + SIDES <= at.n; i += SIDES)                                                         \
                    SIMD for (int k = 0; k < SIDES; k++) side[k] = RULE(side[k], x[i + k]);                            \
                best = side[0];                                                                                        \
                for (int k = 1; k < SIDES; k++) best = RULE(best, side[k]);                                            \
            }                                                                                                          \
            for (; i < at.n; i++) best = RULE(best, x[i]);                                                             \
            *out = best;                                                                                               \
        }                                                                                                              \
    }

#define FIND(NAME, TYPE)                                                                                               \
    static void NAME(const TYPE *x, const TYPE *found, int64_t *places, Lines at) {                                    \
        for (; at.outer; at.outer--, x += at.n * at.inner)                                                             \
            for (Py_ssize_t k = 0; k < at.inner; k++, found++) {                                                       \
                Py_ssize_t i = 0;                                                                                      \
                while (i < at.n - 1 && x[i * at.inner + k] != *found && x[i * at.inner + k] == x[i * at.inner + k]) i++; \
                *places++ = i;                                                                                         \
            }                                                                                                          \
    }

#define ALL_OF(X, Y) ((X) & (Y))
#define ANY_OF(X, Y) ((X) | (Y))
FOLD(largest_floats, float, LARGER)
FOLD(largest_doubles, double, LARGER)
FOLD(largest_integers, int64_t, LARGER)
FOLD(least_floats, float, SMALLER)
FOLD(least_doubles, double, SMALLER)
FOLD(least_integers, int64_t, SMALLER)
FOLD(all_truths, uint8_t, ALL_OF)
FOLD(any_truth, uint8_t, ANY_OF)
FOLD(multiply_floats, float, TIMES)
FOLD(multiply_doubles, double, TIMES)
FOLD(multiply_integers, uint64_t, TIMES)
FIND(find_floats, float)
FIND(find_doubles, double)
FIND(find_integers, int64_t)

typedef void (*Fold)(const void *x, void *out, Lines at);

/* A new array of x folded by the rule for its type (of float32, float64, int64, bool); NULL without an exception where there
 * is none. */
static PyObject *folded(PyObject *const *args, const Fold *rules, Lines *at) {
    if (!is_plain(args[0])) return NULL;
    PyObject *descr = ((Array *)args[0])->descr;
    Fold rule = descr == F32 ? rules[0] : descr == F64 ? rules[1] : descr == I64 ? rules[2] : descr == BOOL ? rules[3] : NULL;
    PyObject *out = rule ? new_reduced(args[0], args[1], args[2], descr, at) : NULL;
    if (out) rule(data_of(args[0]), data_of(out), *at);
    return out;
}

/* multiply_up(x, axis, keepdim): the product. */
static PyObject *multiply_up(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    static const Fold rules[] = {(Fold)multiply_floats, (Fold)multiply_doubles, (Fold)multiply_integers, NULL};
    Lines at;
    PyObject *out = count == 3 ? folded(args, rules, &at) : NULL;
    return out || PyErr_Occurred() ? out : Py_NewRef(Py_None);
}

/* extreme(x, axis, keepdim, least): the largest or least, nan where there is one; of truth values whether all or any hold. */
static PyObject *extreme(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    static const Fold most[] = {(Fold)largest_floats, (Fold)largest_doubles, (Fold)largest_integers, (Fold)any_truth};
    static const Fold least[] = {(Fold)least_floats, (Fold)least_doubles, (Fold)least_integers, (Fold)all_truths};
    Lines at;
    PyObject *out = count == 4 ? folded(args, args[3] == Py_True ? least : most, &at) : NULL;
    return out || PyErr_Occurred() ? out : Py_NewRef(Py_None);
}

/* extreme_and_place(x, axis, keepdim, least): the same and where it first stands, or the first nan. */
static PyObject *extreme_and_place(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    PyObject *values = count == 4 ? extreme(module, args, count) : Py_NewRef(Py_None), *places;
    if (!values || values == Py_None) return values;
    Lines at;
    PyObject *descr = ((Array *)values)->descr;
    if (!(places = descr == BOOL ? NULL : new_reduced(args[0], args[1], args[2], I64, &at))) {
        Py_DECREF(values);
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    const void *x = data_of(args[0]), *found = data_of(values);
    if (descr == F32) find_floats(x, found, data_of(places), at);
    else if (descr == F64) find_doubles(x, found, data_of(places), at);
    else find_integers(x, found, data_of(places), at);
    return Py_BuildValue("NN", values, places);
}

/* variance(x, axis, keepdim, correction, root): the variance, computed in double precision, or its root. */
static PyObject *variance(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 5 || !is_plain(args[0]) || count_of(args[0]) > TURNED) Py_RETURN_NONE;
    PyObject *x = args[0], *descr = ((Array *)x)->descr;
    double correction, line[TURNED];
    if (!read_number(args[3], &correction)) Py_RETURN_NONE;
    Lines at;
    PyObject *out = descr == F32 || descr == F64 ? new_reduced(x, args[1], args[2], descr, &at) : NULL;
    if (!out || (double)at.n <= correction) {
        Py_XDECREF(out);
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    for (Py_ssize_t made = 0; made < at.outer * at.inner; made++) {
        Py_ssize_t start = made / at.inner * at.n * at.inner + made % at.inner;
        for (Py_ssize_t i = 0; i < at.n; i++) {
            Py_ssize_t place = start + i * at.inner;
            line[i] = descr == F32 ? ((float *)data_of(x))[place] : ((double *)data_of(x))[place];
        }
        double mean = add_doubles_row(line, at.n) / (double)at.n;
        for (Py_ssize_t i = 0; i < at.n; i++) line[i] -= mean;
        double square = square_doubles_row(line, at.n) / ((double)at.n - correction);
        if (args[4] == Py_True) square = sqrt(square);
        if (descr == F32) ((float *)data_of(out))[made] = (float)square;
        else ((double *)data_of(out))[made] = square;
    }
    return out;
}

#define RUNNING(NAME, TYPE, SUM, OUT)                                                                                  \
    static void NAME(const TYPE *x, OUT *out, Lines at) {                                                              \
        for (Py_ssize_t line = 0; line < at.outer * at.inner; line++) {                                                \
            Py_ssize_t place = line / at.inner * at.n * at.inner + line % at.inner;                                    \
            SUM total = 0;                                                                                             \
            for (Py_ssize_t i = 0; i < at.n; i++, place += at.inner) out[place] = (OUT)(total += x[place]);            \
        }                                                                                                              \
    }

RUNNING(run_floats, float, double, float)
RUNNING(run_doubles, double, double, double)
RUNNING(run_integers, uint64_t, uint64_t, uint64_t)
RUNNING(run_truths, uint8_t, int64_t, int64_t)

/* running_sum(x, axis): the sums up to each element along an axis, integers and truth values in int64. */
static PyObject *running_sum(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Lines at;
    if (count != 2 || !is_plain(args[0]) || !lines_or_number(args[0], args[1], &at)) Py_RETURN_NONE;
    PyObject *x = args[0], *descr = ((Array *)x)->descr, *made = descr == BOOL ? I64 : descr;
    if (made != F32 && made != F64 && made != I64) Py_RETURN_NONE;
    PyObject *out = new_like(x, KEEP_ORDER, Py_NewRef(made), 0);
    if (!out) return NULL;
    if (descr == F32) run_floats(data_of(x), data_of(out), at);
    else if (descr == F64) run_doubles(data_of(x), data_of(out), at);
    else if (descr == I64) run_integers(data_of(x), data_of(out), at);
    else run_truths(data_of(x), data_of(out), at);
    return out;
}

WIDE static double exp_sum(const float *x, float peak, Py_ssize_t n) {
    float sum = 0.0f;
    SIMD_SUM(omp simd reduction(+ : sum)) for (Py_ssize_t i = 0; i < n; i++) sum += exp_of(x[i] - peak);
    return sum;
}

static double exp_sum_doubles(const double *x, double peak, Py_ssize_t n) {
    double sum = 0.0;
    for (Py_ssize_t i = 0; i < n; i++) sum += exp(x[i] - peak);
    return sum;
}

/* The logarithm of a sum of exponentials, whose terms are at most 1. */
#define LOG_SUM_EXP(NAME, TYPE, PEAK, SUM)                                                                             \
    static void NAME(const TYPE *x, TYPE *out, Lines at) {                                                             \
        TYPE line[TURNED], peak;                                                                                       \
        Lines row = {1, at.n, 1};                                                                                      \
        for (Py_ssize_t made = 0; made < at.outer * at.inner; made++) {                                                \
            Py_ssize_t start = made / at.inner * at.n * at.inner + made % at.inner;                                    \
            for (Py_ssize_t i = 0; i < at.n; i++) line[i] = x[start + i * at.inner];                                   \
            PEAK(line, &peak, row);                                                                                    \
            peak = isinf(peak) ? 0 : peak;                                                                             \
            out[made] = (TYPE)(log((double)SUM(line, peak, at.n)) + peak);                                             \
        }                                                                                                              \
    }

LOG_SUM_EXP(log_sum_floats, float, largest_floats, exp_sum)
LOG_SUM_EXP(log_sum_doubles, double, largest_doubles, exp_sum_doubles)

/* log_sum_exp(x, axis, keepdim): log(sum(exp(x))) without overflow. */
static PyObject *log_sum_exp(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    static const Fold rules[] = {(Fold)log_sum_floats, (Fold)log_sum_doubles, NULL, NULL};
    Lines at;
    if (count != 3 || !is_plain(args[0]) || count_of(args[0]) > TURNED) Py_RETURN_NONE;
    PyObject *out = folded(args, rules, &at);
    return out || PyErr_Occurred() ? out : Py_NewRef(Py_None);
}
