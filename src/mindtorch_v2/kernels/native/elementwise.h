/* Functions of each element. */

typedef struct {
    const float *x, *y;
    float *out;
    Py_ssize_t n; /* elements of a row */
} Floats;


#define LOOP(NAME, FUNCTION)                                                                                           \
    WIDE static void NAME##_loop(const float *x, float *out, Py_ssize_t n) {                                           \
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = FUNCTION(x[i]);                                               \
    }                                                                                                                  \
    static void NAME##_part(const void *work, Py_ssize_t from, Py_ssize_t to) {                                        \
        const Floats *a = work;                                                                                        \
        NAME##_loop(a->x + from, a->out + from, to - from);                                                            \
    }

/* How many doubles are taken: FEW where vectors of NumPy pay beyond; NONE where the tables in Python give one value in every
 * layout. */
enum { NONE = -1, FEW = 1024 };
#define ALL PY_SSIZE_T_MAX

#define UNARY(NAME, FUNCTION, MANY, MOST, DOUBLE)                                                                      \
    LOOP(NAME, FUNCTION)                                                                                               \
    WIDE static void NAME##_doubles(const double *x, double *out, Py_ssize_t n) {                                      \
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = DOUBLE(x[i]);                                                 \
    }                                                                                                                  \
    static PyObject *NAME(PyObject *module, PyObject *const *args, Py_ssize_t count) {                                 \
        if (count != 2 || Py_TYPE(args[0]) != array_type) Py_RETURN_FALSE;                                             \
        Py_ssize_t n = count_of(args[0]);                                                                              \
        if (readable(args[0], F64) && writable(args[1], F64) && n <= MOST && n == count_of(args[1]) &&                 \
            apart(args[0], args[1], 8 * n)) {                                                                          \
            BEGIN(n)                                                                                                   \
            NAME##_doubles(data_of(args[0]), data_of(args[1]), n);                                                     \
            END                                                                                                        \
            Py_RETURN_TRUE;                                                                                            \
        }                                                                                                              \
        if (!readable(args[0], F32) || !writable(args[1], F32)) Py_RETURN_FALSE;                                       \
        if (n != count_of(args[1]) || !apart(args[0], args[1], 4 * n)) Py_RETURN_FALSE;                                \
        Floats work = {data_of(args[0]), NULL, data_of(args[1]), 1};                                                   \
        BEGIN(n)                                                                                                       \
        run(NAME##_part, &work, n, 1, MANY);                                                                           \
        END                                                                                                            \
        Py_RETURN_TRUE;                                                                                                \
    }

#define BINARY(NAME, FUNCTION, MANY)                                                                                   \
    WIDE static void NAME##_loop(const float *x, const float *y, float *out, Py_ssize_t n) {                           \
        SIMD for (Py_ssize_t i = 0; i < n; i++) out[i] = FUNCTION(x[i], y[i]);                                         \
    }                                                                                                                  \
    static void NAME##_part(const void *work, Py_ssize_t from, Py_ssize_t to) {                                        \
        const Floats *a = work;                                                                                        \
        NAME##_loop(a->x + from, a->y + from, a->out + from, to - from);                                               \
    }                                                                                                                  \
    static PyObject *NAME(PyObject *module, PyObject *const *args, Py_ssize_t count) {                                 \
        if (count != 3 || !readable(args[0], F32) || !readable(args[1], F32) || !writable(args[2], F32))               \
            Py_RETURN_FALSE;                                                                                           \
        Py_ssize_t n = count_of(args[0]);                                                                              \
        if (n != count_of(args[1]) || n != count_of(args[2])) Py_RETURN_FALSE;                                         \
        if (!apart(args[0], args[2], 4 * n) || !apart(args[1], args[2], 4 * n)) Py_RETURN_FALSE;                       \
        Floats work = {data_of(args[0]), data_of(args[1]), data_of(args[2]), 1};                                       \
        BEGIN(n)                                                                                                       \
        run(NAME##_part, &work, n, 1, MANY);                                                                           \
        END                                                                                                            \
        Py_RETURN_TRUE;                                                                                                \
    }

UNARY(sigmoid, sigmoid_of, HEAVY, ALL, sigmoid_double)
UNARY(gelu, gelu_of, HEAVY, FEW, gelu_double)
UNARY(gelu_tanh, gelu_tanh_of, HEAVY, ALL, gelu_tanh_double)
UNARY(silu, silu_of, HEAVY, ALL, silu_double)
UNARY(relu, relu_of, LIGHT, ALL, relu_double)
UNARY(sign, sign_of, LIGHT, ALL, sign_double)
UNARY(rsqrt, rsqrt_of, LIGHT, ALL, rsqrt_double)
UNARY(hardswish, hardswish_of, LIGHT, ALL, hardswish_double)
UNARY(log_sigmoid, log_sigmoid_of, HEAVY, ALL, log_sigmoid_double)
UNARY(mish, mish_of, HEAVY, ALL, mish_double)
UNARY(erf_, erf_of, HEAVY, NONE, erf)
UNARY(erfc_, erfc_of, HEAVY, NONE, erfc)
UNARY(ndtr, ndtr_of, HEAVY, NONE, erfc)
BINARY(gelu_backward, gelu_slope, HEAVY)
BINARY(gelu_tanh_backward, gelu_tanh_slope, HEAVY)

/* Stand-ins for NumPy's own ufuncs: plain arrays are done here, all else is passed on. */

static PyObject *out_name;

/* What is given as out=: NULL with *known where nothing is; not *known for what only NumPy takes. */
INLINE PyObject *given_out(PyObject *const *args, Py_ssize_t count, PyObject *names, PyObject *descr, int *known) {
    *known = 1;
    if (!names) return NULL;
    *known = PyTuple_GET_SIZE(names) == 1 && PyUnicode_Compare(PyTuple_GET_ITEM(names, 0), out_name) == 0;
    if (!*known || args[count] == Py_None) return NULL;
    *known = writable(args[count], descr) && of_one_shape(args[0], args[count]);
    return *known ? args[count] : NULL;
}

static PyObject *stand_in(PyObject *ufunc, Part part, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    int known = count == 1 && readable(args[0], F32);
    PyObject *out = known ? given_out(args, 1, names, F32, &known) : NULL;
    Py_ssize_t n = known ? count_of(args[0]) : 0;
    if (!known || (out && !apart(args[0], out, 4 * n))) return call_numpy(ufunc, args, count, names);
    out = out ? Py_NewRef(out) : new_like(args[0], KEEP_ORDER, NULL, 0);
    if (!out) return NULL;
    Floats work = {data_of(args[0]), NULL, data_of(out), 1};
    BEGIN(n)
    run(part, &work, n, 1, HEAVY);
    END
    return out;
}

LOOP(exp, exp_of)
LOOP(tanh, tanh_of)

static PyObject *numpy_exp, *numpy_tanh;

static PyObject *exp_(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    return settled(stand_in(numpy_exp, exp_part, args, count, names), args, count, names);
}

static PyObject *tanh_(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    return settled(stand_in(numpy_tanh, tanh_part, args, count, names), args, count, names);
}
