/* Tracing of Python functions, switched off for a while. */

#if defined(RAW_FRAMES)
static __thread const _PyInterpreterFrame *suspended_from; /* the frame that ran when it was switched off last */
#endif

static void trace_nothing(void) {
    PyThreadState *thread = PyThreadState_Get();
#if defined(RAW_FRAMES)
    if (!thread->tracing)
        suspended_from = thread->cframe->current_frame;
#endif
#if PY_VERSION_HEX >= 0x030C0000
    PyThreadState_EnterTracing(thread);
#else
    thread->tracing++;
    thread->cframe->use_tracing = 0;
#endif
}

/* Before 3.12 Python's own way back would have every instruction look for a tracer while tracing is still suspended further out. */
static void trace_again(void) {
    PyThreadState *thread = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030C0000
    PyThreadState_LeaveTracing(thread);
#else
    thread->tracing--;
    int traced = !thread->tracing && (thread->c_tracefunc != NULL || thread->c_profilefunc != NULL);
    thread->cframe->use_tracing = traced ? 255 : 0;
#endif
}
