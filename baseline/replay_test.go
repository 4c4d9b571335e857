package baseline

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

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
			if i+1 < len(events) && events[i+1].Kind == trace.FreeCompleted &&
				events[i+1].ID == e.ID {
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
	"fine_moe", "packed_varlen", "multiscale_resnet",
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
