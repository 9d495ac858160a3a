/* Tensors and views on arrays, as `tensor` and `storage` make them. */

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

/* What a tensor has as its array, borrowed; NULL or no ndarray where somebody has made it so. */
static inline PyObject *array_of(PyObject *tensor) { return slot_of(tensor, globals.array_offset); }

/* The array itself, borrowed; NULL where it is none of NumPy's own. */
static inline Array *plain_array(PyObject *tensor) {
    PyObject *array = array_of(tensor);
    return array && Py_TYPE(array) == ndarray ? (Array *)array : NULL;
}

static inline int is_tensor(PyObject *value) { return PyObject_TypeCheck(value, globals.tensor); }

/* What tensors on the same memory share: Storage of `storage`, and one that reports its end. */
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
    PyObject *tensor = globals.tensor->tp_alloc(globals.tensor, 0);
    if (tensor) {
        char *slots = (char *)tensor;
        *(PyObject **)(slots + globals.array_offset) = Py_NewRef(array);
        *(PyObject **)(slots + globals.graph_offset) = Py_NewRef(Py_None);
        *(PyObject **)(slots + globals.storage_offset) = Py_NewRef(Py_None);
        *(PyObject **)(slots + globals.view_offset) = Py_NewRef(Py_None);
    }
    return tensor;
}

/* The version that a new view of this memory is good for. */
static PyObject *version_now(PyObject *storage) {
    if (Py_TYPE(storage) != globals.storage && Py_TYPE(storage) != globals.counted)
        return PyObject_CallOneArg(globals.view_version, storage);
    if (!((Storage *)storage)->version)
        return PyErr_Format(PyExc_AttributeError, "version");
    return Py_NewRef(((Storage *)storage)->version);
}

/* How `tensor` is a view: of what its source is a view of, or else of the source itself. Views of special ones are of
   their kind. */
static PyObject *view_of(PyObject *source, PyObject *tensor, PyObject *storage, PyTypeObject *kind) {
    PyObject *outer = slot_of(source, globals.view_offset);
    int is_view = outer && PyObject_TypeCheck(outer, globals.view);
    PyTypeObject *type = !is_view || Py_TYPE(outer) == globals.view ? kind : Py_TYPE(outer);
    PyObject *base = Py_XNewRef(is_view ? slot_of(outer, globals.base_offset) : source);
    PyObject *replay = Py_XNewRef(is_view ? slot_of(outer, globals.replay_offset) : Py_None);
    PyObject *view = type->tp_alloc(type, 0), *remade = NULL, *version = NULL;
    if (view && replay)
        remade = replay == Py_None ? Py_NewRef(Py_None)
                                   : PyObject_CallFunctionObjArgs(globals.composed, replay, tensor, source, NULL);
    if (remade)
        version = version_now(storage);
    if (view) {
        char *slots = (char *)view;
        *(PyObject **)(slots + globals.base_offset) = base;
        *(PyObject **)(slots + globals.replay_offset) = remade;
        *(PyObject **)(slots + globals.version_offset) = version;
    } else {
        Py_XDECREF(base);
    }
    Py_XDECREF(replay);
    if (!version && !PyErr_Occurred())
        PyErr_SetString(PyExc_AttributeError, "replay");
    if (!version)
        Py_CLEAR(view);
    return view;
}

/* The storage that tensors on this one's memory share, borrowed; it gets one if it has none. */
static PyObject *storage_of(PyObject *tensor) {
    PyObject **shared = (PyObject **)((char *)tensor + globals.storage_offset);
    if (!*shared || *shared == Py_None) {
        PyObject *storage = PyObject_CallNoArgs((PyObject *)globals.storage);
        if (!storage)
            return NULL;
        Py_XSETREF(*shared, storage);
    }
    return *shared;
}

/* Whether the calling thread builds graphs; -1 for an error. */
static int builds_graphs(void) {
    PyObject *mode;
    if (PyContextVar_Get(globals.grad_mode, NULL, &mode) < 0)
        return -1;
    Py_XDECREF(mode); /* True or False, which stay */
    return mode == Py_True;
}

/* Whether a tensor, or what it is a view of, is in a graph. */
static int takes_part(PyObject *tensor) {
    PyObject *view = slot_of(tensor, globals.view_offset);
    if (!view || slot_of(tensor, globals.graph_offset) != Py_None)
        return 1;
    PyObject *base = PyObject_TypeCheck(view, globals.view) ? slot_of(view, globals.base_offset) : NULL;
    return base && is_tensor(base) && slot_of(base, globals.graph_offset) != Py_None;
}

/* look(source, array): a tensor on a view of another's memory, which knows what it is a view of if that matters: as graphs
   are built, or else as its source is in a graph. */
static PyObject *look(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "expected source and array, got %zd arguments", count);
    if (!is_tensor(args[0]))
        return PyErr_Format(PyExc_TypeError, "expected a tensor, got %s", Py_TYPE(args[0])->tp_name);
    int watched = builds_graphs();
    PyObject *source = args[0], *tensor = watched < 0 ? NULL : wrap(module, args[1]);
    if (!tensor)
        return NULL;
    PyObject *storage = storage_of(source);
    if (!storage) {
        Py_DECREF(tensor);
        return NULL;
    }
    Py_SETREF(*(PyObject **)((char *)tensor + globals.storage_offset), Py_NewRef(storage));
    storage = slot_of(tensor, globals.storage_offset); /* which nobody else has got yet */
    if (watched || takes_part(source)) {
        PyObject *view = view_of(source, tensor, storage, watched ? globals.view : globals.unwatched);
        if (!view) {
            Py_DECREF(tensor);
            return NULL;
        }
        Py_SETREF(*(PyObject **)((char *)tensor + globals.view_offset), view);
    }
    return tensor;
}

