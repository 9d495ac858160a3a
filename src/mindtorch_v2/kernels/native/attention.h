/* The weights of attention from scores, and the gradients of scores from those of weights. */

typedef struct {
    const REAL *weights; /* backward only */
    REAL *scores;
    Py_ssize_t queries, keys;
    REAL scale;
    int causal;
} NAMED(Attention);

#define STRIDE 32 /* what a causal row sees is rounded up to that many places, for loops without remainders */

/* What a row without a peak gives: zeros where it may look nowhere, nan where it has one. */
INLINE void NAMED(no_peak)(REAL *x, Py_ssize_t n) {
    REAL all = 0.0f;
    for (Py_ssize_t i = 0; i < n; i++) all = x[i] != x[i] ? x[i] : all;
    for (Py_ssize_t i = 0; i < n; i++) x[i] = all;
}

WIDE static void NAMED(attention_loop)(REAL *x, Py_ssize_t from, Py_ssize_t to, const NAMED(Attention) *a) {
    Py_ssize_t n = a->keys;
    REAL scale = a->scale;
    for (Py_ssize_t r = from; r < to; r++, x += n) {
        Py_ssize_t seen = n, width = n;
        if (a->causal && r % a->queries + 1 < n) {
            seen = r % a->queries + 1;
            width = (seen + STRIDE - 1) / STRIDE * STRIDE;
            width = width < n ? width : n;
        }
        SIMD for (Py_ssize_t i = 0; i < width; i++) x[i] *= scale;
        for (Py_ssize_t i = seen; i < width; i++) x[i] = -INFINITY;
        REAL peak = NAMED(peak_of)(x, width);
        if (peak > -INFINITY) {
            SIMD for (Py_ssize_t i = 0; i < width; i++) x[i] = EXP(x[i] - peak);
            REAL share = (REAL)(1.0 / NAMED(sum_of)(x, width));
            SIMD for (Py_ssize_t i = 0; i < width; i++) x[i] *= share;
        } else {
            NAMED(no_peak)(x, width);
        }
        for (Py_ssize_t i = width; i < n; i++) x[i] = 0.0f;
    }
}

static void NAMED(attention_part)(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const NAMED(Attention) *a = work;
    NAMED(attention_loop)(a->scores + from * a->keys, from, to, a);
}

WIDE static void NAMED(attention_backward_loop)(REAL *g, const REAL *y, Py_ssize_t rows, Py_ssize_t n, REAL scale) {
    for (Py_ssize_t r = 0; r < rows; r++, g += n, y += n) {
        REAL along = (REAL)NAMED(dot_of)(g, y, n);
        SIMD for (Py_ssize_t i = 0; i < n; i++) g[i] = (g[i] - along) * y[i] * scale;
    }
}

static void NAMED(attention_backward_part)(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const NAMED(Attention) *a = work;
    NAMED(attention_backward_loop)(a->scores + from * a->keys, a->weights + from * a->keys, to - from, a->keys, a->scale);
}

/* Whether an array holds scores, queries by keys at its end; tells their numbers and how many rows there are. */
INLINE Py_ssize_t NAMED(score_rows)(PyObject *scores, NAMED(Attention) *a) {
    Array *array = (Array *)scores;
    if (!writable(scores, KIND) || array->nd < 2 || count_of(scores) == 0) return 0;
    a->scores = data_of(scores);
    a->queries = array->dimensions[array->nd - 2];
    a->keys = array->dimensions[array->nd - 1];
    return count_of(scores) / a->keys;
}

/* attention_weights(scores, scale, causal): softmax of the scaled scores, in their place. */
static PyObject *NAMED(attention_weights)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    NAMED(Attention) work = {0};
    Py_ssize_t rows = count == 3 && PyFloat_Check(args[1]) && PyBool_Check(args[2]) ? NAMED(score_rows)(args[0], &work) : 0;
    if (!rows) Py_RETURN_FALSE;
    work.scale = (REAL)PyFloat_AS_DOUBLE(args[1]);
    work.causal = args[2] == Py_True;
    BEGIN(rows * work.keys)
    run(NAMED(attention_part), &work, rows, work.keys, HEAVY);
    END
    Py_RETURN_TRUE;
}

