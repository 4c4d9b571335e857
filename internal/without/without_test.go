package without

import (
	"strings"
	"testing"
)

// TestNames: every mechanism has a name, and every name a mechanism of its own.
func TestNames(t *testing.T) {
	var all Set
	for _, text := range Texts() {
		name, what, _ := strings.Cut(text, ": ")
		x, err := Parse(name)
		if err != nil || all.Has(x) || what == "" {
			t.Errorf("%q: %b, %v", text, x, err)
		}
		all |= x
	}
	if all != Lend<<1-1 {
		t.Errorf("%b are named", all)
	}
	if _, err := Parse("nothing"); err == nil || !strings.Contains(err.Error(), "stitch") {
		t.Errorf("a name that is none: %v", err)
	}
}
