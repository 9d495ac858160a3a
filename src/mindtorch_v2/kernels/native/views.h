/* Views: other shapes and steps on the memory of an array. */

/* NumPy's functions, at their places in the table that NumPy's ABI fixes. */
typedef PyObject *(*FromDescr)(PyTypeObject *type, PyObject *descr, int nd, const Py_ssize_t *shape,
                               const Py_ssize_t *strides, void *data, int flags, PyObject *prototype);
typedef int (*SetBase)(PyObject *array, PyObject *base);
enum { FROM_DESCR = 94, SET_BASE = 282, MOST_DIMS = 32 };
static FromDescr from_descr;
static SetBase set_base;

/* An uninitialised array. Making one runs no Python, so what was seen of others still holds. */
static PyObject *new_array(PyObject *descr, Py_ssize_t nd, const Py_ssize_t *shape) {
    if (array_type) return from_descr(array_type, Py_NewRef(descr), (int)nd, shape, NULL, NULL, 0, NULL);
    return PyErr_Format(PyExc_RuntimeError, "the compiled kernels were not set up: call setup first");
}

static PyObject *view_of(PyObject *array, int nd, const Py_ssize_t *shape, const Py_ssize_t *strides) {
    Array *a = (Array *)array;
    PyObject *view = from_descr(array_type, Py_NewRef(a->descr), nd, shape, strides, a->data, a->flags & WRITEABLE, NULL);
    if (view && set_base(view, Py_NewRef(array)) < 0) Py_CLEAR(view);
    return view;
}

/* Whether a tuple is of ints, read into `sizes`. */
INLINE int read_sizes(PyObject *tuple, Py_ssize_t *sizes) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++)
        if (!read_size(PyTuple_GET_ITEM(tuple, i), &sizes[i])) return 0;
    return 1;
}

/* expand(array, size, ...): the array with dimensions of one element, and new ones in front, repeated; None for sizes that
 * do not fit, and for what is not a plain array. What else is given changes nothing. */
static PyObject *expand(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count < 2 || Py_TYPE(args[0]) != array_type || !PyTuple_Check(args[1])) Py_RETURN_NONE;
    Array *a = (Array *)args[0];
    Py_ssize_t nd = PyTuple_GET_SIZE(args[1]), lead = nd - a->nd, shape[MOST_DIMS], strides[MOST_DIMS];
    if (lead < 0 || nd > MOST_DIMS || !read_sizes(args[1], shape)) Py_RETURN_NONE;
    for (Py_ssize_t i = 0; i < nd; i++) {
        Py_ssize_t have = i < lead ? 1 : a->dimensions[i - lead];
        if (shape[i] == -1 && i >= lead) shape[i] = have;
        if (shape[i] < 0 || (shape[i] != have && have != 1)) Py_RETURN_NONE;
        strides[i] = i >= lead && shape[i] == have ? a->strides[i - lead] : 0;
    }
    return view_of(args[0], (int)nd, shape, strides);
}

/* Whether an array has row-major strides, in dimensions of one element too. */
static int row_major(Array *a) {
    if (!(a->flags & CONTIGUOUS)) return 0;
    for (int i = a->nd - 1; i >= 0; i--) {
        if (a->dimensions[i] == 0) return 1;
        if (a->dimensions[i] != 1) continue; /* as contiguous arrays have them */
        Py_ssize_t step = i == a->nd - 1 ? size_of_element(a->descr) : a->strides[i + 1] * a->dimensions[i + 1];
        if (a->strides[i] != step) return 0;
    }
    return 1;
}

/* reshape(a, size): row-major memory in another shape, one size of which may be -1; None for sizes that do not fit, for
 * what is empty and for what is not plain. */
static PyObject *reshape(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || Py_TYPE(args[0]) != array_type || !PyTuple_CheckExact(args[1])) Py_RETURN_NONE;
    Array *a = (Array *)args[0];
    Py_ssize_t n = PyTuple_GET_SIZE(args[1]), rest = count_of(args[0]), step = size_of_element(a->descr);
    Py_ssize_t shape[MOST_DIMS], strides[MOST_DIMS], open = -1;
    if (n > MOST_DIMS || !step || !rest || !row_major(a) || !read_sizes(args[1], shape)) Py_RETURN_NONE;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (shape[i] == -1 && open < 0) open = i;
        else if (shape[i] < 1 || rest % shape[i]) Py_RETURN_NONE;
        else rest /= shape[i];
    }
    if (open >= 0) shape[open] = rest;
    else if (rest != 1) Py_RETURN_NONE;
    for (Py_ssize_t i = n - 1; i >= 0; step *= shape[i--]) strides[i] = step;
    return view_of(args[0], (int)n, shape, strides);
}

