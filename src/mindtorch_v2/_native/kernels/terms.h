/* Sums of an array and a product or quotient of others in one pass. They round after every operation, as the passes they
 * stand for do. */

typedef struct {
    const void *a, *b, *c;
    void *out;
    double value;
} Terms;

#define TERMS(NAME, TYPE, RULE)                                                                                        \
    WIDE static void NAME(const void *work, Py_ssize_t from, Py_ssize_t to) {                                          \
        const Terms *t = work;                                                                                         \
        const TYPE *a = t->a, *b = t->b, *c = t->c, value = (TYPE)t->value;                                            \
        TYPE *out = t->out;                                                                                            \
        SIMD for (Py_ssize_t i = from; i < to; i++) out[i] = RULE;                                                     \
    }

#define BOTH(NAME, RULE)                                                                                               \
    TERMS(NAME##_f32, float, RULE)                                                                                     \
    TERMS(NAME##_f64, double, RULE)                                                                                    \
    static const Part NAME##_loops[2] = {NAME##_f32, NAME##_f64};

BOTH(add_scaled, a[i] + b[i] * value)
BOTH(addcmul, a[i] + b[i] * c[i] * value)
BOTH(addcdiv, a[i] + b[i] * value / c[i])
BOTH(lerp_near, a[i] + (b[i] - a[i]) * value)
BOTH(lerp_far, b[i] - (b[i] - a[i]) * value)

/* arrays (two or three), a number and an array for the result or None: the result, or None where it does not know them. */
static PyObject *sum_terms(const Part *loops, int arrays, double value, PyObject *const *args) {
    PyObject *out = args[arrays + 1], *descr = Py_TYPE(args[0]) == array_type ? ((Array *)args[0])->descr : NULL;
    if (descr == NULL || (descr != F32 && descr != F64)) Py_RETURN_NONE;
    Py_ssize_t n = count_of(args[0]), bytes = n * (descr == F32 ? 4 : 8);
    int fresh = out == Py_None, fits = fresh || (writable(out, descr) && of_one_shape(args[0], out));
    for (int i = 0; i < arrays && fits; i++)
        fits = readable(args[i], descr) && of_one_shape(args[0], args[i]) && (fresh || apart(args[i], out, bytes));
    if (!fits) Py_RETURN_NONE;
    out = fresh ? new_like(args[0], KEEP_ORDER, NULL, 0) : Py_NewRef(out);
    if (!out) return NULL;
    Terms work = {data_of(args[0]), data_of(args[1]), data_of(args[arrays - 1]), data_of(out), value};
    BEGIN(n)
    run(loops[descr == F64], &work, n, 1, LIGHT);
    END
    return out;
}

/* Whether args are so many arrays, a Python number (into *value) and what the result goes into. */
static int given_terms(PyObject *const *args, Py_ssize_t count, int arrays, double *value) {
    if (count != arrays + 2 || !(PyFloat_CheckExact(args[arrays]) || PyLong_CheckExact(args[arrays]))) return 0;
    *value = PyFloat_AsDouble(args[arrays]);
    if (*value != -1.0 || !PyErr_Occurred()) return 1;
    PyErr_Clear(); /* too large an integer; NumPy says so */
    return 0;
}

#define SUM(NAME, ARRAYS)                                                                                              \
    static PyObject *NAME(PyObject *module, PyObject *const *args, Py_ssize_t count) {                                 \
        double value;                                                                                                  \
        if (!given_terms(args, count, ARRAYS, &value)) Py_RETURN_NONE;                                                 \
        return sum_terms(NAME##_loops, ARRAYS, value, args);                                                           \
    }

SUM(add_scaled, 2)
SUM(addcmul, 3)
SUM(addcdiv, 3)

/* From the nearer end, so that both are exact. */
static PyObject *lerp(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    double weight;
    if (!given_terms(args, count, 2, &weight)) Py_RETURN_NONE;
    int near = fabs(weight) < 0.5;
    return sum_terms(near ? lerp_near_loops : lerp_far_loops, 2, near ? weight : 1 - weight, args);
}
