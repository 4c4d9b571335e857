package baseline

import (
	"testing"

	"stalloc/internal/mem"
)

// BenchmarkReplay reports, for every allocator and trace, the events of the
// trace served a second on one core.
func BenchmarkReplay(b *testing.B) {
	for _, k := range []struct {
		label, name string
		o           Options
	}{
		{"native", "native", Options{}},
		{"expandable", "expandable", Options{}},
		{"gmlake512", "gmlake", Options{FragLimit: 512 * mem.MiB}},
		{"gmlake64", "gmlake", Options{FragLimit: 64 * mem.MiB}},
	} {
		for _, name := range traceNames {
			b.Run(k.label+"/"+name, func(b *testing.B) {
				events := loadTrace(b, name).Events
				b.ReportAllocs()
				for b.Loop() {
					a, err := New(k.name, k.o)
					if err != nil {
						b.Fatal(err)
					}
					if err := replay(a, events, nil); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)*float64(len(events))/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}
