/* Nanoseconds: the monotonic clock, read from the time stamp counter where the kernel trusts it, or one of a test's. */

static int64_t monotonic(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#if defined(__x86_64__)
/* CLOCK_MONOTONIC read through the time stamp counter, which takes half as long. Every 50 ms the two are compared: the
   clock is set to the true time, or where it would have to go back, its rate so that they agree 50 ms later. */
static struct {
    int usable;
    uint64_t ticks;
    int64_t ns;
    double rate; /* ns a tick */
    uint64_t first_ticks;
    int64_t first_ns;
    uint64_t interval;
} tsc;

static void read_both(uint64_t *ticks, int64_t *ns) {
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 3; i++) {
        uint64_t before = __rdtsc();
        int64_t now = monotonic();
        uint64_t after = __rdtsc();
        if (after - before < best) {
            best = after - before;
            *ticks = before + (after - before) / 2;
            *ns = now;
        }
    }
}

static int64_t settle_tsc(void) {
    uint64_t ticks;
    int64_t ns;
    read_both(&ticks, &ns);
    double true_rate = (double)(ns - tsc.first_ns) / (double)(ticks - tsc.first_ticks);
    /* Nobody has been shown a later time than this, as later readings come here. */
    int64_t latest = tsc.ns + (int64_t)((double)tsc.interval * tsc.rate);
    int64_t ahead = latest - ns;
    if (ahead < 0 || ahead > 1000000) /* as it should be, or the machine slept */
        ahead = 0, latest = ns;
    tsc.ticks = ticks;
    tsc.ns = latest;
    tsc.rate = true_rate - (double)ahead / (double)tsc.interval;
    return latest;
}

static void start_tsc(void) {
    uint64_t ticks;
    int64_t ns;
    do {
        read_both(&ticks, &ns);
    } while (ns - tsc.first_ns < 1000000);
    tsc.rate = (double)(ns - tsc.first_ns) / (double)(ticks - tsc.first_ticks);
    tsc.interval = (uint64_t)(50e6 / tsc.rate);
    tsc.ticks = ticks;
    tsc.ns = ns;
    tsc.usable = 1;
}
#endif

/* A clock of a test's is Python code: what was looked up before may be gone after. */
static int64_t now(void) {
    if (globals.clock) {
        PyObject *type, *error, *traceback;
        PyErr_Fetch(&type, &error, &traceback); /* a token may end while an exception is on its way */
        trace_nothing();
        PyObject *clock = Py_NewRef(globals.clock), *value = PyObject_CallNoArgs(clock);
        trace_again();
        int64_t found = value ? PyLong_AsLongLong(value) : 0;
        Py_XDECREF(value);
        if (PyErr_Occurred())
            tell_error(clock);
        Py_DECREF(clock);
        PyErr_Restore(type, error, traceback);
        return found;
    }
#if defined(__x86_64__)
    if (tsc.usable) {
        uint64_t ticks = __rdtsc() - tsc.ticks;
        return ticks > tsc.interval ? settle_tsc() : tsc.ns + (int64_t)((double)ticks * tsc.rate);
    }
#endif
    return monotonic();
}

static PyObject *clock_now(PyObject *module, PyObject *unused) {
    return PyLong_FromLongLong(now());
}
