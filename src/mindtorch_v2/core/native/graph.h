/* Nodes of the autograd graph, and the bookkeeping of a backward pass. */

/* The autograd node of a call: class, edges, saved, sequence number, shape, dtype. */
static PyObject *node(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 6)
        return PyErr_Format(PyExc_TypeError, "expected 6 arguments, got %zd", count);
    PyTypeObject *type = (PyTypeObject *)args[0];
    PyObject *made = type->tp_alloc(type, 0);
    if (made) {
        for (int i = 0; i < 5; i++)
            *(PyObject **)((char *)made + globals.node_offsets[i]) = Py_NewRef(args[i + 1]);
        *(PyObject **)((char *)made + globals.node_offsets[5]) = Py_NewRef(Py_None);
    }
    return made;
}

static PyObject *shape_of(const Array *array) {
    PyObject *shape = PyTuple_New(array->ndim);
    for (int i = 0; shape && i < array->ndim; i++) {
        PyObject *size = PyLong_FromSsize_t(array->shape[i]);
        if (size)
            PyTuple_SET_ITEM(shape, i, size);
        else
            Py_CLEAR(shape);
    }
    return shape;
}

/* What a tensor that is an output of a node has as its place in the graph. */
static PyObject *output_of(PyObject *node, Py_ssize_t number) {
    if (!number)
        return Py_NewRef(node);
    PyObject *output = globals.output->tp_alloc(globals.output, 0), *nr = PyLong_FromSsize_t(number);
    if (!output || !nr) {
        Py_XDECREF(output);
        Py_XDECREF(nr);
        return NULL;
    }
    *(PyObject **)((char *)output + globals.output_node_offset) = Py_NewRef(node);
    *(PyObject **)((char *)output + globals.output_number_offset) = nr;
    return output;
}

/* Make a tuple of several tensors the outputs of a node, which learns their shapes and dtypes; one has been told. */
static PyObject *attach(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !PyTuple_CheckExact(args[1]))
        return PyErr_Format(PyExc_TypeError, "expected a node and a tuple of tensors");
    Py_ssize_t n = PyTuple_GET_SIZE(args[1]);
    PyObject *shapes = PyTuple_New(n), *dtypes = PyTuple_New(n);
    int failed = !shapes || !dtypes;
    for (Py_ssize_t i = 0; !failed && i < n; i++) {
        PyObject *tensor = PyTuple_GET_ITEM(args[1], i), *array = is_tensor(tensor) ? Py_XNewRef(array_of(tensor)) : NULL;
        if (!array || !PyObject_TypeCheck(array, ndarray)) {
            Py_XDECREF(array);
            PyErr_Format(PyExc_TypeError, "expected tensors on arrays, got %s", Py_TYPE(tensor)->tp_name);
            failed = 1;
            break;
        }
        PyObject *shape = shape_of((Array *)array), *output = shape ? output_of(args[0], i) : NULL;
        failed = !output;
        PyTuple_SET_ITEM(shapes, i, shape);
        PyTuple_SET_ITEM(dtypes, i, Py_NewRef(((Array *)array)->dtype));
        Py_DECREF(array);
        if (output)
            Py_XSETREF(*(PyObject **)((char *)tensor + globals.graph_offset), output);
    }
    if (!failed && n > 1) {
        Py_XSETREF(*(PyObject **)((char *)args[0] + globals.node_offsets[3]), Py_NewRef(shapes));
        Py_XSETREF(*(PyObject **)((char *)args[0] + globals.node_offsets[4]), Py_NewRef(dtypes));
    }
    Py_XDECREF(shapes);
    Py_XDECREF(dtypes);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static int same_shape(const Array *array, PyObject *shape) {
    if (!PyTuple_CheckExact(shape) || PyTuple_GET_SIZE(shape) != array->ndim)
        return 0;
    for (int i = 0; i < array->ndim; i++) {
        PyObject *size = PyTuple_GET_ITEM(shape, i);
        int overflow;
        if (!PyLong_CheckExact(size) || PyLong_AsLongLongAndOverflow(size, &overflow) != array->shape[i])
            return 0;
    }
    return 1;
}

/* Whether a gradient is of the shape and dtype that a node with one output waits for. */
static int fits(PyObject *node, PyObject *gradient) {
    Array *array = Py_TYPE(gradient) == globals.tensor ? plain_array(gradient) : NULL;
    if (!array || Py_TYPE(node) == globals.output)
        return 0;
    if (Py_TYPE(node) == globals.leaf) {
        Array *there = (Array *)slot_of(node, globals.leaf_array_offset);
        return there && Py_TYPE(there) == ndarray && array->dtype == there->dtype && array->ndim == there->ndim &&
               (!array->ndim || !memcmp(array->shape, there->shape, array->ndim * sizeof *array->shape));
    }
    PyObject *shape = *(PyObject **)((char *)node + globals.node_offsets[3]);
    return array->dtype == *(PyObject **)((char *)node + globals.node_offsets[4]) && shape && same_shape(array, shape);
}

