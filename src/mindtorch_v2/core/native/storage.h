/* Storage tokens: version counters, and those that report allocations and frees. */

static int64_t bytes_of(PyObject *array) {
    Array *a = (Array *)array;
    if (Py_TYPE(array) == ndarray && a->flags & 1) { /* row-major without gaps: the inner step is one element */
        int64_t elements = 1, step = 0;
        for (int i = a->ndim - 1; i >= 0; i--) {
            elements *= a->shape[i];
            if (!step && a->shape[i] > 1)
                step = a->strides[i];
        }
        if (step && elements)
            return elements * step;
    }
    PyObject *value = PyObject_GetAttrString(array, "nbytes");
    int64_t found = value ? PyLong_AsLongLong(value) : -1;
    Py_XDECREF(value);
    return found;
}

/* The memory of counted tokens that have ended, for those to come: results of ops most often last no longer than the next. */
enum { SPARES = 16 };
static struct {
    PyObject *tokens[SPARES];
    int count;
} spares;

static void storage_dealloc(Storage *token) {
    PyTypeObject *type = Py_TYPE(token);
    if (token->weakrefs)
        PyObject_ClearWeakRefs((PyObject *)token);
    Py_XDECREF(token->version);
    if (type == globals.counted && spares.count < SPARES)
        spares.tokens[spares.count++] = (PyObject *)token;
    else
        type->tp_free((PyObject *)token);
    Py_DECREF(type);
}

static PyObject *new_token(PyTypeObject *type) {
    int is_spare = type == globals.counted && spares.count;
    PyObject *token = is_spare ? PyObject_Init(spares.tokens[--spares.count], type) : type->tp_alloc(type, 0);
    if (token) {
        ((Storage *)token)->version = PyLong_FromLong(0);
        ((Storage *)token)->weakrefs = NULL;
    }
    return token;
}

static PyObject *storage_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    return new_token(type);
}

static PyObject *counted_storage(PyObject *array, int is_result) {
    int64_t nbytes = bytes_of(array);
    if (nbytes == -1 && PyErr_Occurred())
        return NULL;
    PyObject *token = new_token(globals.counted);
    if (!token)
        return NULL;
    ((Counted *)token)->nbytes = nbytes;
    Lane *lane = globals.recording ? lane_here() : NULL;
    Open *open = lane && is_result && lane->depth ? &lane->open[lane->depth - 1] : NULL;
    if (open && !open->block) { /* the end of the op notes it, with its own look at the clock */
        open->nbytes = nbytes;
        open->block = (int64_t)(intptr_t)token;
    } else if (lane) {
        int64_t time = now();
        if (current)
            put_mark(current, time, nbytes, (int64_t)(intptr_t)token);
    }
    return token;
}

static PyObject *count(PyObject *module, PyObject *array) {
    return counted_storage(array, 1);
}

/* `wrap` with such a token. */
static PyObject *wrap_counted(PyObject *module, PyObject *array) {
    PyObject *token = counted_storage(array, 1), *tensor = token ? wrap(module, array) : NULL;
    if (tensor)
        Py_SETREF(*(PyObject **)((char *)tensor + globals.storage_offset), token);
    else
        Py_XDECREF(token);
    return tensor;
}

static PyObject *counted_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *array;
    return PyArg_ParseTuple(args, "O", &array) ? counted_storage(array, 0) : NULL;
}

static int counted_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    return 0;
}

static void counted_dealloc(Counted *token) {
    int64_t nbytes = token->nbytes, block = (int64_t)(intptr_t)token;
    if (globals.recording && !current) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        lane_here();
        PyErr_Restore(type, value, traceback);
    }
    int64_t time = globals.recording && current ? now() : 0;
    Lane *lane = globals.recording ? current : NULL;
    if (lane) {
        Open *open = lane->depth ? &lane->open[lane->depth - 1] : NULL;
        if (open && open->block == block) { /* freed before the op that made it has ended */
            put_mark(lane, time, nbytes, block);
            open->block = 0;
        }
        put_mark(lane, time, -nbytes, block);
    }
    storage_dealloc(&token->storage);
}

static PyMemberDef storage_members[] = {{"version", T_OBJECT_EX, offsetof(Storage, version), 0, NULL},
                                        {"__weaklistoffset__", T_PYSSIZET, offsetof(Storage, weakrefs), READONLY, NULL},
                                        {NULL}};
static PyType_Slot storage_slots[] = {
    {Py_tp_new, storage_new}, {Py_tp_dealloc, storage_dealloc}, {Py_tp_members, storage_members},
    {Py_tp_doc, "Shared by every tensor that looks at one block of memory. `version` counts in-place changes."}, {0, NULL}};
static PyType_Spec storage_spec = {"mindtorch_v2.core.storage.Storage", sizeof(Storage), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, storage_slots};
static PyMemberDef counted_members[] = {{"nbytes", T_LONGLONG, offsetof(Counted, nbytes), READONLY, NULL}, {NULL}};
static PyType_Slot counted_slots[] = {
    {Py_tp_new, counted_new}, {Py_tp_init, counted_init}, {Py_tp_dealloc, counted_dealloc}, {Py_tp_members, counted_members},
    {Py_tp_doc, "A storage whose allocation a recorder has seen; it reports its end too."}, {0, NULL}};
static PyType_Spec counted_spec = {"mindtorch_v2.core.storage.CountedStorage", sizeof(Counted), 0, Py_TPFLAGS_DEFAULT,
                                   counted_slots};
