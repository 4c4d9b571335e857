package plan

import (
	"slices"
	"testing"

	"stalloc/internal/mem"
)

// naiveLife is one block of the naive model: event numbers over the whole run.
type naiveLife struct {
	size        mem.Bytes
	alloc, free int
	excluded    int // event number at which it was excluded
}

// TestRecorderAgainstModel drives a recorder and a model that keeps every block
// for ever, with reused identifiers, unknown frees and lost events.
func TestRecorderAgainstModel(t *testing.T) {
	const never = 1 << 40
	rng := newRand(t)
	for range 200 {
		var r Recorder
		var lives []naiveLife
		current := map[uint64]int{} // live identifier to its life
		unknown, replaced, event, begin := 0, 0, 0, 0
		for range 5 {
			for range rng.IntN(60) {
				id := uint64(rng.IntN(12))
				life, live := current[id]
				switch rng.IntN(8) {
				case 0, 1, 2:
					size := mem.Bytes(rng.IntN(5000))
					if live {
						replaced++
						lives[life].free = event
						event++
					}
					current[id] = len(lives)
					lives = append(lives, naiveLife{mem.Round(size), event, never, never})
					event++
					r.Alloc(id, size)
				case 3:
					if live {
						lives[life].excluded = min(lives[life].excluded, event)
					}
					r.Exclude(id)
				default:
					if live {
						lives[life].free = event
						event++
						delete(current, id)
					} else {
						unknown++
					}
					r.Free(id)
				}
			}
			compareStep(t, r.Boundary(), lives, begin, event)
			begin = event
		}
		if r.Unknown != unknown || r.Replaced != replaced || r.Live() != len(current) {
			t.Fatalf("unknown %d replaced %d live %d, expected %d %d %d",
				r.Unknown, r.Replaced, r.Live(), unknown, replaced, len(current))
		}
	}
}

// compareStep holds a closed step against the model's lives in [begin, end).
func compareStep(t *testing.T, s *Step, lives []naiveLife, begin, end int) {
	t.Helper()
	if err := s.check(); err != nil {
		t.Fatal(err)
	}
	if len(s.Ops) != end-begin {
		t.Fatalf("%d operations, expected %d", len(s.Ops), end-begin)
	}
	var want []Block
	for _, l := range lives { // in order of allocation, as the recorder keeps them
		if l.free < begin {
			continue
		}
		want = append(want, Block{Size: l.size, Alloc: int32(max(l.alloc-begin, -1)), Free: int32(min(l.free, end) - begin), Pinned: l.excluded <= end})
	}
	if len(s.Blocks) != len(want) {
		t.Fatalf("%d blocks, expected %d", len(s.Blocks), len(want))
	}
	for i := range want {
		if s.Blocks[i] != want[i] {
			t.Fatalf("block %d is %v, expected %v", i, s.Blocks[i], want[i])
		}
	}
}

func TestRecorderAllocatesNothingPerEvent(t *testing.T) {
	var r Recorder
	const blocks = 2000
	step := func() {
		for i := range uint64(blocks) {
			r.Alloc(i, 1000)
		}
		for i := range uint64(blocks) {
			r.Free(i)
		}
		r.Boundary()
	}
	step()
	if perStep := testing.AllocsPerRun(10, step); perStep > 10 {
		t.Errorf("%v allocations for %d events", perStep, 2*blocks)
	}
}

func TestKeyOf(t *testing.T) {
	a, b := []mem.Bytes{1, 1000, 5000}, []mem.Bytes{512, 1024, 5120}
	if KeyOf(a) != KeyOf(b) {
		t.Error("the key depends on what rounding hides")
	}
	if KeyOf(b) == KeyOf([]mem.Bytes{1024, 512, 5120}) || KeyOf(b) == KeyOf(b[:2]) {
		t.Error("the key does not tell sequences apart")
	}
}

// TestJoin: joined steps are the step that a recorder without a boundary sees.
func TestJoin(t *testing.T) {
	rng := newRand(t)
	for range 300 {
		var whole, parts Recorder
		var joined *Step
		for range 1 + rng.IntN(3) {
			for range rng.IntN(40) {
				id := uint64(rng.IntN(12))
				size := mem.Bytes(rng.IntN(5000))
				for _, r := range []*Recorder{&whole, &parts} {
					switch id % 3 {
					case 0:
						r.Free(id / 3)
					default:
						r.Alloc(id/3, size)
						if id%2 == 0 {
							r.Miss(id / 3)
						}
					}
				}
			}
			joined = Join(joined, parts.Boundary())
		}
		want := whole.Boundary()
		if err := joined.check(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(joined.Ops, want.Ops) || !slices.Equal(joined.Blocks, want.Blocks) {
			t.Fatalf("joined %+v, expected %+v", joined, want)
		}
	}
}

func TestPeaks(t *testing.T) {
	var r Recorder
	r.Alloc(1, 1024)
	r.Alloc(2, 2048)
	r.Miss(2)
	r.Boundary()
	r.Free(1)
	r.Alloc(3, 4096)
	r.Alloc(4, 512)
	r.Miss(4)
	r.Free(2)
	s := r.Boundary()
	if all, missed := s.Peaks(); all != 2048+4096+512 || missed != 2048+512 {
		t.Errorf("peaks %d and %d", all, missed)
	}
	if got := s.Floor(); got != 2048 { // behind the first free
		t.Errorf("never less than %d", got)
	}
	if s.Requests() != 2 {
		t.Errorf("%d requests", s.Requests())
	}
}

// TestGapIsFoundOut: of what was live before a gap, a block whose memory is handed out
// again was freed in it. The others live on.
func TestGapIsFoundOut(t *testing.T) {
	var r Recorder
	r.Alloc(0x1000, 4096) // lives on
	r.Alloc(0x2000, 8192) // freed in the gap
	r.Alloc(0x8000, 512)  // the same
	r.Boundary()
	r.Gap()
	r.Alloc(0x3000, 4096) // in the middle of the second
	r.Free(0x3000)
	r.Alloc(0x7e00, 512)
	r.Alloc(0x8000, 4096)
	s := r.Boundary()
	if len(s.Blocks) != 6 || s.Blocks[1].Free != 0 || s.Blocks[2].Free != 4 {
		t.Errorf("blocks %+v", s.Blocks)
	}
	if r.Live() != 3 {
		t.Errorf("%d blocks live behind the gap, expected 3", r.Live())
	}
}
