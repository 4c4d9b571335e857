package pool

import (
	"testing"

	"stalloc/actors/host"
	"stalloc/internal/mem"
)

// beginning is a host where a private pool begins while the pool actor is at work.
type beginning struct {
	*host.Model
	asked, from int
}

func (h *beginning) Captures() int {
	if h.asked++; h.from > 0 && h.asked > h.from {
		return 1
	}
	return 0
}

// TestCaptureBeginsMeanwhile: a request that needs a wait for the device does not wait where a
// stream may be captured since the request began: that would end the capture.
func TestCaptureBeginsMeanwhile(t *testing.T) {
	h := &beginning{Model: host.NewModel()}
	k := newKitOn(t, h)
	at := k.malloc(1, 0, 6*mem.GiB)
	k.release(at) // of a stream that may be gone: it cannot lend
	syncs := k.gpu.Stats().Sync
	h.from = h.asked + 1
	m := &Request{Size: 4 * mem.GiB, Stream: 2}
	if k.Receive(m); m.Err == nil || k.gpu.Stats().Sync != syncs {
		t.Errorf("%v, waited for the device %d times", m.Err, k.gpu.Stats().Sync-syncs)
	}
	h.from = 0
	m = &Request{Size: 4 * mem.GiB, Stream: 2}
	if k.Receive(m); m.Err != nil || k.gpu.Stats().Sync == syncs {
		t.Errorf("the pool has ended: %v", m.Err)
	}
}
