package plan

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"stalloc/internal/mem"
)

// makeIrregular plans one kind of step from several: steps[k] holds what each stream did
// in the k-th, the latest last.
func makeIrregular(steps [][]*Step) (*Plan, error) {
	last := len(steps) - 1
	return MakeRun(Run{Steady: [][]*Step{steps[last]}, Earlier: [][][]*Step{steps[:last]}}, Options{})
}

// layers records a step of layers with experts. Each expert makes three blocks of
// a size of its own and an expert may have nothing to do; between the experts lie
// regular parts.
func layers(r *rand.Rand, layers, experts int) *Step {
	var rec Recorder
	id := uint64(0)
	alloc := func(n mem.Bytes) uint64 {
		id++
		rec.Alloc(id, n)
		return id
	}
	var saved []uint64
	for range layers {
		a := alloc(8 * mem.MiB)
		saved = append(saved, a, alloc(2*mem.MiB))
		for range experts {
			if r.IntN(12) == 0 {
				continue
			}
			n := mem.Bytes(1+r.IntN(4000)) * 1024
			b, c := alloc(n), alloc(3*n)
			saved = append(saved, c)
			rec.Free(b)
		}
		b := alloc(16 * mem.MiB)
		rec.Free(b)
	}
	for i := len(saved) - 1; i >= 0; i-- {
		b := alloc(mem.MiB)
		rec.Free(saved[i])
		rec.Free(b)
	}
	return rec.Boundary()
}

func TestIrregularPlanKeepsWhatIsRegular(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var learned [][]*Step
	for range 3 {
		learned = append(learned, []*Step{layers(r, 12, 8)})
	}
	p, err := makeIrregular(learned)
	if err != nil {
		t.Fatal(err)
	}
	last := learned[2][0]
	count := map[mem.Bytes]int{}
	for _, b := range last.Blocks {
		count[b.Size]++
	}
	slots := map[mem.Bytes]int{}
	for _, s := range p.Streams[0].Slots {
		if !s.Pool {
			slots[s.Size]++
		}
	}
	for _, size := range []mem.Bytes{16 * mem.MiB, 8 * mem.MiB, 2 * mem.MiB} {
		if 10*slots[size] < 9*count[size] {
			t.Errorf("%d of %d blocks of %v, which never vary, have slots", slots[size], count[size], size)
		}
	}
	events := 0
	for _, e := range p.Streams[0].Tapes[0].Entries {
		if e.Frees() {
			events++
		}
	}
	if transient := len(last.Blocks); events != transient {
		t.Errorf("%d frees on the tape, the step has %d blocks", events, transient)
	}
	var file bytes.Buffer
	if err := p.Encode(&file); err != nil {
		t.Fatal(err)
	}
	if again, err := Decode(&file, "irregular"); err != nil || !reflect.DeepEqual(again, p) {
		t.Errorf("the plan came back from its file otherwise (%v)", err)
	}
}

// TestEqualStepsPlanAsOne: what does not vary is planned as Make plans it.
func TestEqualStepsPlanAsOne(t *testing.T) {
	steps := []*Step{layers(rand.New(rand.NewPCG(7, 7)), 6, 4)}
	want, err := Make(steps, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := makeIrregular([][]*Step{steps, steps, steps})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Error("three equal steps are planned otherwise than one")
	}
}

// scale records a step whose sizes move with one parameter.
func scale(x mem.Bytes) *Step {
	var rec Recorder
	for i := range uint64(60) {
		rec.Alloc(i, mem.Bytes(i+1)*x*64+mem.Bytes(i%3)*mem.MiB)
	}
	for i := range uint64(60) {
		rec.Free(59 - i)
	}
	return rec.Boundary()
}

// TestEnvelope: where sizes move together an envelope is as large as the largest
// step, and where they do not it is larger than any.
func TestEnvelope(t *testing.T) {
	plan := func(learned ...*Step) *Plan {
		run := Run{Steady: [][]*Step{{learned[len(learned)-1]}}, Earlier: [][][]*Step{nil}, Envelope: true}
		for _, s := range learned[:len(learned)-1] {
			run.Earlier[0] = append(run.Earlier[0], []*Step{s})
		}
		p, err := MakeRun(run, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := plan(scale(700), scale(1900), scale(1234))
	for i, s := range p.Streams[0].Slots {
		if s.Pool || s.Size != mem.Round(mem.Bytes(i+1)*1900*64+mem.Bytes(i%3)*mem.MiB) {
			t.Errorf("slot %d is %+v, want one of the largest size", i, s)
		}
	}
	if peak, _ := scale(1900).Peaks(); p.Streams[0].Makespan != peak {
		t.Errorf("the arena takes %v, the largest step %v", p.Streams[0].Makespan, peak)
	}
	r := rand.New(rand.NewPCG(3, 3))
	experts := []*Step{layers(r, 5, 9), layers(r, 5, 9), layers(r, 5, 9)}
	var most mem.Bytes
	for _, s := range experts {
		peak, _ := s.Peaks()
		most = max(most, peak)
	}
	if got := plan(experts...).Streams[0].LowerBound; got <= most {
		t.Errorf("the envelope of experts needs %v, the largest of their steps %v", got, most)
	}
}

func TestIrregularRefusesBadSteps(t *testing.T) {
	bad := &Step{Ops: []Op{{Block: 0}}, Blocks: []Block{{Size: 7, Alloc: 0, Free: 1}}}
	_, err := makeIrregular([][]*Step{{scale(7)}, {bad}})
	if err == nil || !strings.Contains(err.Error(), "stream 0: step 2 of 2") {
		t.Errorf("the error is %v", err)
	}
}

func BenchmarkClassify(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	steps := []*Step{layers(r, 24, 60), layers(r, 24, 60), layers(r, 24, 60)}
	b.ReportAllocs()
	for b.Loop() {
		classify(steps)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(steps[2].Ops)), "ns/event")
}
