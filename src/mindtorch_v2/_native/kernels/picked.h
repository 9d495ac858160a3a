/* One class of several at each place: losses against class indices. */

typedef struct {
    REAL *x;
    const REAL *weight; /* of each class; NULL for 1 */
    const int64_t *index;
    int64_t ignored; /* an index that counts for nothing */
    Py_ssize_t n, m, places; /* indices, classes, and places of a sample */
} NAMED(Picked);

/* Where the class that the i-th index names is. */
INLINE REAL *NAMED(picked_at)(const NAMED(Picked) *p, Py_ssize_t i) {
    if (p->places == 1) return p->x + i * p->m + p->index[i];
    return p->x + (i / p->places * p->m + p->index[i]) * p->places + i % p->places;
}

/* Whether args[0] is (samples, classes, places …), args[1] a class for each place of each sample but for those that are
 * args[2], and `weight` None or a number for each class. */
static int NAMED(picked_of)(PyObject *const *args, PyObject *weight, NAMED(Picked) *p) {
    Array *a = (Array *)args[0], *index = (Array *)args[1];
    if (!readable(args[0], KIND) || !readable(args[1], I64) || a->nd < 2 || index->nd != a->nd - 1 ||
        index->dimensions[0] != a->dimensions[0] || count_of(args[1]) < 1 || !PyLong_CheckExact(args[2]))
        return 0;
    p->places = 1;
    for (int i = 1; i < index->nd; p->places *= index->dimensions[i++])
        if (index->dimensions[i] != a->dimensions[i + 1]) return 0;
    if (weight != Py_None && !(readable(weight, KIND) && ((Array *)weight)->nd == 1)) return 0;
    if (weight != Py_None && count_of(weight) != a->dimensions[1]) return 0;
    p->x = data_of(args[0]);
    p->weight = weight == Py_None ? NULL : data_of(weight);
    p->index = data_of(args[1]);
    p->n = count_of(args[1]);
    p->m = a->dimensions[1];
    p->ignored = PyLong_AsLongLong(args[2]);
    if (p->ignored == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    for (Py_ssize_t i = 0; i < p->n; i++)
        if ((uint64_t)p->index[i] >= (uint64_t)p->m && p->index[i] != p->ignored) return 0;
    return 1;
}

static PyObject *NAMED(number)(double value) {
    PyObject *made = from_descr(array_type, Py_NewRef(KIND), 0, NULL, NULL, NULL, 0, NULL);
    if (made) *(REAL *)data_of(made) = (REAL)value;
    return made;
}

/* sum_picked(x, index, ignored, weight | None, mean): minus the weighted sum (or mean) of x[i, index[i]], or of
 * x[i, index[i, j], j], and the sum of the weights; None for what is not plain. */
static PyObject *NAMED(sum_picked)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    NAMED(Picked) p;
    if (count != 5 || !NAMED(picked_of)(args, args[3], &p)) Py_RETURN_NONE;
    double total = 0.0, weights = 0.0;
    for (Py_ssize_t i = 0; i < p.n; i++)
        if (p.index[i] != p.ignored) {
            REAL weight = p.weight ? p.weight[p.index[i]] : 1;
            total += *NAMED(picked_at)(&p, i) * weight;
            weights += weight;
        }
    if (args[4] == Py_True) total = weights == 0.0 ? NAN : total / weights;
    PyObject *loss = NAMED(number)(-total), *weight = loss ? NAMED(number)(weights) : NULL;
    PyObject *both = weight ? PyTuple_Pack(2, loss, weight) : NULL;
    Py_XDECREF(loss);
    Py_XDECREF(weight);
    return both;
}

/* pick(x, index, ignored, weight | None, out): out[i] = -x[i, index[i]] times its weight, or 0 where that is ignored. */
static PyObject *NAMED(pick)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    NAMED(Picked) p;
    if (count != 5 || !NAMED(picked_of)(args, args[3], &p) || !writable(args[4], KIND) || count_of(args[4]) != p.n)
        Py_RETURN_FALSE;
    REAL *out = data_of(args[4]);
    for (Py_ssize_t i = 0; i < p.n; i++) {
        REAL weight = p.weight && p.index[i] != p.ignored ? p.weight[p.index[i]] : 1;
        out[i] = p.index[i] == p.ignored ? 0 : -(*NAMED(picked_at)(&p, i) * weight);
    }
    Py_RETURN_TRUE;
}

/* put_picked(out, index, ignored, weight | None, value): out[i, index[i]] = value times its weight unless that is ignored,
 * and 0 elsewhere. */
static PyObject *NAMED(put_picked)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    NAMED(Picked) p;
    if (count != 5 || !NAMED(picked_of)(args, args[3], &p) || !writable(args[0], KIND)) Py_RETURN_FALSE;
    double value = PyFloat_AsDouble(args[4]);
    if (value == -1.0 && PyErr_Occurred()) return NULL;
    memset(p.x, 0, p.n * p.m * sizeof(REAL));
    for (Py_ssize_t i = 0; i < p.n; i++)
        if (p.index[i] != p.ignored)
            *NAMED(picked_at)(&p, i) = (REAL)value * (p.weight ? p.weight[p.index[i]] : 1);
    Py_RETURN_TRUE;
}
