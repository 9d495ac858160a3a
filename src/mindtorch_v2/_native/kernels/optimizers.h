/* Steps of optimizers, which round after every operation as the operators they stand for do. */

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
