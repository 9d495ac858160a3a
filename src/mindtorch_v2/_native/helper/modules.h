/* Calls of nn.Module. */

/* The call of an nn.Module. While it runs, `entry` is on the lane's list of open regions. */
typedef struct {
    PyObject_HEAD
    PyObject *module, *lane, *entry;
    long long outer;
} ModuleCall;
static PyTypeObject *module_call_type;

static PyObject *module_call(PyObject *helper, PyObject *module) {
    ModuleCall *made = PyObject_New(ModuleCall, module_call_type);
    if (made) {
        made->module = Py_NewRef(module);
        made->lane = made->entry = NULL;
        made->outer = 0;
    }
    return (PyObject *)made;
}

/* Whether a weak reference still leads to an object that lives, as the caller knows. */
static int leads_to(PyObject *reference, PyObject *object) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *found = NULL;
    int leads = PyWeakref_GetRef(reference, &found) == 1 && found == object;
    Py_XDECREF(found);
    return leads;
#else
    return PyWeakref_GetObject(reference) == object;
#endif
}

static PyObject *known_module(PyObject *module, Lane *lane) {
    PyObject *key = PyLong_FromVoidPtr(module), *known = key ? PyDict_GetItemWithError(given.modules, key) : NULL;
    Py_XDECREF(key);
    if (known && leads_to(PyTuple_GET_ITEM(known, 0), module))
        return Py_NewRef(known);
    PyObject *root = PyErr_Occurred() ? NULL : PyObject_GetAttrString((PyObject *)lane, "root");
    known = root ? PyObject_CallFunctionObjArgs(given.meet_module, module, root, NULL) : NULL;
    Py_XDECREF(root);
    return known;
}

static int64_t longer_chain(int64_t outer, PyObject *name, int64_t event) {
    static Ints key;
    key.used = 0;
    if (given.flags & STACKS)
        put_frames(&key);
    int64_t below = key.used ? key.used / 2 - 1 : 0; /* the frame on top is that of the call itself */
    key.used = 0;
    put(&key, outer);
    put(&key, event);
    put(&key, below);
    uint64_t hash = hash_of(&key);
    int64_t id = find(&chains, &key, hash);
    if (!id) {
        Ints copy = copied(&key);
        PyObject *found = PyObject_CallFunction(given.add_chain, "LOL", (long long)outer, name, (long long)below);
        id = found ? PyLong_AsLongLong(found) : 0;
        Py_XDECREF(found);
        if (id > 0 && copy.used)
            keep(&chains, &copy, hash, id);
        PyMem_RawFree(copy.data);
    }
    return id;
}

static PyObject *module_enter(ModuleCall *self, PyObject *unused) {
    Lane *lane = given.recording ? lane_here() : NULL;
    if (!lane)
        return Py_NewRef(self);
    self->outer = lane->chain;
    if (!lane->chain && PyObject_SetAttrString((PyObject *)lane, "root", self->module) < 0)
        return NULL;
    PyObject *known = known_module(self->module, lane), *open = NULL;
    if (!known)
        return NULL;
    int64_t event = PyLong_AsLongLong(PyTuple_GET_ITEM(known, 2));
    int64_t chain = longer_chain(lane->chain, PyTuple_GET_ITEM(known, 1), event);
    int64_t stack = given.flags & STACKS && lane->listening && given.add_stack ? stack_id(lane) : 0;
    Py_DECREF(known);
    if (!PyErr_Occurred() && (open = PyObject_GetAttrString((PyObject *)lane, "open")))
        self->entry = Py_BuildValue("[LLiiL]", (long long)now(), (long long)event, -1, 0, (long long)stack);
    if (self->entry && PyList_Append(open, self->entry) == 0) {
        self->lane = Py_NewRef(lane);
        lane->chain = chain;
    }
    Py_XDECREF(open);
    return PyErr_Occurred() ? NULL : Py_NewRef(self);
}

static int no_longer_open(PyObject *lane, PyObject *entry) {
    PyObject *open = PyObject_GetAttrString(lane, "open");
    if (!open)
        return -1;
    int failed = 0;
    for (Py_ssize_t i = PyList_GET_SIZE(open); i-- > 0;)
        if (PyList_GET_ITEM(open, i) == entry) {
            failed = PyList_SetSlice(open, i, i + 1, NULL);
            break;
        }
    Py_DECREF(open);
    return failed;
}

static PyObject *module_exit(ModuleCall *self, PyObject *const *unused, Py_ssize_t count) {
    Lane *lane = (Lane *)self->lane;
    if (!lane)
        Py_RETURN_NONE;
    lane->chain = self->outer;
    if ((!self->outer && PyObject_SetAttrString(self->lane, "root", Py_None) < 0) || no_longer_open(self->lane, self->entry) < 0)
        return NULL;
    if (given.recording) {
        int64_t values[5];
        for (int i = 0; i < 5; i++)
            values[i] = PyLong_AsLongLong(PyList_GET_ITEM(self->entry, i));
        put_row(lane, values[0], now(), values[1], values[2], values[3], values[4]);
    }
    Py_CLEAR(self->lane);
    Py_RETURN_NONE;
}

static void module_call_dealloc(ModuleCall *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(self->module);
    Py_XDECREF(self->lane);
    Py_XDECREF(self->entry);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef module_call_methods[] = {
    {"__enter__", (PyCFunction)module_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))module_exit, METH_FASTCALL, NULL},
    {NULL}};
static PyType_Slot module_call_slots[] = {
    {Py_tp_dealloc, module_call_dealloc}, {Py_tp_methods, module_call_methods}, {0, NULL}};
static PyType_Spec module_call_spec = {"mindtorch_v2._helper.ModuleCall", sizeof(ModuleCall), 0, Py_TPFLAGS_DEFAULT,
                                       module_call_slots};

static PyObject *connect_modules(PyObject *module, PyObject *args) {
    PyObject *modules, *meet, *add_chain;
    if (!PyArg_ParseTuple(args, "O!OO", &PyDict_Type, &modules, &meet, &add_chain))
        return NULL;
    Py_XSETREF(given.modules, Py_NewRef(modules));
    Py_XSETREF(given.meet_module, Py_NewRef(meet));
    Py_XSETREF(given.add_chain, Py_NewRef(add_chain));
    Py_RETURN_NONE;
}
