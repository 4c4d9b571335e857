package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTune: a front in a table and in a picture, and for each point a line for STALLOC_CONF.
func TestTune(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "front.svg")
	args := []string{"tune", "--replays", "8", "--svg", svg,
		"../../tests/traces/llama_naive.csv.gz"}
	out, errs, status := run(t, args...)
	if status != 0 || errs != "" {
		t.Fatalf("status %d: %s", status, errs)
	}
	for _, want := range []string{"defaults", "noisy_waste", "handle_part:192", "handle_part:768"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	drawn, err := os.ReadFile(svg)
	if err != nil || !strings.Contains(string(drawn), "first_eight") ||
		strings.Count(string(drawn), "<polyline") < 3 {
		t.Errorf("the picture: %v\n%s", err, drawn)
	}
}

func TestTuneRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"--bound \"handle_part\" is not KEY=LEAST..MOST": {"--bound", "handle_part"},
		"\"limit\" is no setting of the price":           {"--bound", "limit=1..2"},
		"grow_part from 8 to 2":                          {"--bound", "grow_part=8..2"},
		"--replays 0":                                    {"--replays", "0"},
		"--noise 2 is no share":                          {"--noise", "2"},
		"give it more with --capacity":                   {"--capacity", "2GiB"},
	} {
		args = append(append([]string{"tune"}, args...), "../../tests/traces/llama_naive.csv.gz")
		if _, errs, status := run(t, args...); status == 0 || !strings.Contains(errs, want) {
			t.Errorf("%q: status %d, %s", want, status, errs)
		}
	}
}
