package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"stalloc/actors"
	"stalloc/actors/device"
	"stalloc/actors/device/devicetest"
	gpu "stalloc/cuda/sim"
	"stalloc/engine"
	"stalloc/engine/gmlake"
	"stalloc/engine/onerange"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/plan"
)

// scenario is a program on some streams and the trouble it meets, all drawn from
// the seed.
type scenario struct {
	seed     uint64
	random   *rand.Rand
	streams  int
	steps    int
	kinds    int     // programs that alternate
	drift    int     // the step from which on the programs are others; 0: none
	noise    float64 // of the requests are not like the program's
	aborts   float64 // of the steps end halfway
	loose    bool    // boundaries come while streams are at work
	silent   bool    // nobody marks them
	meddles  bool    // somebody trims, asks for statistics, changes the limit
	inline   bool
	always   bool // any plan is served
	tight    bool // the device is little larger than the program
	largest  mem.Bytes
	capacity mem.Bytes
	faults   []devicetest.Rule
	ranged   onerange.Config
	lake     *gmlake.Config // the pool's policy is GMLake's
	cramped  bool           // the address window is little larger than the program
	lies     bool           // faults come where the driver says what is done
	broken   bool           // one of them where the pool cannot recover

	programs [][]program // by kind and stream
	// Blocks that stay, by stream: those of set-up, and those that the first step makes
	// at its end, as an optimizer does.
	weights, state [][]mem.Bytes
	// Blocks that a step makes at its end and the next one frees, by stream: gradients
	// that are live where the step is marked. Before that it may evaluate.
	gradients [][]mem.Bytes
	evaluates float64
	chaos     *chaos
}

func newScenario(seed uint64) *scenario {
	r := rand.New(rand.NewPCG(seed, 0))
	one := func(in int) bool { return r.IntN(in) == 0 }
	s := &scenario{seed: seed, random: r, streams: 1 + r.IntN(3), steps: 6 + r.IntN(10), kinds: 1,
		chaos: newChaos(seed), largest: 8 * mem.MiB}
	if one(3) {
		s.kinds = 2 + r.IntN(2)
	}
	if one(3) {
		s.drift = 4 + r.IntN(s.steps)
	}
	if one(2) {
		s.noise = 0.1 * r.Float64()
	}
	if one(4) {
		s.aborts = 0.2
	}
	if one(3) {
		s.largest = 32 * mem.MiB
	}
	s.loose, s.meddles, s.inline, s.tight, s.always = one(4), one(3), one(4), one(3), one(2)
	if one(3) {
		s.chaos.slow = 200
	}
	if one(3) {
		s.drawFaults()
	}
	if one(3) {
		s.chaos.panics, s.chaos.chance = 1+r.IntN(20), 0.2
		s.broken = one(4)
	}
	s.ranged = onerange.DefaultConfig()
	if one(4) {
		s.ranged.HandleMost = mem.HandleSize
	}
	if one(8) {
		s.ranged.HandlePart = 8
	}
	s.draw()
	stay := 0
	if one(2) {
		stay = 8
	}
	outlive := 0
	if one(3) {
		outlive = 4 + r.IntN(12)
		s.evaluates = 0.25 * float64(r.IntN(2))
	}
	for range s.streams {
		s.weights = append(s.weights, s.drawSizes(stay))
		s.state = append(s.state, s.drawSizes(stay))
		s.gradients = append(s.gradients, s.drawSizes(outlive))
	}
	if s.silent = one(8); s.silent {
		s.steps *= 3
	}
	if s.cramped = one(6); s.cramped {
		s.ranged.Window = 2 * mem.RoundUp(s.peak(), mem.HandleSize)
	}
	if one(8) {
		lake := gmlake.DefaultConfig()
		lake.FragLimit, lake.Window = 4*mem.MiB, s.ranged.Window
		s.lake = &lake
	}
	s.capacity = 4 * mem.GiB
	if s.tight {
		s.capacity = mem.RoundUp(s.peak()*mem.Bytes(90+r.Int64N(40))/100, mem.HandleSize) +
			2*mem.HandleSize
	}
	return s
}

