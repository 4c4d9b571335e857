//go:build cgo

package sleep

import (
	"fmt"
	"strings"
	"testing"
)

// failures are: the nth call alone, and with it those behind it.
func failures(n int) []string {
	var all []string
	for i := range 25 {
		all = append(all, fmt.Sprintf("*:%d:2", n+i))
	}
	return []string{all[0], strings.Join(all, ",")}
}

// every makes each driver call of do fail, alone and with those behind it, in a program of its own
// that prepare has led so far. Whatever failed, all can sleep and wake again, and holds what it
// held.
func every(t *testing.T, least int, prepare func(*kit), do func(*kit) error) {
	t.Setenv("FAKECUDA_POISON", "0") // memory that is made anew has zeros
	for n := 1; ; n++ {
		failed := false
		for i, rules := range failures(n) {
			k := newKit(t)
			k.small()
			prepare(k)
			lib.Fail(rules)
			err := do(k)
			lib.Fail("")
			failed = failed || err != nil
			s := k.Stats()
			if k.taken() != s.Reserved {
				t.Errorf("call %d.%d failed (%v): %v is taken, and %v reserved", n, i, err,
					k.taken(), s.Reserved)
			}
			if n%2 == 0 {
				k.pause(true)
				if k.taken() != 0 {
					t.Errorf("call %d.%d failed: %v is taken of what sleeps", n, i, k.taken())
				}
			}
			k.resume()
			k.same("call %d.%d failed (%v)", n, i, err)
			k.end()
		}
		if !failed {
			if n <= least {
				t.Errorf("%d calls were made to fail, too few", n-1)
			}
			return
		}
	}
}

// small leaves few blocks, of both pools, one of them in a view.
func (k *kit) small() {
	k.Helper()
	a := k.malloc(0, 3<<20)
	k.malloc(0, 3<<20)
	b := k.malloc(0, 4<<20)
	k.malloc(k.weights, 1<<20)
	k.free(a)
	k.free(b)
	k.malloc(0, 6<<20)
}

func TestEveryCallOfPauseFails(t *testing.T) {
	every(t, 20, func(*kit) {}, func(k *kit) error { return k.Pause(nil, true) })
}

func TestEveryCallOfResumeFails(t *testing.T) {
	every(t, 20, func(k *kit) { k.pause(true) }, func(k *kit) error { return k.Resume(nil) })
}

// TestNotPinned: where memory of the host cannot be pinned, copies are as right.
func TestNotPinned(t *testing.T) {
	for _, rules := range []string{"cuMemHostRegister:*:801", "cuMemHostRegister:2:801"} {
		k := newKit(t)
		k.program()
		lib.Fail(rules)
		k.pause(true)
		lib.Fail("")
		if n := lib.Count("cuMemHostRegister") - lib.Live("pins"); n == 0 {
			t.Error("none was refused")
		}
		k.resume()
		k.same("not pinned (%s)", rules)
		k.end()
		if n := lib.Live("pins"); n != 0 {
			t.Errorf("%d pins are left", n)
		}
	}
}

// TestNotUnpinned: memory of the host that stays pinned is not used for anything else, and is
// unpinned once the driver does that again.
func TestNotUnpinned(t *testing.T) {
	k := newKit(t)
	k.program()
	lib.Fail("cuMemHostUnregister:*:999")
	for range 3 {
		k.pause(true)
		k.resume()
		k.same("not unpinned")
	}
	if n := lib.Count("cuMemHostRegister"); n == 0 || n != lib.Live("pins") {
		t.Errorf("%d pins, and %d were asked for: some at addresses that had one", lib.Live("pins"),
			n)
	}
	lib.Fail("")
	k.end()
	if n := lib.Live("pins"); n != 0 {
		t.Errorf("%d pins are left", n)
	}
}
