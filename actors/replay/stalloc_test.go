package replay

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"stalloc/trace"
)

// TestWarmIsTheSecondStart: a run that is long enough leaves a plan, which serves
// the next start from its first request on; one that is not leaves nothing. No file
// is left either.
func TestWarmIsTheSecondStart(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	long, err := trace.ReadFile("../../tests/traces/llama_naive.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	cold, warm := replayed(t, long, "stalloc", Config{Capacity: device}), replayed(t, long, "stalloc", Config{Capacity: device, Warm: true})
	if cold.Mode != Cold || warm.Mode != Warm || cold.Hits == 0 || warm.Hits < cold.Hits {
		t.Errorf("cold %+v\nwarm %+v", cold, warm)
	}
	short := *long
	short.Events = long.Events[:long.Steps()[1][1]]
	cold, warm = replayed(t, &short, "stalloc", Config{Capacity: device}), replayed(t, &short, "stalloc", Config{Capacity: device, Warm: true})
	cold.Mode = Warm
	if !reflect.DeepEqual(cold, warm) || warm.Hits > 0 {
		t.Errorf("after a short run\n%+v\ncold\n%+v", warm, cold)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestWarmWithoutAFolder: a second start that nothing can be kept for is no run.
func TestWarmWithoutAFolder(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	_, err := ours().Replay(context.Background(), script(t, "tiny", twoSteps), Config{Capacity: device, Warm: true}, nil)
	if err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("got error %v", err)
	}
}

// TestWarmEndsWithItsContext: in its first run, too.
func TestWarmEndsWithItsContext(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := ours().Replay(ctx, script(t, "tiny", twoSteps), Config{Capacity: device, Warm: true}, nil)
	if err == nil || !strings.Contains(err.Error(), "the first of two runs") {
		t.Errorf("got error %v", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
