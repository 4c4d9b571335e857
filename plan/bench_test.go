package plan

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stalloc/internal/mem"
)

// transients returns the problem that Make solves for a step.
func transients(s *Step) []Buffer {
	var b []Buffer
	for _, x := range s.Blocks {
		if s.transient(x) {
			b = append(b, Buffer{mem.Tick(x.Alloc), mem.Tick(x.Free), x.Size})
		}
	}
	return b
}

// BenchmarkSolve reports the gap to the lower bound in percent and the number
// of placements tried, for the published instances and the recorded steps.
func BenchmarkSolve(b *testing.B) {
	problems := map[string][]Buffer{}
	for _, folder := range []string{"idealloc", "minimalloc"} {
		for name, p := range instances(b, folder) {
			problems[folder+"/"+name] = p
		}
	}
	for _, path := range tracePaths(b) {
		steps := observe(b, path)
		problems["traces/"+strings.TrimSuffix(filepath.Base(path), ".csv.gz")] = transients(steps[len(steps)-1][0])
	}
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		b.Run(name, func(b *testing.B) {
			var s Solution
			for b.Loop() {
				s = Solve(problems[name], Options{})
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/op")
			b.ReportMetric(100*s.Gap(), "gap-%")
			b.ReportMetric(float64(s.Descents), "descents")
			b.ReportMetric(float64(len(problems[name])), "buffers")
		})
	}
}

func BenchmarkRecorder(b *testing.B) {
	var r Recorder
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.Alloc(uint64(i%1000), 4096)
		r.Free(uint64(i % 1000))
		if i%10_000 == 0 {
			r.Boundary()
		}
	}
}
