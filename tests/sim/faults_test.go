package sim

import (
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"

	"stalloc/actors"
	"stalloc/actors/device"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/stream"
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

// host wraps the ports of a GoHost in ones that fail.
type host struct {
	*actors.GoHost
	chaos *chaos
}

// Ports implements actors.Host.
func (h host) Ports() (ports []actors.Port) {
	for _, p := range h.GoHost.Ports() {
		ports = append(ports, port{p, h.chaos})
	}
	return ports
}

// port panics in what the actors call, and only there.
type port struct {
	actors.Port
	chaos *chaos
}

func (p port) Build(l *stream.Layout, base mem.Addr, size mem.Bytes) *stream.Tape {
	p.chaos.trip("Build")
	return p.Port.Build(l, base, size)
}

func (p port) Play(t *stream.Tape, order int) {
	p.chaos.trip("Play")
	p.Port.Play(t, order)
}

func (p port) Serve(t, instead *stream.Tape) {
	p.chaos.trip("Serve")
	p.Port.Serve(t, instead)
}

func (p port) Settle() {
	p.chaos.trip("Settle")
	p.Port.Settle()
}

func (p port) HandOut(addr mem.Addr, asked mem.Bytes) {
	p.chaos.trip("HandOut")
	p.Port.HandOut(addr, asked)
}

func (p port) Observed(to []actors.Event) ([]actors.Event, bool) {
	p.chaos.trip("Observed")
	return p.Port.Observed(to)
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

func (s slow) Sync(stream mem.StreamID) error {
	s.chaos.delay()
	return s.Device.Sync(stream)
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

// plannerSays are messages of the planner, which has a goroutine of its own: a
// panic there is one of the planner's, and a delay one of planning.
var plannerSays = map[string]bool{
	"planned":           true,
	"a plan is offered": true,
	"a plan is dropped: it would not serve the next step":          true,
	"the steps are no longer like the plan; it is withdrawn":       true,
	"the planner failed on one step and starts over with the next": true,
}

// journal is a log that takes time, and in which the planner trips.
type journal struct{ chaos *chaos }

func (j journal) Enabled(zapcore.Level) bool                 { return true }
func (j journal) With([]zapcore.Field) zapcore.Core          { return j }
func (j journal) Sync() error                                { return nil }
func (j journal) Write(zapcore.Entry, []zapcore.Field) error { return nil }

func (j journal) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if plannerSays[e.Message] {
		j.chaos.delay()
		j.chaos.trip(e.Message)
	}
	return c
}
