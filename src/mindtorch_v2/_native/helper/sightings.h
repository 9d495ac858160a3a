/* Blocks of memory seen in a role. */

enum { SIGHTING_WIDTH = 5 };

/* Sightings as `profiler.roles` keeps them: time, role, address, bytes and version of each. */
typedef struct {
    PyObject_HEAD
    PyObject *ask; /* (role, anything) -> address, bytes and version, or None for what has no such role */
    Ints rows;
    long input; /* the role that nothing has which an op of a graph made */
} Sightings;

/* The array of a plain tensor for which `ask` need not be asked; NULL with `made` set for one that has no such role. */
static Array *array_seen(const Sightings *self, PyObject *tensor, long role, int *made) {
    *made = 0;
    if (Py_TYPE(tensor) != given.tensor && Py_TYPE(tensor) != given.parameter)
        return NULL;
    Array *array = *(Array **)((char *)tensor + given.array_offset);
    PyObject *graph = *(PyObject **)((char *)tensor + given.graph_offset);
    if (!array || Py_TYPE(array) != ndarray)
        return NULL;
    if (role == self->input) {
        if (*(PyObject **)((char *)tensor + given.view_offset) != Py_None)
            return NULL;
        *made = graph != Py_None && Py_TYPE(graph) != given.leaf;
    }
    return *made ? NULL : array;
}

static int put_sighting(Sightings *self, int64_t time, long role, int64_t address, int64_t nbytes, int64_t version) {
    int64_t *row = PyErr_Occurred() ? NULL : extend(&self->rows, SIGHTING_WIDTH);
    if (!row) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        return -1;
    }
    row[0] = time, row[1] = role, row[2] = address, row[3] = nbytes, row[4] = version;
    return 0;
}

static int see_array(Sightings *self, PyObject *tensor, Array *block, long role, int64_t time) {
    PyObject **token = (PyObject **)((char *)tensor + given.storage_offset);
    if (*token == Py_None) {
        PyObject *storage = PyObject_CallNoArgs((PyObject *)given.storage);
        if (!storage)
            return -1;
        Py_SETREF(*token, storage);
    }
    while (block->base && PyObject_TypeCheck(block->base, ndarray))
        block = (Array *)block->base;
    PyObject *version = version_now(*token);
    int64_t number = version ? PyLong_AsLongLong(version) : -1;
    Py_XDECREF(version);
    int64_t nbytes = PyErr_Occurred() ? -1 : bytes_of((PyObject *)block);
    return put_sighting(self, time, role, (int64_t)(intptr_t)*token, nbytes, number);
}

static int see_asked(Sightings *self, PyObject *value, PyObject *role, int64_t time) {
    PyObject *found = PyObject_CallFunctionObjArgs(self->ask, role, value, NULL);
    int64_t v[3];
    int failed = !found || (found != Py_None && (read_ints(found, v, 3) < 0 ||
                                                 put_sighting(self, time, PyLong_AsLong(role), v[0], v[1], v[2]) < 0));
    Py_XDECREF(found);
    return failed ? -1 : 0;
}

static PyObject *sightings_see(Sightings *self, PyObject *const *args, Py_ssize_t count) {
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
            failed = see_asked(self, tensor, args[0], time) < 0;
        Py_DECREF(tensor);
    }
    Py_DECREF(tensors);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *sightings_rows(Sightings *self, PyObject *unused) {
    return PyBytes_FromStringAndSize((char *)self->rows.data, self->rows.used * sizeof(int64_t));
}

static PyObject *sightings_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *ask;
    long input;
    if (!PyArg_ParseTuple(args, "Ol", &ask, &input))
        return NULL;
    Sightings *made = (Sightings *)type->tp_alloc(type, 0);
    if (made) {
        made->ask = Py_NewRef(ask);
        made->input = input;
    }
    return (PyObject *)made;
}

static void sightings_dealloc(Sightings *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(self->ask);
    PyMem_RawFree(self->rows.data);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMethodDef sightings_methods[] = {
    {"see", (PyCFunction)(void (*)(void))sightings_see, METH_FASTCALL, "Note that tensors have a role."},
    {"rows", (PyCFunction)sightings_rows, METH_NOARGS, "All sightings so far, as native 64-bit ints."},
    {NULL}};
static PyType_Slot sightings_slots[] = {
    {Py_tp_new, sightings_new}, {Py_tp_dealloc, sightings_dealloc}, {Py_tp_methods, sightings_methods}, {0, NULL}};
static PyType_Spec sightings_spec = {"mindtorch_v2._helper.Sightings", sizeof(Sightings), 0, Py_TPFLAGS_DEFAULT,
                                     sightings_slots};
