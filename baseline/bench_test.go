package baseline

import (
	"syscall"
	"testing"

	"stalloc/internal/mem"
)

// BenchmarkReplay reports, for every allocator and trace, the events of the
// trace served a second, by the clock and by the processor time of the whole
// process, garbage collection included: the second is the one to go by on a
// machine that is shared.
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
				start := processorSeconds(b)
				for b.Loop() {
					a, err := New(k.name, k.o)
					if err != nil {
						b.Fatal(err)
					}
					if err := replay(a, events, nil); err != nil {
						b.Fatal(err)
					}
				}
				served := float64(b.N) * float64(len(events))
				b.ReportMetric(served/b.Elapsed().Seconds(), "events/s")
				b.ReportMetric(served/(processorSeconds(b)-start), "events/cpu-s")
			})
		}
	}
}

func processorSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}
