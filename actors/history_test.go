package actors

import (
	"testing"

	"stalloc/internal/mem"
)

// TestWhatALaterStepFreesIsNotForGood: in the plan of set-up and the first step a block that a
// later step frees may lie where another lay before; one that nothing has freed may not.
func TestWhatALaterStepFreesIsNotForGood(t *testing.T) {
	end := cut{at: 10}
	list := []lasting{
		{size: 2 * mem.MiB, from: 1, to: 5},
		{size: 2 * mem.MiB, from: 6, to: 20},
	}
	if at := placed(list, end, end, len(list)); at[0] != at[1] {
		t.Errorf("a block that a later step frees lies at %v, want %v", at[1], at[0])
	}
	list[1].to = -1
	if at := placed(list, end, end, len(list)); at[0] == at[1] {
		t.Errorf("a block that stays for good lies at %v, where another lay", at[1])
	}
}
