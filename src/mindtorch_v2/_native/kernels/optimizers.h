/* Steps of optimizers, which round after every operation as the operators they stand for do. */

enum { MOST_NUMBERS = 9 };
typedef void (*Step)(void *const *arrays, const double *numbers, Py_ssize_t n);

/* sign, decay, shrink, toward, keep, fresh, root, eps, rate; the last array, of the largest squares, may be NULL */
#define ADAM(NAME, TYPE, ROOT)                                                                                         \
    WIDE static void NAME(void *const *arrays, const double *numbers, Py_ssize_t n) {                                  \
        TYPE *p = arrays[0], *mean = arrays[2], *square = arrays[3], *top = arrays[4], r[MOST_NUMBERS];                \
        const TYPE *g = arrays[1];                                                                                     \
        for (int i = 0; i < 9; i++) r[i] = (TYPE)numbers[i];                                                           \
        SIMD for (Py_ssize_t i = 0; i < n; i++) {                                                                      \
            TYPE slope = r[1] != 0 ? g[i] * r[0] + p[i] * r[1] : g[i] * r[0];                                          \
            TYPE m = mean[i] + (slope - mean[i]) * r[3];                                                               \
            TYPE s = square[i] * r[4] + slope * slope * r[5];                                                          \
            mean[i] = m;                                                                                               \
            square[i] = s;                                                                                             \
            if (top) top[i] = s = top[i] > s || top[i] != top[i] ? top[i] : s;                                         \
            p[i] = p[i] * r[2] + m * r[8] / (ROOT(s) / r[6] + r[7]);                                                   \
        }                                                                                                              \
    }

/* sign, decay, momentum, fresh, nesterov, rate; the last array, of the momentum, may be NULL */
#define SGD(NAME, TYPE)                                                                                                \
    WIDE static void NAME(void *const *arrays, const double *numbers, Py_ssize_t n) {                                  \
        TYPE *p = arrays[0], *buffer = arrays[2], r[MOST_NUMBERS];                                                     \
        const TYPE *g = arrays[1];                                                                                     \
        for (int i = 0; i < 6; i++) r[i] = (TYPE)numbers[i];                                                           \
        SIMD for (Py_ssize_t i = 0; i < n; i++) {                                                                      \
            TYPE slope = r[1] != 0 ? g[i] * r[0] + p[i] * r[1] : g[i] * r[0];                                          \
            if (buffer) {                                                                                              \
                TYPE moved = buffer[i] = buffer[i] * r[2] + slope * r[3];                                              \
                slope = r[4] != 0 ? slope + moved * r[2] : moved;                                                      \
            }                                                                                                          \
            p[i] = p[i] + slope * r[5];                                                                                \
        }                                                                                                              \
    }

ADAM(adam_f32, float, sqrtf)
ADAM(adam_f64, double, sqrt)
SGD(sgd_f32, float)
SGD(sgd_f64, double)

/* Lists of arrays, of the shapes of those in the first one, the last of them None where it may be NULL; then numbers. */
static PyObject *step(PyObject *const *args, Py_ssize_t count, int lists, int numbers, Step single, Step twofold) {
    double values[MOST_NUMBERS];
    void *arrays[5];
    Py_ssize_t total;
    if (count != lists + numbers) Py_RETURN_FALSE;
    int given = args[lists - 1] == Py_None ? lists - 1 : lists;
    PyObject *descr = NULL;
    for (int k = 0; k < given; k++) {
        if (!in_line(args[k], args[0], &total)) Py_RETURN_FALSE;
        PyObject *own = ((Array *)PyList_GET_ITEM(args[k], 0))->descr;
        if (descr && own != descr) Py_RETURN_FALSE;
        descr = own;
    }
    for (int i = 0; i < numbers; i++) {
        values[i] = PyFloat_AsDouble(args[lists + i]);
        if (values[i] == -1.0 && PyErr_Occurred()) return NULL;
    }
    for (Py_ssize_t j = 0; j < PyList_GET_SIZE(args[0]); j++) {
        for (int k = 0; k < lists; k++) arrays[k] = k < given ? data_of(PyList_GET_ITEM(args[k], j)) : NULL;
        Py_ssize_t n = count_of(PyList_GET_ITEM(args[0], j));
        BEGIN(n)
        (descr == F32 ? single : twofold)(arrays, values, n);
        END
    }
    Py_RETURN_TRUE;
}

/* adam(parameters, gradients, means, squares, largest squares | None, its numbers...) */
static PyObject *adam(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    return step(args, count, 5, 9, adam_f32, adam_f64);
}

/* sgd(parameters, gradients, momenta | None, its numbers...) */
static PyObject *sgd(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    return step(args, count, 3, 6, sgd_f32, sgd_f64);
}
