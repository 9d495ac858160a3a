/* The weights of attention from scores, and the gradients of scores from those of weights. */

typedef struct {
    const float *weights; /* backward only */
    float *scores;
    Py_ssize_t queries, keys;
    float scale;
    int causal;
} Attention;

#define STRIDE 32 /* what a causal row sees is rounded up to that many places, for loops without remainders */

/* What a row without a peak gives: zeros where it may look nowhere, nan where it has one. */
INLINE void no_peak(float *x, Py_ssize_t n) {
    float all = 0.0f;
    for (Py_ssize_t i = 0; i < n; i++) all = x[i] != x[i] ? x[i] : all;
    for (Py_ssize_t i = 0; i < n; i++) x[i] = all;
}

WIDE static void attention_loop(float *x, Py_ssize_t from, Py_ssize_t to, const Attention *a) {
    Py_ssize_t n = a->keys;
    float scale = a->scale;
    for (Py_ssize_t r = from; r < to; r++, x += n) {
        Py_ssize_t seen = n, width = n;
        if (a->causal && r % a->queries + 1 < n) {
            seen = r % a->queries + 1;
            width = (seen + STRIDE - 1) / STRIDE * STRIDE;
            width = width < n ? width : n;
        }
        SIMD for (Py_ssize_t i = 0; i < width; i++) x[i] *= scale;
        for (Py_ssize_t i = seen; i < width; i++) x[i] = -INFINITY;
        float peak = peak_of(x, width);
        if (peak > -INFINITY) {
            SIMD for (Py_ssize_t i = 0; i < width; i++) x[i] = exp_of(x[i] - peak);
            float share = (float)(1.0 / sum_of_f32(x, width));
            SIMD for (Py_ssize_t i = 0; i < width; i++) x[i] *= share;
        } else {
            no_peak(x, width);
        }
        for (Py_ssize_t i = width; i < n; i++) x[i] = 0.0f;
    }
}

static void attention_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Attention *a = work;
    attention_loop(a->scores + from * a->keys, from, to, a);
}

WIDE static void attention_backward_loop(float *g, const float *y, Py_ssize_t rows, Py_ssize_t n, float scale) {
    for (Py_ssize_t r = 0; r < rows; r++, g += n, y += n) {
        float along = (float)dot_of_f32(g, y, n);
        SIMD for (Py_ssize_t i = 0; i < n; i++) g[i] = (g[i] - along) * y[i] * scale;
    }
}

static void attention_backward_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Attention *a = work;
    attention_backward_loop(a->scores + from * a->keys, a->weights + from * a->keys, to - from, a->keys, a->scale);
}

/* Whether an array holds scores, queries by keys at its end; tells their numbers and how many rows there are. */
INLINE Py_ssize_t score_rows(PyObject *scores, Attention *a) {
    Array *array = (Array *)scores;
    if (!writable(scores, F32) || array->nd < 2 || count_of(scores) == 0) return 0;
    a->scores = data_of(scores);
    a->queries = array->dimensions[array->nd - 2];
    a->keys = array->dimensions[array->nd - 1];
    return count_of(scores) / a->keys;
}

/* attention_weights(scores, scale, causal): softmax of the scaled scores, in their place. */
static PyObject *attention_weights(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Attention work = {0};
    Py_ssize_t rows = count == 3 && PyFloat_Check(args[1]) && PyBool_Check(args[2]) ? score_rows(args[0], &work) : 0;
    if (!rows) Py_RETURN_FALSE;
    work.scale = (float)PyFloat_AS_DOUBLE(args[1]);
    work.causal = args[2] == Py_True;
    BEGIN(rows * work.keys)
    run(attention_part, &work, rows, work.keys, HEAVY);
    END
    Py_RETURN_TRUE;
}

/* attention_weights_backward(gradients, weights, scale): gradients of unscaled scores in place of those of weights. */
static PyObject *attention_weights_backward(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Attention work = {0};
    Py_ssize_t rows = count == 3 && PyFloat_Check(args[2]) ? score_rows(args[0], &work) : 0;
    if (!rows || !readable(args[1], F32) || !of_one_shape(args[0], args[1])) Py_RETURN_FALSE;
    work.weights = data_of(args[1]);
    work.scale = (float)PyFloat_AS_DOUBLE(args[2]);
    BEGIN(rows * work.keys)
    run(attention_backward_part, &work, rows, work.keys, HEAVY);
    END
    Py_RETURN_TRUE;
}
