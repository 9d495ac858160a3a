/* Regions: ops, autograd nodes and grad mode around them. */

static void leave(Lane *lane);

/* What an op or the engine calls is not traced, as nothing is seen of what a C++ kernel calls. */
static PyObject *suspend_tracing(PyObject *module, PyObject *unused) {
#if PY_VERSION_HEX < 0x030C0000
    PyThreadState *thread = PyThreadState_Get();
    Lane *lane = (Lane *)thread->c_profileobj;
    /* The tracer has seen this call, and sees neither its return nor that of `resume_tracing`. */
    if (!thread->tracing && thread->c_profilefunc == on_event && lane->tracing && !lane->hidden_depth)
        leave(lane);
#endif
    trace_nothing();
    Py_RETURN_NONE;
}

static PyObject *resume_tracing(PyObject *module, PyObject *unused) {
    trace_again();
    Py_RETURN_NONE;
}

/* A call of what belongs to the user, from where nothing is traced. */
static PyObject *call_traced(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (!count)
        return PyErr_Format(PyExc_TypeError, "expected a function");
    PyThreadState *thread = PyThreadState_Get();
    Lane *lane = current;
    int suspended = thread->tracing, hidden_depth = lane ? lane->hidden_depth : 0;
#if defined(RAW_FRAMES)
    const _PyInterpreterFrame *from = suspended_from;
#endif
    if (suspended) {
        thread->tracing = 1;
        trace_again();
    }
    if (lane) {
        Py_INCREF(lane);
        lane->hidden_depth = 0, lane->traced_calls++;
    }
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, count - 1, NULL);
    if (lane)
        lane->hidden_depth = hidden_depth, lane->traced_calls--, lane->last.count = 0; /* frames that are not traced go on */
    if (suspended) {
        trace_nothing();
        thread->tracing = suspended;
    }
#if defined(RAW_FRAMES)
    suspended_from = from;
#endif
    Py_XDECREF((PyObject *)lane);
    return result;
}

/* A call of what is no code of the user's, not traced where Python functions are timed; anybody else's tracing goes on. */
static PyObject *call_untraced(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (!count)
        return PyErr_Format(PyExc_TypeError, "expected a function");
    if (!(globals.flags & STACKS))
        return PyObject_Vectorcall(args[0], args + 1, count - 1, NULL);
    trace_nothing();
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, count - 1, NULL);
    trace_again();
    return result;
}

/* Whether the caller is traced though nothing is seen of it: an op that was called by its name. From Python 3.12 on tracing
   slows nothing down but calls. */
static int is_traced_unseen(Lane *lane) {
#if PY_VERSION_HEX < 0x030C0000
    PyThreadState *thread = PyThreadState_Get();
    return globals.flags & STACKS && lane->hidden_depth && lane->tracing && !thread->tracing && thread->c_profilefunc == on_event;
#else
    return 0;
#endif
}

/* Begin a region on the calling thread's lane; -1 with an exception set where there is no memory. */
static int push(int64_t seq, int64_t inputs, int is_op) {
    Lane *lane = lane_here();
    if (!lane)
        return 0;
    int64_t stack = 0;
    int quiet = 0;
    if (globals.flags & STACKS) {
        Open *outer = lane->depth ? &lane->open[lane->depth - 1] : NULL;
        quiet = PyThreadState_Get()->tracing > 0;
        if (outer && quiet && outer->quiet && outer->traced_calls == lane->traced_calls && outer->stack)
            stack = outer->stack; /* no code of the user's lies between the two */
        else if (lane->is_recording && globals.stack_keys)
            stack = stack_id(lane);
        if (!(lane = current)) /* finalizers may run: they open and close regions of their own, or take the lane away */
            return 0;
    }
    if (lane->depth == lane->room) {
        int room = lane->room ? lane->room * 2 : 32;
        Open *open = PyMem_RawRealloc(lane->open, room * sizeof(Open));
        if (!open) {
            PyErr_NoMemory();
            return -1;
        }
        lane->open = open;
        lane->room = room;
    }
    Open *open = &lane->open[lane->depth];
    open->seq = lane->grad || !is_op ? seq : -1; /* nodes run where no graph is built, and have numbers all the same */
    open->inputs = inputs;
    open->block = 0;
    open->stack = stack;
    open->traced_calls = lane->traced_calls;
    open->suspended = is_op && is_traced_unseen(lane);
    open->quiet = quiet || open->suspended;
    if (open->suspended)
        trace_nothing();
    lane->depth++;
    int64_t start = now();
    if (lane == current && lane->depth)
        lane->open[lane->depth - 1].start = start;
    return 0;
}

/* A number that Python hands over: 0, or -1 with an exception set. */
static int read_int(PyObject *number, int64_t *value) {
    *value = PyLong_AsLongLong(number);
    return *value == -1 && PyErr_Occurred() ? -1 : 0;
}

