package replay

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"stalloc/trace"
)

// TestWarmIsTheSecondStart: a run that is long enough leaves a plan, which serves
// the next start from its first request on; one that is not leaves nothing.
func TestWarmIsTheSecondStart(t *testing.T) {
	long, err := trace.ReadFile("../tests/traces/llama_naive.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	cold, warm := replayed(t, long, "stalloc", Config{Capacity: device}), replayed(t, long,
		"stalloc", Config{Capacity: device, Warm: true})
	if cold.Mode != Cold || warm.Mode != Warm || cold.Hits == 0 || warm.Hits < cold.Hits {
		t.Errorf("cold %+v\nwarm %+v", cold, warm)
	}
	short := *long
	short.Events = long.Events[:long.Steps()[1][1]]
	cold, warm = replayed(t, &short, "stalloc", Config{Capacity: device}), replayed(t, &short,
		"stalloc", Config{Capacity: device, Warm: true})
	cold.Mode = Warm
	if !reflect.DeepEqual(cold, warm) || warm.Hits > 0 {
		t.Errorf("after a short run\n%+v\ncold\n%+v", warm, cold)
	}
}

// TestWarmEndsWithItsContext: in its first run, too.
func TestWarmEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := ours().Replay(ctx, script(t, "tiny", twoSteps), Config{Capacity: device, Warm: true},
		nil)
	if err == nil || !strings.Contains(err.Error(), "the first of two runs") {
		t.Errorf("got error %v", err)
	}
}

// TestUsedByAStreamAndFreedLate: a recording may say both that a block is used on another stream
// and when its free completed. It is free from then on.
func TestUsedByAStreamAndFreedLate(t *testing.T) {
	var text strings.Builder
	text.WriteString("# workload offload\n")
	id, now := 0, 0
	for step := range 6 {
		fmt.Fprintf(&text, "# step %d\n", step)
		for range 20 {
			fmt.Fprintf(&text, "a,%d,67108864,0,%d\ns,%[1]d,1,%[2]d\nr,%[1]d,%[2]d\n", id, now)
			if id++; id > 1 {
				fmt.Fprintf(&text, "f,%d,%d\n", id-2, now+500)
			}
			now += 1000
		}
	}
	r := replayed(t, script(t, "offload", text.String()), "stalloc", Config{Capacity: device})
	if r.PeakReserved > 2*r.PeakLoad {
		t.Errorf("%v are held for a load of %v", r.PeakReserved, r.PeakLoad)
	}
}

// TestUnwatched: whether anyone watches changes nothing but the time it takes.
func TestUnwatched(t *testing.T) {
	tr, err := trace.ReadFile("../tests/traces/vit_streams.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	watched := replayed(t, tr, "stalloc", Config{Capacity: device})
	got := replayed(t, tr, "stalloc", Config{Capacity: device, Unwatched: true})
	if !reflect.DeepEqual(watched, got) {
		t.Errorf("unwatched\n%+v\nwatched\n%+v", got, watched)
	}
}
