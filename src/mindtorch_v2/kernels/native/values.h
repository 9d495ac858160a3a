/* Values of few or many elements compared, replaced by a number, and converted. */

#define ALIKE(TYPE)                                                                                                    \
    for (Py_ssize_t i = 0; i < n && alike; i++) alike = ((const TYPE *)x)[i] == ((const TYPE *)y)[i];

/* same(x, y): whether all elements are equal, of which nan is to none; None for what is not plain memory of one type and
 * one shape. */
static PyObject *same(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    PyObject *descr = count == 2 && Py_TYPE(args[0]) == array_type ? ((Array *)args[0])->descr : NULL;
    if (descr == NULL || !readable(args[0], descr) || !readable(args[1], descr) || !of_one_shape(args[0], args[1]))
        Py_RETURN_NONE;
    Py_ssize_t n = count_of(args[0]);
    const void *x = data_of(args[0]), *y = data_of(args[1]);
    int alike = 1;
    if (descr != F32 && descr != F64 && descr != I64 && descr != BOOL) Py_RETURN_NONE;
    BEGIN(n)
    if (descr == F32) { ALIKE(float) }
    else if (descr == F64) { ALIKE(double) }
    else if (descr == I64) { ALIKE(int64_t) }
    else { ALIKE(uint8_t) }
    END
    return PyBool_FromLong(alike);
}

/* A Python number as an element of a type: 0 where it is none that fits. */
typedef union {
    float single;
    double twofold;
    int64_t whole;
} Element;

static int read_element(PyObject *number, PyObject *descr, Element *element) {
    if (descr == I64) return read_whole(number, &element->whole);
    double value;
    int64_t whole;
    if (PyFloat_CheckExact(number)) {
        value = PyFloat_AS_DOUBLE(number);
    } else if (read_whole(number, &whole)) {
        if (whole > 1 << 24 || whole < -(1 << 24)) return 0; /* rounding is left to those who know how */
        value = (double)whole;
    } else {
        return 0;
    }
    if (descr == F64) element->twofold = value;
    else if (descr == F32) element->single = (float)value;
    else return 0;
    return descr == F64 || !isfinite(value) || fabs(value) <= FLT_MAX;
}

/* Whether a mask lies over the last dimensions of an array, and repeats along all before them. */
static int lies_over(PyObject *mask, PyObject *x) {
    Array *m = (Array *)mask, *a = (Array *)x;
    if (m->nd > a->nd) return 0;
    int leading = 0; /* dimensions of one element in front */
    while (leading < m->nd && m->dimensions[leading] == 1) leading++;
    for (int i = leading; i < m->nd; i++)
        if (m->dimensions[i] != a->dimensions[a->nd - m->nd + i]) return 0;
    return leading < m->nd;
}

#define FILL(TYPE, VALUE)                                                                                              \
    for (Py_ssize_t at = 0; at < n; at += part) {                                                                      \
        TYPE *to = (TYPE *)out + at;                                                                                   \
        const TYPE *from = (const TYPE *)x + at;                                                                       \
        for (Py_ssize_t i = 0; i < part; i++) to[i] = mask[i] ? VALUE : from[i];                                       \
    }

static void fill_loop(PyObject *descr, const void *x, void *out, const uint8_t *mask, Py_ssize_t part, Py_ssize_t n,
                      const Element *element) {
    if (descr == F32) { FILL(float, element->single) }
    else if (descr == F64) { FILL(double, element->twofold) }
    else { FILL(int64_t, element->whole) }
}

/* filled(x, mask, number, into): a copy of x, or x itself where `into` is true, with the number where the mask holds; None
 * for arrays and numbers that are not known here. */
