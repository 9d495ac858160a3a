/* The thread pool of the compiled kernels without Python, for `make sanitize` to run under ThreadSanitizer: many loops from
 * several threads at once, with more and fewer threads from one to the next, in forked children too, and a program that ends
 * while helpers still look for work. Each loop writes every element once and is checked. */

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef ptrdiff_t Py_ssize_t;
#define POOL 1
#include "../../src/mindtorch_v2/kernels/native/threads.h"

enum { CALLERS = 4, LOOPS = 400, CHILDREN = 20, ELEMENTS = 1 << 15, WIDTH = 64 };

typedef struct {
    int *out;
    int value;
} Filled;

static void fill_part(const void *work, Py_ssize_t from, Py_ssize_t to) {
    const Filled *filled = work;
    for (Py_ssize_t i = from; i < to; i++) filled->out[i] += filled->value + (int)i;
}

/* So many loops over memory of its own; how many elements came out wrong. */
static long loops(int *out, int count, int first) {
    long wrong = 0;
    for (int turn = 0; turn < count; turn++) {
        Filled work = {out, first + turn};
        memset(out, 0, ELEMENTS * sizeof *out);
        run(fill_part, &work, ELEMENTS, WIDTH, LIGHT);
        for (Py_ssize_t i = 0; i < ELEMENTS; i++) wrong += out[i] != first + turn + (int)i;
    }
    return wrong;
}

static void *call(void *place) {
    int *out = malloc(ELEMENTS * sizeof *out);
    long wrong = out ? loops(out, LOOPS, (int)(intptr_t)place) : 1;
    free(out);
    return (void *)wrong;
}

static void *resize(void *unused) {
    for (int turn = 0; turn < 50 * LOOPS; turn++) use_threads(1 + turn % 6);
    return NULL;
}

/* Forks while other threads share loops; a child shares loops of its own, with helpers of its own. */
static void *fork_often(void *unused) {
    long wrong = 0;
    for (int turn = 0; turn < CHILDREN; turn++) {
        pid_t child = fork();
        if (child == 0) {
            int *out = malloc(ELEMENTS * sizeof *out);
            use_threads(3);
            alarm(60); /* a child that hangs is wrong, too */
            _exit(out && loops(out, 5, turn) == 0 ? 0 : 1);
        }
        int status = 1;
        if (child < 0 || waitpid(child, &status, 0) < 0) wrong++;
        else wrong += status != 0;
    }
    return (void *)wrong;
}

/* Signals are for the callers: no helper takes them. */
static volatile sig_atomic_t taken_by_helper;
static pthread_t main_thread;
static void take(int number) { taken_by_helper |= !pthread_equal(pthread_self(), main_thread); }

int main(int count, char **given) {
    int forks = count < 2 || strcmp(given[1], "--no-fork"); /* ThreadSanitizer follows no threads that a child makes */
    long wrong = 0;
    int *out = malloc(ELEMENTS * sizeof *out);
    pthread_t threads_[CALLERS + 2];
    if (!out) return 2;
    pthread_atfork(NULL, NULL, forget_threads);
    main_thread = pthread_self();
    signal(SIGUSR1, take);

    use_threads(4);
    wrong += loops(out, LOOPS, 0);
    sigset_t kept_off, before; /* the caller does not take the signal, so that a helper would have to */
    sigfillset(&kept_off);
    pthread_sigmask(SIG_SETMASK, &kept_off, &before);
    kill(getpid(), SIGUSR1);
    wrong += loops(out, 20, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);

    int made = 0;
    for (; made < CALLERS; made++)
        if (pthread_create(&threads_[made], NULL, call, (void *)(intptr_t)made)) return 2;
    if (pthread_create(&threads_[made++], NULL, resize, NULL)) return 2;
    if (forks && pthread_create(&threads_[made++], NULL, fork_often, NULL)) return 2;
    for (int i = 0; i < made; i++) {
        void *result;
        pthread_join(threads_[i], &result);
        wrong += (long)(intptr_t)result;
    }
    use_threads(1);
    wrong += loops(out, LOOPS / 4, 7);
    use_threads(MOST + 1);
    wrong += loops(out, LOOPS / 4, 9);
    free(out);
    printf("pool: %ld wrong, %d signals taken by helpers\n", wrong, (int)taken_by_helper);
    return wrong || taken_by_helper ? 1 : 0;
}
