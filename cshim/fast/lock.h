/* The lock of a device: a biased lock, which one thread takes without an atomic exchange.
 *
 * A hit is a few loads and stores, and an atomic exchange costs as much as all of them.
 * Nearly always the thread that took the lock last takes it again (the main thread in the
 * forward pass, autograd's in the backward pass), so after STALLOC_BIAS_STREAK acquisitions
 * in a row the lock is biased towards that thread. The thread then enters with a plain store
 * to its own flag (inside) and checks that nobody else has the lock. Every other thread takes
 * the lock with an exchange and then checks the flag of the biased thread. For one of the two
 * to see the other, each needs a full barrier between its store and its load. The biased
 * thread leaves its barrier to the other side: membarrier(2) makes every running thread of
 * the process pass one, for about 0.2 us. The bias then ends, so a change of threads costs
 * that once. (D. Dice, H. Huang, M. Yang: Asymmetric Dekker synchronization, 2001.)
 *
 * A thread that finds the lock taken first spins, because the lock is mostly held for a tenth
 * of a microsecond, and then sleeps on a futex: Go holds it for as long as a driver call
 * takes. Threads that Go has called never sleep in here (STALLOC_GO_SPINS) and never get the
 * bias, so whoever holds the lock for long holds it by its state. (U. Drepper: Futexes are
 * tricky, 2004, its third mutex.)
 *
 * Why every biased thread has a flag of its own: a thread may be stopped between seeing that
 * the bias is its own and raising its flag, and continue long after it has lost the bias. It
 * lowers the flag again as soon as it checks, and must not lower another thread's meanwhile.
 * A flag is never reused by another thread. */
