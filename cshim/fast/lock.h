/* The lock of a device, which one thread may take without an atomic exchange.
 *
 * A hit is a few loads and stores, and an atomic exchange costs as much as all
 * of them. Nearly always the same thread comes again (the main thread in the
 * forward pass, autograd's in the backward pass), so a thread that has taken
 * the lock often in a row becomes its owner. From then on it says "I am inside"
 * with a plain store to its own flag and looks whether somebody has the lock;
 * anybody else takes the lock with an exchange and then looks at the owner's
 * flag. For one of the two to see the other, each needs a full barrier between
 * its store and its load. The owner's is left to the other side: membarrier(2)
 * makes every running thread of the process pass one, for about 0.2 us. Then
 * the ownership ends, so a change of threads costs that once. (D. Dice, H.
 * Huang, M. Yang: Asymmetric Dekker synchronization, 2001.)
 *
 * Who finds the lock taken looks again for a while, because it is mostly held for a
 * tenth of a microsecond, and then sleeps until it is left: for as long as a driver call
 * takes, where Go has it. Threads that Go has called never sleep in here (STALLOC_PATIENCE),
 * and own nothing, so that what is held for long is always held by taken. (U. Drepper:
 * Futexes are tricky, 2004, its third mutex.)
 *
 * Why every owner has a flag of its own: a thread may be stopped between seeing
 * that it is the owner and raising the flag, and go on long after it has lost
 * the ownership. It lowers the flag again as soon as it looks, and must not
 * lower another's meanwhile. Flags are never reused by another thread. */
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

/* Looks at a lock that another holds before Go is told. After them the wait must
 * not go on in C where C was called by Go: the holder may be a goroutine that Go's
 * collector has stopped, and the collector may be waiting for this very call to return.
 * (A thread that enters C just as the world is stopped can be missed: reentersyscall looks
 * for the collector before it counts as being in a system call. Nobody then takes its
 * processor away until the runtime's monitor wakes, after a minute.) */
#define STALLOC_PATIENCE 80
/* A thread of the program's that has called Go before stands in C like one that Go has called:
 * Go leaves it the processor that it had, to call again sooner, and can miss it in the same
 * way. So whoever sleeps in here goes to Go, which then sees it, every so many nanoseconds. */
#define STALLOC_NUDGE (20 * 1000 * 1000)
/* The looks before other threads are let go ahead, where there is more than one processor:
 * one to three microseconds, which is what it takes to sleep and be woken. */
#define STALLOC_SPINS 64

/* Threads that can become owner of one device's lock; more do without. */
#define STALLOC_OWNERS 6
/* Acquisitions in a row that make an owner: many more than it costs to end the
 * ownership, so that threads that take turns lose little. */
#define STALLOC_STREAK 128

enum { STALLOC_UNTAKEN, STALLOC_TAKEN, STALLOC_AWAITED /* taken, and somebody may be asleep */ };

struct stalloc_owner {
	uintptr_t thread; /* 0: not in use */
	_Atomic uint32_t inside;
};

struct stalloc_lock {
	_Atomic uint32_t taken; /* by exchange */
	uint32_t streak;	/* acquisitions by exchange in a row by last */
	_Atomic(struct stalloc_owner *) owner;
	struct stalloc_owner *by; /* how the holder got in: as this owner, or NULL */
	uintptr_t last;
	struct stalloc_owner *owners; /* NULL: there can be none */
	uint32_t spins;		      /* 0: there is one processor */
	bool shut;		      /* for owners */
};

/* Once for each lock. owners are STALLOC_OWNERS, of nobody, or NULL. */
static inline void stalloc_lock_prepare(struct stalloc_lock *l, struct stalloc_owner *owners) {
	l->owners = syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 ? owners : NULL;
	l->spins = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? STALLOC_SPINS : 0;
}

/* The same in every library of the process, unlike a variable of our own. */
static inline uintptr_t stalloc_thread(void) { return (uintptr_t)__builtin_thread_pointer(); }

#if defined __x86_64__
#define LOCK_RELAX __builtin_ia32_pause()
#elif defined __aarch64__
#define LOCK_RELAX __asm__ volatile("isb")
#else
#define LOCK_RELAX (void)0
#endif

/* Between two looks: so that the other hyperthread goes on, and then other threads. */
static inline void lock_pause(const struct stalloc_lock *l, unsigned look) {
	if (look >= l->spins)
		sched_yield();
	else
		LOCK_RELAX;
}

/* Who announces a free and then finds the lock taken relies on its holder, who looks for such behind
 * lock_drop: all four are in one order, so that one of the two sees the other. */
static inline bool lock_take(struct stalloc_lock *l) {
	uint32_t as = STALLOC_UNTAKEN;
	return atomic_load(&l->taken) == as &&
	       atomic_compare_exchange_strong_explicit(&l->taken, &as, STALLOC_TAKEN, memory_order_acquire, memory_order_relaxed);
}

