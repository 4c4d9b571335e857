package plan

import (
	"maps"
	"slices"
	"testing"
)

// BenchmarkSolve reports the gap to the lower bound in percent and the number
// of placements tried, for the published instances.
func BenchmarkSolve(b *testing.B) {
	problems := map[string][]Buffer{}
	for _, folder := range []string{"idealloc", "minimalloc"} {
		for name, p := range instances(b, folder) {
			problems[folder+"/"+name] = p
		}
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
