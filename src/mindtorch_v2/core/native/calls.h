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
        if (!slots) /* asked for each time, until there is memory */
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

/* What Python says that a function's event is; SKIPPED, with `*failed` set, where it could not say. */
static int64_t asked_kind(PyObject *ask, PyObject *about, int *failed) {
    Py_INCREF(ask);
    PyObject *found = PyObject_CallOneArg(ask, about);
    int64_t kind = SKIPPED;
    if ((*failed = !found || read_int(found, &kind) < 0)) {
        tell_error(ask);
        kind = SKIPPED;
    }
    Py_XDECREF(found);
    Py_DECREF(ask);
    return kind;
}

static int64_t kind_of(Kinds *kinds, void *first, void *second, PyObject *held, PyObject *ask, PyObject *about) {
    struct Known *known = known_kind(kinds, first, second);
    if (known && known->first)
        return known->kind;
    int failed;
    int64_t kind = asked_kind(ask, about, &failed);
    if (failed)
        return kind;
    known = known_kind(kinds, first, second); /* Python code has run */
    if (known && !known->first) {
        *known = (struct Known){first, second, Py_XNewRef(held), kind};
        kinds->used++;
    }
    return kind;
}

static int64_t builtin_kind(PyObject *function) {
    int failed;
    if (PyCFunction_Check(function) && ((PyCFunctionObject *)function)->m_ml == &exit_method)
        return SKIPPED; /* what it calls in Python is not shown either */
    if (!PyCFunction_Check(function))
        return asked_kind(globals.builtin_kind, function, &failed);
    PyObject *owner = ((PyCFunctionObject *)function)->m_self;
    PyObject *type = owner && !PyModule_Check(owner) ? (PyObject *)Py_TYPE(owner) : NULL;
    return kind_of(&builtins, ((PyCFunctionObject *)function)->m_ml, type, type, globals.builtin_kind, function);
}

/* A call that there is no memory for is not listed, nor are those in it. */
static void enter(Lane *lane, int64_t kind) {
    int64_t start = now(), *place = lane->unlisted ? NULL : extend(&lane->frames, 2);
    if (place)
        place[0] = start, place[1] = kind;
    else
        lane->unlisted++, lane->lost += kind > 0;
}

static void leave(Lane *lane) {
    if (lane->unlisted) {
        lane->unlisted--;
        return;
    }
    if (lane->frames.used < 2)
        return;
    lane->frames.used -= 2;
    int64_t start = lane->frames.data[lane->frames.used], kind = lane->frames.data[lane->frames.used + 1];
    if (kind > 0)
        put_row(lane, start, now(), kind, -1, 0, 0);
}

static void note_event(Lane *lane, PyFrameObject *frame, int what, PyObject *arg) {
    int newly_traced = lane->newly_traced;
    lane->newly_traced = 0;
    if (newly_traced && what == PyTrace_C_RETURN)
        return; /* of the call that began the tracing */
    if (what == PyTrace_RETURN)
        note_end(lane, frame);
    if (what == PyTrace_CALL) {
        if (lane->hidden_depth) {
            lane->hidden_depth++;
            return;
        }
        PyCodeObject *code = PyFrame_GetCode(frame);
        int64_t kind = lane->next.code == code ? lane->next.kind :
                       kind_of(&codes, code, NULL, (PyObject *)code, globals.code_kind, (PyObject *)code);
        Py_DECREF(code);
        if (kind == HIDDEN)
            lane->hidden_depth = 1;
        else
            enter(lane, kind);
    } else if (what == PyTrace_RETURN && lane->hidden_depth) {
        lane->hidden_depth--;
    } else if (lane->hidden_depth) {
        return;
    } else if (what == PyTrace_C_CALL) {
        Py_ssize_t used = lane->frames.used;
        int hidden = !used || lane->unlisted || lane->frames.data[used - 1] == SKIPPED;
        enter(lane, hidden ? SKIPPED : builtin_kind(arg));
    } else if (what == PyTrace_RETURN || what == PyTrace_C_RETURN || what == PyTrace_C_EXCEPTION) {
        leave(lane);
    }
}

static int on_event(PyObject *self, PyFrameObject *frame, int what, PyObject *arg) {
    Lane *lane = (Lane *)Py_NewRef(self); /* the interpreter lets go of it when the tracing ends, and Python code may end it */
    if (lane->tracing) {
        note_event(lane, frame, what, arg);
    } else {
        lane->frames.used = lane->unlisted = 0;
        PyEval_SetProfile(NULL, NULL);
    }
    Py_DECREF(self);
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
static int is_hidden(const PyThreadState *thread, const _PyInterpreterFrame *frame) {
    if (frame->f_globals == globals.namespace)
        return 1;
    if (thread->c_profilefunc != on_event || !codes.room)
        return 0;
    const struct Known *known = known_kind(&codes, frame->f_code, NULL);
    if (!known || !known->first)
        return 0;
    Lane *lane = (Lane *)thread->c_profileobj;
    lane->next.code = frame->f_code;
    lane->next.kind = known->kind;
    return known->kind == HIDDEN;
}

static PyObject *evaluate_frame(PyThreadState *thread, _PyInterpreterFrame *frame, int throwing) {
    if (thread->tracing || !(globals.flags & STACKS) || !is_hidden(thread, frame)) {
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
    int recording, flags;
    if (!PyArg_ParseTuple(args, "pi", &recording, &flags))
        return NULL;
    globals.recording = recording, globals.flags = flags;
    evaluate_frames(globals.recording && globals.flags & STACKS);
    Py_RETURN_NONE;
}

/* Time Python functions on the calling thread until the lane's `tracing` is switched off. The frames in progress are on
   `lane.frames`. */
static PyObject *trace(PyObject *module, PyObject *lane) {
    if (!PyObject_TypeCheck(lane, lane_type))
        return PyErr_Format(PyExc_TypeError, "expected a lane, got %s", Py_TYPE(lane)->tp_name);
    ((Lane *)lane)->tracing = ((Lane *)lane)->newly_traced = 1;
    ((Lane *)lane)->last.count = 0;
    PyEval_SetProfile(on_event, lane);
    Py_RETURN_NONE;
}

static PyObject *untrace(PyObject *module, PyObject *lane) {
    if (!PyObject_TypeCheck(lane, lane_type))
        return PyErr_Format(PyExc_TypeError, "expected a lane, got %s", Py_TYPE(lane)->tp_name);
    ((Lane *)lane)->tracing = 0;
    ((Lane *)lane)->frames.used = ((Lane *)lane)->unlisted = 0;
    PyEval_SetProfile(NULL, NULL);
    Py_RETURN_NONE;
}
