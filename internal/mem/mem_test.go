package mem

import (
	"strings"
	"testing"
)

func TestRound(t *testing.T) {
	for _, c := range []struct{ in, want Bytes }{
		{0, 512}, {1, 512}, {512, 512}, {513, 1024}, {1 << 20, 1 << 20}, {1<<20 + 1, 1<<20 + 512},
	} {
		if got := Round(c.in); got != c.want {
			t.Errorf("Round(%d) = %d, want %d", c.in, got, c.want)
		}
	}
	if Handles(0) != 0 || Handles(1) != 1 || Handles(HandleSize) != 1 ||
		Handles(HandleSize+1) != 2 {
		t.Error("Handles does not round up")
	}
}

func TestParseBytes(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Bytes
	}{
		{"80GiB", 80 << 30}, {"512 MiB", 512 << 20}, {"1.5g", 3 << 29}, {"4096", 4096}, {"7b",
			7}, {"2T", 2 << 40},
		{"70GB", 70e9}, {"1.5 TB", 15e11}, {"70G", 70 << 30}, {"0", 0}, {" 3kb ", 3000},
	} {
		got, err := ParseBytes(c.in)
		if err != nil || got != c.want {
			t.Errorf("ParseBytes(%q) = %d, %v, want %d", c.in, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "GiB", "-1", "1e40", "12 parsecs", "NaN", "0.9", "90%", "1e9",
		".5G", "1.G", "7.5b", "70GX"} {
		if got, err := ParseBytes(bad); err == nil {
			t.Errorf("ParseBytes(%q) = %d without an error", bad, got)
		}
	}
	for _, large := range []string{"4194304TiB", "99999999TiB", "4611686018427387904",
		"99999999999999999999999 kb"} {
		if got, err := ParseBytes(large); err == nil || !strings.Contains(err.Error(),
			"too large") {
			t.Errorf("ParseBytes(%q) = %d, %v", large, got, err)
		}
	}
}

// TestUp: what is printed of an amount that suffices, suffices.
func TestUp(t *testing.T) {
	for _, c := range []struct {
		in   Bytes
		want string
	}{
		{0, "0 B"}, {1023, "1023 B"}, {1025, "1.01 KiB"}, {3 << 29, "1.50 GiB"}, {21_692_940_288,
			"20.21 GiB"}, {MiB - 1, "1.00 MiB"},
	} {
		up := c.in.Up()
		if read, err := ParseBytes(up.String()); up.String() != c.want || err != nil ||
			read < c.in || up.Up() != up {
			t.Errorf("%d: %q, %v, want %q", int64(c.in), up, err, c.want)
		}
	}
}

func TestString(t *testing.T) {
	for _, c := range []struct {
		in   Bytes
		want string
	}{{0, "0 B"}, {512, "512 B"}, {3 << 29, "1.50 GiB"}, {-2 << 20, "-2.00 MiB"}} {
		if got := c.in.String(); got != c.want {
			t.Errorf("String(%d) = %q, want %q", int64(c.in), got, c.want)
		}
	}
}
