/* Arrays one after another. */

/* Whether all arrays of a list are plain memory of one known type and rank, and differ in no dimension but `dim`. */
INLINE int are_alike(PyObject *list, Py_ssize_t dim) {
    Array *first = (Array *)PyList_GET_ITEM(list, 0);
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); k++) {
        PyObject *object = PyList_GET_ITEM(list, k);
        Array *a = (Array *)object;
        if (Py_TYPE(object) != array_type || a->descr != first->descr || !readable(object, first->descr) ||
            a->nd != first->nd)
            return 0;
        for (int i = 0; i < a->nd; i++)
            if (i != dim && a->dimensions[i] != first->dimensions[i]) return 0;
    }
    return size_of_element(first->descr) != 0;
}

/* A fresh array of the shape of `like`, where `dim` has `size` elements; or, with `extra`, an additional dimension. */
static PyObject *joined_empty(Array *like, Py_ssize_t dim, Py_ssize_t size, int extra) {
    Py_ssize_t shape[MOST_DIMS];
    for (Py_ssize_t i = 0, j = 0; i < like->nd + extra; i++) {
        shape[i] = i == dim ? size : like->dimensions[j];
        if (!(extra && i == dim)) j++;
    }
    return new_array(like->descr, like->nd + extra, shape);
}

/* Copies pieces of `bytes` that lie side by side to places `step` apart. */
INLINE void spread(const char *from, char *to, Py_ssize_t pieces, Py_ssize_t bytes, Py_ssize_t step) {
    for (; pieces; pieces--, from += bytes, to += step) memcpy(to, from, bytes);
}

static void join_loop(PyObject *list, char *out, Py_ssize_t outer, Py_ssize_t bytes) {
    Py_ssize_t row = 0;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); k++) row += count_of(PyList_GET_ITEM(list, k)) / outer * bytes;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); k++) {
        PyObject *object = PyList_GET_ITEM(list, k);
        Py_ssize_t part = count_of(object) / outer * bytes;
        if (part == 1) /* single elements are copied without a call */
            spread(data_of(object), out, outer, 1, row);
        else if (part == 4)
            spread(data_of(object), out, outer, 4, row);
        else if (part == 8)
            spread(data_of(object), out, outer, 8, row);
        else
            spread(data_of(object), out, outer, part, row);
        out += part;
    }
}

INLINE PyObject *joined(PyObject *const *args, Py_ssize_t count, int extra) {
    if (count != 2 || !PyList_CheckExact(args[0]) || PyList_GET_SIZE(args[0]) == 0) Py_RETURN_NONE;
    PyObject *list = args[0];
    Py_ssize_t size = 0, outer = 1;
    Array *first = (Array *)PyList_GET_ITEM(list, 0);
    if (Py_TYPE((PyObject *)first) != array_type || first->nd + extra > MOST_DIMS) Py_RETURN_NONE;
    int dim = read_dim(args[1], first->nd + extra);
    if (dim < 0 || !are_alike(list, extra ? -1 : dim)) Py_RETURN_NONE;
    for (Py_ssize_t i = 0; i < dim; i++) outer *= first->dimensions[i];
    if (outer == 0) Py_RETURN_NONE;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); k++)
        size += extra ? 1 : ((Array *)PyList_GET_ITEM(list, k))->dimensions[dim];
    PyObject *out = joined_empty(first, dim, size, extra);
    if (out) join_loop(list, data_of(out), outer, size_of_element(first->descr));
    return out;
}

/* cat(arrays, dim): a fresh array of the arrays in the list one after another along dim; None for what is not plain. */
static PyObject *cat(PyObject *module, PyObject *const *args, Py_ssize_t count) { return joined(args, count, 0); }

/* stack(arrays, dim): the same along a new dimension. */
static PyObject *stack(PyObject *module, PyObject *const *args, Py_ssize_t count) { return joined(args, count, 1); }

/* Where the memory of an array begins and ends. */
typedef struct {
    const char *from, *to;
} Span;

enum { FEW_SPANS = 16 };

static int by_start(const void *a, const void *b) {
    const char *one = ((const Span *)a)->from, *other = ((const Span *)b)->from;
    return (one > other) - (one < other);
}

/* Whether any two of the spans, which may be put in order, share memory. */
static int overlap(Span *spans, Py_ssize_t count) {
    if (count > FEW_SPANS) {
        qsort(spans, count, sizeof(Span), by_start);
        const char *reached = spans[0].to;
        for (Py_ssize_t k = 1; k < count; k++) {
            if (spans[k].from < reached && spans[k].from < spans[k].to) return 1;
            if (spans[k].to > reached) reached = spans[k].to;
        }
        return 0;
    }
    for (Py_ssize_t k = 1; k < count; k++)
        for (Py_ssize_t j = 0; j < k; j++)
            if (spans[k].from < spans[j].to && spans[j].from < spans[k].to) return 1;
    return 0;
}

