/* Regions: ops, autograd nodes and grad mode around them. */

static void leave(Lane *lane);

/* What an op or the engine calls is not traced, as nothing is seen of what a C++ kernel calls. */
static PyObject *hush(PyObject *module, PyObject *unused) {
#if PY_VERSION_HEX < 0x030C0000
    PyThreadState *thread = PyThreadState_Get();
    Lane *lane = (Lane *)thread->c_profileobj;
    /* The tracer has seen this call, and sees neither its return nor that of `speak`. */
    if (!thread->tracing && thread->c_profilefunc == on_event && lane->tracing && !lane->muted)
        leave(lane);
#endif
    trace_nothing();
    Py_RETURN_NONE;
}

static PyObject *speak(PyObject *module, PyObject *unused) {
    trace_again();
    Py_RETURN_NONE;
}

/* A call of what belongs to the user, from where nothing is traced. */
static PyObject *aloud(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    PyThreadState *thread = PyThreadState_Get();
    Lane *lane = current;
    int hushes = thread->tracing, muted = lane ? lane->muted : 0;
#if defined(RAW_FRAMES)
    const _PyInterpreterFrame *from = hushed_from;
#endif
    if (hushes) {
        thread->tracing = 1;
        trace_again();
    }
    if (lane)
        lane->muted = 0, lane->louds++;
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, count - 1, NULL);
    if (lane && lane == current)
        lane->muted = muted, lane->louds--, lane->last.count = 0; /* frames that are not traced go on */
    if (hushes) {
        trace_nothing();
        thread->tracing = hushes;
    }
#if defined(RAW_FRAMES)
    hushed_from = from;
#endif
    return result;
}

/* A call of what is no code of the user's, not traced where Python functions are timed; anybody else's tracing goes on. */
static PyObject *quietly(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (!(given.flags & STACKS))
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
    return given.flags & STACKS && lane->muted && lane->tracing && !thread->tracing && thread->c_profilefunc == on_event;
#else
    return 0;
#endif
}

static int push(int64_t seq, int64_t inputs, int is_op) {
    Lane *lane = lane_here();
    if (!lane)
        return 0;
    int64_t stack = 0;
    int quiet = 0;
    if (given.flags & STACKS) {
        Open *outer = lane->depth ? &lane->open[lane->depth - 1] : NULL;
        quiet = PyThreadState_Get()->tracing > 0;
        if (outer && quiet && outer->quiet && outer->louds == lane->louds && outer->stack)
            stack = outer->stack; /* no code of the user's lies between the two */
        else if (lane->listening && given.stack_keys)
            stack = stack_id(lane); /* finalizers may run, and open and close regions of their own */
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
    open->louds = lane->louds;
    open->hushed = is_op && is_traced_unseen(lane);
    open->quiet = quiet || open->hushed;
    if (open->hushed)
        trace_nothing();
    lane->depth++;
    open->start = now();
    return 0;
}

static PyObject *begin(PyObject *module, PyObject *seq) {
    if (push(PyLong_AsLongLong(seq), 0, 1) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *begin_with(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    int64_t id = inputs_id(args + 1, count - 1, 1);
    if (id < 0 || push(PyLong_AsLongLong(args[0]), id, 1) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static void pop(int64_t event) {
    Lane *lane = current;
    if (lane && lane->depth) {
        int64_t time = now();
        Open *open = &lane->open[--lane->depth];
        put_row(lane, open->start, time, event, open->seq, open->inputs, open->stack);
        if (open->block)
            put_mark(lane, time, open->nbytes, open->block);
        if (open->hushed)
            trace_again();
    }
}

static PyObject *end(PyObject *module, PyObject *event) {
    pop(PyLong_AsLongLong(event));
    Py_RETURN_NONE;
}

/* Before 3.12 Python collects garbage inside of allocations, and a finalizer that sets a ContextVar then frees what
   another `set` in progress reads: nothing is collected until it is done. */
#if PY_VERSION_HEX < 0x030C0000
#define COLLECT_LATER int collecting = PyGC_Disable()
#define COLLECT_AGAIN (void)(collecting && PyGC_Enable())
#else
#define COLLECT_LATER
#define COLLECT_AGAIN
#endif

/* Grad mode, of which a thread's lane has a copy. */
static PyObject *set_grad(PyObject *module, PyObject *mode) {
    int truth = PyObject_IsTrue(mode);
    COLLECT_LATER;
    PyObject *token = truth < 0 ? NULL : PyContextVar_Set(given.grad_mode, truth ? Py_True : Py_False);
    COLLECT_AGAIN;
    if (!token)
        return NULL;
    Py_DECREF(token);
    if (current)
        current->grad = truth;
    Py_RETURN_NONE;
}

/* set_inference(mode, change): switch inference mode; in so many more places new tensors are to be marked. */
static PyObject *set_inference(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "expected a mode and a change, got %zd arguments", count);
    COLLECT_LATER;
    PyObject *token = PyContextVar_Set(given.inference_mode, args[0]);
    COLLECT_AGAIN;
    PyObject *before = token ? PyDict_GetItemWithError(given.namespace, given.inferring) : NULL;
    PyObject *after = before ? PyNumber_Add(before, args[1]) : NULL;
    int failed = !after || PyDict_SetItem(given.namespace, given.inferring, after) < 0;
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
    if (!given.inferring && !(given.inferring = PyUnicode_InternFromString("INFERRING")))
        return NULL;
    Py_XSETREF(given.grad_mode, Py_NewRef(grad_mode));
    Py_XSETREF(given.inference_mode, Py_NewRef(inference_mode));
    Py_XSETREF(given.namespace, Py_NewRef(namespace));
    Py_RETURN_NONE;
}

/* enter(event, sequence number, gradients or nothing): a region that always ends before a recorder can stop begins, an
   autograd node; `end` ends it. Returns the event. */
static PyObject *enter_node(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count < 2 || (count == 3 && !PyTuple_CheckExact(args[2]))) {
        PyErr_Format(PyExc_TypeError, "expected event, sequence number and a tuple of gradients, got %zd arguments", count);
        return NULL;
    }
    int64_t id = 0;
    if (count == 3 && given.flags & SHAPES)
        id = inputs_id(&PyTuple_GET_ITEM(args[2], 0), PyTuple_GET_SIZE(args[2]), 0);
    if (id < 0 || push(PyLong_AsLongLong(args[1]), id, 0) < 0)
        return NULL;
    return Py_NewRef(args[0]);
}

static PyObject *stack_here(PyObject *module, PyObject *unused) {
    Lane *lane = lane_here();
    return PyLong_FromLongLong(lane && lane->listening && given.stack_keys ? stack_id(lane) : 0);
}
