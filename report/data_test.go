package report

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stalloc/internal/mem"
)

// TestVerdictsOfAllRecordings: the verdict on each recording, the long ones too, says what `stalloc
// replay --smallest` found of it, which docs/data keeps: no other amounts, and that stalloc wins
// only where it needs less.
func TestVerdictsOfAllRecordings(t *testing.T) {
	amounts := regexp.MustCompile(`[0-9.]+ [KMG]iB`)
	ran := 0
	for name, d := range recorded(t) {
		ran++
		fits, speed := d.figures()
		said := verdict(d)
		for i, f := range []figure{fits, speed} {
			var want []mem.Bytes
			for _, who := range compared {
				if f[who] > 0 {
					want = append(want, f[who].Up())
				}
			}
			if got := amounts.FindAllString(said[i], -1); !slices.Equal(got, texts(want)) {
				t.Errorf("%s: %q, found %v", name, said[i], want)
			}
		}
		decisive := speed
		if speed == nil {
			decisive = fits
		}
		native, expandable, ours := decisive["native"], decisive["expandable"], decisive["stalloc"]
		least := native
		if native == 0 || expandable > 0 && expandable < native {
			least = expandable
		}
		slack := mem.Bytes(noDifference * float64(d.Peak.Load))
		wins := ours > 0 && least > 0 && ours < least-slack
		loses := least > 0 && (ours == 0 || ours > least+slack)
		if strings.HasPrefix(said[2], "Use stalloc: ") != (wins || ours > 0 && least == 0) ||
			loses != (strings.HasPrefix(said[2], "Use ") && !strings.HasPrefix(said[2],
				"Use stalloc")) {
			t.Errorf("%s: %q, found %v", name, said[2], decisive)
		}
		var want []mem.Bytes
		switch {
		case wins && (native == 0 || native-least <= slack):
			want = []mem.Bytes{least - ours}
		case wins:
			want = []mem.Bytes{least - ours, native - ours}
		case loses && ours > 0:
			want = []mem.Bytes{ours - least}
		}
		if got := amounts.FindAllString(said[2], -1); !slices.Equal(got, texts(want)) {
			t.Errorf("%s: %q, want %v", name, said[2], want)
		}
	}
	if ran < 35 {
		t.Errorf("%d recordings are in the data", ran)
	}
}

func texts(amounts []mem.Bytes) (all []string) {
	for _, n := range amounts {
		all = append(all, n.String())
	}
	return all
}

// recorded is what docs/data keeps of each recording, as a report has it.
func recorded(t *testing.T) map[string]*Data {
	file, err := os.Open(filepath.Join("..", "docs", "data", "recordings.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	found := make(map[string]*Data)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var r struct {
			Trace, Allocator string
			Load             mem.Bytes `json:"peak_load_bytes"`
			FitsIn           mem.Bytes `json:"fits_in_bytes"`
			FullSpeedIn      mem.Bytes `json:"full_speed_in_bytes"`
			SteadyUS         float64   `json:"steady_time_us"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		d := found[r.Trace]
		if d == nil {
			d = &Data{Peak: Peak{Load: r.Load}}
			found[r.Trace] = d
		}
		d.Allocators = append(d.Allocators, Allocator{Name: r.Allocator, FitsIn: r.FitsIn,
			FullSpeedIn: r.FullSpeedIn, SteadyMillis: r.SteadyUS / 1e3})
	}
	return found
}
