package stalloc_test

import (
	"strings"
	"testing"

	"stalloc"
	"stalloc/cuda/sim"
)

// beside opens a second allocator on a simulated device, as another process does on a GPU.
type beside struct{ stalloc.Device }

func (beside) Close() error { return nil } // the first one's to do

func (b beside) Export(h stalloc.Handle) (stalloc.Shared, error) {
	return b.Device.(*sim.Device).Export(h)
}

func (b beside) MapShared(at stalloc.Addr, s stalloc.Shared, size stalloc.Bytes) error {
	return b.Device.(*sim.Device).MapShared(at, s, size)
}

// explains looks for a sentence of Explain, whatever its lines.
func explains(t *testing.T, a *stalloc.Allocator, sentence string) {
	t.Helper()
	if text := a.Explain(); !strings.Contains(strings.Join(strings.Fields(text), " "), sentence) {
		t.Errorf("no %q in\n%s", sentence, text)
	}
}

// TestExport: what is exported is mapped by another allocator, where it can be used; it stays awake
// until it is freed, and stays where it is mapped after that.
func TestExport(t *testing.T) {
	gpu := sim.New(sim.Config{Capacity: stalloc.GiB})
	a := open(t, stalloc.Options{Device: gpu, Planning: stalloc.PlanNever})
	b := open(t, stalloc.Options{Device: beside{gpu}, Planning: stalloc.PlanNever})
	x, rest := malloc(t, a, 0, 50*stalloc.MiB), malloc(t, a, 0, 100*stalloc.MiB)
	offset, handles, err := a.Export(x + 512)
	must(t, err)
	explains(t, a, "Awake when the rest sleeps: 50.00 MiB of handles in which 50.00 MiB are blocks that other processes can have (1).")
	before := gpu.Used()
	at, err := b.Import(handles)
	must(t, err, gpu.Use(0, at+stalloc.Addr(offset), 50*stalloc.MiB-512), gpu.Sync())
	if gpu.Used() != before {
		t.Errorf("%v are in use once it is imported, %v before", gpu.Used(), before)
	}
	must(t, a.Pause(stalloc.BackupDiscard), gpu.Use(0, x, 50*stalloc.MiB),
		gpu.Use(0, at, 50*stalloc.MiB), gpu.Sync())
	if s := a.Stats(); s.Asleep < 64*stalloc.MiB || s.Reserved < 50*stalloc.MiB {
		t.Errorf("with an exported block %v sleep and %v do not", s.Asleep, s.Reserved)
	}
	must(t, b.Pause(stalloc.BackupDiscard), gpu.Use(0, at, stalloc.MiB), gpu.Sync(), b.Resume(),
		a.Resume())
	must(t, a.Free(x), a.Free(rest), a.Trim(), gpu.Use(0, at, 50*stalloc.MiB), gpu.Sync())
	if gpu.Used() == 0 {
		t.Error("what is imported has gone with the exporter's block")
	}
	explains(t, b, "Awake when the rest sleeps: 50.00 MiB of other processes, mapped here and held there.")
	must(t, b.EndImport(at))
	if text := a.Explain() + b.Explain(); strings.Contains(text, "Awake") {
		t.Errorf("explained when nobody has anything:\n%s", text)
	}
	if gpu.Used() != 0 {
		t.Errorf("%v are in use when nobody has anything", gpu.Used())
	}
	must(t, b.Close(), a.Close())
}

// TestExportRefused: bad input is named, and leaves nothing behind; Close ends what is imported.
func TestExportRefused(t *testing.T) {
	gpu := sim.New(sim.Config{Capacity: stalloc.GiB})
	a := open(t, stalloc.Options{Device: gpu})
	x := malloc(t, a, 0, 50*stalloc.MiB)
	_, _, err := a.Export(x + stalloc.Addr(stalloc.GiB))
	is(t, err, stalloc.ErrUnknown)
	must(t, a.Pause(stalloc.BackupDiscard))
	_, _, err = a.Export(x)
	is(t, err, stalloc.ErrAsleep)
	must(t, a.Resume())
	_, handles, err := a.Export(x)
	must(t, err)
	for why, wrong := range map[string][]stalloc.Exported{
		"no handle is given":  nil,
		"expected a multiple": {{Shared: handles[0].Shared, Size: 5}},
		"more than 2^62":      {{Size: 1 << 62}, {Size: 1 << 62}, {Size: 1 << 62}, {Size: 1 << 62}},
		"no handle of 2.00 MiB": {handles[0], {Shared: stalloc.Shared{Fabric: "another's"},
			Size: stalloc.HandleSize}},
	} {
		_, err := a.Import(wrong)
		says(t, err, why)
	}
	is(t, a.EndImport(x), stalloc.ErrUnknown)
	_, err = a.Import(handles)
	must(t, err, a.Close()) // which fails if something is left
	_, _, err = a.Export(x)
	is(t, err, stalloc.ErrClosed)
	_, err = stalloc.Open(stalloc.Options{Simulated: stalloc.GiB, Share: 9})
	says(t, err, "expected ShareOff, ShareFD or ShareFabric")
}