/* Whether arrays in a list are plain, writable memory of one type, of the shapes of those in `like` (unless None). */
static int lie_plainly(PyObject *list, PyObject *like, PyObject *descr, Span *spans, Py_ssize_t *total) {
    *total = 0;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); k++) {
        PyObject *one = PyList_GET_ITEM(list, k);
        PyObject *other = like == Py_None ? one : PyList_GET_ITEM(like, k);
        if (!writable(one, descr) || Py_TYPE(other) != array_type || !of_one_shape(one, other)) return 0;
        spans[k].from = data_of(one);
        spans[k].to = spans[k].from + count_of(one) * size_of_element(descr);
        *total += count_of(one);
    }
    return 1;
}

/* The same for a list of one type of floats none of which shares memory with another; *total counts the elements. */
static int in_line(PyObject *list, PyObject *like, Py_ssize_t *total) {
    if (!PyList_CheckExact(list) || !PyList_GET_SIZE(list)) return 0;
    Py_ssize_t count = PyList_GET_SIZE(list);
    if (like != Py_None && (!PyList_CheckExact(like) || PyList_GET_SIZE(like) != count)) return 0;
    PyObject *first = PyList_GET_ITEM(list, 0), *descr = Py_TYPE(first) == array_type ? ((Array *)first)->descr : NULL;
    if (!descr || (descr != F32 && descr != F64)) return 0;
    Span few[FEW_SPANS], *spans = count > FEW_SPANS ? PyMem_New(Span, count) : few;
    int fits = spans && lie_plainly(list, like, descr, spans, total) && !overlap(spans, count);
    if (spans != few) PyMem_Free(spans);
    return fits;
}

/* line_up(arrays, like | None): a fresh array of one dimension with all elements of the arrays in the list; None for
 * arrays that are not in line. */
static PyObject *line_up(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t total;
    if (count != 2 || !in_line(args[0], args[1], &total)) Py_RETURN_NONE;
    Array *first = (Array *)PyList_GET_ITEM(args[0], 0);
    PyObject *out = new_array(first->descr, 1, &total);
    if (out) join_loop(args[0], data_of(out), 1, size_of_element(first->descr));
    return out;
}

/* lay_out(line, arrays): puts the elements back into the arrays. */
static PyObject *lay_out(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t total;
    if (count != 2 || !in_line(args[1], Py_None, &total)) Py_RETURN_FALSE;
    PyObject *descr = ((Array *)PyList_GET_ITEM(args[1], 0))->descr;
    if (!readable(args[0], descr) || count_of(args[0]) != total) Py_RETURN_FALSE;
    const char *from = data_of(args[0]);
    Py_ssize_t size = size_of_element(descr);
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(args[1]); k++) {
        PyObject *one = PyList_GET_ITEM(args[1], k);
        if (!disjoint(args[0], total * size, one, count_of(one) * size)) Py_RETURN_FALSE;
    }
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(args[1]); k++) {
        PyObject *one = PyList_GET_ITEM(args[1], k);
        Py_ssize_t bytes = count_of(one) * size;
        memcpy(data_of(one), from, bytes);
        from += bytes;
    }
    Py_RETURN_TRUE;
}

/* roll(x, shift, axis): a copy whose elements are moved along an axis, or along all of it for None; those that leave it come
 * in at the other end. None for what is not plain memory of a known type. */
static PyObject *roll(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Lines at;
    Py_ssize_t shift;
    if (count != 3 || !is_plain(args[0]) || !read_size(args[1], &shift)) Py_RETURN_NONE;
    Py_ssize_t bytes = size_of_element(((Array *)args[0])->descr);
    at = (Lines){1, count_of(args[0]), 1};
    if (!bytes || at.n == 0 || (args[2] != Py_None && !lines_of(args[0], args[2], &at))) Py_RETURN_NONE;
    PyObject *out = new_like(args[0], KEEP_ORDER, NULL, 0);
    if (!out) return NULL;
    Py_ssize_t cut = (shift % at.n + at.n) % at.n * at.inner * bytes, row = at.n * at.inner * bytes;
    char *from = data_of(args[0]), *to = data_of(out);
    for (; at.outer; at.outer--, from += row, to += row) {
        memcpy(to + cut, from, row - cut);
        memcpy(to, from + row - cut, cut);
    }
    return out;
}

/* clear(x): zeros all over the memory of x. */
static PyObject *clear(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    int flags = CONTIGUOUS | ALIGNED | WRITEABLE;
    if (count != 1 || !is_plain(args[0]) || (((Array *)args[0])->flags & flags) != flags) Py_RETURN_FALSE;
    Py_ssize_t bytes = size_of_element(((Array *)args[0])->descr) * count_of(args[0]);
    if (bytes == 0 || bytes > LARGE) Py_RETURN_FALSE;
    memset(data_of(args[0]), 0, bytes);
    Py_RETURN_TRUE;
}
