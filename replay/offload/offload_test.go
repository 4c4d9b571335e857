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
// 16 MiB behind them. Activations take 96 MiB from 2 ms to 6 ms of each step, the optimizer begins
// at 8 ms, a step has 10 ms.
func small(t *testing.T) *trace.Trace {
	t.Helper()
	const text = `# workload small
# step 0
a,1,100663296,0,2000
r,1,6000
f,1,6000
a,2,33554432,0,8000
a,3,33554432,0,8000
a,4,16777216,0,8001
r,4,10000
f,4,10000
# step 1
a,5,100663296,0,12000
r,5,16000
f,5,16000
a,6,16777216,0,18000
r,6,20000
f,6,20000
# step 2
a,7,100663296,0,22000
r,7,26000
f,7,26000
a,8,16777216,0,28000
r,8,30000
f,8,30000
# end
`
	r, err := trace.NewReader(strings.NewReader(text), "small")
	tr := &trace.Trace{}
	for err == nil {
		var e trace.Event
		if e, err = r.Next(); err == nil {
			tr.Events = append(tr.Events, e)
		}
	}
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
	if a, err := Tell(small(t), link); err != nil || a != want {
		t.Errorf("%+v, %v, want %+v", a, err, want)
	}
	want.Longer = 8e6
	slow := residency.Link{Out: link.Out / 4, Back: link.Back / 4}
	if a, err := Tell(small(t), slow); err != nil || a != want {
		t.Errorf("%+v, %v, want %+v", a, err, want)
	}
}

// TestNotTold: why nothing can be told is said.
func TestNotTold(t *testing.T) {
	short, late := small(t), small(t)
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
		{small(t), residency.Link{}, "0 bytes a second"},
		{read(t, "llama_lora"), link, "from the first step on"},
	} {
		if a, err := Tell(c.tr, c.link); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v, %v, want %q", a, err, c.want)
		}
	}
}