static PyObject *begin(PyObject *module, PyObject *seq) {
    int64_t number;
    if (read_int(seq, &number) < 0 || push(number, 0, 1) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *begin_with(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (!count)
        return PyErr_Format(PyExc_TypeError, "expected a sequence number");
    int64_t number;
    if (read_int(args[0], &number) < 0)
        return NULL;
    int64_t id = inputs_id(args + 1, count - 1, 1);
    if (id < 0 || push(number, id, 1) < 0)
        return NULL;
    Py_RETURN_NONE;
}

enum { NOTHING_HAPPENED = -1 };

/* End the region that began last: it was this event, or none. */
static void pop(int64_t event) {
    if (!current || !current->depth)
        return;
    int64_t time = now();
    Lane *lane = current;
    if (!lane || !lane->depth)
        return;
    Open *open = &lane->open[--lane->depth];
    if (event != NOTHING_HAPPENED)
        put_row(lane, open->start, time, event, open->seq, open->inputs, open->stack);
    if (open->block)
        put_mark(lane, time, open->nbytes, open->block);
    if (open->suspended)
        trace_again();
}

static PyObject *end(PyObject *module, PyObject *event) {
    int64_t id;
    if (read_int(event, &id) < 0)
        return NULL;
    pop(id);
    Py_RETURN_NONE;
}

/* Set a ContextVar; its token. A finalizer that sets one frees what another `set` in progress reads: nothing is collected
   until it is done. Whoever left a mode has to get back out of it: where there was no memory, it is tried once more. */
static PyObject *set_variable(PyObject *variable, PyObject *value) {
    COLLECT_LATER;
    PyObject *token = PyContextVar_Set(variable, value);
    if (!token && PyErr_ExceptionMatches(PyExc_MemoryError)) {
        PyErr_Clear();
        token = PyContextVar_Set(variable, value);
    }
    COLLECT_AGAIN;
    return token;
}

/* Grad mode, of which a thread's lane has a copy. */
static PyObject *set_grad(PyObject *module, PyObject *mode) {
    int truth = PyObject_IsTrue(mode);
    if (truth < 0)
        return NULL;
    PyObject *token = set_variable(globals.grad_mode, truth ? Py_True : Py_False);
    if (!token)
        return NULL;
    Py_DECREF(token);
    if (current)
        current->grad = truth;
    Py_RETURN_NONE;
}

/* Inference mode, with the count of threads on which new tensors are to be marked. */
static PyObject *set_inference(PyObject *module, PyObject *mode) {
    PyObject *now = NULL, *after = NULL, *token = NULL;
    if (PyContextVar_Get(globals.inference_mode, Py_False, &now) < 0)
        return NULL;
    int to = PyObject_IsTrue(mode), from = to < 0 ? -1 : PyObject_IsTrue(now);
    Py_DECREF(now);
    if (from < 0)
        return NULL;
    if (from == to)
        Py_RETURN_NONE;
    PyObject *before = PyDict_GetItemWithError(globals.namespace, globals.inferring);
    int64_t count = before ? PyLong_AsLongLong(before) : -1;
    if (count < 0 && !PyErr_Occurred())
        PyErr_SetString(PyExc_NameError, "name 'INFERRING' is not defined");
    after = PyErr_Occurred() ? NULL : PyLong_FromLongLong(count + to - from);
    token = after ? set_variable(globals.inference_mode, to ? Py_True : Py_False) : NULL;
    int failed = !token || PyDict_SetItem(globals.namespace, globals.inferring, after) < 0;
    Py_XDECREF(token);
    Py_XDECREF(after);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

/* connect_modes(ContextVar of grad mode, that of inference mode, namespace of generated code) */
static PyObject *connect_modes(PyObject *module, PyObject *args) {
    PyObject *grad_mode, *inference_mode, *namespace;
    if (!PyArg_ParseTuple(args, "OOO!", &grad_mode, &inference_mode, &PyDict_Type, &namespace))
        return NULL;
    if (!globals.inferring && !(globals.inferring = PyUnicode_InternFromString("INFERRING")))
        return NULL;
    Py_XSETREF(globals.grad_mode, Py_NewRef(grad_mode));
    Py_XSETREF(globals.inference_mode, Py_NewRef(inference_mode));
    Py_XSETREF(globals.namespace, Py_NewRef(namespace));
    Py_RETURN_NONE;
}

/* enter(event, sequence number, gradients or nothing): a region that always ends before a recorder can stop begins, an
   autograd node; `end` ends it. Returns the event. */
static PyObject *enter_node(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count < 2 || (count == 3 && !PyTuple_CheckExact(args[2]))) {
        PyErr_Format(PyExc_TypeError, "expected event, sequence number and a tuple of gradients, got %zd arguments", count);
        return NULL;
    }
    int64_t id = 0, number;
    if (read_int(args[1], &number) < 0)
        return NULL;
    if (count == 3 && globals.flags & SHAPES)
        id = inputs_id(&PyTuple_GET_ITEM(args[2], 0), PyTuple_GET_SIZE(args[2]), 0);
    if (id < 0 || push(number, id, 0) < 0)
        return NULL;
    return Py_NewRef(args[0]);
}

static PyObject *stack_here(PyObject *module, PyObject *unused) {
    Lane *lane = lane_here();
    return PyLong_FromLongLong(lane && lane->is_recording && globals.stack_keys ? stack_id(lane) : 0);
}
