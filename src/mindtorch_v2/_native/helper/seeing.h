/* Recorded views that no graph takes part in, from event to tensor. */

enum { MOST_GIVEN = 8 };

/* Whether a view of a tensor gets a node, or has to ask Python whether it does. */
static int takes_part(PyObject *tensor) {
    PyObject *view = *(PyObject **)((char *)tensor + given.view_offset);
    if (*(PyObject **)((char *)tensor + given.graph_offset) != Py_None)
        return 1;
    PyObject *base = view == Py_None ? NULL : *(PyObject **)((char *)view + given.base_offset);
    return base && *(PyObject **)((char *)base + given.graph_offset) != Py_None;
}

/* The array that a view op makes of a tensor's: by what is asked first (or None), or else by its kernel. */
static PyObject *view_made(PyObject *asked, PyObject *kernel, PyObject *const *arguments, Py_ssize_t count) {
    PyObject *arrays[MOST_GIVEN] = {*(PyObject **)((char *)arguments[0] + given.array_offset)};
    for (Py_ssize_t i = 1; i < count; i++)
        arrays[i] = arguments[i];
    PyObject *made = asked == Py_None ? Py_NewRef(Py_None) : PyObject_Vectorcall(asked, arrays, count, NULL);
    if (made == Py_None)
        Py_SETREF(made, PyObject_Vectorcall(kernel, arrays, count, NULL));
    return made;
}

/* see((event, event of the op inside or -1, what is asked first, kernel), sequence number, inputs of the op inside or None,
   source, ...): the result of a view op, recorded; None, with nothing recorded, where a graph takes part. */
static PyObject *see(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count < 4 || count > 3 + MOST_GIVEN || !PyTuple_CheckExact(args[0]) || PyTuple_GET_SIZE(args[0]) != 4 ||
        !PyObject_TypeCheck(args[3], given.tensor))
        return PyErr_Format(PyExc_TypeError, "expected what a view op is, a sequence number, inputs and a tensor");
    int building = builds_graphs();
    if (building && (building < 0 || takes_part(args[3])))
        return building < 0 ? NULL : Py_NewRef(Py_None);
    int64_t events[2], ids[2] = {0, 0};
    for (int i = 0; i < 2; i++)
        events[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(args[0], i));
    if (given.flags & SHAPES) {
        ids[0] = inputs_id(args + 3, count - 3, 1);
        if (ids[0] >= 0 && PyTuple_CheckExact(args[2]))
            ids[1] = inputs_id(&PyTuple_GET_ITEM(args[2], 0), PyTuple_GET_SIZE(args[2]), 1);
    }
    if (ids[0] < 0 || ids[1] < 0 || push(PyLong_AsLongLong(args[1]), ids[0], 1) < 0)
        return NULL;
    int opened = events[1] < 0 ? 1 : push(-1, ids[1], 1) < 0 ? 0 : 2;
    PyObject *array = NULL, *tensor = NULL;
    if (opened)
        array = view_made(PyTuple_GET_ITEM(args[0], 2), PyTuple_GET_ITEM(args[0], 3), args + 3, count - 3);
    if (opened == 2)
        pop(events[1]);
    if (array) {
        PyObject *looked[] = {args[3], array};
        tensor = look(module, looked, 2);
        Py_DECREF(array);
    }
    pop(events[0]);
    return tensor;
}
