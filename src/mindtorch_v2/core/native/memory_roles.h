/* Blocks of memory seen in a role. */

enum { ROLE_WIDTH = 5 };
static PyTypeObject *memory_roles_type;

/* Roles of memory blocks as `profiler.record.memory_roles` keeps them: time, role, address, bytes and version of each. */
typedef struct {
    PyObject_HEAD
    PyObject *ask; /* (role, anything) -> address, bytes and version, or None for what has no such role */
    Ints rows;
    long input; /* the role that nothing has which an op of a graph made */
} MemoryRoles;

/* The array of a plain tensor for which `ask` need not be asked; NULL with `made` set for one that has no such role. */
static Array *array_seen(const MemoryRoles *self, PyObject *tensor, long role, int *made) {
    *made = 0;
    if (Py_TYPE(tensor) != globals.tensor && Py_TYPE(tensor) != globals.parameter)
        return NULL;
    Array *array = plain_array(tensor);
    PyObject *graph = slot_of(tensor, globals.graph_offset);
    if (!array || !graph)
        return NULL;
    if (role == self->input) {
        if (slot_of(tensor, globals.view_offset) != Py_None)
            return NULL;
        *made = graph != Py_None && Py_TYPE(graph) != globals.leaf;
    }
    return *made ? NULL : array;
}

static int put_role(MemoryRoles *self, int64_t time, long role, int64_t address, int64_t nbytes, int64_t version) {
    int64_t *row = extend(&self->rows, ROLE_WIDTH);
    if (!row) {
        PyErr_NoMemory();
        return -1;
    }
    row[0] = time, row[1] = role, row[2] = address, row[3] = nbytes, row[4] = version;
    return 0;
}

static int see_array(MemoryRoles *self, PyObject *tensor, Array *block, long role, int64_t time) {
    while (block->base && PyObject_TypeCheck(block->base, ndarray))
        block = (Array *)block->base;
    Py_INCREF(block);
    int64_t number = -1, nbytes = bytes_of((PyObject *)block);
    Py_DECREF(block);
    PyObject *token = nbytes < 0 ? NULL : Py_XNewRef(storage_of(tensor)), *version = token ? version_now(token) : NULL;
    int failed = !version || read_int(version, &number) < 0 ||
                 put_role(self, time, role, (int64_t)(intptr_t)token, nbytes, number) < 0;
    Py_XDECREF(version);
    Py_XDECREF(token);
    return failed ? -1 : 0;
}

static int see_asked(MemoryRoles *self, PyObject *value, long role, int64_t time) {
    PyObject *found = PyObject_CallFunction(self->ask, "lO", role, value);
    int64_t v[3];
    int failed = !found || (found != Py_None && (read_ints(found, v, 3) < 0 ||
                                                 put_role(self, time, role, v[0], v[1], v[2]) < 0));
    Py_XDECREF(found);
    return failed ? -1 : 0;
}

static PyObject *memory_roles_see(MemoryRoles *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "expected a role and tensors, got %zd arguments", count);
    long role = PyLong_AsLong(args[0]);
    PyObject *tensors = role == -1 && PyErr_Occurred() ? NULL : PySequence_Fast(args[1], "expected tensors");
    if (!tensors)
        return NULL;
    int64_t time = now();
    int failed = 0;
    for (Py_ssize_t i = 0; !failed && i < PySequence_Fast_GET_SIZE(tensors); i++) {
        PyObject *tensor = Py_NewRef(PySequence_Fast_GET_ITEM(tensors, i));
        int made = 0;
        Array *array = tensor == Py_None ? NULL : array_seen(self, tensor, role, &made);
        if (array)
            failed = see_array(self, tensor, array, role, time) < 0;
        else if (!made && tensor != Py_None)
            failed = see_asked(self, tensor, role, time) < 0;
        Py_DECREF(tensor);
    }
    Py_DECREF(tensors);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *memory_roles_take(MemoryRoles *self, PyObject *unused) {
    PyObject *taken = PyBytes_FromStringAndSize((char *)self->rows.data, self->rows.used * sizeof(int64_t));
    if (taken)
        self->rows.used = 0;
    return taken;
}

static PyObject *memory_roles_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *ask;
    long input;
    if (!PyArg_ParseTuple(args, "Ol", &ask, &input))
        return NULL;
    MemoryRoles *made = (MemoryRoles *)type->tp_alloc(type, 0);
    if (made) {
        made->ask = Py_NewRef(ask);
        made->input = input;
    }
    return (PyObject *)made;
}

static void memory_roles_dealloc(MemoryRoles *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(self->ask);
    PyMem_RawFree(self->rows.data);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMethodDef memory_roles_methods[] = {
    {"see", (PyCFunction)(void (*)(void))memory_roles_see, METH_FASTCALL, "Note that tensors have a role."},
    {"take", (PyCFunction)memory_roles_take, METH_NOARGS, "All roles seen since the last call, as native 64-bit ints."},
    {NULL}};
static PyType_Slot memory_roles_slots[] = {
    {Py_tp_new, memory_roles_new}, {Py_tp_dealloc, memory_roles_dealloc}, {Py_tp_methods, memory_roles_methods}, {0, NULL}};
static PyType_Spec memory_roles_spec = {"mindtorch_v2.core._helper.MemoryRoles", sizeof(MemoryRoles), 0, Py_TPFLAGS_DEFAULT,
                                     memory_roles_slots};
