package offload

import (
	"slices"
	"strings"
	"testing"

	"stalloc/internal/mem"
	"stalloc/plan/residency"
	"stalloc/trace"
)

func read(t *testing.T, name string) *trace.Trace {
	t.Helper()
	tr, err := trace.ReadFile("../../tests/traces/" + name + ".csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// unmarked is a recording without marks of the optimizer.
func unmarked(t *trace.Trace) *trace.Trace {
	c := *t
	c.Events = slices.DeleteFunc(slices.Clone(t.Events), func(e trace.Event) bool {
		return e.Kind == trace.Mark && e.Mark == "optimizer"
	})
	return &c
}

// TestInferredAsMarked: without its marks a recording has the same states, and the same answer.
func TestInferredAsMarked(t *testing.T) {
	link := residency.Link{Out: 55e9, Back: 55e9}
	for _, name := range []string{"gpt2_naive", "llama_naive", "mixtral_moe", "vit_streams",
		"more/resnet50"} {
		tr := read(t, name)
		marked, err := Tell(tr, link)
		if err != nil || !marked.Marked {
			t.Fatalf("%s: %+v, %v", name, marked, err)
		}
		inferred, err := Tell(unmarked(tr), link)
		marked.Marked = false
		if err != nil || inferred != marked {
			t.Errorf("%s: %+v with marks, %+v without, %v", name, marked, inferred, err)
		}
	}
}

// TestRecognised: two blocks for each of so many parameters of 1 MiB or more, or one for SGD; none
// where all states are smaller.
func TestRecognised(t *testing.T) {
	for name, want := range map[string]int{"hf_trainer": 172, "more/moe_ckpt": 100,
		"megatron_vpp.r0": 66, "multiscale_resnet": 29, "llama_lora": 0, "pyg_gat": 0} {
		if s, err := find(read(t, name)); s.blocks != want || (err == nil) != (want > 0) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

// small is a run of three steps whose states take 64 MiB: made in the first, with a temporary of
// 16 MiB behind them. Activations take 96 MiB from 2 ms to 6 ms of each step, after some that are
// small; the optimizer begins at 8 ms, a step has 10 ms. The sizes of other blocks, all of which
// may be 0, are those of one in set-up, of one that is freed at 7 ms, when it is requested, and of
// what the temporary has more; the last two but for the first step.
func small(setup, spike, more mem.Bytes) *trace.Trace {
	tr, id := &trace.Trace{}, int64(0)
	add := func(kind trace.Kind, id int64, size mem.Bytes, micros int64) {
		tr.Events = append(tr.Events, trace.Event{Kind: kind, ID: id, Size: size, Micros: micros})
	}
	block := func(size mem.Bytes, from, to int64) {
		id++
		add(trace.Alloc, id, size, from)
		add(trace.FreeRequested, id, 0, to)
		add(trace.FreeCompleted, id, 0, to)
	}
	block(setup, 0, 0)
	for step := range int64(3) {
		mark := "step " + string('0'+rune(step))
		tr.Events = append(tr.Events, trace.Event{Kind: trace.Mark, Mark: mark})
		begun := step * 10000
		for range 4 {
			block(512, begun+1000, begun+1500)
		}
		block(96*mem.MiB, begun+2000, begun+6000)
		if step > 0 {
			block(spike, begun+7000, begun+7000)
		}
		for range 2 {
			if id++; step == 0 {
				add(trace.Alloc, id, 32*mem.MiB, begun+8000)
			}
		}
		temporary := 16 * mem.MiB
		if step > 0 {
			temporary += more
		}
		block(temporary, begun+8000, begun+10000)
	}
	tr.Events = append(tr.Events, trace.Event{Kind: trace.Mark, Mark: "end"})
	return tr
}

// TestTell: with the states away, activations alone are the peak: 96 MiB. 64 MiB take 1 ms out and
// 2 ms back, so they are away by 2 ms, and are back between 6 and 8 ms. A quarter of the rate takes
// 4 ms out, 2 too many, and 8 ms back, from 6 on, 6 too many.
func TestTell(t *testing.T) {
	const mib = int64(mem.MiB)
	link := residency.Link{Out: 64 * mib * 1000, Back: 32 * mib * 1000}
	want := Answer{States: 64 * mem.MiB, Blocks: 2, Whole: 160 * mem.MiB, Fits: 96 * mem.MiB,
		Step: 10e6}
	if a, err := Tell(small(0, 0, 0), link); err != nil || a != want {
		t.Errorf("%+v, %v, want %+v", a, err, want)
	}
	want.Longer = 8e6
	slow := residency.Link{Out: link.Out / 4, Back: link.Back / 4}
	if a, err := Tell(small(0, 0, 0), slow); err != nil || a != want {
		t.Errorf("%+v, %v, want %+v", a, err, want)
	}
}

// TestNotTold: why nothing can be told is said.
func TestNotTold(t *testing.T) {
	short, late := small(0, 0, 0), small(0, 0, 0)
	short.Events = short.Events[:short.Steps()[1][1]]
	late.Events = late.Events[late.Steps()[1][0]-1:]
	link := residency.Link{Out: 1e9, Back: 1e9}
	for _, c := range []struct {
		tr   *trace.Trace
		link residency.Link
		want string
	}{
		{short, link, "three steps"},
		{late, link, "three steps"},
		{small(0, 0, 0), residency.Link{}, "0 bytes a second"},
		{read(t, "llama_lora"), link, "from the first step on"},
	} {
		if a, err := Tell(c.tr, c.link); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v, %v, want %q", a, err, c.want)
		}
	}
}

// TestEveryPeak: what a run needs is told wherever it needs most: in set-up, at one moment, and
// where the optimizer begins, with the states.
func TestEveryPeak(t *testing.T) {
	link := residency.Link{Out: 1e15, Back: 1e15}
	for _, c := range []struct{ setup, spike, more, fits mem.Bytes }{
		{0, 0, 0, 96}, {130, 0, 0, 130}, {0, 104, 0, 104}, {0, 0, 48, 128},
	} {
		tr := small(c.setup*mem.MiB, c.spike*mem.MiB, c.more*mem.MiB)
		if a, err := Tell(tr, link); err != nil || a.Fits != c.fits*mem.MiB {
			t.Errorf("%+v: %+v, %v", c, a, err)
		}
	}
}