/* attention_weights_backward(gradients, weights, scale): gradients of unscaled scores in place of those of weights. */
static PyObject *NAMED(attention_weights_backward)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    NAMED(Attention) work = {0};
    Py_ssize_t rows = count == 3 && PyFloat_Check(args[2]) ? NAMED(score_rows)(args[0], &work) : 0;
    if (!rows || !readable(args[1], KIND) || !of_one_shape(args[0], args[1])) Py_RETURN_FALSE;
    work.weights = data_of(args[1]);
    work.scale = (REAL)PyFloat_AS_DOUBLE(args[2]);
    BEGIN(rows * work.keys)
    run(NAMED(attention_backward_part), &work, rows, work.keys, HEAVY);
    END
    Py_RETURN_TRUE;
}

/* Whether an array is (batch, heads, places, width), of that shape, with each row side by side; tells how far apart rows are,
 * in elements. */
static int NAMED(heads_of)(PyObject *object, int flags, const Py_ssize_t *shape, Py_ssize_t *steps) {
    Array *a = (Array *)object;
    if (!plain(object, KIND, ALIGNED | flags) || a->nd != 4 || a->strides[3] != sizeof(REAL)) return 0;
    for (int i = 0; i < 4; i++)
        if (a->dimensions[i] != shape[i]) return 0;
    for (int i = 0; i < 3; i++) {
        if (a->strides[i] % (Py_ssize_t)sizeof(REAL)) return 0;
        steps[i] = a->strides[i] / (Py_ssize_t)sizeof(REAL);
    }
    return 1;
}

/* attention(q, k, v, mask | None, causal, scale, out, weights): attention of few places; a mask has an element for each query
 * and key. */
static PyObject *NAMED(attention)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    static const int order[] = {0, 1, 2, 6};
    Py_ssize_t steps[4][3];
    NAMED(Attention) work = {0};
    if (count != 8 || !PyBool_Check(args[4]) || !PyFloat_Check(args[5]) || !NAMED(score_rows)(args[7], &work) ||
        ((Array *)args[7])->nd != 4 || Py_TYPE(args[0]) != array_type)
        Py_RETURN_FALSE;
    const Py_ssize_t *shape = ((Array *)args[7])->dimensions, width = last_of(args[0]), keys = work.keys;
    for (int i = 0; i < 4; i++) {
        Py_ssize_t expected[] = {shape[0], shape[1], i % 3 ? keys : work.queries, width}; /* of q, k, v and out */
        if (width < 1 || !NAMED(heads_of)(args[order[i]], i == 3 ? WRITEABLE : 0, expected, steps[i])) Py_RETURN_FALSE;
    }
    if (args[3] != Py_None && (!readable(args[3], KIND) || count_of(args[3]) != work.queries * keys)) Py_RETURN_FALSE;
    const REAL *q = data_of(args[0]), *k = data_of(args[1]), *v = data_of(args[2]);
    const REAL *mask = args[3] == Py_None ? NULL : data_of(args[3]);
    REAL *out = data_of(args[6]), *row = work.scores, scale = (REAL)PyFloat_AS_DOUBLE(args[5]);
    work.scale = mask ? 1 : scale;
    work.causal = args[4] == Py_True;
    for (Py_ssize_t b = 0; b < shape[0]; b++)
        for (Py_ssize_t h = 0; h < shape[1]; h++)
            for (Py_ssize_t i = 0; i < work.queries; i++, row += keys) {
                const REAL *query = q + b * steps[0][0] + h * steps[0][1] + i * steps[0][2];
                for (Py_ssize_t j = 0; j < keys; j++) {
                    const REAL *key = k + b * steps[1][0] + h * steps[1][1] + j * steps[1][2];
                    REAL sum = 0;
                    for (Py_ssize_t d = 0; d < width; d++) sum += query[d] * key[d];
                    row[j] = mask ? sum * scale + mask[i * keys + j] : sum;
                }
                NAMED(attention_loop)(row, i, i + 1, &work);
                REAL *result = out + b * steps[3][0] + h * steps[3][1] + i * steps[3][2];
                for (Py_ssize_t j = 0; j < keys; j++) {
                    const REAL *value = v + b * steps[2][0] + h * steps[2][1] + j * steps[2][2], weight = row[j];
                    for (Py_ssize_t d = 0; d < width; d++) result[d] = (j ? result[d] : 0) + weight * value[d];
                }
            }
    Py_RETURN_TRUE;
}
