/* Small functions of an array and a little more: gates, slopes by channel, membership. Each makes its result; None for what
 * is not plain memory of the types it knows. */

#define GATE(TYPE, EXP_OF)                                                                                             \
    for (Py_ssize_t o = 0; o < outer; o++) {                                                                           \
        const TYPE *x = (const TYPE *)data_of(args[0]) + 2 * o * inner, *gate = x + inner;                             \
        TYPE *out = (TYPE *)data_of(made) + o * inner;                                                                 \
        for (Py_ssize_t i = 0; i < inner; i++) out[i] = x[i] / (1 + EXP_OF(-gate[i]));                                 \
    }

/* glu(x, dim): the first half along a dimension, times the sigmoid of the second. */
static PyObject *glu(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || (!readable(args[0], F32) && !readable(args[0], F64))) Py_RETURN_NONE;
    Array *a = (Array *)args[0];
    Py_ssize_t shape[MOST_DIMS], outer = 1, inner = 1;
    int dim = read_dim(args[1], a->nd);
    if (dim < 0 || a->nd > MOST_DIMS || a->dimensions[dim] % 2) Py_RETURN_NONE;
    for (int i = 0; i < a->nd; i++) {
        shape[i] = i == dim ? a->dimensions[i] / 2 : a->dimensions[i];
        if (i < dim) outer *= shape[i];
        else inner *= shape[i];
    }
    PyObject *made = new_array(a->descr, a->nd, shape);
    if (!made) return NULL;
    BEGIN(outer * inner)
    if (a->descr == F32) { GATE(float, exp_of) }
    else { GATE(double, exp_double) }
    END
    return made;
}

#define SLOPE(TYPE)                                                                                                    \
    for (Py_ssize_t row = 0; row < n / inner; row++) {                                                                 \
        const TYPE *x = (const TYPE *)data_of(args[0]) + row * inner;                                                  \
        TYPE *out = (TYPE *)data_of(made) + row * inner, slope = ((const TYPE *)data_of(args[1]))[row % slopes];       \
        for (Py_ssize_t i = 0; i < inner; i++) out[i] = x[i] > 0 ? x[i] : x[i] * slope;                                \
    }

/* prelu(x, slopes): what is not positive times one slope, or one for each place in the second dimension. */
static PyObject *prelu(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || (!readable(args[0], F32) && !readable(args[0], F64))) Py_RETURN_NONE;
    Array *a = (Array *)args[0];
    if (!readable(args[1], a->descr)) Py_RETURN_NONE;
    Py_ssize_t slopes = count_of(args[1]), n = count_of(args[0]), inner = n;
    if (n == 0 || slopes == 0 || (slopes > 1 && (a->nd < 2 || a->dimensions[1] != slopes))) Py_RETURN_NONE;
    if (slopes > 1) {
        inner = 1;
        for (int i = 2; i < a->nd; i++) inner *= a->dimensions[i];
    }
    PyObject *made = new_like(args[0], KEEP_ORDER, NULL, 0);
    if (!made) return NULL;
    BEGIN(n)
    if (a->descr == F32) { SLOPE(float) }
    else { SLOPE(double) }
    END
    return made;
}

#define AMONG(TYPE)                                                                                                    \
    for (Py_ssize_t i = 0; i < n; i++) {                                                                               \
        const TYPE x = ((const TYPE *)data_of(args[0]))[i], *tests = data_of(args[1]);                                 \
        int found = 0;                                                                                                 \
        for (Py_ssize_t j = 0; j < m; j++) found |= x == tests[j];                                                     \
        out[i] = found != inverted;                                                                                    \
    }

/* isin(x, tests, inverted): which elements occur among others (or do not), each compared with each. */
static PyObject *isin(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || Py_TYPE(args[0]) != array_type) Py_RETURN_NONE;
    PyObject *descr = ((Array *)args[0])->descr;
    if ((descr != F32 && descr != F64 && descr != I64) || !readable(args[0], descr) || !readable(args[1], descr)) Py_RETURN_NONE;
    Py_ssize_t n = count_of(args[0]), m = count_of(args[1]);
    int inverted = args[2] == Py_True;
    PyObject *made = new_like(args[0], KEEP_ORDER, Py_NewRef(BOOL), 0);
    if (!made) return NULL;
    char *out = data_of(made);
    BEGIN(n * m)
    if (descr == F32) { AMONG(float) }
    else if (descr == F64) { AMONG(double) }
    else { AMONG(int64_t) }
    END
    return made;
}
