/* More distributions of the words of a stream, each in one call: bounds, coins, waiting times, whole ranges of a type. */

/* Beyond this, bounds are too large or too far apart for single precision. */
#define WIDEST 1e38

/* random_uniforms(stream, out, low, high): numbers from [low, high) of float32, or from [0, 1) of float64. */
static PyObject *random_uniforms(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    double low, high;
    if (count != 4 || !read_number(args[2], &low) || !read_number(args[3], &high)) Py_RETURN_FALSE;
    int wide = writable(args[1], F64), whole = low == 0 && high == 1;
    if (!(wide && whole) && !writable(args[1], F32)) Py_RETURN_FALSE;
    if (!(-WIDEST <= low && low <= high && high <= WIDEST)) Py_RETURN_FALSE;
    Py_ssize_t n = count_of(args[1]);
    Stream *stream = stream_of(args[0], args[1], n);
    if (!stream) Py_RETURN_FALSE;
    BEGIN(n)
    draw_uniform(stream, data_of(args[1]), n, wide);
    if (!whole) stretch_loop(data_of(args[1]), (float)low, (float)high, n);
    END
    Py_RETURN_TRUE;
}

enum { PORTION = 128 }; /* numbers of double precision that are drawn at a time */

/* Put a number into an array of one of the types that `takes_coins` knows. */
INLINE void store(void *out, PyObject *descr, Py_ssize_t i, double value) {
    if (descr == F32) ((float *)out)[i] = (float)value;
    else if (descr == F64) ((double *)out)[i] = value;
    else if (descr == I64) ((int64_t *)out)[i] = (int64_t)value;
    else ((char *)out)[i] = value != 0;
}

INLINE int takes_coins(PyObject *out) {
    return writable(out, F32) || writable(out, F64) || writable(out, I64) || writable(out, BOOL);
}

/* random_coins(stream, out, p): ones where a number from [0, 1) is below p. */
static PyObject *random_coins(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    double p, u[PORTION];
    if (count != 3 || !takes_coins(args[1]) || !read_number(args[2], &p) || !(p >= 0 && p <= 1)) Py_RETURN_FALSE;
    Py_ssize_t n = count_of(args[1]);
    Stream *stream = stream_of(args[0], args[1], n);
    if (!stream) Py_RETURN_FALSE;
    PyObject *descr = ((Array *)args[1])->descr;
    BEGIN(n)
    for (Py_ssize_t start = 0; start < n; start += PORTION) {
        Py_ssize_t part = n - start < PORTION ? n - start : PORTION;
        draw_uniform(stream, u, part, 1);
        for (Py_ssize_t i = 0; i < part; i++) store(data_of(args[1]), descr, start + i, u[i] < p);
    }
    END
    Py_RETURN_TRUE;
}

/* random_coins_of(stream, out, p): the same with a probability for each element, all of one shape and type, float32 or
 * float64. False, with nothing drawn, where one is no probability. */
static PyObject *random_coins_of(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3) Py_RETURN_FALSE;
    int wide = writable(args[1], F64);
    if ((!wide && !writable(args[1], F32)) || !readable(args[2], wide ? F64 : F32)) Py_RETURN_FALSE;
    Py_ssize_t n = count_of(args[1]);
    if (!of_one_shape(args[1], args[2]) || data_of(args[1]) == data_of(args[2]) || !apart(args[2], args[1], n * (wide ? 8 : 4)))
        Py_RETURN_FALSE;
    float *out = data_of(args[1]), *p = data_of(args[2]);
    double *wide_out = data_of(args[1]), *wide_p = data_of(args[2]);
    for (Py_ssize_t i = 0; i < n; i++)
        if (wide ? !(wide_p[i] >= 0 && wide_p[i] <= 1) : !(p[i] >= 0 && p[i] <= 1)) Py_RETURN_FALSE;
    Stream *stream = stream_of(args[0], args[1], n);
    if (!stream) Py_RETURN_FALSE;
    BEGIN(n)
    draw_uniform(stream, out, n, wide);
    for (Py_ssize_t i = 0; i < n; i++) {
        if (wide) wide_out[i] = wide_out[i] < wide_p[i];
        else out[i] = out[i] < p[i];
    }
    END
    Py_RETURN_TRUE;
}