static PyObject *filled(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Element element;
    PyObject *descr = count == 4 && Py_TYPE(args[0]) == array_type ? ((Array *)args[0])->descr : NULL;
    if (descr == NULL || !readable(args[0], descr) || !readable(args[1], BOOL) || !lies_over(args[1], args[0]))
        Py_RETURN_NONE;
    int into = args[3] == Py_True;
    if ((into && !writable(args[0], descr)) || !read_element(args[2], descr, &element)) Py_RETURN_NONE;
    PyObject *out = into ? Py_NewRef(args[0]) : new_like(args[0], KEEP_ORDER, NULL, 0);
    if (!out) return NULL;
    Py_ssize_t n = count_of(out), part = count_of(args[1]);
    BEGIN(n)
    if (n) fill_loop(descr, data_of(args[0]), data_of(out), data_of(args[1]), part, n, &element);
    END
    return out;
}

#define CONVERT(FROM, TO)                                                                                              \
    for (Py_ssize_t i = 0; i < n; i++) ((TO *)out)[i] = (TO)((const FROM *)x)[i];
#define CONVERT_FROM(FROM)                                                                                             \
    if (to == F32) { CONVERT(FROM, float) }                                                                            \
    else if (to == F64) { CONVERT(FROM, double) }                                                                      \
    else if (to == I64) { CONVERT(FROM, int64_t) }                                                                     \
    else if (to == I32) { CONVERT(FROM, int32_t) }                                                                     \
    else { for (Py_ssize_t i = 0; i < n; i++) ((uint8_t *)out)[i] = ((const FROM *)x)[i] != 0; }

/* What no integer can hold becomes what the processor makes of it, as in NumPy and torch. */
__attribute__((no_sanitize("undefined")))
static void convert_loop(PyObject *from, PyObject *to, const void *x, void *out, Py_ssize_t n) {
    if (from == F32) { CONVERT_FROM(float) }
    else if (from == F64) { CONVERT_FROM(double) }
    else if (from == I64) { CONVERT_FROM(int64_t) }
    else if (from == I32) { CONVERT_FROM(int32_t) }
    else { CONVERT_FROM(uint8_t) }
}

INLINE int is_number_type(PyObject *descr) {
    return descr == F32 || descr == F64 || descr == I64 || descr == I32 || descr == BOOL;
}

/* converted(x, dtype): x in another type; None for types that are not known here, and for what is not plain memory. */
static PyObject *converted(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    PyObject *from = count == 2 && Py_TYPE(args[0]) == array_type ? ((Array *)args[0])->descr : NULL;
    if (from == NULL) Py_RETURN_NONE;
    PyObject *to = args[1];
    Part part = between_widths(from, to);
    if (!(part || (is_number_type(from) && is_number_type(to))) || !readable(args[0], from)) Py_RETURN_NONE;
    PyObject *out = new_like(args[0], KEEP_ORDER, Py_NewRef(to), 0);
    if (!out) return NULL;
    Py_ssize_t n = count_of(out);
    Operands work = {data_of(args[0]), NULL, data_of(out), 0};
    BEGIN(n)
    if (part)
        run(part, &work, n, 1, LIGHT);
    else
        convert_loop(from, to, data_of(args[0]), data_of(out), n);
    END
    return out;
}

/* put(out, x): x copied into out, where both are plain memory of one type and one shape that they do not share. */
static PyObject *put(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    PyObject *descr = count == 2 && Py_TYPE(args[0]) == array_type ? ((Array *)args[0])->descr : NULL;
    Py_ssize_t size = descr == NULL ? 0 : descr == I32 ? 4 : size_of_element(descr);
    if (!size || !writable(args[0], descr) || !readable(args[1], descr) || !of_one_shape(args[0], args[1]))
        Py_RETURN_FALSE;
    Py_ssize_t bytes = count_of(args[0]) * size;
    if (!apart(args[1], args[0], bytes)) Py_RETURN_FALSE;
    BEGIN(bytes)
    if (data_of(args[0]) != data_of(args[1])) memcpy(data_of(args[0]), data_of(args[1]), bytes);
    END
    Py_RETURN_TRUE;
}
