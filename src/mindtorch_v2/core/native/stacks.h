/* Ids of the Python stacks of threads. */

static Table stacks, chains;
static uint64_t tables; /* how often they were emptied */

static void forget(Table *table) {
    PyMem_RawFree(table->slots);
    table->slots = NULL;
    table->room = table->used = 0;
    table->pool.used = 0;
}

static PyObject *connect_stacks(PyObject *module, PyObject *keys) {
    if (!PyList_CheckExact(keys))
        return PyErr_Format(PyExc_TypeError, "expected a list, got %.100s", Py_TYPE(keys)->tp_name);
    PyObject *before = globals.stack_keys;
    globals.stack_keys = Py_NewRef(keys);
    forget(&stacks);
    forget(&chains);
    tables++;
    Py_XDECREF(before); /* last, as finalizers may ask for stacks */
    Py_RETURN_NONE;
}

/* Code and last instruction of each frame, innermost first, as Python counts instructions; -1 with an exception set where
   there is no memory. Nothing else runs meanwhile. */
static int put_frames(Ints *key) {
    int listed = 1;
#if defined(RAW_FRAMES)
    for (_PyInterpreterFrame *frame = PyThreadState_Get()->cframe->current_frame; frame && listed; frame = frame->previous)
        listed = put(key, (int64_t)(intptr_t)frame->f_code) &&
                 put(key, _PyInterpreterFrame_LASTI(frame) * (int64_t)sizeof(_Py_CODEUNIT));
#else
    COLLECT_LATER; /* frames that had no object yet get one */
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (frame) {
        PyCodeObject *code = PyFrame_GetCode(frame);
#if PY_VERSION_HEX >= 0x030B0000
        int64_t place = PyFrame_GetLasti(frame);
#else
        int64_t place = frame->f_lasti * (int64_t)sizeof(_Py_CODEUNIT);
#endif
        listed = listed && put(key, (int64_t)(intptr_t)code) && put(key, place);
        Py_DECREF(code);
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    COLLECT_AGAIN;
    if (PyErr_Occurred())
        return -1;
#endif
    if (!listed)
        PyErr_NoMemory();
    return listed ? 0 : -1;
}

/* The same as a tuple: the codes are alive, as they run. */
static PyObject *key_of_stack(const Ints *key) {
    PyObject *made = PyTuple_New(key->used);
    for (Py_ssize_t i = 0; made && i < key->used; i++) {
        int is_code = i % 2;
        PyObject *item = is_code ? Py_NewRef((PyObject *)(intptr_t)key->data[i]) : PyLong_FromLongLong(key->data[i]);
        if (item)
            PyTuple_SET_ITEM(made, i, item);
        else
            Py_CLEAR(made);
    }
    return made;
}

/* A stack that is not known yet. Ids are places in the list; nobody else adds to it before the place is read. 0 with an
   exception set where there is no memory. */
static int64_t new_stack(const Ints *key) {
    PyObject *made = key_of_stack(key);
    int64_t id = made && PyList_Append(globals.stack_keys, made) == 0 ? PyList_GET_SIZE(globals.stack_keys) - 1 : 0;
    Py_XDECREF(made);
    return id;
}

/* Walks all frames. Without memory that is told, and the stack is not known (0). */
static int64_t walked_stack_id(Lane *lane) {
    static Ints key;
    key.used = 0;
    if (!put(&key, lane->chain))
        PyErr_NoMemory();
    int64_t id = 0;
    int failed = PyErr_Occurred() || put_frames(&key) < 0;
    uint64_t hash = failed ? 0 : hash_of(&key);
    if (!failed && !(id = find(&stacks, &key, hash))) {
        Ints copy = copied(&key); /* what is allocated may run finalizers, and these may come here */
        if (!copy.used)
            PyErr_NoMemory();
        else if ((id = new_stack(&copy)))
            keep(&stacks, &copy, hash, id);
        failed = !id;
        PyMem_RawFree(copy.data);
    }
    if (failed)
        tell_error((PyObject *)lane_type);
    return id;
}

#if defined(RAW_FRAMES)
/* Whether the frames that have run since a stack was last looked up are where they were. Instructions tell codes, which the
   keys of stacks keep alive. */
static int is_where_it_was(const Lane *lane, const _PyInterpreterFrame *frame) {
    if (lane->last.chain != lane->chain || lane->last.table != tables)
        return 0;
    for (int i = 0; i < lane->last.count && frame && lane->last.at[i] == frame->prev_instr; i++, frame = frame->previous)
        if (frame == lane->last.lowest)
            return lane->last.frames[i] == frame;
    return 0;
}

static void note_where(Lane *lane, const _PyInterpreterFrame *frame, int64_t id) {
    int count = 0;
    for (; count < NEAR && frame; count++, frame = frame->previous) {
        lane->last.frames[count] = frame;
        lane->last.at[count] = frame->prev_instr;
    }
    lane->last.count = count;
    lane->last.chain = lane->chain, lane->last.table = tables;
    lane->last.id = id, lane->last.lowest = suspended_from;
}
#endif

/* The id of the stack that ends here. While Python functions are traced, nothing but the place of the outermost frame that
   was seen to run, and what it has called, can have changed: most often the last id is this one, too. */
static int64_t stack_id(Lane *lane) {
#if defined(RAW_FRAMES)
    PyThreadState *thread = PyThreadState_Get();
    const _PyInterpreterFrame *top = thread->cframe->current_frame;
    if (!lane->tracing || thread->c_profilefunc != on_event || !thread->tracing || !top)
        return walked_stack_id(lane);
    if (is_where_it_was(lane, top))
        return lane->last.id;
    int64_t id = walked_stack_id(lane);
    if (id && lane == current)
        note_where(lane, top, id);
    return id;
#else
    return walked_stack_id(lane);
#endif
}

/* A frame ends that was seen to run. */
static void note_end(Lane *lane, PyFrameObject *frame) {
#if defined(RAW_FRAMES)
    if (lane->last.lowest == frame->f_frame)
        lane->last.lowest = frame->f_frame->previous;
#endif
}
