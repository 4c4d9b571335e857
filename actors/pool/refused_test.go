package pool

import (
	"errors"
	"reflect"
	"testing"

	"stalloc/actors/host"
	"stalloc/actors/region"
	"stalloc/internal/mem"
)

// captured is a host where a stream may be captured.
type captured struct {
	*host.Model
	captures int
}

func (h *captured) Captures() int { return h.captures }

// TestARefusedRequestIsForgotten: one that waits for memory, and may not have any when it comes
// again.
func TestARefusedRequestIsForgotten(t *testing.T) {
	h := &captured{Model: host.NewModel()}
	k := newKitOn(t, h)
	number, err := region.Number("test: refused")
	if err != nil {
		t.Fatal(err)
	}
	k.release(k.malloc(0, 0, 7*mem.GiB))
	h.captures = 1 // so the device is not waited for, and stream 0 lends
	m := &Request{Size: 2 * mem.GiB, Stream: 1, Private: number}
	if k.Receive(m); m.Err != nil || !m.Again {
		t.Fatalf("it does not wait: %v", m.Err)
	}
	waits := reflect.ValueOf(k.order).Elem().FieldByName("waits")
	if waits.Len() != 1 {
		t.Errorf("%d requests wait", waits.Len())
	}
	h.captures = 0
	if err := k.EndAwake(number, 0, Closing{}); err != nil {
		t.Fatal(err)
	}
	if k.Receive(m); !errors.Is(m.Err, ErrNotOpen) || waits.Len() != 0 {
		t.Errorf("%v, and %d requests wait", m.Err, waits.Len())
	}
}