// drawFaults draws driver calls that fail. Done and Sync are left alone unless the
// order of streams is: whoever cannot learn whether work is done cannot wait for it.
func (s *scenario) drawFaults() {
	r := s.random
	codes := []int{driver.CodeOutOfMemory, driver.CodeOutOfMemory, 1, 999}
	kinds := []devicetest.Kind{devicetest.CallCreate, devicetest.CallMap, devicetest.CallAccess,
		devicetest.CallUnmap, devicetest.CallRelease, devicetest.CallRecord, devicetest.CallMemory}
	for range 1 + r.IntN(4) {
		rule := devicetest.Rule{Kind: kinds[r.IntN(len(kinds))], Code: codes[r.IntN(len(codes))]}
		if r.IntN(2) == 0 {
			rule.Nth = 1 + r.IntN(100)
		} else {
			rule.Chance = 0.05 * (0.01 + r.Float64())
		}
		s.faults = append(s.faults, rule)
	}
	if s.lies = r.IntN(4) == 0; s.lies {
		s.faults = append(s.faults, devicetest.Rule{Kind: devicetest.AnyCall, Chance: 0.01,
			Code: 1})
	}
}

func (s *scenario) draw() {
	s.programs = nil
	for range s.kinds {
		var of []program
		for range s.streams {
			requests := 20 + s.random.IntN(50)
			of = append(of, newProgram(s.random, requests, s.largest))
		}
		s.programs = append(s.programs, of)
	}
}

func (s *scenario) drawSizes(n int) (sizes []mem.Bytes) {
	for range n {
		sizes = append(sizes, drawSize(s.random, s.largest))
	}
	return sizes
}

// peak is the most that the programs hold, all streams at their worst at once.
func (s *scenario) peak() (most mem.Bytes) {
	for _, of := range s.programs {
		var sum mem.Bytes
		for _, p := range of {
			sizes := map[int]mem.Bytes{}
			var now, top mem.Bytes
			for _, o := range p {
				if o.free {
					now -= sizes[o.id]
				} else {
					sizes[o.id] = mem.Round(o.size)
					now += sizes[o.id]
				}
				top = max(top, now)
			}
			sum += top
		}
		most = max(most, sum)
	}
	for _, sizes := range slices.Concat(s.weights, s.state, s.gradients) {
		for _, size := range sizes {
			most += mem.Round(size)
		}
	}
	return most
}

// mayFail reports whether requests may be answered with an error.
func (s *scenario) mayFail() bool {
	return s.tight || s.cramped || len(s.faults) > 0 || s.broken || s.meddles
}

// run is one run of a scenario.
type run struct {
	*scenario
	local   *actors.Local
	dev     *gpu.Device
	fault   *devicetest.Fault
	model   *model
	workers []*worker
	warm    *plan.Plan

	answered atomic.Int64
	refused  atomic.Int64
	hits     uint64
	plans    uint64
	stats    engine.Stats
	last     *plan.Plan // the plan at the end
	mu       sync.Mutex
	errs     []error
}

func (r *run) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.errs) < 10 {
		r.errs = append(r.errs, fmt.Errorf(format, args...))
	}
}

func (r *run) open() error {
	r.dev = gpu.New(gpu.Config{Capacity: r.capacity, Manual: true})
	r.model = newModel(r.dev)
	r.model.ordered = !r.lies
	var dev device.Device = slow{watched{r.dev, r.model}, r.chaos}
	if r.broken {
		dev = mine{dev, r.chaos}
	}
	r.fault = devicetest.NewFault(dev, r.seed)
	h := newHost(r.chaos)
	d, err := actors.Open(r.fault, h, actors.Options{Log: zap.New(journal{r.chaos}), GMLake: r.lake,
		Range: r.ranged, Inline: r.inline, Always: r.always, Plan: r.warm})
	if err != nil {
		return err
	}
	r.fault.Set(r.faults...)
	r.local = actors.NewLocal(d, h.Model)
	for i := range r.streams {
		r.workers = append(r.workers, &worker{run: r, stream: mem.StreamID(i),
			random: rand.New(rand.NewPCG(r.seed, uint64(10+i)))})
	}
	return nil
}

// play is the whole run: steps, then all is freed and given back.
func (r *run) play() error {
	if err := r.open(); err != nil {
		return err
	}
	for step := range r.steps {
		if r.drift > 0 && step == r.drift {
			r.draw()
		}
		r.step(step)
		if err := r.settled(); err != nil {
			return fmt.Errorf("after step %d: %w", step, err)
		}
	}
	return r.end()
}

