package main

import (
	"testing"

	"stalloc/internal/without"
)

// TestWaitOff: without waits nothing is lent either. Handles that are lent serve nobody until their
// fence has passed, so a request that does not wait for them would have new ones made meanwhile.
func TestWaitOff(t *testing.T) {
	for text, want := range map[string]without.Set{
		"":         0,
		"wait:on":  0,
		"wait:off": without.Wait | without.Lend,
	} {
		if got := parseSettings("test", text).without; got != want {
			t.Errorf("%q switches off %b, want %b", text, got, want)
		}
	}
}
