/* What callers give besides arrays: numbers and truth values. They are read without running any Python, for an `__index__`,
 * a `__float__` or a `__bool__` of somebody's own could change the arrays that have been looked at already. What is not
 * read here is declined, and no exception is left behind; who asked says what is wrong with it. */

/* True and False, and nothing that only has a truth value. */
INLINE int read_truth(PyObject *object, int *value) {
    *value = object == Py_True;
    return *value || object == Py_False;
}

/* An int, and no number of a class of its own. */
INLINE int read_whole(PyObject *object, int64_t *value) {
    int overflow;
    if (!PyLong_CheckExact(object)) return 0;
    *value = PyLong_AsLongLongAndOverflow(object, &overflow);
    return !overflow;
}

INLINE int read_size(PyObject *object, Py_ssize_t *value) {
    int64_t whole;
    if (!read_whole(object, &whole) || (Py_ssize_t)whole != whole) return 0;
    *value = (Py_ssize_t)whole;
    return 1;
}

/* A float or an int as a double; of a class of its own, what it is made of. */
INLINE int read_number(PyObject *object, double *value) {
    if (PyFloat_Check(object)) {
        *value = PyFloat_AS_DOUBLE(object);
        return 1;
    }
    if (!PyLong_Check(object)) return 0;
    *value = PyLong_AsDouble(object);
    if (*value != -1.0 || !PyErr_Occurred()) return 1;
    PyErr_Clear(); /* too large */
    return 0;
}

/* So many numbers that follow upon one another. */
INLINE int read_numbers(PyObject *const *args, int count, double *values) {
    for (int i = 0; i < count; i++)
        if (!read_number(args[i], &values[i])) return 0;
    return 1;
}
