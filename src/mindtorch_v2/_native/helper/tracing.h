/* Tracing of Python functions, switched off for a while. */

static void trace_nothing(void) {
    PyThreadState *thread = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030B0000
    PyThreadState_EnterTracing(thread);
#else
    thread->tracing++;
    thread->cframe->use_tracing = 0;
#endif
}

static void trace_again(void) {
    PyThreadState *thread = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030B0000
    PyThreadState_LeaveTracing(thread);
#else
    thread->tracing--;
    thread->cframe->use_tracing = !thread->tracing && (thread->c_tracefunc != NULL || thread->c_profilefunc != NULL);
#endif
}
