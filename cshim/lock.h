/* The lock of a stream, which one thread may take without an atomic exchange.
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
 * Why every owner has a flag of its own: a thread may be stopped between seeing
 * that it is the owner and raising the flag, and go on long after it has lost
 * the ownership. It lowers the flag again as soon as it looks, and must not
 * lower another's meanwhile. Flags are never reused by another thread. */
#ifndef STALLOC_LOCK_H
#define STALLOC_LOCK_H

#include <linux/membarrier.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Looks at a lock that another holds before the caller is told. After them the wait must
 * not go on in C where C was called by Go: the holder may be a goroutine that Go's
 * collector has stopped, and the collector may be waiting for this very call to return.
 * (A thread that enters C just as the world is stopped can be missed: reentersyscall looks
 * for the collector before it counts as being in a system call. Nobody then takes its
 * processor away until the runtime's monitor wakes, after a minute.) */
#define STALLOC_PATIENCE 80
/* Of those, the looks before other threads are let go ahead. */
#define STALLOC_SPINS 64

/* Threads that can become owner of one stream's lock; more do without. */
#define STALLOC_OWNERS 6
/* Acquisitions in a row that make an owner: many more than it costs to end the
 * ownership, so that threads that take turns lose little. */
#define STALLOC_STREAK 128

struct stalloc_owner {
	uintptr_t thread; /* 0: not in use */
	_Atomic uint32_t inside;
};

struct stalloc_lock {
	_Atomic uint32_t taken;  /* by exchange */
	uint32_t streak;	 /* acquisitions by exchange in a row by last */
	_Atomic(struct stalloc_owner *) owner;
	struct stalloc_owner *by; /* how the holder got in: as this owner, or NULL */
	uintptr_t last;
	bool may_own; /* membarrier is there */
	struct stalloc_owner owners[STALLOC_OWNERS];
};

/* Once, before the first lock is made. False: locks without owners. */
static inline bool stalloc_lock_prepare(void) {
	return syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* The same in every library of the process, unlike a variable of our own. */
static inline uintptr_t stalloc_thread(void) { return (uintptr_t)__builtin_thread_pointer(); }

/* Counts an acquisition by exchange, and perhaps makes the thread the owner. */
static inline void stalloc_lock_count(struct stalloc_lock *l) {
	uintptr_t me = stalloc_thread();
	l->by = NULL;
	if (l->last != me) {
		l->last = me;
		l->streak = 0;
		return;
	}
	if (++l->streak < STALLOC_STREAK || !l->may_own) return;
	l->streak = 0;
	for (int i = 0; i < STALLOC_OWNERS; i++) {
		struct stalloc_owner *o = &l->owners[i];
		if (o->thread == 0) o->thread = me;
		if (o->thread != me) continue;
		atomic_store_explicit(&l->owner, o, memory_order_release);
		return;
	}
}

/* Takes the lock from the outside: ends an ownership that stands in the way. False: after
 * so many looks somebody is still inside. The owner keeps the ownership then, because the
 * next one to come has to look at its flag, too. */
static __attribute__((noinline, unused)) bool stalloc_lock_outside(struct stalloc_lock *l, unsigned patience) {
	unsigned looks = 0;
	for (; atomic_exchange_explicit(&l->taken, 1, memory_order_acquire) != 0; looks++) {
		if (looks >= patience) return false;
		if (looks > STALLOC_SPINS) sched_yield();
	}
	struct stalloc_owner *o = atomic_load_explicit(&l->owner, memory_order_relaxed);
	if (o) {
		bool inside = patience == 0 && atomic_load_explicit(&o->inside, memory_order_relaxed);
		if (!inside) syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
		while (inside || atomic_load_explicit(&o->inside, memory_order_acquire)) {
			if (looks >= patience) {
				atomic_store_explicit(&l->taken, 0, memory_order_release);
				return false;
			}
			if (looks++ > STALLOC_SPINS) sched_yield();
		}
		/* Seen by whoever finds the lock free again. */
		atomic_store_explicit(&l->owner, NULL, memory_order_relaxed);
		l->last = 0;
	}
	stalloc_lock_count(l);
	return true;
}

/* Takes the lock if this thread is its owner, and says as what; NULL: it does not. Leave it
 * by stalloc_lock_leave; or enter the owner as by, and leave it like any other lock. */
static inline struct stalloc_owner *stalloc_lock_enter(struct stalloc_lock *l) {
	struct stalloc_owner *o = atomic_load_explicit(&l->owner, memory_order_acquire);
	if (__builtin_expect(!o || o->thread != stalloc_thread(), 0)) return NULL;
	/* Inside already: Go has moved a goroutine that holds the lock off this
	 * thread. Acquire: what it did is to be seen here. */
	if (__builtin_expect(atomic_load_explicit(&o->inside, memory_order_acquire) != 0, 0)) return NULL;
	atomic_store_explicit(&o->inside, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst); /* for the compiler; membarrier for the machine */
	if (__builtin_expect(atomic_load_explicit(&l->taken, memory_order_acquire) == 0 &&
				     atomic_load_explicit(&l->owner, memory_order_relaxed) == o, 1))
		return o;
	atomic_store_explicit(&o->inside, 0, memory_order_release);
	return NULL;
}

static inline void stalloc_lock_leave(struct stalloc_owner *o) { atomic_store_explicit(&o->inside, 0, memory_order_release); }

/* Takes the lock if it is free, or becomes so within a few looks. */
static inline bool stalloc_lock_try(struct stalloc_lock *l, unsigned patience) {
	struct stalloc_owner *o = atomic_load_explicit(&l->owner, memory_order_acquire);
	if (__builtin_expect(!o || o->thread != stalloc_thread(), 0)) return stalloc_lock_outside(l, patience);
	if (!(o = stalloc_lock_enter(l))) return false;
	l->by = o;
	return true;
}

/* Waits for the lock, asleep after a while: its holder may have less priority, or be a
 * goroutine that does not run now. Never called by Go. */
static __attribute__((noinline, unused)) void stalloc_lock_wait(struct stalloc_lock *l) {
	struct timespec nap = {.tv_nsec = 20000};
	while (!stalloc_lock_try(l, STALLOC_PATIENCE)) {
		nanosleep(&nap, NULL);
		if (nap.tv_nsec < 1000000) nap.tv_nsec *= 2;
	}
}

static inline void stalloc_lock_release(struct stalloc_lock *l) {
	if (__builtin_expect(l->by != NULL, 1))
		atomic_store_explicit(&l->by->inside, 0, memory_order_release);
	else
		atomic_store_explicit(&l->taken, 0, memory_order_release);
}

#endif
