/* Logarithms of few elements in losses, whose calls one by one would take longer than the arithmetic. */

enum { FEW_LOGARITHMS = 1024 };

/* Whether two arrays are plain memory of one shape and of a type of floats, and few. */
static int few_floats(PyObject *x, PyObject *y, PyObject *descr) {
    return (descr == F32 || descr == F64) && readable(x, descr) && readable(y, descr) && of_one_shape(x, y) &&
           count_of(x) <= FEW_LOGARITHMS;
}

INLINE double x_log_y_of(double x, double y, double log_y) { return y != y ? y : x == 0 ? 0 : x * log_y; }

/* x_log_y(x, y): x log(y), and 0 where x is 0 unless y is nan; None for more than a few, and for other types and shapes. */
static PyObject *x_log_y(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    PyObject *descr = count == 2 && Py_TYPE(args[0]) == array_type ? ((Array *)args[0])->descr : NULL;
    if (descr == NULL || !few_floats(args[0], args[1], descr)) Py_RETURN_NONE;
    PyObject *made = new_like(args[0], KEEP_ORDER, NULL, 0);
    if (!made) return NULL;
    Py_ssize_t n = count_of(made);
    const void *x = data_of(args[0]), *y = data_of(args[1]);
    void *out = data_of(made);
    for (Py_ssize_t i = 0; i < n; i++) {
        if (descr == F32) {
            float a = ((const float *)x)[i], b = ((const float *)y)[i];
            ((float *)out)[i] = (float)x_log_y_of(a, b, logf(b));
        } else {
            double a = ((const double *)x)[i], b = ((const double *)y)[i];
            ((double *)out)[i] = x_log_y_of(a, b, log(b));
        }
    }
    return made;
}

/* What a logarithm counts in a loss: no less than -100. */
#define BOUNDED(VALUE) ((VALUE) < -100 ? -100 : (VALUE))

#define BINARY_LOSSES(TYPE, LOG, LOG1P)                                                                                \
    for (Py_ssize_t i = 0; i < n && fits; i++) {                                                                       \
        TYPE p = ((const TYPE *)x)[i], t = ((const TYPE *)y)[i], right, wrong;                                         \
        fits = p >= 0 && p <= 1;                                                                                       \
        right = LOG(p);                                                                                                \
        wrong = LOG1P(-p);                                                                                             \
        ((TYPE *)out)[i] = (t - 1) * BOUNDED(wrong) - t * BOUNDED(right);                                              \
    }

/* binary_losses(x, target): the cross entropy of each probability; None for more than a few, for what is no probability,
 * and for other types and shapes. */
static PyObject *binary_losses(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    PyObject *descr = count == 2 && Py_TYPE(args[0]) == array_type ? ((Array *)args[0])->descr : NULL;
    if (descr == NULL || !few_floats(args[0], args[1], descr)) Py_RETURN_NONE;
    PyObject *made = new_like(args[0], KEEP_ORDER, NULL, 0);
    if (!made) return NULL;
    Py_ssize_t n = count_of(made);
    const void *x = data_of(args[0]), *y = data_of(args[1]);
    void *out = data_of(made);
    int fits = 1;
    if (descr == F32) { BINARY_LOSSES(float, logf, log1pf) } else { BINARY_LOSSES(double, log, log1p) }
    if (fits) return made;
    Py_DECREF(made);
    Py_RETURN_NONE;
}
