package hostmem

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// lockFile is flocked by processes that take much memory of the host, one after the other.
const lockFile = "/dev/shm/stalloc.hostmem.lock"

const (
	lockWait = 30 * time.Second // a process that is stopped must not stop all others
	lockPoll = 5 * time.Millisecond
)

// Lock keeps other processes of the host from taking memory until unlock is called. Check sees what
// is taken, not what is about to be: ranks that ask at the same time would all be told yes. After
// 30 s, or where the file cannot be had, it goes on without.
func Lock() (unlock func()) { return lock(lockFile, lockWait) }

func lock(file string, most time.Duration) (unlock func()) {
	fd, err := openLock(file)
	if err != nil {
		return func() {}
	}
	for start := time.Now(); ; time.Sleep(lockPoll) {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) ||
			time.Since(start) > most {
			return func() { _ = unix.Close(fd) } // which ends the lock
		}
	}
}

// openLock opens the file of whoever made it first. A lock needs no right to write, and another
// user's file in a sticky folder may not be opened for creation.
func openLock(file string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK
	fd, err := unix.Open(file, flags, 0)
	if errors.Is(err, unix.ENOENT) {
		fd, err = unix.Open(file, flags|unix.O_CREAT, 0o644)
	}
	return fd, err
}
