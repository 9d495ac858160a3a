/* Python functions, timed by the interpreter's profile hook. */

/* Event ids by address: of code objects, and of builtins with the type they are bound to. Keys are kept alive. */
typedef struct {
    struct Known {
        void *first, *second;
        PyObject *held;
        int64_t kind;
    } *slots;
    size_t room, used;
} Kinds;
static Kinds codes, builtins;

static struct Known *known_kind(Kinds *kinds, void *first, void *second) {
    if (kinds->used * 2 >= kinds->room) {
        size_t room = kinds->room ? kinds->room * 2 : 1024;
        struct Known *slots = PyMem_RawCalloc(room, sizeof(struct Known));
        if (!slots)
            return NULL;
        for (size_t i = 0; i < kinds->room; i++)
            if (kinds->slots[i].first) {
                size_t at = mix((uint64_t)(intptr_t)kinds->slots[i].first, (uint64_t)(intptr_t)kinds->slots[i].second) & (room - 1);
                while (slots[at].first)
                    at = (at + 1) & (room - 1);
                slots[at] = kinds->slots[i];
            }
        PyMem_RawFree(kinds->slots);
        kinds->slots = slots;
        kinds->room = room;
    }
    size_t at = mix((uint64_t)(intptr_t)first, (uint64_t)(intptr_t)second) & (kinds->room - 1);
    while (kinds->slots[at].first && (kinds->slots[at].first != first || kinds->slots[at].second != second))
        at = (at + 1) & (kinds->room - 1);
    return &kinds->slots[at];
}

static int64_t kind_of(Kinds *kinds, void *first, void *second, PyObject *held, PyObject *ask, PyObject *about) {
    struct Known *known = known_kind(kinds, first, second);
    if (known && known->first)
        return known->kind;
    PyObject *found = PyObject_CallOneArg(ask, about);
    int64_t kind = found ? PyLong_AsLongLong(found) : SKIPPED;
    Py_XDECREF(found);
    if (PyErr_Occurred()) {
        tell_error(ask);
        return SKIPPED;
    }
    known = known_kind(kinds, first, second); /* Python code has run */
    if (known && !known->first) {
        *known = (struct Known){first, second, Py_XNewRef(held), kind};
        kinds->used++;
    }
    return kind;
}

static int64_t builtin_kind(PyObject *function) {
    if (!PyCFunction_Check(function)) {
        PyObject *found = PyObject_CallOneArg(given.builtin_kind, function);
        int64_t kind = found ? PyLong_AsLongLong(found) : SKIPPED;
        Py_XDECREF(found);
        if (PyErr_Occurred())
            tell_error(given.builtin_kind);
        return kind;
    }
    PyObject *owner = ((PyCFunctionObject *)function)->m_self;
    PyObject *type = owner && !PyModule_Check(owner) ? (PyObject *)Py_TYPE(owner) : NULL;
    return kind_of(&builtins, ((PyCFunctionObject *)function)->m_ml, type, type, given.builtin_kind, function);
}

static void enter(Lane *lane, int64_t kind) {
    int64_t *place = extend(&lane->frames, 2);
    if (place)
        place[0] = now(), place[1] = kind;
}

static void leave(Lane *lane) {
    if (lane->frames.used < 2)
        return;
    lane->frames.used -= 2;
    int64_t *place = lane->frames.data + lane->frames.used;
    if (place[1] > 0)
        put_row(lane, place[0], now(), place[1], -1, 0, 0);
}

static int on_event(PyObject *self, PyFrameObject *frame, int what, PyObject *arg) {
    Lane *lane = (Lane *)self;
    if (!lane->tracing) {
        PyEval_SetProfile(NULL, NULL);
        lane->frames.used = 0;
        return 0;
    }
    int fresh = lane->fresh;
    lane->fresh = 0;
    if (fresh && what == PyTrace_C_RETURN)
        return 0; /* of the call that began the tracing */
    lane->moves += what == PyTrace_CALL || what == PyTrace_RETURN;
    if (what == PyTrace_CALL) {
        if (lane->muted) {
            lane->muted++;
            return 0;
        }
        PyCodeObject *code = PyFrame_GetCode(frame);
        int64_t kind = kind_of(&codes, code, NULL, (PyObject *)code, given.code_kind, (PyObject *)code);
        Py_DECREF(code);
        if (kind == MUTED)
            lane->muted = 1;
        else
            enter(lane, kind);
    } else if (what == PyTrace_RETURN && lane->muted) {
        lane->muted--;
    } else if (lane->muted) {
        return 0;
    } else if (what == PyTrace_C_CALL) {
        Py_ssize_t used = lane->frames.used;
        int hidden = !used || lane->frames.data[used - 1] == SKIPPED;
        enter(lane, hidden ? SKIPPED : builtin_kind(arg));
    } else if (what == PyTrace_RETURN || what == PyTrace_C_RETURN || what == PyTrace_C_EXCEPTION) {
        leave(lane);
    }
    return 0;
}

/* Time Python functions on the calling thread until the lane's `tracing` is switched off. The frames in progress are on
   `lane.frames`. */
static PyObject *trace(PyObject *module, PyObject *lane) {
    ((Lane *)lane)->tracing = ((Lane *)lane)->fresh = 1;
    ((Lane *)lane)->moves++;
    PyEval_SetProfile(on_event, lane);
    Py_RETURN_NONE;
}

static PyObject *untrace(PyObject *module, PyObject *lane) {
    ((Lane *)lane)->tracing = 0;
    ((Lane *)lane)->frames.used = 0;
    PyEval_SetProfile(NULL, NULL);
    Py_RETURN_NONE;
}
