/* Threads that share large loops. Nothing here knows Python: `tests/native/pool.c` compiles it by itself. */

/* Does the elements or rows from `from` to `to` of a loop; what it reads and writes is in `work`. */
typedef void (*Part)(const void *work, Py_ssize_t from, Py_ssize_t to);

#define PIECE (1 << 15) /* elements that a thread takes at a time */
#define MOST 64         /* threads */

/* From how many elements on another thread pays: where each takes a few instructions, and where it takes many. */
enum { LIGHT = 1 << 18, HEAVY = 1 << 17 };

static int threads = 1; /* that may work at a time, the caller's among them */

static void use_threads(long n) { __atomic_store_n(&threads, n < 1 ? 1 : n > MOST ? MOST : (int)n, __ATOMIC_RELAXED); }
static int usable_threads(void) { return __atomic_load_n(&threads, __ATOMIC_RELAXED); }

#ifdef POOL

/* To fall asleep and be woken takes as long as a loop over half a million elements, so whoever waits looks for what it waits
 * for some ten microseconds more. Loops often follow upon one another that closely. */
enum { LOOKS = 1 << 10 };
#if defined(__x86_64__) || defined(__i386__)
#define REST() __builtin_ia32_pause()
#else
#define REST() (void)0
#endif
#define LOOK_WHILE(CONDITION)                                                                                          \
    for (int look_ = 0; look_ < LOOKS && (CONDITION); look_++) REST();

/* One loop at a time is shared: the caller opens it, takes piece after piece as the others do, and closes it when none
 * is left. Threads that wake up later find it closed, so a busy machine makes nobody wait for a thread that has not
 * begun. A second caller meanwhile does its loop alone. */
static struct {
    pthread_mutex_t lock, caller;
    pthread_cond_t opened, left;
    Part part;
    const void *work;
    Py_ssize_t count, piece, next;
    unsigned long turn;
    int open, inside, made, wanted; /* of those made, so many take part */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .caller = PTHREAD_MUTEX_INITIALIZER,
          .opened = PTHREAD_COND_INITIALIZER,
          .left = PTHREAD_COND_INITIALIZER};

static void take_pieces(void) {
    for (;;) {
        Py_ssize_t from = __atomic_fetch_add(&pool.next, pool.piece, __ATOMIC_RELAXED);
        if (from >= pool.count) return;
        pool.part(pool.work, from, pool.count - from < pool.piece ? pool.count : from + pool.piece);
    }
}

static void *help(void *place) {
    unsigned long turn = 0;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (!pool.open || turn == pool.turn || (intptr_t)place >= pool.wanted)
            pthread_cond_wait(&pool.opened, &pool.lock);
        turn = pool.turn;
        __atomic_add_fetch(&pool.inside, 1, __ATOMIC_RELAXED);
        pthread_mutex_unlock(&pool.lock);
        take_pieces();
        pthread_mutex_lock(&pool.lock);
        if (__atomic_sub_fetch(&pool.inside, 1, __ATOMIC_RELAXED) == 0) pthread_cond_signal(&pool.left);
        pthread_mutex_unlock(&pool.lock);
        LOOK_WHILE(__atomic_load_n(&pool.turn, __ATOMIC_RELAXED) == turn)
        pthread_mutex_lock(&pool.lock);
    }
    return NULL;
}

/* A forked child has its own thread only: it starts with an empty pool. */
static void forget_threads(void) {
    pthread_mutex_init(&pool.lock, NULL);
    pthread_mutex_init(&pool.caller, NULL);
    pthread_cond_init(&pool.opened, NULL);
    pthread_cond_init(&pool.left, NULL);
    pool.open = pool.inside = pool.made = 0;
}

/* Threads that take no signals: those are for the threads of whoever runs here, which may be waiting for one. Only what a
 * thread does wrong itself reaches it. */
static void make_threads(void) {
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t kept_off, before;
    if (pthread_attr_init(&attributes)) return;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 1 << 18);
    sigfillset(&kept_off);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&kept_off, own[i]);
    pthread_sigmask(SIG_SETMASK, &kept_off, &before);
    while (pool.made < pool.wanted && pthread_create(&thread, &attributes, help, (void *)(intptr_t)pool.made) == 0)
        pool.made++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

static void share(Part part, const void *work, Py_ssize_t count, Py_ssize_t piece) {
    if (pthread_mutex_trylock(&pool.caller)) {
        part(work, 0, count);
        return;
    }
    pthread_mutex_lock(&pool.lock);
    pool.wanted = usable_threads() - 1;
    if (pool.made < pool.wanted) make_threads();
    pool.part = part;
    pool.work = work;
    pool.count = count;
    pool.piece = piece;
    pool.next = 0;
    __atomic_add_fetch(&pool.turn, 1, __ATOMIC_RELAXED);
    pool.open = 1;
    pthread_cond_broadcast(&pool.opened);
    pthread_mutex_unlock(&pool.lock);
    take_pieces();
    pthread_mutex_lock(&pool.lock);
    pool.open = 0;
    pthread_mutex_unlock(&pool.lock);
    LOOK_WHILE(__atomic_load_n(&pool.inside, __ATOMIC_RELAXED))
    pthread_mutex_lock(&pool.lock);
    while (pool.inside) pthread_cond_wait(&pool.left, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    pthread_mutex_unlock(&pool.caller);
}

#endif

/* A loop over `count` elements or rows of `width` elements each, by all threads if these are `many` elements. */
static void run(Part part, const void *work, Py_ssize_t count, Py_ssize_t width, Py_ssize_t many) {
#ifdef POOL
    Py_ssize_t all;
    if (count > 1 && usable_threads() > 1 && (__builtin_mul_overflow(count, width, &all) || all >= many)) {
        share(part, work, count, width < PIECE ? PIECE / width : 1);
        return;
    }
#endif
    part(work, 0, count);
}

/* Of rows this long threads take parts; what is made of a row goes by its parts whether there are threads or not. */
enum { LONG_ROW = 8 * PIECE, MOST_PARTS = 256 };

/* How many elements a part of a long row has, so that there are no more than MOST_PARTS. */
static Py_ssize_t part_of_row(Py_ssize_t n) { return (n + PIECE * MOST_PARTS - 1) / (PIECE * MOST_PARTS) * PIECE; }
