/* Ids of the Python stacks of threads. */

static Table stacks, chains;
static uint64_t tables; /* how often they were emptied */

static void forget(Table *table) {
    PyMem_RawFree(table->slots);
    table->slots = NULL;
    table->room = table->used = 0;
    table->pool.used = 0;
}

static PyObject *forget_stacks(PyObject *module, PyObject *unused) {
    forget(&stacks);
    forget(&chains);
    tables++;
    Py_RETURN_NONE;
}

static void put_frames(Ints *key) {
#if defined(RAW_FRAMES)
    for (_PyInterpreterFrame *frame = PyThreadState_Get()->cframe->current_frame; frame; frame = frame->previous) {
        put(key, (int64_t)(intptr_t)frame->f_code);
        put(key, _PyInterpreterFrame_LASTI(frame));
    }
#else
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (frame) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        put(key, (int64_t)(intptr_t)code);
#if PY_VERSION_HEX >= 0x030B0000
        put(key, PyFrame_GetLasti(frame));
#else
        put(key, frame->f_lasti);
#endif
        Py_DECREF(code);
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
#endif
}

static int64_t new_stack(Lane *lane) {
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    PyObject *found = frame ? PyObject_CallFunction(given.add_stack, "LO", lane->chain, frame) : NULL;
    int64_t id = found ? PyLong_AsLongLong(found) : 0;
    Py_XDECREF(frame);
    Py_XDECREF(found);
    if (PyErr_Occurred())
        tell_error(given.add_stack);
    return id;
}

static int64_t walked_stack_id(Lane *lane) {
    static Ints key;
    key.used = 0;
    put(&key, lane->chain);
    put_frames(&key);
    uint64_t hash = hash_of(&key);
    int64_t id = find(&stacks, &key, hash);
    if (!id) {
        Ints copy = copied(&key);
        if ((id = new_stack(lane)) && copy.used)
            keep(&stacks, &copy, hash, id);
        PyMem_RawFree(copy.data);
    }
    return id;
}

/* The id of the stack that ends here. While Python functions are traced, nothing but an op's own frame and its caller's
   place can have changed since the last call or return that was seen: most often the last id is this one, too. */
static int64_t stack_id(Lane *lane) {
#if defined(RAW_FRAMES)
    PyThreadState *thread = PyThreadState_Get();
    _PyInterpreterFrame *top = thread->cframe->current_frame, *caller = top ? top->previous : NULL;
    if (!lane->tracing || thread->c_profilefunc != on_event || thread->tracing != 1 || !caller)
        return walked_stack_id(lane);
    if (lane->last.top == top && lane->last.top_at == top->prev_instr && lane->last.code == top->f_code &&
        lane->last.caller == caller && lane->last.caller_at == caller->prev_instr && lane->last.chain == lane->chain &&
        lane->last.moves == lane->moves && lane->last.table == tables)
        return lane->last.id;
    const void *top_at = top->prev_instr, *caller_at = caller->prev_instr;
    uint64_t moves = lane->moves;
    int64_t id = walked_stack_id(lane);
    lane->last.top = top, lane->last.top_at = top_at, lane->last.code = top->f_code;
    lane->last.caller = caller, lane->last.caller_at = caller_at, lane->last.chain = lane->chain;
    lane->last.moves = moves, lane->last.table = tables, lane->last.id = id;
    return id;
#else
    return walked_stack_id(lane);
#endif
}