static inline void lock_drop(struct stalloc_lock *l) {
	if (__builtin_expect(atomic_exchange(&l->taken, STALLOC_UNTAKEN) == STALLOC_AWAITED, 0))
		syscall(SYS_futex, &l->taken, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Ends an ownership that stands in the way of whoever has taken the lock, which is not the
 * owner: that is not inside. False: after so many looks it still is. It keeps the ownership
 * then, because the next one to come has to look at its flag, too. */
static inline bool lock_disown(struct stalloc_lock *l, unsigned looks) {
	struct stalloc_owner *o = atomic_load_explicit(&l->owner, memory_order_relaxed);
	if (__builtin_expect(!o || o->thread == stalloc_thread(), 1)) return true;
	if (looks == 0 && atomic_load_explicit(&o->inside, memory_order_relaxed)) return false;
	syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	for (unsigned n = 0; atomic_load_explicit(&o->inside, memory_order_acquire); n++) {
		if (n >= looks) return false;
		if (n > 2 * STALLOC_PATIENCE) /* it may have less priority */
			nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
		else
			lock_pause(l, n);
	}
	/* Seen by whoever finds the lock free again. */
	atomic_store_explicit(&l->owner, NULL, memory_order_relaxed);
	l->last = 0;
	return true;
}

/* Takes the lock if it is free, or becomes so within a few looks. */
static __attribute__((noinline, unused)) bool stalloc_lock_try(struct stalloc_lock *l, unsigned looks) {
	for (unsigned n = 0; !lock_take(l); n++) {
		if (n >= looks) return false;
		lock_pause(l, n);
	}
	if (lock_disown(l, looks)) {
		l->by = NULL;
		return true;
	}
	lock_drop(l);
	return false;
}

/* Counts an acquisition by exchange, and perhaps makes the thread the owner. */
static inline void lock_count(struct stalloc_lock *l) {
	uintptr_t me = stalloc_thread();
	if (l->last != me) {
		l->last = me;
		l->streak = 0;
		return;
	}
	if (++l->streak < STALLOC_STREAK || !l->owners || l->shut) return;
	l->streak = 0;
	for (int i = 0; i < STALLOC_OWNERS; i++) {
		struct stalloc_owner *o = &l->owners[i];
		if (o->thread == 0) o->thread = me;
		if (o->thread != me) continue;
		atomic_store_explicit(&l->owner, o, memory_order_release);
		return;
	}
}

/* What this thread owns the lock as; NULL: it does not. */
static inline struct stalloc_owner *stalloc_lock_mine(struct stalloc_lock *l) {
	struct stalloc_owner *o = atomic_load_explicit(&l->owner, memory_order_acquire);
	return o && o->thread == stalloc_thread() ? o : NULL;
}

/* Takes the lock if this thread, whose flag this is, is its owner. Leave it by
 * stalloc_lock_leave; or enter the owner as by, and leave it like any other lock. */
static inline bool stalloc_lock_enter(struct stalloc_lock *l, struct stalloc_owner *o) {
	atomic_store_explicit(&o->inside, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst); /* for the compiler; membarrier for the machine */
	if (__builtin_expect(atomic_load_explicit(&l->taken, memory_order_acquire) == STALLOC_UNTAKEN &&
				     atomic_load_explicit(&l->owner, memory_order_relaxed) == o, 1))
		return true;
	atomic_store_explicit(&o->inside, 0, memory_order_release);
	return false;
}

static inline void stalloc_lock_leave(struct stalloc_owner *o) { atomic_store_explicit(&o->inside, 0, memory_order_release); }

/* Takes the lock, as the owner or like any other; false: not within so many looks. Not for
 * Go, which may have a goroutine go on elsewhere while it is inside. */
static __attribute__((noinline, unused)) bool stalloc_lock_look(struct stalloc_lock *l, unsigned looks) {
	struct stalloc_owner *o = stalloc_lock_mine(l);
	if (o && stalloc_lock_enter(l, o)) {
		l->by = o;
		return true;
	}
	if (!stalloc_lock_try(l, looks)) return false;
	lock_count(l);
	return true;
}

/* Takes the lock by an exchange, even if this thread is its owner, however long it takes. It calls
 * nudge now and then, which goes to Go and back. */
static __attribute__((noinline, unused)) void stalloc_lock_exchange(struct stalloc_lock *l, void (*nudge)(void)) {
	const struct timespec patience = {.tv_nsec = STALLOC_NUDGE};
	if (!stalloc_lock_try(l, l->spins)) {
		while (atomic_exchange_explicit(&l->taken, STALLOC_AWAITED, memory_order_acquire) != STALLOC_UNTAKEN)
			if (syscall(SYS_futex, &l->taken, FUTEX_WAIT_PRIVATE, STALLOC_AWAITED, &patience, NULL, 0) != 0 && errno == ETIMEDOUT) nudge();
		lock_disown(l, UINT_MAX);
		l->by = NULL;
	}
	lock_count(l);
}

/* The same, as the owner or like any other. */
static __attribute__((noinline, unused)) void stalloc_lock_wait(struct stalloc_lock *l, void (*nudge)(void)) {
	struct stalloc_owner *o = stalloc_lock_mine(l);
	if (o && stalloc_lock_enter(l, o))
		l->by = o;
	else
		stalloc_lock_exchange(l, nudge);
}

/* Has the lock without owners, or with them again. It was taken by stalloc_lock_exchange: of an
 * owner that is inside, nobody would see it any more. */
static inline void stalloc_lock_shut(struct stalloc_lock *l, bool shut) {
	if ((l->shut = shut)) atomic_store_explicit(&l->owner, NULL, memory_order_relaxed);
}

static inline void stalloc_lock_release(struct stalloc_lock *l) {
	if (__builtin_expect(l->by != NULL, 1))
		stalloc_lock_leave(l->by);
	else
		lock_drop(l);
}

#endif
