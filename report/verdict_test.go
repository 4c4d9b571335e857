package report

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stalloc/internal/mem"
	"stalloc/replay"
	"stalloc/trace"
)

func TestVerdict(t *testing.T) {
	const load = 10 * mem.GiB
	fits := figure{"native": 12 * mem.GiB, "expandable": 11 * mem.GiB, "stalloc": load}
	for _, c := range []struct {
		speed figure // nil: no steady part
		want  string
	}{
		{figure{"native": 20 * mem.GiB, "expandable": 13 * mem.GiB, "stalloc": 11 * mem.GiB},
			"Use stalloc: it saves 2.00 GiB of what expandable segments need at full speed, and 9.00 GiB of what native needs."},
		{figure{"native": 12 * mem.GiB, "expandable": 13 * mem.GiB, "stalloc": 11 * mem.GiB},
			"Use stalloc: it saves 1.00 GiB of what native needs at full speed."},
		{figure{"native": 13 * mem.GiB, "expandable": 11 * mem.GiB,
			"stalloc": 11*mem.GiB - 4*mem.MiB},
			"Expandable segments do: stalloc is no better at full speed. PYTORCH_ALLOC_CONF=expandable_segments:True is all you need."},
		{figure{"native": 11 * mem.GiB, "expandable": 12 * mem.GiB,
			"stalloc": 11*mem.GiB + 4*mem.MiB},
			"PyTorch's native allocator does: stalloc is no better at full speed."},
		{figure{"native": 12 * mem.GiB, "expandable": 11 * mem.GiB, "stalloc": 13 * mem.GiB},
			"Use expandable segments: stalloc needs 2.00 GiB more at full speed."},
		{figure{"native": 0, "expandable": 12 * mem.GiB, "stalloc": 11 * mem.GiB},
			"Use stalloc: it saves 1.00 GiB of what expandable segments need at full speed."},
		{figure{"native": 12 * mem.GiB, "expandable": 0, "stalloc": 0},
			"Use PyTorch's native allocator: stalloc cannot run it at full speed."},
		{figure{"native": 0, "expandable": 0, "stalloc": 12 * mem.GiB},
			"Use stalloc: only it runs at full speed."},
		{figure{"native": 0, "expandable": 0, "stalloc": 0}, "No allocator runs it at full speed."},
		{nil, "Use stalloc: it saves 1.00 GiB of what expandable segments need to fit, and 2.00 GiB of what native needs."},
	} {
		d := &Data{Peak: Peak{Load: load}}
		for _, name := range replay.Names() {
			a := Allocator{Name: name, FitsIn: fits[name], FullSpeedIn: c.speed[name]}
			if c.speed != nil {
				a.SteadyMillis = 1
			}
			d.Allocators = append(d.Allocators, a)
		}
		said := verdict(d)
		if said[0] != "The run fits in 12.00 GiB under PyTorch's native allocator, 11.00 GiB under expandable segments, 10.00 GiB under stalloc." {
			t.Error(said[0])
		}
		if len(said) != 3 || said[2] != c.want {
			t.Errorf("%v: %q", c.speed, said)
		}
		if c.speed["native"] == 0 && c.speed["expandable"] > 0 &&
			!strings.HasSuffix(said[1], ", and in none under PyTorch's native allocator.") {
			t.Error(said[1])
		}
	}
	if said := verdict(&Data{Allocators: []Allocator{{Name: "native"},
		{Name: "stalloc"}}}); said != nil {
		t.Errorf("a verdict of nothing: %q", said)
	}
}

// TestTileIsAgainstTheBetterRival: what there is room for is told of the device that the better of
// native and expandable segments fits in, as the sentence above it is.
func TestTileIsAgainstTheBetterRival(t *testing.T) {
	d := &Data{Worth: []Worth{
		{Against: "native", Device: 12 * mem.GiB, More: 0.26},
		{Against: "expandable", Device: 11 * mem.GiB, More: 0.01},
	}}
	if w := d.Room(); w == nil || w.Against != "expandable" {
		t.Errorf("%+v", w)
	}
	if w := (&Data{}).Room(); w != nil {
		t.Errorf("%+v of nothing", w)
	}
}

