package sim

import (
	"math/rand/v2"
	"sync"
	"time"

	hosts "stalloc/actors/host"

	"go.uber.org/zap/zapcore"

	"stalloc/actors/device"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// chaos decides when something fails or takes long. Its answers depend on the
// seed and on who asks first.
type chaos struct {
	mu     sync.Mutex
	random *rand.Rand
	off    bool
	panics int     // left to throw
	chance float64 // of each of them, where one is possible
	thrown int
	slow   int // the longest a slow thing takes, in microseconds
}

func newChaos(seed uint64) *chaos { return &chaos{random: rand.New(rand.NewPCG(seed, 1))} }

// stop ends all trouble.
func (c *chaos) stop() {
	c.mu.Lock()
	c.off = true
	c.mu.Unlock()
}

// trip panics now and then.
func (c *chaos) trip(where string) {
	c.mu.Lock()
	throw := !c.off && c.panics > 0 && c.random.Float64() < c.chance
	if throw {
		c.panics--
		c.thrown++
	}
	c.mu.Unlock()
	if throw {
		panic("thrown in " + where)
	}
}

// delay takes some of the bubble's time, in which others run.
func (c *chaos) delay() {
	c.mu.Lock()
	us := 0
	if c.slow > 0 && !c.off && c.random.IntN(4) == 0 {
		us = c.random.IntN(c.slow)
	}
	c.mu.Unlock()
	if us > 0 {
		time.Sleep(time.Duration(us) * time.Microsecond)
	}
}

// host is a Model that panics in what actors call beside the pool, and takes its time to
// make schedules. A bubble sees through its lock, which the pool has while the device works.
type host struct {
	*hosts.Model
	lock  chan struct{}
	chaos *chaos
}

func newHost(c *chaos) *host { return &host{hosts.NewModel(), make(chan struct{}, 1), c} }

// Lock implements actors/host.Host.
func (h *host) Lock() { h.lock <- struct{}{} }

// Unlock implements actors/host.Host.
func (h *host) Unlock() { <-h.lock }

// Build implements actors/host.Host.
func (h *host) Build(entries []schedule.Entry) *hosts.Schedule {
	h.chaos.delay()
	h.chaos.trip("Build")
	return h.Model.Build(entries)
}

// SetSchedule implements actors/host.Host.
func (h *host) SetSchedule(id mem.StreamID, small int, r *hosts.Schedule) {
	h.chaos.trip("Serve")
	h.Model.SetSchedule(id, small, r)
}

// slow is a device whose calls take time: others run meanwhile.
type slow struct {
	device.Device
	chaos *chaos
}

func (s slow) Create(size mem.Bytes) (driver.Handle, error) {
	s.chaos.delay()
	return s.Device.Create(size)
}

func (s slow) Access(addr mem.Addr, size mem.Bytes) error {
	s.chaos.delay()
	return s.Device.Access(addr, size)
}

func (s slow) Sync() error {
	s.chaos.delay()
	return s.Device.Sync()
}

// mine is a device that fails in a way nobody foresaw, once.
type mine struct {
	device.Device
	chaos *chaos
}

func (m mine) Map(addr mem.Addr, h driver.Handle) error {
	m.chaos.trip("Map")
	return m.Device.Map(addr, h)
}

// plannerSays is a message of the planner, which has a goroutine of its own: a panic there is
// one of the planner's, and a delay one of planning.
const plannerSays = "the planner failed on one step and starts over with the next"

// journal is a log that takes time, and in which the planner trips.
type journal struct{ chaos *chaos }

func (j journal) Enabled(zapcore.Level) bool                 { return true }
func (j journal) With([]zapcore.Field) zapcore.Core          { return j }
func (j journal) Sync() error                                { return nil }
func (j journal) Write(zapcore.Entry, []zapcore.Field) error { return nil }

func (j journal) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if e.Message == plannerSays {
		j.chaos.delay()
		j.chaos.trip(e.Message)
	}
	return c
}
