/* What an index of integers, forward slices, an ellipsis and plain index tensors or arrays means to NumPy. */

static struct {
    PyObject *int64, *int32, *truth; /* NumPy's dtypes */
    PyObject *whole;                 /* slice(None) */
} indexing;

/* connect_indices(int64, int32, bool): hand over the dtypes of indices. */
static PyObject *connect_indices(PyObject *module, PyObject *args) {
    PyObject *int64, *int32, *truth;
    if (!PyArg_ParseTuple(args, "OOO", &int64, &int32, &truth))
        return NULL;
    if (!indexing.whole && !(indexing.whole = PySlice_New(NULL, NULL, NULL)))
        return NULL;
    indexing.int64 = Py_NewRef(int64), indexing.int32 = Py_NewRef(int32), indexing.truth = Py_NewRef(truth);
    Py_RETURN_NONE;
}

/* 1 for a slice that takes all, 0 for one that goes forward, -1 for any other. */
static int kind_of_slice(PyObject *part) {
    PySliceObject *slice = (PySliceObject *)part;
    if (slice->step != Py_None) {
        int overflow;
        long step = PyLong_CheckExact(slice->step) ? PyLong_AsLongAndOverflow(slice->step, &overflow) : 0;
        return step > 0 ? 0 : -1; /* one that is too large is -1 */
    }
    return slice->start == Py_None && slice->stop == Py_None;
}

/* The number in an index tensor of no dimensions, which need not be aligned. */
static PyObject *number_in(Array *a) {
    int64_t wide;
    int32_t narrow;
    if (a->dtype == indexing.int64) {
        memcpy(&wide, a->data, sizeof(wide));
        return PyLong_FromLongLong(wide);
    }
    memcpy(&narrow, a->data, sizeof(narrow));
    return PyLong_FromLong(narrow);
}

/* Appends one part of an index to both lists: what is a view of (`basic`), and what is taken from it (`picked`); how many
   dimensions it stands for, or -1 for what is not plain (with or without an exception). `*cuts` is set where it leaves
   something out. */
static int add_part(PyObject *part, PyObject *basic, PyObject *picked, int *cuts) {
    int kind = PySlice_Check(part) ? kind_of_slice(part) : -1;
    if (PySlice_Check(part)) {
        *cuts |= kind == 0;
        return kind < 0 || PyList_Append(basic, part) < 0 || PyList_Append(picked, indexing.whole) < 0 ? -1 : 1;
    }
    if (PyLong_CheckExact(part)) {
        *cuts = 1;
        return PyList_Append(basic, part) < 0 ? -1 : 1;
    }
    Array *a = Py_TYPE(part) == globals.tensor ? plain_array(part) : Py_TYPE(part) == ndarray ? (Array *)part : NULL;
    int whole = a && (a->dtype == indexing.int64 || a->dtype == indexing.int32);
    if (!a || (!whole && (a->dtype != indexing.truth || !a->ndim)) || !count_of(a))
        return -1;
    if (!a->ndim) {
        PyObject *number = number_in(a);
        int added = number ? PyList_Append(basic, number) : -1;
        Py_XDECREF(number);
        *cuts = 1;
        return added < 0 ? -1 : 1;
    }
    int span = whole ? 1 : a->ndim;
    for (int i = 0; i < span; i++)
        if (PyList_Append(basic, indexing.whole) < 0)
            return -1;
    return PyList_Append(picked, (PyObject *)a) < 0 ? -1 : span;
}

/* Reads all parts; whether they are plain. `*axis` becomes the last dimension that is picked from, where that is the only
   one and by integers; -1 else. */
static int read_parts(PyObject *parts, Py_ssize_t ndim, PyObject *basic, PyObject *picked, int *cuts, Py_ssize_t *axis) {
    Py_ssize_t ellipsis = -1, taken = 0, arrays = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); i++) {
        PyObject *part = PyTuple_GET_ITEM(parts, i);
        if (part == Py_Ellipsis && ellipsis < 0) {
            ellipsis = PyList_GET_SIZE(picked);
            if (PyList_Append(basic, part) < 0)
                return 0;
            continue;
        }
        int span = add_part(part, basic, picked, cuts);
        if (span < 0)
            return 0;
        taken += span;
    }
    if (taken > ndim || (ellipsis < 0 && PyList_Append(basic, Py_Ellipsis) < 0))
        return 0;
    for (; ellipsis >= 0 && taken < ndim; taken++)
        if (PyList_Insert(picked, ellipsis, indexing.whole) < 0)
            return 0;
    Py_ssize_t n = PyList_GET_SIZE(picked);
    while (n && PySlice_Check(PyList_GET_ITEM(picked, n - 1)))
        n--;
    if (PyList_SetSlice(picked, n, PyList_GET_SIZE(picked), NULL) < 0)
        return 0;
    for (Py_ssize_t i = 0; i < n; i++)
        arrays += !PySlice_Check(PyList_GET_ITEM(picked, i));
    *axis = arrays == 1 && ((Array *)PyList_GET_ITEM(picked, n - 1))->dtype != indexing.truth ? n - 1 : -1;
    return 1;
}

/* split_index(parts, ndim): the index of a view, or None where that is all; the index to take from it, which is empty
   where the view is all that is wanted; and the only axis that index picks from by integers, -1 where there are others.
   None for an index of anything else. */
static PyObject *split_index(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !PyTuple_CheckExact(args[0]))
        Py_RETURN_NONE;
    Py_ssize_t ndim = PyLong_AsSsize_t(args[1]), axis = -1;
    int cuts = 0;
    PyObject *basic = PyList_New(0), *picked = PyList_New(0), *found = NULL;
    if (basic && picked && !PyErr_Occurred() && read_parts(args[0], ndim, basic, picked, &cuts, &axis)) {
        PyObject *view = cuts ? PyList_AsTuple(basic) : Py_NewRef(Py_None), *taken = view ? PyList_AsTuple(picked) : NULL;
        found = taken ? Py_BuildValue("NNn", view, taken, axis) : NULL;
        if (!taken)
            Py_XDECREF(view);
    }
    Py_XDECREF(basic);
    Py_XDECREF(picked);
    return found || PyErr_Occurred() ? found : Py_NewRef(Py_None);
}
