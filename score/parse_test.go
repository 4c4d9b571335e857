package score

import (
	"fmt"
	"strings"
	"testing"

	"stalloc/internal/mem"
)

// TestParse: an answer has decimal digits alone, as the protocol says. ParseFloat takes more.
func TestParse(t *testing.T) {
	for line, good := range map[string]bool{
		"512,2097152":                               true,
		"512,2097152,3,4":                           true,
		"512,2097152,3,4.25":                        true,
		"0512,2097152,0,0000.5":                     true,
		"512,2097152,3,0x10":                        false,
		"512,2097152,3,0x1p4":                       false,
		"512,2097152,3,1e3":                         false,
		"512,2097152,3,inf":                         false,
		"512,2097152,3,NaN":                         false,
		"512,2097152,3,+4":                          false,
		"512,2097152,3,-0":                          false,
		"512,2097152,3,4_0":                         false,
		"512,2097152,3,1.2.3":                       false,
		"512,2097152,3,.":                           false,
		"512,2097152,3,":                            false,
		"512,2097152,3":                             false,
		"512,2097152,3,4,5":                         false,
		"512,2097152,+3,4":                          false,
		"512,0x200000,3,4":                          false,
		" 512,2097152":                              false,
		"512, 2097152":                              false,
		"512,2097152 ":                              false,
		"9223372036854775808,2097152":               false,
		"512,4611686018427387904":                   false,
		"512,2097152,3,1" + strings.Repeat("0", 18): false,
		"": false,
	} {
		at, now, counted, err := parse(line, true)
		if (err == nil) != good {
			t.Errorf("%q: %v", line, err)
		}
		all := strings.Count(line, ",") == 3
		if good && (at != 512 || now.reserved != 2*mem.MiB || counted != all) {
			t.Errorf("%q: %v, %+v, %v", line, at, now, counted)
		}
	}
}

// FuzzParse: what is taken has the form that the protocol gives, and says what it says.
func FuzzParse(f *testing.F) {
	for _, line := range []string{"512,2097152", "512,2097152,3,4.5", "full", "0x1,2,3,1e5"} {
		f.Add(line, true)
		f.Add(line, false)
	}
	f.Fuzz(func(t *testing.T, line string, address bool) {
		at, now, counted, err := parse(line, address)
		if err != nil {
			if text := err.Error(); !strings.Contains(text, fmt.Sprintf("got %.80q", line)) {
				t.Errorf("%q: %s", line, text)
			}
			return
		}
		if strings.Trim(line, "0123456789,.") != "" || at >= 1<<63 || now.reserved < 0 ||
			now.retries < 0 || !(now.micros >= 0 && now.micros < 1e18) {
			t.Errorf("%q: %v, %+v", line, at, now)
		}
		fields := 1
		if address {
			fields++
		}
		if counted {
			fields += 2
		}
		if n := strings.Count(line, ",") + 1; n != fields {
			t.Errorf("%q has %d fields, expected %d", line, n, fields)
		}
	})
}
