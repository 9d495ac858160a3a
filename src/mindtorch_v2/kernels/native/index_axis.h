/* Few elements, or slices, along one dimension by index: picked, put and added up. */

enum { FEW_PLACES = 4096 };

/* Where the element of an array lies that an index at `place` of `index` names, or (`axis` < 0) the one at that place. */
static Py_ssize_t offset_of(const Array *a, const Py_ssize_t *place, int axis, Py_ssize_t named) {
    Py_ssize_t offset = 0;
    for (int d = 0; d < a->nd; d++) offset = offset * a->dimensions[d] + (d == axis ? named : place[d]);
    return offset;
}

/* Whether index fits into x along all but one dimension, and names places inside x along that one. */
static int names_places(PyObject *index, const Array *x, int axis) {
    Array *i = (Array *)index;
    if (!readable(index, I64) || i->nd != x->nd || axis < 0 || count_of(index) > FEW_PLACES) return 0;
    for (int d = 0; d < x->nd; d++)
        if (d != axis && i->dimensions[d] > x->dimensions[d]) return 0;
    return in_range(data_of(index), count_of(index), x->dimensions[axis]);
}

/* The next place of an index in the order of memory. */
INLINE void step_place(const Array *index, Py_ssize_t *place) {
    for (int d = index->nd - 1; d >= 0 && ++place[d] == index->dimensions[d]; d--) place[d] = 0;
}

/* take_along_axis(x, dim, index): for each place of index the element of x that it names along dim; None for more than a few,
 * for places outside and for what is not plain memory. */
static PyObject *take_along_axis(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || Py_TYPE(args[0]) != array_type) Py_RETURN_NONE;
    Array *x = (Array *)args[0], *index = (Array *)args[2];
    Py_ssize_t size = size_of_element(x->descr), place[MOST_DIMS] = {0};
    int axis = read_dim(args[1], x->nd);
    if (!size || !readable(args[0], x->descr) || x->nd > MOST_DIMS || !names_places(args[2], x, axis)) Py_RETURN_NONE;
    PyObject *made = new_like(args[2], KEEP_ORDER, Py_NewRef(x->descr), 0);
    if (!made) return NULL;
    const int64_t *named = data_of(args[2]);
    char *out = data_of(made);
    for (Py_ssize_t n = count_of(args[2]); n; n--, named++, out += size, step_place(index, place))
        memcpy(out, x->data + offset_of(x, place, axis, place_at(named, 0, x->dimensions[axis])) * size, size);
    return made;
}

/* What is put: elements of an array of the type of x, or one number of it. */
static int read_source(PyObject *source, PyObject *x, Element *number) {
    Array *a = (Array *)x;
    if (Py_TYPE(source) != array_type) return read_element(source, a->descr, number);
    Py_ssize_t size = size_of_element(a->descr);
    return readable(source, a->descr) && disjoint(x, count_of(x) * size, source, count_of(source) * size);
}

INLINE void put_element(char *to, const char *from, PyObject *descr, int adds) {
    if (descr == F32) *(float *)to = adds ? *(float *)to + *(const float *)from : *(const float *)from;
    else if (descr == F64) *(double *)to = adds ? *(double *)to + *(const double *)from : *(const double *)from;
    else *(int64_t *)to = adds ? (int64_t)(*(uint64_t *)to + *(const uint64_t *)from) : *(const int64_t *)from;
}

INLINE int holds_numbers(PyObject *descr) { return descr == F32 || descr == F64 || descr == I64; }

/* put_along_axis(x, dim, index, source, adds): put (or add) an element of source, or a number, where each place of index names
 * one of x along dim. False, with nothing written, for what gather_along does not take either. */
static PyObject *put_along_axis(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 5 || Py_TYPE(args[0]) != array_type) Py_RETURN_FALSE;
    Array *x = (Array *)args[0], *index = (Array *)args[2], *source = (Array *)args[3];
    Py_ssize_t size = size_of_element(x->descr), place[MOST_DIMS] = {0};
    int axis = read_dim(args[1], x->nd), adds = args[4] == Py_True, many = Py_TYPE(args[3]) == array_type;
    Element number;
    if (!holds_numbers(x->descr) || !writable(args[0], x->descr) || x->nd > MOST_DIMS || !names_places(args[2], x, axis) ||
        !read_source(args[3], args[0], &number))
        Py_RETURN_FALSE;
    if (!disjoint(args[0], count_of(args[0]) * size, args[2], count_of(args[2]) * 8)) Py_RETURN_FALSE;
    if (many && source->nd != x->nd) Py_RETURN_FALSE;
    for (int d = 0; many && d < x->nd; d++)
        if (index->dimensions[d] > source->dimensions[d]) Py_RETURN_FALSE;
    const int64_t *named = data_of(args[2]);
    for (Py_ssize_t n = count_of(args[2]); n; n--, named++, step_place(index, place)) {
        const char *from = many ? source->data + offset_of(source, place, -1, 0) * size : (const char *)&number;
        Py_ssize_t at = place_at(named, 0, x->dimensions[axis]);
        put_element(x->data + offset_of(x, place, axis, at) * size, from, x->descr, adds);
    }
    Py_RETURN_TRUE;
}

/* put_slices(x, dim, index, source, adds): the same for whole slices of x along dim, which a vector of indices names; source
 * has the shape of x but for as many slices as there are indices. */
static PyObject *put_slices(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 5 || Py_TYPE(args[0]) != array_type || !readable(args[2], I64)) Py_RETURN_FALSE;
    Array *x = (Array *)args[0], *source = (Array *)args[3];
    Py_ssize_t size = size_of_element(x->descr), m = count_of(args[2]), outer = 1, inner = 1;
    int axis = read_dim(args[1], x->nd), adds = args[4] == Py_True, many = Py_TYPE(args[3]) == array_type;
    Element number;
    if (axis < 0 || !holds_numbers(x->descr) || !writable(args[0], x->descr) || ((Array *)args[2])->nd != 1 ||
        count_of(args[0]) > FEW_PLACES || m > FEW_PLACES || !read_source(args[3], args[0], &number) ||
        !in_range(data_of(args[2]), m, x->dimensions[axis]))
        Py_RETURN_FALSE;
    if (!disjoint(args[0], count_of(args[0]) * size, args[2], m * 8) || (many && source->nd != x->nd)) Py_RETURN_FALSE;
    for (int d = 0; d < x->nd; d++) {
        if (many && source->dimensions[d] != (d == axis ? m : x->dimensions[d])) Py_RETURN_FALSE;
        if (d < axis) outer *= x->dimensions[d];
        if (d > axis) inner *= x->dimensions[d];
    }
    if (m * outer * inner > FEW_PLACES) Py_RETURN_FALSE;
    const int64_t *index = data_of(args[2]);
    for (Py_ssize_t o = 0; o < outer; o++)
        for (Py_ssize_t i = 0; i < m; i++) {
            char *to = x->data + (o * x->dimensions[axis] + place_at(index, i, x->dimensions[axis])) * inner * size;
            const char *from = many ? source->data + (o * m + i) * inner * size : (const char *)&number;
            for (Py_ssize_t j = 0; j < inner; j++)
                put_element(to + j * size, many ? from + j * size : from, x->descr, adds);
        }
    Py_RETURN_TRUE;
}