// step has every stream do its program, and others meddle.
func (r *run) step(n int) {
	kind := n % r.kinds
	var work, beside sync.WaitGroup
	var stop atomic.Bool
	for _, w := range r.workers {
		work.Go(func() {
			if n == 0 {
				w.keep(r.weights[w.stream])
				defer func() { w.keep(r.state[w.stream]) }()
			}
			if w.random.Float64() < r.evaluates {
				w.step(r.programs[r.kinds-1][w.stream])
			}
			w.clear()
			w.step(r.programs[kind][w.stream])
			w.backward(r.gradients[w.stream])
		})
	}
	if r.meddles {
		beside.Go(func() { r.meddle(&stop, rand.New(rand.NewPCG(r.seed, uint64(1000+n)))) })
	}
	if r.loose {
		time.Sleep(50 * time.Microsecond)
		r.boundary()
	}
	work.Wait()
	stop.Store(true)
	beside.Wait()
	r.boundary()
}

func (r *run) boundary() {
	if r.silent {
		return
	}
	if err := r.local.Step(); err != nil && !r.mayFail() && r.chaos.thrown == 0 {
		r.fail("step boundary: %w", err)
	}
}

// meddle does rare things while streams are at work.
func (r *run) meddle(stop *atomic.Bool, random *rand.Rand) {
	for !stop.Load() {
		time.Sleep(time.Duration(5+random.IntN(40)) * time.Microsecond)
		switch random.IntN(8) {
		case 0:
			_ = r.local.Trim(0)
		case 1:
			_ = r.local.Stats()
		case 2:
			_ = r.local.Explain()
		case 3:
			_ = r.local.ResetPeak()
		case 4:
			_ = r.local.Limit(0.5 + 0.5*random.Float64())
		case 5:
			_, _, _ = r.local.Find(mem.Addr(random.Uint64()))
		default:
			r.model.finish(mem.StreamID(random.IntN(r.streams + 1)))
		}
	}
	_ = r.local.Limit(1)
}

// settled checks everything while nothing moves.
func (r *run) settled() error {
	errs := []error{r.model.check(), r.dev.Check(), errors.Join(r.errs...)}
	if !r.lies { // who is told that work is done believes it
		errs = append(errs, r.dev.Violations()...)
	}
	if err := r.local.Check(); err != nil && !r.wrecked(err) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// sticks reports whether pages may have stayed mapped: the driver refused to unmap
// them.
func (r *run) sticks() bool {
	return slices.ContainsFunc(r.faults,
		func(f devicetest.Rule) bool {
			return f.Kind == devicetest.CallUnmap ||
				f.Kind == devicetest.AnyCall
		})
}

// wrecked reports whether an error only says that the pool is broken, as it may be.
func (r *run) wrecked(err error) bool { return r.broken && errors.Is(err, actors.ErrBroken) }

// end frees all blocks and looks for what is left.
func (r *run) end() error {
	r.chaos.stop()
	r.fault.Set()
	for _, w := range r.workers {
		w.clear()
		w.others = append(w.others, w.kept...)
		w.drop(0)
	}
	for _, w := range r.workers { // what others were given to free
		w.drop(0)
	}
	r.model.finishAll()
	_ = r.local.Step()
	if err := r.settled(); err != nil {
		return fmt.Errorf("with all freed: %w", err)
	}
	err := r.local.Trim(0)
	if err == nil { // a broken pool takes a trim and does nothing; a check says that it is
		if broken := r.local.Check(); r.wrecked(broken) {
			err = broken
		}
	}
	s := r.local.Stats()
	// A fence that the driver refused is recorded by a trim and passes at a later one.
	for n := 0; n < 16 && err == nil && s.Pending > 0; n++ {
		r.model.finishAll()
		err = r.local.Trim(0)
		s = r.local.Stats()
	}
	r.hits, r.plans, r.stats = s.Hits, s.Generation, s.Engine
	if !r.wrecked(err) {
		if err != nil {
			r.fail("trim: %w", err)
		}
		if load, _ := r.local.Load(); load != 0 || s.Stats.Load != 0 || s.Pending != 0 {
			r.fail("with all freed the program holds %v, the pool %v, pending are %v; %d fences are late", load, s.Stats.Load, s.Pending, s.Late)
		}
		if used := r.dev.Used(); !r.sticks() && (s.Reserved != 0 || used != 0) {
			r.fail("with all freed %v are reserved, and the device has %v in use", s.Reserved, used)
		}
	}
	r.last = r.local.Plan()
	if err := r.local.Close(); err != nil && !r.lies {
		r.fail("close: %w", err)
	}
	if used := r.dev.Used(); used != 0 {
		r.fail("%v leaked", used)
	}
	return errors.Join(r.errs...)
}
