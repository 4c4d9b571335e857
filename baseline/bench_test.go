package baseline

import (
	"syscall"
	"testing"
)

// BenchmarkReplay reports, for every allocator and trace, the events of the
// trace served a second, by the clock and by the processor time of the whole
// process, garbage collection included: the second is the one to go by on a
// machine that is shared.
func BenchmarkReplay(b *testing.B) {
	for _, allocator := range Names() {
		for _, name := range traceNames {
			b.Run(allocator+"/"+name, func(b *testing.B) {
				events := loadTrace(b, name).Events
				start := processorSeconds(b)
				for b.Loop() {
					a, err := New(allocator, Options{})
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
