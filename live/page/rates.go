package page

import "time"

// Rates are what a device did between two samples.
type Rates struct {
	Elapsed  time.Duration
	Steps    uint64
	Step     time.Duration // of one; zero: none has ended
	Requests uint64
	HitShare float64 // of the requests
	Driver   float64 // share of the time that calls of the driver took
}

// Between compares two samples of a device. What has gone back, as after a reset, counts
// as nothing.
func Between(before, now Sample) Rates {
	if before.At.IsZero() || !now.At.After(before.At) {
		return Rates{}
	}
	r := Rates{
		Elapsed: now.At.Sub(before.At), Steps: less(now.Steps,
			before.Steps), Requests: less(now.Requests, before.Requests),
	}
	if r.Steps > 0 {
		r.Step = r.Elapsed / time.Duration(r.Steps)
	}
	if r.Requests > 0 {
		r.HitShare = min(1, float64(less(now.Hits, before.Hits))/float64(r.Requests))
	}
	r.Driver = float64(less(now.DriverNS, before.DriverNS)) / float64(r.Elapsed)
	return r
}

func less(a, b uint64) uint64 {
	if a < b {
		return 0
	}
	return a - b
}

// Waste is the part of the memory taken at the peak that was never needed at once.
func (s *Stats) Waste() float64 {
	if s.PeakReserved == 0 || s.PeakAllocated > s.PeakReserved {
		return 0
	}
	return 1 - float64(s.PeakAllocated)/float64(s.PeakReserved)
}
