/* Tensors and views on arrays, as `_tensor` and `_storage` make them. */

/* The start of an array object, as NumPy's ABI has fixed it. */
typedef struct {
    PyObject_HEAD
    char *data;
    int ndim;
    Py_intptr_t *shape, *strides;
    PyObject *base, *dtype;
    int flags;
} Array;
static PyTypeObject *ndarray;

static PyObject *array_of(PyObject *tensor) { return *(PyObject **)((char *)tensor + given.array_offset); }

/* What tensors on the same memory share: Storage of `_storage`, and one that reports its end. */
typedef struct {
    PyObject_HEAD
    PyObject *version, *weakrefs;
} Storage;
typedef struct {
    Storage storage;
    long long nbytes;
} Counted;

/* A plain tensor on a new array, in no graph. */
static PyObject *wrap(PyObject *module, PyObject *array) {
    PyObject *tensor = given.tensor->tp_alloc(given.tensor, 0);
    if (tensor) {
        char *slots = (char *)tensor;
        *(PyObject **)(slots + given.array_offset) = Py_NewRef(array);
        *(PyObject **)(slots + given.graph_offset) = Py_NewRef(Py_None);
        *(PyObject **)(slots + given.storage_offset) = Py_NewRef(Py_None);
        *(PyObject **)(slots + given.view_offset) = Py_NewRef(Py_None);
    }
    return tensor;
}

/* The version that a new view of this memory is good for. */
static PyObject *version_now(PyObject *storage) {
    if (Py_TYPE(storage) != given.storage && Py_TYPE(storage) != given.counted)
        return PyObject_CallOneArg(given.view_version, storage);
    return Py_XNewRef(((Storage *)storage)->version);
}

/* How `tensor` is a view: of what its source is a view of, or else of the source itself. Views of special ones are of
   their kind. */
static PyObject *view_of(PyObject *source, PyObject *tensor, PyObject *storage, PyTypeObject *kind) {
    PyObject *outer = *(PyObject **)((char *)source + given.view_offset);
    PyTypeObject *type = outer == Py_None || Py_TYPE(outer) == given.view ? kind : Py_TYPE(outer);
    PyObject *view = type->tp_alloc(type, 0);
    if (!view)
        return NULL;
    char *slots = (char *)view;
    PyObject *base = outer == Py_None ? source : *(PyObject **)((char *)outer + given.base_offset);
    PyObject *replay = outer == Py_None ? Py_None : *(PyObject **)((char *)outer + given.replay_offset);
    *(PyObject **)(slots + given.base_offset) = Py_NewRef(base);
    PyObject *remade = replay == Py_None ? Py_NewRef(Py_None)
                                         : PyObject_CallFunctionObjArgs(given.composed, replay, tensor, NULL);
    *(PyObject **)(slots + given.replay_offset) = remade;
    PyObject *version = *(PyObject **)(slots + given.version_offset) = version_now(storage);
    if (!remade || !version)
        Py_CLEAR(view);
    return view;
}

/* The storage that tensors on this one's memory share, borrowed; it gets one if it has none. */
static PyObject *storage_of(PyObject *tensor) {
    PyObject **shared = (PyObject **)((char *)tensor + given.storage_offset);
    if (*shared == Py_None) {
        PyObject *storage = PyObject_CallNoArgs((PyObject *)given.storage);
        if (!storage)
            return NULL;
        Py_SETREF(*shared, storage);
    }
    return *shared;
}

/* Whether the calling thread builds graphs; -1 for an error. */
static int builds_graphs(void) {
    PyObject *mode;
    if (PyContextVar_Get(given.grad_mode, NULL, &mode) < 0)
        return -1;
    Py_XDECREF(mode); /* True or False, which stay */
    return mode == Py_True;
}

/* look(source, array): a tensor on a view of another's memory, which knows what it is a view of if that matters: as graphs
   are built, or else as its source is in a graph. */
static PyObject *look(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "expected source and array, got %zd arguments", count);
    int watched = builds_graphs();
    PyObject *source = args[0], *tensor = watched < 0 ? NULL : wrap(module, args[1]);
    if (!tensor)
        return NULL;
    PyObject *storage = storage_of(source);
    if (!storage) {
        Py_DECREF(tensor);
        return NULL;
    }
    Py_SETREF(*(PyObject **)((char *)tensor + given.storage_offset), Py_NewRef(storage));
    int in_graph = *(PyObject **)((char *)source + given.graph_offset) != Py_None;
    if (watched || in_graph) {
        PyObject *view = view_of(source, tensor, storage, watched ? given.view : given.unwatched);
        if (!view) {
            Py_DECREF(tensor);
            return NULL;
        }
        Py_SETREF(*(PyObject **)((char *)tensor + given.view_offset), view);
    }
    return tensor;
}

