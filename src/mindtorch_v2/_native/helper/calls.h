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
    if (what == PyTrace_RETURN)
        note_end(lane, frame);
    if (what == PyTrace_CALL) {
        if (lane->muted) {
            lane->muted++;
            return 0;
        }
        PyCodeObject *code = PyFrame_GetCode(frame);
        int64_t kind = lane->next.code == code ? lane->next.kind :
                       kind_of(&codes, code, NULL, (PyObject *)code, given.code_kind, (PyObject *)code);
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

#if defined(RAW_FRAMES)
/* What a traced function costs, its frame as an object, two events and slow instructions, is several times what an op does
   to be recorded. So while stacks are, frames of ops are evaluated untraced, before the tracer hears of them. Python calls
   then nest on the C stack, as they did before 3.11: where that gets short, all goes on without. */

static __thread const char *half_of_stack;
enum { CALLS_BETWEEN_LOOKS = 32 };

static void find_half_of_stack(void) {
    pthread_attr_t attributes;
    void *lowest = (void *)1; /* not known: never reached */
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &lowest, &size);
        pthread_attr_destroy(&attributes);
    }
    half_of_stack = (const char *)lowest + size / 2;
}

static int stack_is_short(const PyThreadState *thread) {
    char here;
    if (thread->recursion_remaining % CALLS_BETWEEN_LOOKS)
        return 0;
    if (!half_of_stack)
        find_half_of_stack();
    return &here < half_of_stack;
}

static void evaluate_frames(int here);

/* Whether a frame is one of machinery that nothing is to be seen of, as far as that is known; else the tracer asks. */
static int is_muted(const PyThreadState *thread, const _PyInterpreterFrame *frame) {
    if (frame->f_globals == given.namespace)
        return 1;
    if (thread->c_profilefunc != on_event || !codes.room)
        return 0;
    const struct Known *known = known_kind(&codes, frame->f_code, NULL);
    if (!known || !known->first)
        return 0;
    Lane *lane = (Lane *)thread->c_profileobj;
    lane->next.code = frame->f_code;
    lane->next.kind = known->kind;
    return known->kind == MUTED;
}

static PyObject *evaluate_frame(PyThreadState *thread, _PyInterpreterFrame *frame, int throwing) {
    if (thread->tracing || !(given.flags & STACKS) || !is_muted(thread, frame)) {
        if (stack_is_short(thread))
            evaluate_frames(0);
        return _PyEval_EvalFrameDefault(thread, frame, throwing);
    }
    trace_nothing();
    PyObject *result = _PyEval_EvalFrameDefault(thread, frame, throwing);
    trace_again();
    return result;
}

/* Have frames evaluated here, unless somebody else does so, or no longer. */
static void evaluate_frames(int here) {
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    _PyFrameEvalFunction usual = _PyEval_EvalFrameDefault;
    if (_PyInterpreterState_GetEvalFrameFunc(interpreter) == (here ? usual : evaluate_frame))
        _PyInterpreterState_SetEvalFrameFunc(interpreter, here ? evaluate_frame : usual);
}
#else
static void evaluate_frames(int here) {}
#endif

static PyObject *set_recording(PyObject *module, PyObject *args) {
    if (!PyArg_ParseTuple(args, "pi", &given.recording, &given.flags))
        return NULL;
    evaluate_frames(given.recording && given.flags & STACKS);
    Py_RETURN_NONE;
}

/* Time Python functions on the calling thread until the lane's `tracing` is switched off. The frames in progress are on
   `lane.frames`. */
static PyObject *trace(PyObject *module, PyObject *lane) {
    ((Lane *)lane)->tracing = ((Lane *)lane)->fresh = 1;
    ((Lane *)lane)->last.count = 0;
    PyEval_SetProfile(on_event, lane);
    Py_RETURN_NONE;
}

static PyObject *untrace(PyObject *module, PyObject *lane) {
    ((Lane *)lane)->tracing = 0;
    ((Lane *)lane)->frames.used = 0;
    PyEval_SetProfile(NULL, NULL);
    Py_RETURN_NONE;
}
