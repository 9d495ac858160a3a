/* Ids of the Python stacks of threads. */

static Table stacks, chains;

static void forget(Table *table) {
    PyMem_RawFree(table->slots);
    table->slots = NULL;
    table->room = table->used = 0;
    table->pool.used = 0;
}

static PyObject *forget_stacks(PyObject *module, PyObject *unused) {
    forget(&stacks);
    forget(&chains);
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
        PyErr_WriteUnraisable(given.add_stack);
    return id;
}

static int64_t stack_id(Lane *lane) {
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
