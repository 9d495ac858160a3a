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
    Py_XSETREF(given.stack_keys, Py_NewRef(keys));
    forget(&stacks);
    forget(&chains);
    tables++;
    Py_RETURN_NONE;
}

/* Code and last instruction of each frame, innermost first, as Python counts instructions. */
static void put_frames(Ints *key) {
#if defined(RAW_FRAMES)
    for (_PyInterpreterFrame *frame = PyThreadState_Get()->cframe->current_frame; frame; frame = frame->previous) {
        put(key, (int64_t)(intptr_t)frame->f_code);
        put(key, _PyInterpreterFrame_LASTI(frame) * (int64_t)sizeof(_Py_CODEUNIT));
    }
#else
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (frame) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        put(key, (int64_t)(intptr_t)code);
#if PY_VERSION_HEX >= 0x030B0000
        put(key, PyFrame_GetLasti(frame));
#else
        put(key, frame->f_lasti * (int64_t)sizeof(_Py_CODEUNIT));
#endif
        Py_DECREF(code);
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
#endif
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

/* A stack that is not known yet. Ids are places in the list; nobody else adds to it before the place is read. */
static int64_t new_stack(const Ints *key) {
    PyObject *made = key_of_stack(key);
    int64_t id = made && PyList_Append(given.stack_keys, made) == 0 ? PyList_GET_SIZE(given.stack_keys) - 1 : 0;
    Py_XDECREF(made);
    if (PyErr_Occurred())
        tell_error(given.stack_keys);
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
        Ints copy = copied(&key); /* what is allocated may run finalizers, and these may come here */
        if (copy.used && (id = new_stack(&copy)))
            keep(&stacks, &copy, hash, id);
        PyMem_RawFree(copy.data);
    }
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
    lane->last.id = id, lane->last.lowest = hushed_from;
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
