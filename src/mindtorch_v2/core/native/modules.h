/* Calls of nn.Module, and other regions that are no ops. */

/* A call under way. While it runs, `entry` is on the lane's list of open regions. */
typedef struct {
    Lane *lane; /* NULL where nothing records */
    PyObject *entry;
    int64_t start, event, stack;
    long long outer;
} Call;

static PyObject *open_name, *root_name, *forward_name; /* attributes of lanes, and of modules */

/* Whether a weak reference still leads to an object that lives, as the caller knows. */
static int leads_to(PyObject *reference, PyObject *object) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *found = NULL;
    int leads = PyWeakref_GetRef(reference, &found) == 1 && found == object;
    Py_XDECREF(found); /* which may have been the last reference to another one */
    return leads;
#else
    return PyWeakref_GetObject(reference) == object;
#endif
}

/* The entry of a module that is being called, as a new reference: a tuple of three whose first is a weak reference. */
static PyObject *known_module(PyObject *module, Lane *lane) {
    PyObject *key = PyLong_FromVoidPtr(module), *known = key ? PyDict_GetItemWithError(globals.modules, key) : NULL;
    Py_XINCREF(known);
    Py_XDECREF(key);
    if (known && leads_to(PyTuple_GET_ITEM(known, 0), module))
        return known;
    Py_CLEAR(known);
    PyObject *root = PyErr_Occurred() ? NULL : PyObject_GetAttr((PyObject *)lane, root_name);
    known = root ? PyObject_CallFunctionObjArgs(globals.meet_module, module, root, NULL) : NULL;
    Py_XDECREF(root);
    if (known && (!PyTuple_Check(known) || PyTuple_GET_SIZE(known) != 3))
        Py_SETREF(known, PyErr_Format(PyExc_TypeError, "expected a tuple of three, got %s", Py_TYPE(known)->tp_name));
    return known;
}

/* How many frames lie below that of the call itself; -1 with an exception set where there is no memory. */
static int64_t frames_below(void) {
    int64_t count = 0;
#if defined(RAW_FRAMES)
    for (_PyInterpreterFrame *frame = PyThreadState_Get()->cframe->current_frame; frame; frame = frame->previous)
        count++;
#else
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (frame) {
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
        count++;
    }
    if (PyErr_Occurred())
        return -1;
#endif
    return count ? count - 1 : 0;
}

/* The id of a chain that is longer by the call of a module; -1 with an exception set for an error. */
static int64_t longer_chain(int64_t outer, PyObject *name, int64_t event) {
    int64_t below = globals.flags & STACKS ? frames_below() : 0, values[] = {outer, event, below};
    if (below < 0)
        return -1;
    Ints key = {values, 3, 3};
    uint64_t hash = hash_of(&key), table = tables;
    int64_t id = find(&chains, &key, hash);
    if (id)
        return id;
    PyObject *found = PyObject_CallFunction(globals.add_chain, "LOL", (long long)outer, name, (long long)below);
    int failed = !found || read_int(found, &id) < 0;
    Py_XDECREF(found);
    if (!failed && id > 0 && table == tables && !find(&chains, &key, hash)) /* Python code has run */
        keep(&chains, &key, hash, id);
    return failed ? -1 : id;
}

/* [start, event, sequence number, inputs, stack], as regions in Python are listed. */
static PyObject *entry_of(int64_t start, int64_t event, int64_t seq, int64_t inputs, int64_t stack) {
    int64_t values[] = {start, event, seq, inputs, stack};
    PyObject *entry = PyList_New(5);
    for (int i = 0; entry && i < 5; i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);
        if (value)
            PyList_SET_ITEM(entry, i, value);
        else
            Py_CLEAR(entry);
    }
    return entry;
}

/* A lane's list of open regions, a new reference. */
static PyObject *open_on(PyObject *lane) {
    PyObject *open = PyObject_GetAttr(lane, open_name);
    if (open && !PyList_CheckExact(open))
        Py_SETREF(open, PyErr_Format(PyExc_TypeError, "expected a list of open regions, got %s", Py_TYPE(open)->tp_name));
    return open;
}

/* Begins the region of a module's call on a lane, whose chain has become longer. */
static int open_call(Call *call, Lane *lane, PyObject *module, int64_t *chain) {
    PyObject *known = known_module(module, lane), *open = NULL;
    if (!known)
        return -1;
    int failed = read_int(PyTuple_GET_ITEM(known, 2), &call->event) < 0 ||
                 (*chain = longer_chain(lane->chain, PyTuple_GET_ITEM(known, 1), call->event)) < 0;
    Py_DECREF(known);
    if (failed)
        return -1;
    call->stack = globals.flags & STACKS && lane->is_recording && lane == current && globals.stack_keys ? stack_id(lane) : 0;
    if (!(open = open_on((PyObject *)lane)))
        return -1;
    call->start = now();
    call->entry = entry_of(call->start, call->event, -1, 0, call->stack);
    failed = !call->entry || PyList_Append(open, call->entry) < 0;
    Py_DECREF(open);
    return failed ? -1 : 0;
}

