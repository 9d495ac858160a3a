/* Python's operators on tensors. */

/* A method of a tensor, called by the interpreter's own operators: as such it passes on to a Python function, which is not
   traced, as nothing is seen of what an operator written in C++ does. */
typedef struct {
    PyObject_HEAD
    PyObject *function;
    vectorcallfunc call;
    Reader read; /* NULL, or what may save the call: see readers.h */
    Writer write;
} Operator;
static PyTypeObject *operator_type;

static PyObject *operator_call(PyObject *self, PyObject *const *args, size_t count, PyObject *names) {
    PyObject *function = ((Operator *)self)->function;
    Reader read = ((Operator *)self)->read;
    Writer write = ((Operator *)self)->write;
    if ((read || write) && PyVectorcall_NARGS(count) == (read ? 1 : 2) && !names &&
        (Py_TYPE(args[0]) == globals.tensor || Py_TYPE(args[0]) == globals.parameter)) {
        if (write && write(args[0], args[1]))
            Py_RETURN_NONE;
        PyObject *value = read ? read(args[0]) : NULL;
        if (value || PyErr_Occurred())
            return value;
    }
    if (!(globals.flags & STACKS))
        return PyObject_Vectorcall(function, args, count, names);
    trace_nothing();
    PyObject *result = PyObject_Vectorcall(function, args, count, names);
    trace_again();
    return result;
}

static PyObject *operator_new(PyObject *module, PyObject *function) {
    Operator *made = PyObject_New(Operator, operator_type);
    if (made) {
        made->function = Py_NewRef(function);
        made->call = operator_call;
        made->read = NULL;
        made->write = NULL;
    }
    return (PyObject *)made;
}

/* reader(name, function): the same for the function of an attribute, which is called only where nothing here reads it. */
static PyObject *reader_new(PyObject *module, PyObject *args) {
    const char *name;
    PyObject *function, *made;
    if (!PyArg_ParseTuple(args, "sO", &name, &function) || !(made = operator_new(module, function)))
        return NULL;
    for (int i = 0; readers[i].name; i++)
        if (!strcmp(readers[i].name, name))
            ((Operator *)made)->read = readers[i].read;
    return made;
}

/* writer(name, function): the same for the function that sets an attribute. */
static PyObject *writer_new(PyObject *module, PyObject *args) {
    const char *name;
    PyObject *function, *made;
    if (!PyArg_ParseTuple(args, "sO", &name, &function) || !(made = operator_new(module, function)))
        return NULL;
    for (int i = 0; writers[i].name; i++)
        if (!strcmp(writers[i].name, name))
            ((Operator *)made)->write = writers[i].write;
    return made;
}

static void operator_dealloc(Operator *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_DECREF(self->function);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *operator_bind(PyObject *self, PyObject *owner, PyObject *type) {
    return owner && owner != Py_None ? PyMethod_New(self, owner) : Py_NewRef(self);
}

/* Its name and all else are those of the function. */
static PyObject *operator_get(PyObject *self, PyObject *name) {
    return PyObject_GetAttr(((Operator *)self)->function, name);
}

static PyMemberDef operator_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Operator, call), READONLY, NULL}, {NULL}};
static PyType_Slot operator_slots[] = {{Py_tp_dealloc, operator_dealloc}, {Py_tp_call, PyVectorcall_Call},
                                       {Py_tp_descr_get, operator_bind},  {Py_tp_getattro, operator_get},
                                       {Py_tp_members, operator_members}, {0, NULL}};
static PyType_Spec operator_spec = {"mindtorch_v2.core._helper.Operator", sizeof(Operator), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
                                    operator_slots};
