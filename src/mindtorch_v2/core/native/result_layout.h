/* Results laid out in memory by a rule, a Python function of arrays, which is asked only where an argument of the op is a
   tensor that is not in row-major order. */

enum { C_ORDER = 1 }; /* a flag of NumPy's arrays */

/* Whether there is an array with row-major strides, in dimensions of one element too. */
static int is_row_major(Array *a) {
    if (!a || !(a->flags & C_ORDER))
        return 0;
    for (int i = a->ndim - 1; i >= 0; i--) {
        if (a->shape[i] == 0)
            return 1;
        if (a->shape[i] != 1)
            continue; /* as arrays in order have them */
        int number = i == a->ndim - 1 ? dtype_of(a) : 0;
        if (number < 0)
            return 0;
        Py_ssize_t step = i == a->ndim - 1 ? reading.dtypes_known[number].bytes : a->strides[i + 1] * a->shape[i + 1];
        if (a->strides[i] != step)
            return 0;
    }
    return 1;
}

/* The same, at once for arrays without such dimensions. */
static inline int is_plainly_row_major(Array *a) {
    if (!a || !(a->flags & C_ORDER))
        return 0;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] == 1)
            return is_row_major(a);
    return 1;
}

/* Whether all of an array is one element, as in the gradient of a sum: it lies in no order. */
static int is_one_element(Array *a) {
    for (int i = 0; a && i < a->ndim; i++)
        if (a->strides[i])
            return 0;
    return a != NULL;
}

/* A list that is looked into: up to some depth, as one may hold itself. */
static int is_shallow_list(PyObject *object, int depth) {
    return depth < DEEPEST && (PyList_CheckExact(object) || PyTuple_CheckExact(object));
}

/* Whether an argument of an op leaves the order of its results open. */
static int leaves_open(PyObject *object, int depth) {
    if (is_plain_type(object))
        return is_plainly_row_major(plain_array(object)) || is_one_element(plain_array(object));
    if (!is_shallow_list(object, depth))
        return 1;
    if (PySequence_Fast_GET_SIZE(object) && PyLong_CheckExact(PySequence_Fast_GET_ITEM(object, 0)))
        return 1; /* sizes */
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); i++)
        if (!leaves_open(PySequence_Fast_GET_ITEM(object, i), depth + 1))
            return 0;
    return 1;
}

/* An argument as kernels take it: the arrays of tensors, of those in lists too. Lists are copied first, as a finalizer or
   another thread may change them meanwhile. */
static PyObject *unwrapped(PyObject *object, int depth) {
    if (!is_shallow_list(object, depth))
        return array_or_value(object);
    PyObject *arrays = PySequence_List(object);
    for (Py_ssize_t i = 0; arrays && i < PyList_GET_SIZE(arrays); i++) {
        PyObject *item = PyList_GET_ITEM(arrays, i), *array = unwrapped(item, depth + 1);
        if (!array) {
            Py_CLEAR(arrays);
            break;
        }
        PyList_SET_ITEM(arrays, i, array);
        Py_DECREF(item);
    }
    return arrays;
}

enum { MOST_LAID = 16 }; /* arguments of an op */

/* lay(array, rule, *arguments): an op's result as its rule lays it out. */
static PyObject *lay(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count < 2 || count > MOST_LAID)
        return PyErr_Format(PyExc_TypeError, "expected an array, a rule and arguments, got %zd in all", count);
    Py_ssize_t i = 2;
    while (i < count && leaves_open(args[i], 0))
        i++;
    if (PyErr_Occurred())
        return NULL;
    if (i == count)
        return Py_NewRef(args[0]);
    PyObject *arrays[MOST_LAID] = {args[0]}, *made = NULL;
    for (i = 2; i < count && (arrays[i - 1] = unwrapped(args[i], 0)); i++)
        continue;
    if (i == count)
        made = PyObject_Vectorcall(args[1], arrays, count - 1, NULL);
    while (--i >= 2)
        Py_XDECREF(arrays[i - 1]);
    return made;
}

/* What puts an array into row-major order. */
static PyObject *plain_rule;

static PyObject *connect_plain(PyObject *module, PyObject *rule) {
    Py_XSETREF(plain_rule, Py_NewRef(rule));
    Py_RETURN_NONE;
}

/* lay_plain(array): an op's result in row-major order. */
static PyObject *lay_plain(PyObject *module, PyObject *array) {
    if (Py_TYPE(array) == ndarray && is_plainly_row_major((Array *)array))
        return Py_NewRef(array);
    return PyErr_Occurred() ? NULL : PyObject_CallOneArg(plain_rule, array);
}

/* The same in a tensor. */
static PyObject *wrap_plain(PyObject *module, PyObject *array) {
    PyObject *laid = lay_plain(module, array), *tensor = laid ? wrap(module, laid) : NULL;
    Py_XDECREF(laid);
    return tensor;
}

/* What `lay` gives in a tensor. */
static PyObject *wrap_laid(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    PyObject *array = lay(module, args, count), *tensor = array ? wrap(module, array) : NULL;
    Py_XDECREF(array);
    return tensor;
}
