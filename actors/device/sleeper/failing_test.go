package sleeper_test

import (
	"errors"
	"testing"

	"stalloc/actors/device/devicetest"
	"stalloc/internal/driver"
)

// everyCallFails makes the nth call of the driver fail, alone and with all after it, for each n
// until none is left to fail. Whatever try did, the memory can be woken then and is as it was. try
// says how many calls failed.
func everyCallFails(t *testing.T, least int, try func(k *kit, n int, rules []devicetest.Rule) int) {
	t.Helper()
	for n := 1; ; n++ {
		var rules []devicetest.Rule
		for i := range 21 {
			rules = append(rules, devicetest.Rule{Kind: devicetest.AnyCall, Nth: n + i, Code: 2})
		}
		injected := 0
		for _, rules := range [][]devicetest.Rule{rules[:1], rules} {
			k := newKit(t)
			injected = try(k, n, rules)
			k.wake()
			k.awake("call %d failed (%d in all), and then woken", n, injected)
			k.end()
		}
		if injected == 0 {
			if n < least {
				t.Errorf("it makes %d calls, want %d at least", n-1, least-1)
			}
			return
		}
	}
}

// TestEveryCallOfSleepFails: nothing has changed, or it sleeps and can be woken.
func TestEveryCallOfSleepFails(t *testing.T) {
	everyCallFails(t, 4, func(k *kit, n int, rules []devicetest.Rule) int {
		k.fault.Set(rules...)
		asleep, err := k.Sleep(k.handles[:2])
		injected := k.fault.Injected()
		k.fault.Set()
		if (err != nil) != (injected > 0) || err == nil && !asleep {
			t.Errorf("call %d, %d failed: asleep %v, %v", n, injected, asleep, err)
		}
		if !asleep {
			k.awake("call %d failed", n)
		} else if n%2 == 0 { // once more first
			k.sleep()
		}
		return injected
	})
}

// TestEveryCallOfWakeFails: what was made is given back, if that does not fail, too, and waking can
// be tried again.
func TestEveryCallOfWakeFails(t *testing.T) {
	everyCallFails(t, 6, func(k *kit, n int, rules []devicetest.Rule) int {
		k.sleep()
		k.fault.Set(rules...)
		err := k.Wake(k.handles[:2])
		injected := k.fault.Injected()
		k.fault.Set()
		if (err != nil) != (injected > 0) || injected > 0 &&
			!errors.Is(err, driver.ErrOutOfMemory) {
			t.Errorf("call %d, %d failed: %v", n, injected, err)
		}
		if used := k.gpu.Used(); len(rules) == 1 && injected > 0 &&
			(used != page || k.Asleep() != 3*page) {
			t.Errorf("call %d failed: %v is taken and %v sleeps", n, used, k.Asleep())
		}
		if n%2 == 0 {
			k.sleep()
		}
		return injected
	})
}