#ifndef STALLOC_LOCK_H
#define STALLOC_LOCK_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* How often a thread that Go has called spins before it returns to Go. It must not wait in C for
 * longer: the holder may be a goroutine that Go's collector has stopped, and the collector may be
 * waiting for this very call to return. (A thread that enters C just as the world stops can be
 * missed: reentersyscall checks for the collector before it counts as being in a system call.
 * Nobody then takes its processor away until the runtime's monitor wakes, after a minute.) */
#define STALLOC_GO_SPINS 80
/* A thread of the program that has called Go before keeps its processor of Go's scheduler, so
 * that its next call is cheaper, and the collector can miss it in the same way. So a sleeping
 * waiter enters Go every 20 ms, which lets the collector retake that processor. */
#define STALLOC_NUDGE_NS (20 * 1000 * 1000)
/* How often a waiter spins before it yields the processor, where there are several: one to
 * three microseconds, as long as it takes to sleep and be woken. */
#define STALLOC_SPINS 64

/* How many threads can ever get the bias of one device's lock; the others do without. */
#define STALLOC_BIAS_SLOTS 6
/* Acquisitions in a row that bias the lock: many more than it costs to end the bias, so that
 * threads that take turns lose little. */
#define STALLOC_BIAS_STREAK 128

enum { STALLOC_UNLOCKED, STALLOC_LOCKED, STALLOC_CONTENDED /* locked, and a waiter may sleep */ };

/* A thread towards which the lock is or was biased. */
struct stalloc_bias {
	uintptr_t thread; /* 0: the slot is unused */
	_Atomic uint32_t inside;
};

struct stalloc_lock {
	_Atomic uint32_t state; /* for all but the biased thread */
	uint32_t streak;	/* acquisitions by exchange in a row by last_thread */
	_Atomic(struct stalloc_bias *) bias; /* NULL: the lock is not biased */
	struct stalloc_bias *entered_by;     /* how the holder got in; NULL: by an exchange */
	uintptr_t last_thread;
	struct stalloc_bias *bias_slots; /* NULL: the lock is never biased */
	uint32_t spins;			 /* 0: there is one processor */
	bool biasing_off;
};

/* Call it once for each lock. bias_slots are STALLOC_BIAS_SLOTS zeroed slots, or NULL. */
static inline void stalloc_lock_prepare(struct stalloc_lock *l, struct stalloc_bias *bias_slots) {
	bool barrier =
		syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
	l->bias_slots = barrier ? bias_slots : NULL;
	l->spins = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? STALLOC_SPINS : 0;
}

/* A number of the thread that is the same in every library of the process, which the address
 * of a thread-local variable is not. */
static inline uintptr_t stalloc_thread(void) { return (uintptr_t)__builtin_thread_pointer(); }

#if defined __x86_64__
#define LOCK_RELAX __builtin_ia32_pause()
#elif defined __aarch64__
#define LOCK_RELAX __asm__ volatile("isb")
#else
#define LOCK_RELAX (void)0
#endif

/* Between two spins: first gives way to the other hyperthread, later to other threads. */
static inline void lock_pause(const struct stalloc_lock *l, unsigned spin) {
	if (spin >= l->spins)
		sched_yield();
	else
		LOCK_RELAX;
}

/* A thread that defers a free and then finds the lock taken relies on the holder, who checks
 * for deferred frees after lock_drop. Storing the free, loading the state, dropping the lock
 * and checking are sequentially consistent, so one of the two threads sees the other. */
static inline bool lock_take(struct stalloc_lock *l) {
	uint32_t expected = STALLOC_UNLOCKED;
	return atomic_load(&l->state) == expected &&
	       atomic_compare_exchange_strong_explicit(&l->state, &expected, STALLOC_LOCKED,
						       memory_order_acquire, memory_order_relaxed);
}

static inline void lock_drop(struct stalloc_lock *l) {
	uint32_t before = atomic_exchange(&l->state, STALLOC_UNLOCKED);
	if (__builtin_expect(before == STALLOC_CONTENDED, 0))
		syscall(SYS_futex, &l->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Ends the bias towards another thread, for a thread that has set the state to locked. False:
 * after so many spins the biased thread is still inside. The bias then stays, because the
 * next thread that comes has to check its flag, too. */
static inline bool lock_revoke_bias(struct stalloc_lock *l, unsigned spins) {
	struct stalloc_bias *o = atomic_load_explicit(&l->bias, memory_order_relaxed);
	if (__builtin_expect(!o || o->thread == stalloc_thread(), 1)) return true;
	if (spins == 0 && atomic_load_explicit(&o->inside, memory_order_relaxed)) return false;
	syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	for (unsigned n = 0; atomic_load_explicit(&o->inside, memory_order_acquire); n++) {
		if (n >= spins) return false;
		if (n > 2 * STALLOC_GO_SPINS) /* its priority may be lower than ours */
			nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
		else
			lock_pause(l, n);
	}
	/* Relaxed: whoever unlocks publishes it. */
	atomic_store_explicit(&l->bias, NULL, memory_order_relaxed);
	l->last_thread = 0;
	return true;
}

/* Takes the lock by an exchange if it is free, or becomes free within so many spins. */
static __attribute__((noinline, unused)) bool stalloc_lock_try_exchange(struct stalloc_lock *l,
									unsigned spins) {
	for (unsigned n = 0; !lock_take(l); n++) {
		if (n >= spins) return false;
		lock_pause(l, n);
	}
	if (lock_revoke_bias(l, spins)) {
		l->entered_by = NULL;
		return true;
	}
	lock_drop(l);
	return false;
}

/* Counts an acquisition by exchange. A long enough streak biases the lock towards the thread. */
static inline void lock_count_streak(struct stalloc_lock *l) {
	uintptr_t me = stalloc_thread();
	if (l->last_thread != me) {
		l->last_thread = me;
		l->streak = 0;
		return;
	}
	if (++l->streak < STALLOC_BIAS_STREAK || !l->bias_slots || l->biasing_off) return;
	l->streak = 0;
	for (int i = 0; i < STALLOC_BIAS_SLOTS; i++) {
		struct stalloc_bias *o = &l->bias_slots[i];
		if (o->thread == 0) o->thread = me;
		if (o->thread != me) continue;
		atomic_store_explicit(&l->bias, o, memory_order_release);
		return;
	}
}

/* This thread's slot if the lock is biased towards it, else NULL. */
static inline struct stalloc_bias *stalloc_lock_bias(struct stalloc_lock *l) {
	struct stalloc_bias *o = atomic_load_explicit(&l->bias, memory_order_acquire);
	return o && o->thread == stalloc_thread() ? o : NULL;
}

/* Takes the lock if it is biased towards this thread, whose slot this is. Release it with
 * stalloc_lock_leave_biased; or set entered_by, and release it like any other lock. */
static inline bool stalloc_lock_enter_biased(struct stalloc_lock *l, struct stalloc_bias *o) {
	atomic_store_explicit(&o->inside, 1, memory_order_relaxed);
	/* For the compiler; for the processor there is membarrier. */
	atomic_signal_fence(memory_order_seq_cst);
	uint32_t state = atomic_load_explicit(&l->state, memory_order_acquire);
	if (__builtin_expect(state == STALLOC_UNLOCKED &&
				     atomic_load_explicit(&l->bias, memory_order_relaxed) == o,
			     1))
		return true;
	atomic_store_explicit(&o->inside, 0, memory_order_release);
	return false;
}

static inline void stalloc_lock_leave_biased(struct stalloc_bias *o) {
	atomic_store_explicit(&o->inside, 0, memory_order_release);
}

/* Takes the lock, biased or not, within so many spins; false: it could not. Not for Go, which
 * may continue the goroutine on another thread while it has the lock. */
static __attribute__((noinline, unused)) bool stalloc_lock_try(struct stalloc_lock *l,
							       unsigned spins) {
	struct stalloc_bias *o = stalloc_lock_bias(l);
	if (o && stalloc_lock_enter_biased(l, o)) {
		l->entered_by = o;
		return true;
	}
	if (!stalloc_lock_try_exchange(l, spins)) return false;
	lock_count_streak(l);
	return true;
}

/* Takes the lock by an exchange, even if it is biased towards this thread, however long that
 * takes. While it sleeps it calls nudge every STALLOC_NUDGE_NS; nudge enters Go and returns. */
static __attribute__((noinline, unused)) void stalloc_lock_exchange(struct stalloc_lock *l,
								    void (*nudge)(void)) {
	const struct timespec timeout = {.tv_nsec = STALLOC_NUDGE_NS};
	if (!stalloc_lock_try_exchange(l, l->spins)) {
		while (atomic_exchange_explicit(&l->state, STALLOC_CONTENDED,
						memory_order_acquire) != STALLOC_UNLOCKED)
			if (syscall(SYS_futex, &l->state, FUTEX_WAIT_PRIVATE, STALLOC_CONTENDED,
				    &timeout, NULL, 0) != 0 &&
			    errno == ETIMEDOUT)
				nudge();
		lock_revoke_bias(l, UINT_MAX);
		l->entered_by = NULL;
	}
	lock_count_streak(l);
}

/* Takes the lock, biased or not, however long that takes. */
static __attribute__((noinline, unused)) void stalloc_lock_acquire(struct stalloc_lock *l,
								   void (*nudge)(void)) {
	struct stalloc_bias *o = stalloc_lock_bias(l);
	if (o && stalloc_lock_enter_biased(l, o))
		l->entered_by = o;
	else
		stalloc_lock_exchange(l, nudge);
}

/* Ends the bias for now and for later, or allows it again. The caller took the lock with
 * stalloc_lock_exchange: as the biased thread it would have no bias left to be seen by. */
static inline void stalloc_lock_set_biasing_off(struct stalloc_lock *l, bool off) {
	if ((l->biasing_off = off)) atomic_store_explicit(&l->bias, NULL, memory_order_relaxed);
}

static inline void stalloc_lock_release(struct stalloc_lock *l) {
	if (__builtin_expect(l->entered_by != NULL, 1))
		stalloc_lock_leave_biased(l->entered_by);
	else
		lock_drop(l);
}

#endif
