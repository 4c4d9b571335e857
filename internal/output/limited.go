package output

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// Limited writes to a file, and fails where that would exceed the process's limit of file sizes
// (ulimit -f). The kernel would also end the process, with SIGXFSZ. A program may lower the limit
// at any time, so a look at it before each write is not enough.
type Limited struct{ File *os.File }

// Write implements io.Writer.
func (l Limited) Write(b []byte) (int, error) {
	return unsignalled(func() (int, error) { return l.File.Write(b) })
}

// WriteAt implements io.WriterAt.
func (l Limited) WriteAt(b []byte, at int64) (int, error) {
	return unsignalled(func() (int, error) { return l.File.WriteAt(b, at) })
}

// Sync lets a log write to it.
func (l Limited) Sync() error { return l.File.Sync() }

// A sigset is one of the kernel's: SIGXFSZ alone, as far as it is of interest here.
type sigset uint64

const (
	tooLarge  = sigset(1) << (syscall.SIGXFSZ - 1)
	block     = 0 // SIG_BLOCK
	setMask   = 2 // SIG_SETMASK
	ofKernels = unsafe.Sizeof(sigset(0))
)

// unsignalled calls write with SIGXFSZ held back on this thread, and takes it away if it has come.
func unsignalled(write func() (int, error)) (n int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	held, before := tooLarge, sigset(0)
	mask(block, &held, &before)
	earlier := pending()
	n, err = write()
	if pending() && !earlier {
		var now syscall.Timespec
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&held)),
			0,
			uintptr(unsafe.Pointer(&now)), ofKernels, 0, 0)
	}
	mask(setMask, &before, nil)
	if errors.Is(err, syscall.EFBIG) {
		err = fmt.Errorf("%w: it would exceed the process's limit of file sizes (ulimit -f)", err)
	}
	return n, err
}

func mask(how int, to, before *sigset) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, uintptr(how),
		uintptr(unsafe.Pointer(to)),
		uintptr(unsafe.Pointer(before)), ofKernels, 0, 0)
}

// pending reports whether SIGXFSZ waits for this thread or the process.
func pending() bool {
	var waiting sigset
	_, _, code := syscall.RawSyscall(syscall.SYS_RT_SIGPENDING, uintptr(unsafe.Pointer(&waiting)),
		ofKernels, 0)
	return code == 0 && waiting&tooLarge != 0
}
