/* How context managers that switch modes are left: `autograd/mode_exit.py` explains it. */

/* __exit__(self, kind, error, traceback): what `leaving` makes of (restore, after). */
static PyObject *leave_context(PyObject *functions, PyObject *const *args, Py_ssize_t count) {
    if (!count)
        return PyErr_Format(PyExc_TypeError, "expected a context manager");
    PyObject *restore = PyTuple_GET_ITEM(functions, 0), *after = PyTuple_GET_ITEM(functions, 1);
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    PyObject *done = PyObject_CallOneArg(restore, args[0]);
    if (!done) {
        PyErr_Fetch(&type, &value, &trace);
        done = PyObject_CallOneArg(restore, args[0]);
    }
    if (done && after != Py_None)
        Py_SETREF(done, PyObject_CallOneArg(after, args[0]));
    if (done && type) {
        Py_CLEAR(done);
        PyErr_Restore(type, value, trace);
        return NULL;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return done;
}

static PyMethodDef exit_method = {"__exit__", (PyCFunction)(void (*)(void))leave_context, METH_FASTCALL, "Leave it."};

/* leaving(restore, after): a method __exit__, which an interrupt cannot end before its first line, as it can in Python. */
static PyObject *leaving(PyObject *module, PyObject *functions) {
    if (!PyTuple_CheckExact(functions) || PyTuple_GET_SIZE(functions) != 2)
        return PyErr_Format(PyExc_TypeError, "expected two functions");
    PyObject *function = PyCFunction_New(&exit_method, functions);
    PyObject *method = function ? PyInstanceMethod_New(function) : NULL;
    Py_XDECREF(function);
    return method;
}