/* live(view): its present place in the graph; Python finds it again where its base has changed since, or it has none yet. */
static PyObject *live(PyObject *module, PyObject *tensor) {
    if (!PyObject_TypeCheck(tensor, globals.tensor))
        return PyErr_Format(PyExc_TypeError, "expected a tensor, got %s", Py_TYPE(tensor)->tp_name);
    PyObject *place = slot_of(tensor, globals.graph_offset), *view = slot_of(tensor, globals.view_offset);
    if (!view || !PyObject_TypeCheck(view, globals.view))
        return PyErr_Format(PyExc_TypeError, "expected a view");
    PyObject *base = slot_of(view, globals.base_offset), *good_for = slot_of(view, globals.version_offset);
    if (!place || !base || !is_tensor(base) || !good_for)
        return PyObject_CallOneArg(globals.live, tensor);
    int out_of_graphs = place == Py_None && !is_set(base, globals.graph_offset);
    if (out_of_graphs || !is_set(tensor, globals.storage_offset))
        return Py_NewRef(place);
    Py_INCREF(place);
    Py_INCREF(good_for);
    PyObject *storage = Py_NewRef(slot_of(tensor, globals.storage_offset)), *now = version_now(storage);
    int same = now ? now == good_for ? 1 : PyObject_RichCompareBool(now, good_for, Py_EQ) : -1;
    Py_XDECREF(now);
    Py_DECREF(storage);
    Py_DECREF(good_for);
    if (same <= 0)
        Py_DECREF(place);
    if (same < 0)
        return NULL;
    if (same && place == Py_None && builds_graphs()) { /* an error leaves it to Python, which meets it again */
        Py_DECREF(place);
        same = 0;
    }
    return same ? place : PyObject_CallOneArg(globals.live, tensor);
}

/* Tensors on several views (a list of arrays) of another's memory that came from one op, as a tuple; they are views of this
   kind, or None. Such views never find their place in the graph again, so they can do with one record, unless each is
   remade in its own way. */
static PyObject *look_at_parts(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !is_tensor(args[0]) || !PyList_CheckExact(args[1]))
        return PyErr_Format(PyExc_TypeError, "expected source, a list of arrays and the kind of view");
    PyObject *source = args[0], *outer = slot_of(source, globals.view_offset);
    int alike = !outer || !PyObject_TypeCheck(outer, globals.view) || !is_set(outer, globals.replay_offset);
    PyObject *storage = Py_XNewRef(storage_of(source)), *view = Py_NewRef(Py_None);
    PyObject *arrays = storage ? PyList_AsTuple(args[1]) : NULL;
    PyObject *tensors = arrays ? PyTuple_New(PyTuple_GET_SIZE(arrays)) : NULL;
    for (Py_ssize_t i = 0; tensors && i < PyTuple_GET_SIZE(tensors); i++) {
        PyObject *tensor = wrap(module, PyTuple_GET_ITEM(arrays, i));
        if (tensor && args[2] != Py_None && (!i || !alike))
            Py_SETREF(view, view_of(source, tensor, storage, (PyTypeObject *)args[2]));
        if (!tensor || !view) {
            Py_XDECREF(tensor);
            Py_CLEAR(tensors);
            break;
        }
        Py_SETREF(*(PyObject **)((char *)tensor + globals.storage_offset), Py_NewRef(storage));
        Py_SETREF(*(PyObject **)((char *)tensor + globals.view_offset), Py_NewRef(view));
        PyTuple_SET_ITEM(tensors, i, tensor);
    }
    Py_XDECREF(view);
    Py_XDECREF(arrays);
    Py_XDECREF(storage);
    return tensors;
}

/* Whether something is a list or tuple of plain tensors. */
static PyObject *all_plain(PyObject *module, PyObject *tensors) {
    if (!PyList_Check(tensors) && !PyTuple_Check(tensors))
        Py_RETURN_FALSE;
    PyObject **items = PySequence_Fast_ITEMS(tensors);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(tensors); i++)
        if (Py_TYPE(items[i]) != globals.tensor && Py_TYPE(items[i]) != globals.parameter)
            Py_RETURN_FALSE;
    Py_RETURN_TRUE;
}

/* Whether one of these may take part in a graph. */
static PyObject *watched(PyObject *module, PyObject *tensors) {
    if (!PyList_Check(tensors) && !PyTuple_Check(tensors))
        Py_RETURN_TRUE;
    PyObject **items = PySequence_Fast_ITEMS(tensors);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(tensors); i++)
        if (!PyObject_TypeCheck(items[i], globals.tensor) ||
            *(PyObject **)((char *)items[i] + globals.graph_offset) != Py_None ||
            *(PyObject **)((char *)items[i] + globals.view_offset) != Py_None)
            Py_RETURN_TRUE;
    Py_RETURN_FALSE;
}
