package sleeper_test

import (
	"testing"

	"stalloc/actors/device/devicetest"
	"stalloc/internal/driver"
)

// TestNoCallNamesWhatSleeps: while a handle sleeps, others sleep and wake, with each driver call
// failing once. The driver may use the value of a released handle again, so no call may name it.
func TestNoCallNamesWhatSleeps(t *testing.T) {
	everyCallFails(t, 3, func(k *kit, n int, rules []devicetest.Rule) int {
		if asleep, err := k.Sleep(k.handles[:1]); !asleep || err != nil {
			t.Fatal(asleep, err)
		}
		k.fault.Set(rules...)
		asleep, err := k.Sleep(k.handles[:2])
		injected := k.fault.Injected()
		k.fault.Set()
		if !asleep && k.Asleep() != page {
			t.Errorf("call %d failed: nothing should have changed, and %v sleeps", n, k.Asleep())
		}
		if len(rules) == 1 && n == 1 && asleep {
			t.Errorf("unmapping failed, and was not undone: %v", err)
		}
		return injected
	})
}

// TestNumbersNameMemory: memory that is made on waking has another number than what was there
// before.
func TestNumbersNameMemory(t *testing.T) {
	d, base, h := lone(t)
	number := func() driver.Handle {
		t.Helper()
		_, all, err := d.Export(base, page)
		if err != nil {
			t.Fatal(err)
		}
		d.Unexport(base, page)
		return all[0].Number
	}
	before := number()
	if number() != before {
		t.Error("the same memory has another number")
	}
	if asleep, err := d.Sleep([]driver.Handle{h}); !asleep || err != nil {
		t.Fatal(asleep, err)
	}
	if _, _, err := d.Export(base, page); err == nil {
		t.Error("memory that sleeps is exported")
	}
	if err := d.Wake([]driver.Handle{h}); err != nil {
		t.Fatal(err)
	}
	if after := number(); after == before {
		t.Errorf("other memory has number %d, too", after)
	}
}