/* random_waits(stream, out, rate): exponential numbers of float32 or float64. */
static PyObject *random_waits(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    double rate, u[PORTION];
    if (count != 3 || !read_number(args[2], &rate) || !(rate > 0)) Py_RETURN_FALSE;
    if (!writable(args[1], F32) && !writable(args[1], F64)) Py_RETURN_FALSE;
    Py_ssize_t n = count_of(args[1]);
    Stream *stream = stream_of(args[0], args[1], n);
    if (!stream) Py_RETURN_FALSE;
    PyObject *descr = ((Array *)args[1])->descr;
    double scale = -1.0 / rate;
    BEGIN(n)
    for (Py_ssize_t start = 0; start < n; start += PORTION) {
        Py_ssize_t part = n - start < PORTION ? n - start : PORTION;
        draw_uniform(stream, u, part, 1);
        for (Py_ssize_t i = 0; i < part; i++) store(data_of(args[1]), descr, start + i, scale * log1p(-u[i]));
    }
    END
    Py_RETURN_TRUE;
}

/* random_whole(stream, out): whole numbers from 0 to all that int64 holds, or to where float32 and float64 still hold each. */
static PyObject *random_whole(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2) Py_RETURN_FALSE;
    int narrow = writable(args[1], F32), whole = writable(args[1], I64);
    if (!narrow && !whole && !writable(args[1], F64)) Py_RETURN_FALSE;
    Py_ssize_t n = count_of(args[1]);
    Stream *stream = stream_of(args[0], args[1], n);
    if (!stream) Py_RETURN_FALSE;
    void *out = data_of(args[1]);
    int64_t words[2 * PORTION];
    BEGIN(n)
    for (Py_ssize_t start = 0; start < n; start += PORTION) {
        Py_ssize_t part = n - start < PORTION ? n - start : PORTION;
        draw(stream, words, narrow ? part : 2 * part);
        for (Py_ssize_t i = 0; i < part; i++) {
            uint64_t both = narrow ? 0 : (uint64_t)words[2 * i] << 32 | (uint64_t)words[2 * i + 1];
            if (narrow) ((float *)out)[start + i] = (float)(words[i] % ((1 << 24) + 1));
            else if (whole) ((int64_t *)out)[start + i] = (int64_t)(both & INT64_MAX);
            else ((double *)out)[start + i] = (double)(both % ((1ull << 53) + 1));
        }
    }
    END
    Py_RETURN_TRUE;
}

/* A new array of a size that is a tuple of ints; NULL, without an exception unless there is no memory, for others. */
static PyObject *new_sized(PyObject *size, PyObject *descr) {
    Py_ssize_t shape[MOST_DIMS], all = 1;
    if (!PyTuple_Check(size)) return NULL;
    Py_ssize_t nd = PyTuple_GET_SIZE(size);
    if (nd > MOST_DIMS || !read_sizes(size, shape)) return NULL;
    for (Py_ssize_t i = 0; i < nd; i++) {
        if (shape[i] < 0 || shape[i] > LARGE) return NULL;
        all *= shape[i];
        if (all > LARGE) return NULL;
    }
    return new_array(descr, nd, shape);
}

/* What a distribution does to a new array; None where that or the size is not for here. */
static PyObject *new_drawn(PyObject *size, PyObject *descr, PyObject *(*fill)(PyObject *, PyObject *const *, Py_ssize_t),
                           PyObject *first, PyObject *second) {
    PyObject *made = new_sized(size, descr);
    if (!made) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    PyObject *args[] = {Py_None, made, first, second};
    PyObject *done = fill(NULL, args, 4);
    Py_XDECREF(done);
    if (done == Py_True) return made;
    Py_DECREF(made);
    return done ? Py_NewRef(Py_None) : NULL;
}

INLINE int is_float_type(PyObject *descr) { return descr == F32 || descr == F64; }

/* new_normals(size, dtype, mean, deviation): a new array of the usual stream's numbers; None for other sizes and types than
 * small plain ones. */
static PyObject *new_normals(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 4 || !is_float_type(args[1])) Py_RETURN_NONE;
    return new_drawn(args[0], args[1], random_normals, args[2], args[3]);
}

/* new_uniforms(size, dtype, low, high): the same. */
static PyObject *new_uniforms(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 4 || !is_float_type(args[1])) Py_RETURN_NONE;
    return new_drawn(args[0], args[1], random_uniforms, args[2], args[3]);
}

/* new_below(size, low, span): the same with int64. */
static PyObject *new_below(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !PyLong_CheckExact(args[1]) || !PyLong_CheckExact(args[2])) Py_RETURN_NONE;
    return new_drawn(args[0], I64, random_below, args[1], args[2]);
}
