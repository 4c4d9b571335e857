package camount

import (
	"strings"
	"testing"

	"stalloc/internal/mem"
)

// FuzzAmountsAgree holds the two readers of amounts together.
func FuzzAmountsAgree(f *testing.F) {
	for _, text := range []string{
		"70GB", "70GiB", "70G", "70gb", " 70 gIb ", "70 ", "75161927680", "1.5t", "0.9", "0",
		"0.000000000000000001T",
		"0.1234567890123456789GB", "4611686018427387903", "4611686018427387904", "4194304TiB",
		"4194303TiB", "4T iB",
		"1.", ".5G", "-1", "1e9", "0x10", "NaN", "inf", "", " ", "G", "70GX", "70 G B", "1..5G",
		"1.5.G", "\u212a", "7\u212a", "7\n", "7.0b", "7B",
		"99999999999999999999G", "00000000000000000000000001G",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsAny(text, "%\x00") {
			return
		}
		want, err := mem.ParseBytes(text)
		if got, share, ok := Read(text); ok != (err == nil) || got != want || share != 0 {
			t.Errorf("%q: C reads %d (share %v, %v), Go %d (%v)", text, got, share, ok, want, err)
		}
	})
}

func TestShares(t *testing.T) {
	for text, want := range map[string]float64{"90%": 0.9, "100 %": 1, "12.5%": 0.125, "0%": 0,
		"101%": 0, "%": 0, "-1%": 0, "90%%": 0, "90%x": 0} {
		if _, share, ok := Read(text); share != want && ok || ok != (want != 0) {
			t.Errorf("%q is the share %v, %v, want %v", text, share, ok, want)
		}
	}
}