static int enter_call(Call *call, PyObject *module) {
    Lane *lane = globals.recording ? lane_here() : NULL;
    int64_t chain = 0;
    if (!lane)
        return 0;
    Py_INCREF(lane);
    call->outer = lane->chain;
    int failed = (!lane->chain && PyObject_SetAttr((PyObject *)lane, root_name, module) < 0) ||
                 open_call(call, lane, module, &chain) < 0;
    if (!failed) {
        lane->chain = chain;
        call->lane = lane;
        return 0;
    }
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    if (!call->outer && PyObject_SetAttr((PyObject *)lane, root_name, Py_None) < 0)
        tell_error(module);
    Py_DECREF(lane);
    PyErr_Restore(type, error, traceback);
    return -1;
}

static int no_longer_open(PyObject *lane, PyObject *entry) {
    PyObject *open = open_on(lane);
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

/* The row is written whatever else fails, unless the region stays open: whoever stops the recording then ends it. */
static int leave_call(Call *call) {
    Lane *lane = call->lane;
    lane->chain = call->outer;
    if (!call->outer && PyObject_SetAttr((PyObject *)lane, root_name, Py_None) < 0)
        tell_error((PyObject *)lane);
    if (no_longer_open((PyObject *)lane, call->entry) < 0)
        return -1;
    if (globals.recording)
        put_row(lane, call->start, now(), call->event, -1, 0, call->stack);
    return 0;
}

/* call_module(module, args, kwargs, hooked, announce): forward in a region of its own. `hooked` runs it between hooks, and
   `announce` is told of the call; either may be None. */
static PyObject *call_module(PyObject *helper, PyObject *const *args, Py_ssize_t count) {
    if (count != 5)
        return PyErr_Format(PyExc_TypeError, "expected 5 arguments, got %zd", count);
    Call call = {NULL};
    PyObject *result = NULL, *told = NULL, *forward = NULL;
    int failed = enter_call(&call, args[0]);
    if (!failed && args[4] != Py_None) {
        trace_nothing();
        told = PyObject_Vectorcall(args[4], args, 3, NULL);
        trace_again();
        failed = !told;
        Py_XDECREF(told);
    }
    if (!failed && args[3] != Py_None)
        result = PyObject_Vectorcall(args[3], args, 3, NULL);
    else if (!failed && (forward = PyObject_GetAttr(args[0], forward_name)))
        result = PyObject_Call(forward, args[1], args[2]);
    Py_XDECREF(forward);
    if (call.lane) {
        PyObject *type, *error, *traceback;
        PyErr_Fetch(&type, &error, &traceback);
        if (leave_call(&call) < 0)
            tell_error(args[0]);
        PyErr_Restore(type, error, traceback);
    }
    Py_XDECREF(call.lane);
    Py_XDECREF(call.entry);
    return result;
}

/* open_region(event, sequence number, inputs): a region without a stack begins. Returns the lane, or None where nothing records,
   and its entry there. */
static PyObject *open_region(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "expected event, sequence number and inputs, got %zd arguments", count);
    int64_t event, seq, id;
    if (read_int(args[0], &event) < 0 || read_int(args[1], &seq) < 0 || read_int(args[2], &id) < 0)
        return NULL;
    PyObject *lane = globals.recording ? Py_XNewRef((PyObject *)lane_here()) : NULL;
    if (!lane)
        return Py_BuildValue("(O[])", Py_None);
    PyObject *open = open_on(lane), *entry = open ? entry_of(now(), event, seq, id, 0) : NULL;
    PyObject *region = entry ? PyTuple_Pack(2, lane, entry) : NULL;
    if (region && PyList_Append(open, entry) < 0)
        Py_CLEAR(region);
    Py_XDECREF(open);
    Py_XDECREF(entry);
    Py_DECREF(lane);
    return region;
}

/* close_region(lane, entry): the region ends. */
static PyObject *close_region(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !PyObject_TypeCheck(args[0], lane_type) || !PyList_Check(args[1]) || PyList_GET_SIZE(args[1]) != 5)
        return PyErr_Format(PyExc_TypeError, "expected what open_region returned");
    PyObject *lane = args[0], *entry = args[1];
    int64_t v[5];
    for (int i = 0; i < 5; i++)
        if (!PyLong_CheckExact(PyList_GET_ITEM(entry, i)) || read_int(PyList_GET_ITEM(entry, i), &v[i]) < 0)
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "expected what open_region returned");
    if (no_longer_open(lane, entry) < 0)
        return NULL;
    if (globals.recording)
        put_row((Lane *)lane, v[0], now(), v[1], v[2], v[3], v[4]);
    Py_RETURN_NONE;
}

static PyObject *connect_modules(PyObject *module, PyObject *args) {
    PyObject *modules, *meet, *add_chain;
    if (!PyArg_ParseTuple(args, "O!OO", &PyDict_Type, &modules, &meet, &add_chain))
        return NULL;
    Py_XSETREF(globals.modules, Py_NewRef(modules));
    Py_XSETREF(globals.meet_module, Py_NewRef(meet));
    Py_XSETREF(globals.add_chain, Py_NewRef(add_chain));
    Py_RETURN_NONE;
}
