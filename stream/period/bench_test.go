package period

import (
	"syscall"
	"testing"
)

// BenchmarkEvents feeds whole recordings and reports the processor time of
// one event, which a busy machine disturbs less than the time on the clock.
func BenchmarkEvents(b *testing.B) {
	for _, r := range recordings(b) {
		b.Run(r.name, func(b *testing.B) {
			b.ReportAllocs()
			start := processorTime(b)
			for b.Loop() {
				var d Detector
				for _, e := range r.events {
					if e < 0 {
						d.Free(-e)
					} else {
						d.Alloc(e)
					}
				}
			}
			b.ReportMetric(float64(processorTime(b)-start)/float64(b.N*len(r.events)), "ns/event")
		})
	}
}

func processorTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