// TestReportsClaimNothingElse: what the reports of the recordings say of a device is so where
// the recording is replayed on that device: it is enough, what is said to need more does not do
// there, and what there is said to be room for has it.
func TestReportsClaimNothingElse(t *testing.T) {
	const fewEvents = 100_000 // the long ones would take minutes and add nothing to these
	paths, err := filepath.Glob(filepath.Join("..", "tests", "traces", "*.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"more", "apart"} {
		others, _ := filepath.Glob(filepath.Join("..", "tests", "traces", folder, "*.csv.gz"))
		paths = append(paths, others...)
	}
	ran := 0
	for _, path := range paths {
		tr, err := trace.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(tr.Events) > fewEvents {
			continue
		}
		ran++
		t.Run(tr.Name, func(t *testing.T) {
			t.Parallel()
			d, err := Make(context.Background(), tr, searched)
			if err != nil {
				t.Fatal(err)
			}
			claims(t, tr, d)
		})
	}
	if ran < 8 {
		t.Errorf("only %d recordings are short enough", ran)
	}
}

var searched = Options{Device: -1, Capacity: 80 * mem.GiB}

// on replays a recording through an allocator on a device.
func on(t *testing.T, tr *trace.Trace, name string, device mem.Bytes) replay.Result {
	t.Helper()
	a, err := replay.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Replay(context.Background(), tr, replay.Config{Capacity: device,
		FragLimit: replay.DefaultFragLimit}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func claims(t *testing.T, tr *trace.Trace, d *Data) {
	fits, speed := d.figures()
	for _, of := range []struct {
		name string
		f    figure
		does func(replay.Result) bool
	}{
		{"fits", fits, func(r replay.Result) bool { return !r.OOM }},
		{"runs at full speed", speed, func(r replay.Result) bool { return r.AtFullSpeed() }},
	} {
		for name, device := range of.f {
			if device > 0 && !of.does(on(t, tr, name, device)) {
				t.Errorf("%s %s in %v: not so", name, of.name, device)
			}
			ours := of.f["stalloc"]
			if name != "stalloc" && ours > 0 &&
				float64(device-ours) > noDifference*float64(d.Peak.Load) &&
				of.does(on(t, tr, name, ours)) {
				t.Errorf("%s needs %v, it is said, and %s in stalloc's %v", name, device, of.name,
					ours)
			}
		}
	}
	for _, w := range d.Worth {
		if w.More == 0 {
			continue
		}
		if larger := grown(tr, d, w.More); on(t, larger, "stalloc", w.Device).OOM {
			t.Errorf("no room for %.2f %% more in %s's %v: the load is %v", 100*w.More, w.Against,
				w.Device, larger.PeakLoad())
		}
	}
}

// grown is a recording whose blocks that come and go within a step are larger by a share.
func grown(tr *trace.Trace, d *Data, more float64) *trace.Trace {
	step := func(event int) int {
		return slices.IndexFunc(d.Steps,
			func(s Step) bool { return event >= s.Begin && event < s.End })
	}
	from, within := make(map[int64]int), make(map[int64]bool)
	for i := range tr.Events {
		switch e := &tr.Events[i]; e.Kind {
		case trace.Alloc:
			from[e.ID] = step(i)
		case trace.FreeCompleted:
			s := step(i)
			within[e.ID] = s >= 0 && from[e.ID] == s && d.Steps[s].Name != setUp
		}
	}
	larger := *tr
	larger.Events = slices.Clone(tr.Events)
	for i := range larger.Events {
		if e := &larger.Events[i]; e.Kind == trace.Alloc && within[e.ID] {
			e.Size += mem.Bytes(more * float64(e.Size))
		}
	}
	return &larger
}
