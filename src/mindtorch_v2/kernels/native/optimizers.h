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

/* Whether so many lists hold arrays of one type, of the shapes of those in the first one; *descr is that type. */
static int are_in_line(PyObject *const *lists, int count, PyObject **descr, Py_ssize_t *total) {
    *descr = NULL;
    for (int k = 0; k < count; k++) {
        if (!in_line(lists[k], lists[0], total)) return 0;
        PyObject *own = ((Array *)PyList_GET_ITEM(lists[k], 0))->descr;
        if (*descr && own != *descr) return 0;
        *descr = own;
    }
    return 1;
}

enum { MOST_LISTS = 5 };

static void step_loop(PyObject *const *lists, int count, int given, const double *values, Step step) {
    void *arrays[MOST_LISTS];
    for (Py_ssize_t j = 0; j < PyList_GET_SIZE(lists[0]); j++) {
        for (int k = 0; k < count; k++) arrays[k] = k < given ? data_of(PyList_GET_ITEM(lists[k], j)) : NULL;
        Py_ssize_t n = count_of(PyList_GET_ITEM(lists[0], j));
        BEGIN(n)
        step(arrays, values, n);
        END
    }
}

/* Lists of arrays, of the shapes of those in the first one, the last of them None where it may be NULL; then numbers. */
static PyObject *step(PyObject *const *args, Py_ssize_t count, int lists, int numbers, Step single, Step twofold) {
    double values[MOST_NUMBERS];
    PyObject *descr, *kept[MOST_LISTS];
    Py_ssize_t total;
    if (count != lists + numbers) Py_RETURN_FALSE;
    int given = args[lists - 1] == Py_None ? lists - 1 : lists, held = 0;
    if (!are_in_line(args, given, &descr, &total) || !read_numbers(args + lists, numbers, values)) Py_RETURN_FALSE;
    Step loop = descr == F32 ? single : twofold;
    if (total <= LARGE) {
        step_loop(args, lists, given, values, loop);
        Py_RETURN_TRUE;
    }
    /* Other threads run meanwhile, and may change the lists: copies hold the arrays until all are done. */
    while (held < given && (kept[held] = PyList_GetSlice(args[held], 0, PyList_GET_SIZE(args[0])))) held++;
    if (held == given) step_loop(kept, lists, given, values, loop);
    for (int k = 0; k < held; k++) Py_DECREF(kept[k]);
    if (held < given) return NULL;
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
