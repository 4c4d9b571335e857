package report

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/plan/descent"
	"stalloc/replay"
	"stalloc/trace"
)

func traceFile(name string) string { return filepath.Join("..", "tests", "traces", name+".csv.gz") }

var options = Options{Device: -1, Capacity: 80 * mem.GiB, Quick: true}

// unpacked is what a page's script would read.
type unpacked struct {
	header
	columns map[string][]int
}

var packedScript = regexp.MustCompile(`<script id="packed" type="text/plain">([A-Za-z0-9+/=]*)</script>`)

func made(t *testing.T, path string, o Options) (d *Data, page string, u unpacked) {
	t.Helper()
	d, err := Load(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := d.WriteHTML(&b, "v0.0.0-test"); err != nil {
		t.Fatal(err)
	}
	return d, b.String(), unpack(t, b.String())
}

func unpack(t *testing.T, page string) (u unpacked) {
	t.Helper()
	found := packedScript.FindAllStringSubmatch(page, -1)
	if len(found) != 1 {
		t.Fatalf("%d scripts of data in the page", len(found))
	}
	packed, err := base64.StdEncoding.DecodeString(found[0][1])
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint32(all)
	if err := json.Unmarshal(all[4:4+n], &u.header); err != nil {
		t.Fatal(err)
	}
	in, last := bytes.NewReader(all[4+n:]), 0
	u.columns = make(map[string][]int)
	for _, name := range u.Order {
		last = 0
		for range u.Columns[name] {
			v, err := binary.ReadVarint(in)
			if err != nil {
				t.Fatalf("column %s: %v", name, err)
			}
			last += int(v)
			u.columns[name] = append(u.columns[name], last)
		}
	}
	if in.Len() > 0 {
		t.Errorf("%d bytes after the last column", in.Len())
	}
	return u
}

// TestReportAgreesWithReplay: what the page holds is what the allocators did.
func TestReportAgreesWithReplay(t *testing.T) {
	tr, err := trace.ReadFile(traceFile("llama_naive"))
	if err != nil {
		t.Fatal(err)
	}
	d, page, u := made(t, traceFile("llama_naive"), options)
	if d.Peak.Load != tr.PeakLoad() {
		t.Errorf("peak load %v, want %v", d.Peak.Load, tr.PeakLoad())
	}
	for i, a := range replay.Allocators {
		want, err := a.Replay(context.Background(), tr, config(options), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := d.Allocators[i]
		if got.Reserved != want.PeakReserved || got.Hits != want.Hits ||
			got.Calls != want.DriverCalls || got.Fragmentation != want.Fragmentation {
			t.Errorf("%s: %+v, want %+v", a.Name, got, want)
		}
		curve := mem.Bytes(largest(u.columns["curve."+a.Name])) * mem.Grain
		if curve > want.PeakReserved || float64(curve) < 0.98*float64(want.PeakReserved) {
			t.Errorf("%s: its curve reaches %v, it reserves %v", a.Name, curve, want.PeakReserved)
		}
		if !strings.Contains(page, want.PeakReserved.String()) {
			t.Errorf("%s: %v is not in the page", a.Name, want.PeakReserved)
		}
	}
	if load := mem.Bytes(largest(u.columns["curve.load"])) * mem.Grain; load != d.Peak.Load {
		t.Errorf("the load's curve reaches %v, want %v", load, d.Peak.Load)
	}
	for _, by := range d.Peak.By {
		var groups mem.Bytes
		for _, g := range append(by.Groups, by.Others) {
			groups += g.Bytes
		}
		if groups != d.Peak.Load {
			t.Errorf("what made the peak, by %s, adds up to %v, want %v", by.By, groups,
				d.Peak.Load)
		}
	}
	if u.Drawn != d.Blocks || len(u.columns["from"]) != d.Blocks ||
		len(u.columns["micros"]) != d.Events {
		t.Errorf("%d of %d blocks, %d of %d times", len(u.columns["from"]), d.Blocks,
			len(u.columns["micros"]), d.Events)
	}
	for _, name := range []string{"native", "expandable", "stalloc"} {
		checkMap(t, name, 0, d.Events, u.columns)
	}
	if len(u.columns["place.gmlake"]) != 0 {
		t.Error("gmlake has a map, though its addresses share memory")
	}
}

func largest(values []int) (most int) {
	for _, v := range values {
		most = max(most, v)
	}
	return most
}

// checkMap looks at some moments of a map: what is live lies on memory that is held, and
// no two blocks lie on each other.
func checkMap(t *testing.T, name string, begin, end int, c map[string][]int) {
	t.Helper()
	type piece struct{ low, high, block int }
	for at := begin + (end-begin)/7; at < end; at += (end - begin) / 7 {
		var live, held []piece
		for i, begin := range c["from"] {
			if life, low := c["life"][i], c["place."+name][i]; begin <= at &&
				(life == 0 || at < begin+life) {
				live = append(live, piece{low,
					low + int(mem.Round(mem.Bytes(c["size"][i]))/mem.Grain), i})
			}
		}
		for i, low := range c["held.low."+name] {
			if begin := c["held.begin."+name][i]; begin <= at &&
				at < begin+c["held.life."+name][i] {
				held = append(held, piece{low, low + c["held.size."+name][i], -1})
			}
		}
		byLow := func(a, b piece) int { return cmp.Compare(a.low, b.low) }
		slices.SortFunc(live, byLow)
		slices.SortFunc(held, byLow)
		for i, b := range live {
			if i > 0 && live[i-1].high > b.low {
				t.Fatalf("%s, event %d: blocks %d and %d lie on each other", name, at,
					live[i-1].block, b.block)
			}
			for len(held) > 0 && held[0].high <= b.low {
				held = held[1:]
			}
			// Held pieces may follow each other without a gap.
			reach := b.low
			for _, h := range held {
				if h.low <= reach {
					reach = max(reach, h.high)
				}
			}
			if reach < b.high {
				t.Fatalf("%s, event %d: block %d lies from %d to %d, held only up to %d", name, at,
					b.block, b.low, b.high, reach)
			}
		}
	}
}

// TestPageStandsAlone: nothing in the page asks a network, and a recording's own words
// are text in it.
func TestPageStandsAlone(t *testing.T) {
	d, page, u := made(t, filepath.Join("testdata", "snapshot.pickle"), options)
	rest := packedScript.ReplaceAllString(page, "")
	for _, bad := range []string{"src=\"http", "href=\"http", "url(http", "@import", "<img",
		"fetch(", "XMLHttpRequest"} {
		if strings.Contains(rest, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for _, want := range []string{"default-src 'none'", "model.py:42 forward",
		"&lt;/script&gt;&lt;img", "v0.0.0-test", "recorded"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if strings.Count(page, "</script>") != len(scripts)+1 {
		t.Errorf("%d scripts end in the page, want %d", strings.Count(page, "</script>"),
			len(scripts)+1)
	}
	if len(d.Stacks) != 3 || len(u.columns["stack"]) != d.Blocks {
		t.Errorf("stacks %q, %d of %d blocks have one", d.Stacks, len(u.columns["stack"]), d.Blocks)
	}
	if by := d.Peak.By[1]; by.By != ByModule || by.Groups[0].What != "torch.nn linear" ||
		by.Groups[1].What != noModule {
		t.Errorf("by module: %+v", by)
	}
	for _, part := range d.Peak.Stacks {
		d.Peak.Load -= part.Bytes
	}
	if d.Peak.Load != 0 {
		t.Errorf("the flame graph does not have %v", d.Peak.Load)
	}
	g := d.Peak.By[0].Groups[0]
	if g.Count != 12 || g.Size != 5*mem.MiB || !strings.Contains(d.Stacks[g.Stack],
		"model.py:42 forward") {
		t.Errorf("the peak's largest group is %+v by %q", g, d.Stacks[g.Stack])
	}
}

// TestOnlyThePeaksStepIsDrawn where the recording has more blocks than may be.
func TestOnlyThePeaksStepIsDrawn(t *testing.T) {
	o := options
	o.Blocks = 1
	d, page, u := made(t, traceFile("llama_varlen"), o)
	step := d.Steps[d.Peak.Step]
	if u.Begin != step.Begin || u.End != step.End || u.Drawn == 0 || u.Drawn > d.Blocks/2 {
		t.Errorf("events %d to %d with %d blocks of %d, the peak's step is %+v", u.Begin, u.End,
			u.Drawn, d.Blocks, step)
	}
	for i, begin := range u.columns["from"] {
		if life := u.columns["life"][i]; begin >= u.End || life > 0 && begin+life < u.Begin {
			t.Fatalf("block %d lives from %d for %d", i, begin, life)
		}
	}
	checkMap(t, "native", u.Begin, u.End, u.columns)
	if len(page) > 1<<20 {
		t.Errorf("the page has %d bytes", len(page))
	}
}

func TestPlanReport(t *testing.T) {
	tr, err := trace.ReadFile(traceFile("llama_naive"))
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := replay.Plan(context.Background(), tr)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Steps) != 1 {
		t.Fatalf("%d steps, those that came again ask for the same", len(p.Steps))
	}
	// Of another stream half as much.
	half := plan.Step{Stream: 1,
		Requests: p.Steps[0].Requests[:len(p.Steps[0].Requests)/2]}
	half.Requests = slices.Clone(half.Requests)
	for i := range half.Requests {
		if r := &half.Requests[i]; int(r.Done) > len(half.Requests) {
			r.Free, r.Done = plan.Never, plan.Never
		}
	}
	p = &plan.Plan{Steps: []plan.Step{p.Steps[0], half.Kept()}}
	path := filepath.Join(t.TempDir(), "llama.plan")
	if err := plan.WriteFile(path, p); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(context.Background(), path, Options{Device: 3}); !errors.Is(err,
		ErrOneDevice) {
		t.Errorf("device 3 of a plan: %v", err)
	}
	none := filepath.Join(t.TempDir(), "none.plan")
	if err := plan.WriteFile(none, &plan.Plan{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(context.Background(), none, options); err == nil ||
		!strings.Contains(err.Error(), "without steps") {
		t.Errorf("a plan without steps: %v", err)
	}
	d, _, u := made(t, path, options)
	if d.Kind != Planned || d.Name != "llama" || len(d.Steps) != 2 || len(d.Allocators) != 1 ||
		d.Blocks != p.Requests() {
		t.Fatalf("%d requests are drawn as %s %s, %d steps of %d blocks by %d allocators",
			p.Requests(), d.Kind, d.Name, len(d.Steps), d.Blocks, len(d.Allocators))
	}
	var hold, load mem.Bytes
	for i, s := range p.Steps {
		hold = max(hold, s.Placed().Makespan)
		least := descent.LowerBound(s.Buffers(s.End()))
		if load = max(load, least); d.Steps[i].Peak != least {
			t.Errorf("%s: a load of %v, the step's is %v", d.Steps[i].Name, d.Steps[i].Peak, least)
		}
		// A block that is freed in the step ends there; one that outlives it, with the step.
		for k, r := range s.Requests {
			end := r.Done
			if end == plan.Never {
				end = s.End()
			}
			n := k
			for _, before := range p.Steps[:i] {
				n += len(before.Requests)
			}
			if life := mem.Tick(u.columns["life"][n]); life != end-r.From &&
				!(r.Done == plan.Never && life == 0) {
				t.Fatalf("%s: block %d is drawn for %d events, it lives for %d", d.Steps[i].Name, k,
					life, end-r.From)
			}
		}
	}
	if d.Ours().Reserved != hold || d.Peak.Load != load {
		t.Errorf("a load of %v where %v are held, want %v and %v", d.Peak.Load, d.Ours().Reserved,
			load, hold)
	}
	checkMap(t, "plan", 0, d.Events, u.columns)
}

func TestNothingToReport(t *testing.T) {
	if _, err := Make(context.Background(), &trace.Trace{Name: "empty"}, options); err == nil ||
		!strings.Contains(err.Error(), "no request for memory") {
		t.Errorf("error %v", err)
	}
	if _, err := Load(context.Background(), filepath.Join("testdata", "absent"),
		options); err == nil {
		t.Error("a report of a file that is not there")
	}
}

// TestFullDevice: a run that ends early is reported up to there, and said to be full.
func TestFullDevice(t *testing.T) {
	o := options
	o.Capacity = 16 * mem.GiB
	d, page, _ := made(t, traceFile("llama_naive"), o)
	if !d.Allocators[0].Full || !strings.Contains(page, "full at ") {
		t.Errorf("%+v", d.Allocators[0])
	}
	if want := "PyTorch's native allocator does not fit in 16.00 GiB: it is full in step 0."; d.NativeWaste != want {
		t.Errorf("%q, want %q", d.NativeWaste, want)
	}
	for _, w := range d.Worth {
		if w.More != 0 {
			t.Errorf("a run that did not end is worth %+v", w)
		}
	}
}

// TestPageOfAHundredThousandBlocks: of blocks as unlike each other as can be.
func TestPageOfAHundredThousandBlocks(t *testing.T) {
	const blocks = 100_000
	random := rand.New(rand.NewPCG(1, 2))
	column := func(below int) []int {
		c := make([]int, blocks)
		for i := range c {
			c[i] = random.IntN(below)
		}
		return c
	}
	d := &Data{Name: "large", Kind: Recording, Events: 2 * blocks, Blocks: blocks,
		Steps: []Step{{Name: "step 0", End: 2 * blocks}}, Reasons: reasons[:]}
	w := &d.Window
	w.End, w.From, w.Life, w.Size = 2*blocks, column(2*blocks), column(2*blocks), column(1<<30)
	w.Stream, w.Phase, w.Served = column(4), column(4), column(len(reasons))
	w.Micros = append(column(1000), column(1000)...)
	slices.Sort(w.From)
	d.Curve.Every = 5
	for _, name := range replay.Names() {
		d.Allocators = append(d.Allocators, Allocator{Name: name})
		w.Maps = append(w.Maps, Map{Height: 80 * mem.GiB, Place: column(1 << 27)})
		d.Curve.Reserved = append(d.Curve.Reserved, column(1 << 27)[:maxBuckets])
	}
	d.Curve.Load, d.Curve.Micros = column(1 << 27)[:maxBuckets], column(1 << 27)[:maxBuckets]
	var b bytes.Buffer
	if err := d.WriteHTML(&b, "test"); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 10e6 {
		t.Errorf("the page has %d bytes", b.Len())
	}
	if u := unpack(t, b.String()); !slices.Equal(u.columns["place.native"], w.Maps[0].Place) ||
		!slices.Equal(u.columns["size"], w.Size) {
		t.Error("a column comes back as another")
	}
}
