/* One class of several at each place: losses against class indices. */

typedef struct {
    REAL *x;
    const REAL *weight; /* of each class; NULL for 1 */
    const int64_t *index;
    int64_t ignored; /* an index that counts for nothing */
    Py_ssize_t n, m, places; /* indices, classes, and places of a sample */
} NAMED(NllLoss);

/* Where the class is that the i-th index names, and its weight; NULL for one that is ignored, and for one that is no class,
 * as other threads may write indices that have been looked at. */
INLINE REAL *NAMED(nll_loss_at)(const NAMED(NllLoss) *p, Py_ssize_t i, REAL *weight) {
    int64_t named = __atomic_load_n(p->index + i, __ATOMIC_RELAXED);
    if (named == p->ignored || (uint64_t)named >= (uint64_t)p->m) return NULL;
    *weight = p->weight ? p->weight[named] : 1;
    if (p->places == 1) return p->x + i * p->m + named;
    return p->x + (i / p->places * p->m + named) * p->places + i % p->places;
}

/* Whether args[0] is (samples, classes, places …), args[1] a class for each place of each sample but for those that are
 * args[2], and `weight` None or a number for each class. */
static int NAMED(nll_loss_of)(PyObject *const *args, PyObject *weight, NAMED(NllLoss) *p) {
    Array *a = (Array *)args[0], *index = (Array *)args[1];
    if (!readable(args[0], KIND) || !readable(args[1], I64) || a->nd < 2 || index->nd != a->nd - 1 ||
        index->dimensions[0] != a->dimensions[0] || count_of(args[1]) < 1 || !read_whole(args[2], &p->ignored))
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
    for (Py_ssize_t i = 0; i < p->n; i++)
        if ((uint64_t)p->index[i] >= (uint64_t)p->m && p->index[i] != p->ignored) return 0;
    return 1;
}

static PyObject *NAMED(number)(double value) {
    PyObject *made = new_array(KIND, 0, NULL);
    if (made) *(REAL *)data_of(made) = (REAL)value;
    return made;
}

/* nll_loss_sum(x, index, ignored, weight | None, mean): minus the weighted sum (or mean) of x[i, index[i]], or of
 * x[i, index[i, j], j], and the sum of the weights; None for what is not plain. */
static PyObject *NAMED(nll_loss_sum)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    NAMED(NllLoss) p;
    if (count != 5 || !NAMED(nll_loss_of)(args, args[3], &p)) Py_RETURN_NONE;
    double total = 0.0, weights = 0.0;
    for (Py_ssize_t i = 0; i < p.n; i++) {
        REAL weight, *picked = NAMED(nll_loss_at)(&p, i, &weight);
        if (!picked) continue;
        total += *picked * weight;
        weights += weight;
    }
    if (args[4] == Py_True) total = weights == 0.0 ? NAN : total / weights;
    PyObject *loss = NAMED(number)(-total), *weight = loss ? NAMED(number)(weights) : NULL;
    PyObject *both = weight ? PyTuple_Pack(2, loss, weight) : NULL;
    Py_XDECREF(loss);
    Py_XDECREF(weight);
    return both;
}

/* nll_loss(x, index, ignored, weight | None, out): out[i] = -x[i, index[i]] times its weight, or 0 where that is ignored. */
static PyObject *NAMED(nll_loss)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    NAMED(NllLoss) p;
    if (count != 5 || !NAMED(nll_loss_of)(args, args[3], &p) || !writable(args[4], KIND) || count_of(args[4]) != p.n)
        Py_RETURN_FALSE;
    REAL *out = data_of(args[4]);
    for (Py_ssize_t i = 0; i < p.n; i++) {
        REAL weight, *picked = NAMED(nll_loss_at)(&p, i, &weight);
        out[i] = picked ? -(*picked * weight) : 0;
    }
    Py_RETURN_TRUE;
}

/* nll_loss_grad(out, index, ignored, weight | None, value): out[i, index[i]] = value times its weight unless that is ignored,
 * and 0 elsewhere. */
static PyObject *NAMED(nll_loss_grad)(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    NAMED(NllLoss) p;
    double value;
    if (count != 5 || !NAMED(nll_loss_of)(args, args[3], &p) || !writable(args[0], KIND) || !read_number(args[4], &value))
        Py_RETURN_FALSE;
    memset(p.x, 0, p.n * p.m * sizeof(REAL));
    for (Py_ssize_t i = 0; i < p.n; i++) {
        REAL weight, *picked = NAMED(nll_loss_at)(&p, i, &weight);
        if (picked) *picked = (REAL)value * weight;
    }
    Py_RETURN_TRUE;
}
