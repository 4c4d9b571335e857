package baseline

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// replay drives an allocator with a recorded run. A free that the recording
// completed at once had no other stream to wait for; any other is deferred
// until it was completed there. each is called after every event, if given.
func replay(a Allocator, events []trace.Event, each func(i int) error) error {
	var top int64
	for i := range events {
		top = max(top, events[i].ID)
	}
	blocks := make([]Block, top+1)
	for i := range events {
		e := &events[i]
		var err error
		switch e.Kind {
		case trace.Alloc:
			if blocks[e.ID], err = a.Malloc(e.Size, e.Stream); errors.Is(err, ErrOutOfMemory) {
				return err
			}
		case trace.FreeRequested:
			b := blocks[e.ID]
			if i+1 < len(events) && events[i+1].Kind == trace.FreeCompleted && events[i+1].ID == e.ID {
				blocks[e.ID] = None
			} else {
				err = a.Defer(b)
			}
			err = errors.Join(err, a.Free(b))
		case trace.FreeCompleted:
			if b := blocks[e.ID]; b != None {
				err = a.Complete(b)
			}
		case trace.RecordStream:
			err = a.RecordStream(blocks[e.ID], e.Stream)
		case trace.EmptyCache:
			a.EmptyCache()
		}
		if err == nil && each != nil {
			err = each(i)
		}
		if err != nil {
			return fmt.Errorf("event %d, %v of block %d: %w", i, e.Kind, e.ID, err)
		}
	}
	return nil
}

var traceCache sync.Map

func loadTrace(t testing.TB, name string) *trace.Trace {
	t.Helper()
	if tr, ok := traceCache.Load(name); ok {
		return tr.(*trace.Trace)
	}
	files, err := filepath.Glob("../tests/traces/" + name + "*.csv.gz")
	if err != nil || len(files) != 1 {
		t.Fatalf("trace %s: found %v, want one file", name, files)
	}
	tr, err := trace.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	traceCache.Store(name, tr)
	return tr
}

var traceNames = []string{
	"gpt2_naive", "llama_naive", "llama_recompute", "llama_vpp", "llama_varlen", "llama_lora",
	"mixtral_moe", "qwen2moe_recompute", "vit_streams", "megatron_vpp", "megatron_moer",
}

type measurement struct {
	Reserved    float64 `json:"reserved_gib"`
	Allocated   float64 `json:"allocated_gib"`
	Requested   float64 `json:"requested_gib"`
	Allocations int     `json:"allocations"`
}

func loadMeasured(t testing.TB) map[string]map[string]measurement {
	t.Helper()
	data, err := os.ReadFile("../tests/traces/measured.json")
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]map[string]measurement
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// tmp exploration
func TestExplore(t *testing.T) {
	m := loadMeasured(t)
	for _, name := range traceNames {
		tr := loadTrace(t, name)
		load := tr.PeakLoad()
		for _, k := range []struct {
			n string
			o Options
		}{{"native", Options{}}, {"expandable", Options{}}, {"gmlake", Options{}}, {"gmlake", Options{FragLimit: 64 << 20}}} {
			k.o.Capacity = 141 << 30
			a, _ := New(k.n, k.o)
			if err := replay(a, tr.Events, nil); err != nil {
				t.Error(name, k.n, err)
			}
			if err := a.Check(); err != nil {
				t.Error(name, k.n, err)
			}
			s := a.Stats()
			w := m[name][k.n]
			gib := func(b mem.Bytes) float64 { return math.Round(float64(b)/(1<<30)*1000) / 1000 }
			t.Logf("%-20s %-10s frag %.2f%% reserved %.3f want %.3f  alloc %.3f/%.3f req %.3f/%.3f calls %d %.0f ms retries %d", name, k.n,
				100*(1-float64(load)/float64(s.PeakReserved)), gib(s.PeakReserved), w.Reserved, gib(s.PeakAllocated), w.Allocated, gib(s.PeakRequested), w.Requested,
				a.Calls().Total(), a.Calls().Micros/1000, s.Retries)
		}
	}
}
