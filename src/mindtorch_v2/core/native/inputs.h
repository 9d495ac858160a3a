/* Ids of what ops are called with. */

/* Ids of inputs by what they look like. `held` has the objects whose addresses are part of a key. */
static struct {
    Table table;
    PyObject *held;
} inputs;

enum { TENSOR, SINGLE, INTEGER, FLOAT, SEQUENCE, CONSTANT };
enum { DEEPEST = 4 }; /* lists in lists up to here; one that holds itself has no end */

static int put_tensor(Ints *key, PyObject *tensor, PyObject *held) {
    Array *array = (Array *)array_of(tensor);
    if (!array || Py_TYPE(array) != ndarray)
        return 0;
    int64_t *place = extend(key, 3 + 2 * array->ndim);
    if (!place)
        return 0;
    place[0] = TENSOR, place[1] = (int64_t)(intptr_t)array->dtype, place[2] = array->ndim;
    for (int i = 0; i < array->ndim; i++) {
        place[3 + 2 * i] = array->shape[i];
        place[4 + 2 * i] = array->strides[i];
    }
    return !held || PyList_Append(held, array->dtype) == 0;
}

/* By identity: a class may have a metaclass that compares in its own way, in Python. */
static int is_constant(PyObject *value) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(globals.constants); i++)
        if ((PyObject *)Py_TYPE(value) == PyTuple_GET_ITEM(globals.constants, i))
            return 1;
    return 0;
}

/* Whether an argument could be told by ints; for `held` see above, without which no Python code runs here. Strings and
   constants go by their addresses. */
static int put_argument(Ints *key, PyObject *value, PyObject *held, int depth) {
    if (Py_TYPE(value) == globals.tensor || Py_TYPE(value) == globals.parameter)
        return put_tensor(key, value, held);
    if (value == Py_None || PyBool_Check(value)) {
        return put(key, SINGLE) && put(key, (int64_t)(intptr_t)value);
    } else if (PyLong_CheckExact(value)) {
        int overflow;
        int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
        return !overflow && put(key, INTEGER) && put(key, number);
    } else if (PyFloat_CheckExact(value)) {
        double number = PyFloat_AS_DOUBLE(value);
        int64_t bits;
        memcpy(&bits, &number, sizeof(bits));
        return put(key, FLOAT) && put(key, bits);
    } else if (PyList_CheckExact(value) || PyTuple_Check(value)) {
        if (depth == DEEPEST || !put(key, SEQUENCE) || !put(key, PySequence_Fast_GET_SIZE(value)))
            return 0;
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); i++)
            if (!put_argument(key, PySequence_Fast_GET_ITEM(value, i), held, depth + 1))
                return 0;
        return 1;
    } else if (PyUnicode_CheckExact(value) || is_constant(value)) {
        return put(key, CONSTANT) && put(key, (int64_t)(intptr_t)value) && (!held || PyList_Append(held, value) == 0);
    }
    return 0;
}

static int put_arguments(Ints *key, PyObject *const *arguments, Py_ssize_t count, int is_op, PyObject *held) {
    key->used = 0;
    if (!put(key, is_op))
        return 0;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!put_argument(key, arguments[i], held, 0))
            return 0;
    return 1;
}

static int64_t asked_inputs_id(PyObject *const *arguments, Py_ssize_t count, int is_op) {
    PyObject *all = PyTuple_New(count);
    for (Py_ssize_t i = 0; all && i < count; i++)
        PyTuple_SET_ITEM(all, i, Py_NewRef(arguments[i]));
    PyObject *found = all ? PyObject_CallFunctionObjArgs(globals.inputs_id, all, is_op ? Py_True : Py_False, NULL) : NULL;
    int64_t id = found ? PyLong_AsLongLong(found) : -1;
    if (id < 0 && !PyErr_Occurred())
        PyErr_Format(PyExc_SystemError, "inputs have no number: %R", found);
    Py_XDECREF(all);
    Py_XDECREF(found);
    return id;
}

/* The id of the inputs of an op, or of an autograd node; -1 with an exception set. Those that are not known yet are asked for
   in Python, so other threads may go on meanwhile and change what is in lists: an id is kept for what is there before and
   after. */
static int64_t inputs_id(PyObject *const *arguments, Py_ssize_t count, int is_op) {
    static Ints key;
    int known = put_arguments(&key, arguments, count, is_op, NULL);
    uint64_t hash = known ? hash_of(&key) : 0;
    int64_t id = known ? find(&inputs.table, &key, hash) : 0;
    if (id)
        return id;
    if ((id = asked_inputs_id(arguments, count, is_op)) > 0 && known &&
        put_arguments(&key, arguments, count, is_op, inputs.held) && hash_of(&key) == hash && !find(&inputs.table, &key, hash))
        keep(&inputs.table, &key, hash, id);
    return PyErr_Occurred() ? -1 : id;
}