/* look(a, shape, strides in bytes): the memory of an array looked at otherwise, or None for what is not plain. That it
 * stays inside of that memory is the caller's concern. */
static PyObject *look(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t shape[MOST_DIMS], strides[MOST_DIMS];
    if (count != 3 || Py_TYPE(args[0]) != array_type || !PyTuple_Check(args[1]) || !PyTuple_Check(args[2])) Py_RETURN_NONE;
    Py_ssize_t n = PyTuple_GET_SIZE(args[1]);
    if (n > MOST_DIMS || n != PyTuple_GET_SIZE(args[2])) Py_RETURN_NONE;
    if (!read_sizes(args[1], shape) || !read_sizes(args[2], strides)) Py_RETURN_NONE;
    return view_of(args[0], (int)n, shape, strides);
}

/* stride(a, shape, strides in elements): contiguous memory that an array has to itself looked at otherwise from its start;
 * None for what would leave it, for what is empty and for what is not plain. */
static PyObject *stride(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t shape[MOST_DIMS], strides[MOST_DIMS], reach = 0;
    if (count != 3 || Py_TYPE(args[0]) != array_type || !PyTuple_Check(args[1]) || !PyTuple_Check(args[2])) Py_RETURN_NONE;
    Array *a = (Array *)args[0];
    Py_ssize_t n = PyTuple_GET_SIZE(args[1]), all = count_of(args[0]), size = size_of_element(a->descr);
    if (n > MOST_DIMS || n != PyTuple_GET_SIZE(args[2]) || a->base || !size || !readable(args[0], a->descr)) Py_RETURN_NONE;
    if (!read_sizes(args[1], shape) || !read_sizes(args[2], strides)) Py_RETURN_NONE;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (shape[i] < 1 || strides[i] < 0 || strides[i] > PY_SSIZE_T_MAX / size) Py_RETURN_NONE;
        if (strides[i] && shape[i] - 1 > (all - 1 - reach) / strides[i]) Py_RETURN_NONE;
        reach += (shape[i] - 1) * strides[i]; /* less than all */
        strides[i] *= size;
    }
    return all ? view_of(args[0], (int)n, shape, strides) : Py_NewRef(Py_None);
}

/* A dimension as a number from 0 on; -1 where it is none of so many. */
static int read_dim(PyObject *dim, int nd) {
    Py_ssize_t given;
    if (!read_size(dim, &given) || given < -nd || given >= nd) return -1;
    return (int)(given < 0 ? given + nd : given);
}

static PyObject *with_swapped(PyObject *array, int one, int other) {
    Array *a = (Array *)array;
    Py_ssize_t shape[MOST_DIMS], strides[MOST_DIMS];
    for (int i = 0; i < a->nd; i++) {
        int from = i == one ? other : i == other ? one : i;
        shape[i] = a->dimensions[from];
        strides[i] = a->strides[from];
    }
    return view_of(array, a->nd, shape, strides);
}

/* swap(a, dim, dim): a view with two dimensions swapped; None for those that are not there, and for what is not plain. */
static PyObject *swap(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || Py_TYPE(args[0]) != array_type || ((Array *)args[0])->nd > MOST_DIMS) Py_RETURN_NONE;
    int n = ((Array *)args[0])->nd, one = read_dim(args[1], n), other = read_dim(args[2], n);
    return one < 0 || other < 0 ? Py_NewRef(Py_None) : with_swapped(args[0], one, other);
}

/* turn(a): the transpose of a matrix; None for what is none, or not plain. */
static PyObject *turn(PyObject *module, PyObject *a) {
    return Py_TYPE(a) == array_type && ((Array *)a)->nd == 2 ? with_swapped(a, 0, 1) : Py_NewRef(Py_None);
}

/* unsqueeze(a, dim): a view with a dimension of one element in front of `dim`, with the stride torch gives it; None for
 * what is empty or not plain, and for a dimension that is not there. */
static PyObject *unsqueeze(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || Py_TYPE(args[0]) != array_type) Py_RETURN_NONE;
    Array *a = (Array *)args[0];
    Py_ssize_t dim = read_dim(args[1], a->nd + 1), shape[MOST_DIMS], strides[MOST_DIMS];
    if (dim < 0 || a->nd + 1 > MOST_DIMS || count_of(args[0]) == 0) Py_RETURN_NONE;
    for (int i = 0; i < a->nd; i++) {
        shape[i + (i >= dim)] = a->dimensions[i];
        strides[i + (i >= dim)] = a->strides[i];
    }
    shape[dim] = 1;
    strides[dim] = dim < a->nd ? shape[dim + 1] * strides[dim + 1] : size_of_element(a->descr);
    if (dim == a->nd && !strides[dim]) Py_RETURN_NONE;
    return view_of(args[0], a->nd + 1, shape, strides);
}
