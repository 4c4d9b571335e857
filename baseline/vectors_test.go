package baseline

import (
	"encoding/json"
	"os"
	"sort"
	"testing"

	"stalloc/internal/mem"
)

// vector is one of the recorded sequences in testdata/vectors.json, with what
// the original allocators reported after every operation.
type vector struct {
	Kind     string
	Capacity mem.Bytes
	Note     string
	Rows     []struct {
		Op                 []any
		Addr               string
		Allocated          mem.Bytes
		Active             mem.Bytes
		Reserved           mem.Bytes
		Segments           int64
		InactiveSplitBytes mem.Bytes `json:"inactive_split_bytes"`
		InactiveSplit      int64     `json:"inactive_split"`
		Retries            int64
		Physical           mem.Bytes
	}
}

func loadVectors(t testing.TB) map[string]vector {
	t.Helper()
	data, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]vector
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if len(v) != 5 {
		t.Fatalf("%d vectors, want 5", len(v))
	}
	return v
}

func (v *vector) allocator(t *testing.T) Allocator {
	name := map[string]string{"native": "native", "exp": "expandable"}[v.Kind]
	a, err := New(name, Options{Capacity: v.Capacity, Ascending: true})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestVectors compares every column of every row.
func TestVectors(t *testing.T) {
	vectors := loadVectors(t)
	names := make([]string, 0, len(vectors))
	for name := range vectors {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		v := vectors[name]
		t.Run(name, func(t *testing.T) {
			a := v.allocator(t)
			blocks := map[string]Block{}
			for i, row := range v.Rows {
				got := row
				got.Addr = applyVectorOp(t, a, blocks, row.Op)
				s := a.Stats()
				got.Allocated, got.Active, got.Reserved = s.Allocated, s.Active, s.Reserved
				got.Segments, got.InactiveSplit, got.InactiveSplitBytes = s.Segments,
					s.InactiveSplit, s.InactiveSplitBytes
				got.Retries, got.Physical = s.Retries, s.Reserved
				g, _ := json.Marshal(got)
				w, _ := json.Marshal(row)
				if string(g) != string(w) {
					t.Fatalf("row %d:\n got %s\nwant %s", i, g, w)
				}
				if err := a.Check(); err != nil {
					t.Fatalf("row %d: %v", i, err)
				}
			}
		})
	}
}

// applyVectorOp runs one operation of a vector: a(llocate), f(ree), r(ecord
// stream), e(mpty cache), s(ynchronize). p(ending) 0 says that events do not
// pass by themselves, which they never do here.
func applyVectorOp(t *testing.T, a Allocator, blocks map[string]Block, op []any) string {
	t.Helper()
	var err error
	switch op[0] {
	case "a":
		var b Block
		if b, err = a.Malloc(mem.Bytes(op[2].(float64)), 0); err != nil {
			return "OOM"
		}
		blocks[op[1].(string)] = b
		p, err := a.Addr(b)
		if err != nil {
			t.Fatal(err)
		}
		return p.String()
	case "f":
		err = a.Free(blocks[op[1].(string)])
	case "r":
		err = a.RecordStream(blocks[op[1].(string)], mem.StreamID(op[2].(float64)))
	case "e":
		a.EmptyCache()
	case "s":
		a.Synchronize()
	case "p":
		if op[1] != float64(0) {
			t.Fatalf("operation %v is not known", op)
		}
	default:
		t.Fatalf("operation %v is not known", op)
	}
	if err != nil {
		t.Fatal(err)
	}
	return "-"
}