/* The node that an edge leads to, borrowed. */
static PyObject *node_at(PyObject *edge) {
    return Py_TYPE(edge) == globals.output ? slot_of(edge, globals.output_node_offset) : edge;
}

/* The edges of a node, a new reference; NULL with an exception set where it has none. */
static PyObject *edges_of(PyObject *node) {
    PyObject *edges = PyObject_TypeCheck(node, globals.node) ? slot_of(node, globals.node_offsets[0]) : NULL;
    if (edges && PyTuple_CheckExact(edges))
        return Py_NewRef(edges);
    return PyErr_Format(PyExc_TypeError, "expected a node with edges, got %s", Py_TYPE(node)->tp_name);
}

/* Counts one more edge to a node; whether it is the first, -1 for an error. */
static int count_edge(PyObject *waiting, PyObject *node) {
    PyObject *before = PyDict_GetItemWithError(waiting, node);
    if (!before && PyErr_Occurred())
        return -1;
    int is_first = !before;
    PyObject *now = PyLong_FromLong(before ? PyLong_AsLong(before) + 1 : 1);
    int failed = !now || PyDict_SetItem(waiting, node, now) < 0;
    Py_XDECREF(now);
    return failed ? -1 : is_first;
}

/* How many edges lead to each node that can be reached from some (a list), as a dict. */
static PyObject *count_edges(PyObject *module, PyObject *starts) {
    PyObject *waiting = PyDict_New(), *known = PySet_New(starts);
    PyObject *stack = known ? PySequence_List(known) : NULL;
    int failed = !waiting || !stack;
    while (!failed && PyList_GET_SIZE(stack)) {
        Py_ssize_t last = PyList_GET_SIZE(stack) - 1;
        PyObject *edges = edges_of(PyList_GET_ITEM(stack, last));
        failed = !edges || PyList_SetSlice(stack, last, last + 1, NULL) < 0;
        for (Py_ssize_t i = 0; !failed && i < PyTuple_GET_SIZE(edges); i++) {
            PyObject *edge = PyTuple_GET_ITEM(edges, i), *node = edge == Py_None ? NULL : node_at(edge);
            if (!node)
                continue;
            int is_first = count_edge(waiting, node), is_start = is_first > 0 ? PySet_Contains(known, node) : 1;
            failed = is_first < 0 || is_start < 0 || (!is_start && PyList_Append(stack, node) < 0);
        }
        Py_XDECREF(edges);
    }
    Py_XDECREF(known);
    Py_XDECREF(stack);
    if (failed)
        Py_CLEAR(waiting);
    return waiting;
}

/* One contribution fewer to wait for; 1 if it was the last, -1 for an error. */
static int count_down(PyObject *waiting, PyObject *node) {
    PyObject *before = PyDict_GetItemWithError(waiting, node);
    PyObject *left = before ? PyLong_FromLong(PyLong_AsLong(before) - 1) : NULL;
    if (!before && !PyErr_Occurred())
        PyErr_SetObject(PyExc_KeyError, node);
    int failed = !left || PyDict_SetItem(waiting, node, left) < 0;
    int last = !failed && PyLong_AsLong(left) == 0;
    Py_XDECREF(left);
    return failed ? -1 : last;
}

/* Hand the results of a node on along its edges (edges, results, waiting, buffers, deliver) and keep none of them; the nodes
   that have now got all they waited for. `deliver` takes a gradient that is not simply put down. An edge that leads nowhere
   anybody asked for is to be None. */
static PyObject *pass_on(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 5)
        return PyErr_Format(PyExc_TypeError, "expected 5 arguments, got %zd", count);
    PyObject *edges = args[0], *results = args[1], *waiting = args[2], *buffers = args[3];
    if (!PyTuple_CheckExact(edges) || !PyList_CheckExact(results) || !PyDict_CheckExact(waiting) || !PyDict_CheckExact(buffers))
        return PyErr_Format(PyExc_TypeError, "expected a tuple of edges, a list of results and two dicts");
    PyObject *ready = PyList_New(0);
    for (Py_ssize_t i = 0; ready && i < PyTuple_GET_SIZE(edges); i++) {
        PyObject *edge = PyTuple_GET_ITEM(edges, i), *gradient = Py_None, *node = edge == Py_None ? NULL : node_at(edge);
        if (!node)
            continue;
        int failed = 0;
        if (i < PyList_GET_SIZE(results) && (gradient = PyList_GET_ITEM(results, i)) != Py_None) {
            PyList_SET_ITEM(results, i, Py_NewRef(Py_None)); /* the list's reference is ours now */
            int has_some = fits(edge, gradient) ? PyDict_Contains(buffers, edge) : 1;
            if (has_some > 0) {
                PyObject *done = PyObject_CallFunctionObjArgs(args[4], edge, gradient, NULL);
                failed = !done;
                Py_XDECREF(done);
            } else {
                failed = has_some < 0 || PyDict_SetItem(buffers, edge, gradient) < 0;
            }
            Py_DECREF(gradient);
        }
        int last = failed ? -1 : count_down(waiting, node);
        if (last < 0 || (last && PyList_Append(ready, node) < 0))
            Py_CLEAR(ready);
    }
    return ready;
}