/* live(view): its present place in the graph; Python finds it again where its base has changed since. */
static PyObject *live(PyObject *module, PyObject *tensor) {
    if (!PyObject_TypeCheck(tensor, given.tensor))
        return PyErr_Format(PyExc_TypeError, "expected a tensor, got %s", Py_TYPE(tensor)->tp_name);
    PyObject *place = *(PyObject **)((char *)tensor + given.graph_offset);
    PyObject *storage = *(PyObject **)((char *)tensor + given.storage_offset);
    PyObject *view = *(PyObject **)((char *)tensor + given.view_offset);
    if (!PyObject_TypeCheck(view, given.view))
        return PyErr_Format(PyExc_TypeError, "expected a view");
    PyObject *base = *(PyObject **)((char *)view + given.base_offset);
    if (*(PyObject **)((char *)base + given.graph_offset) == Py_None || storage == Py_None)
        return Py_NewRef(place);
    PyObject *good_for = *(PyObject **)((char *)view + given.version_offset), *now = version_now(storage);
    int same = now ? now == good_for ? 1 : PyObject_RichCompareBool(now, good_for, Py_EQ) : -1;
    Py_XDECREF(now);
    if (same < 0)
        return NULL;
    return same ? Py_NewRef(place) : PyObject_CallOneArg(given.live, tensor);
}

/* Tensors on several views (a list of arrays) of another's memory that came from one op, as a tuple; they are views of this
   kind, or None. Such views never find their place in the graph again, so they can do with one record, unless each is
   remade in its own way. */
static PyObject *look_at_parts(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !PyList_CheckExact(args[1]))
        return PyErr_Format(PyExc_TypeError, "expected source, a list of arrays and the kind of view");
    PyObject *source = args[0], *outer = *(PyObject **)((char *)source + given.view_offset);
    int alike = outer == Py_None || *(PyObject **)((char *)outer + given.replay_offset) == Py_None;
    PyObject *storage = storage_of(source), *view = Py_NewRef(Py_None);
    PyObject *tensors = storage ? PyTuple_New(PyList_GET_SIZE(args[1])) : NULL;
    for (Py_ssize_t i = 0; tensors && i < PyTuple_GET_SIZE(tensors); i++) {
        PyObject *tensor = wrap(module, PyList_GET_ITEM(args[1], i));
        if (tensor && args[2] != Py_None && (!i || !alike))
            Py_SETREF(view, view_of(source, tensor, storage, (PyTypeObject *)args[2]));
        if (!tensor || !view) {
            Py_XDECREF(tensor);
            Py_CLEAR(tensors);
            break;
        }
        Py_SETREF(*(PyObject **)((char *)tensor + given.storage_offset), Py_NewRef(storage));
        Py_SETREF(*(PyObject **)((char *)tensor + given.view_offset), Py_NewRef(view));
        PyTuple_SET_ITEM(tensors, i, tensor);
    }
    Py_XDECREF(view);
    return tensors;
}

/* Whether something is a list or tuple of plain tensors. */
static PyObject *all_plain(PyObject *module, PyObject *tensors) {
    if (!PyList_Check(tensors) && !PyTuple_Check(tensors))
        Py_RETURN_FALSE;
    PyObject **items = PySequence_Fast_ITEMS(tensors);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(tensors); i++)
        if (Py_TYPE(items[i]) != given.tensor && Py_TYPE(items[i]) != given.parameter)
            Py_RETURN_FALSE;
    Py_RETURN_TRUE;
}

/* Whether one of these may take part in a graph. */
static PyObject *watched(PyObject *module, PyObject *tensors) {
    if (!PyList_Check(tensors) && !PyTuple_Check(tensors))
        Py_RETURN_TRUE;
    PyObject **items = PySequence_Fast_ITEMS(tensors);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(tensors); i++)
        if (!PyObject_TypeCheck(items[i], given.tensor) ||
            *(PyObject **)((char *)items[i] + given.graph_offset) != Py_None ||
            *(PyObject **)((char *)items[i] + given.view_offset) != Py_None)
            Py_RETURN_TRUE;
    Py_RETURN_FALSE;
}
