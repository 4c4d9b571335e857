package trace

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkText reads the longest recording, unzipped beforehand, and reports
// lines a second.
func BenchmarkText(b *testing.B) {
	benchmark(b, unzip(b, filepath.Join(recorded, "qwen2moe_recompute.csv.gz")))
}

// BenchmarkTextGzip is the same with the unzipping.
func BenchmarkTextGzip(b *testing.B) {
	data, err := os.ReadFile(filepath.Join(recorded, "qwen2moe_recompute.csv.gz"))
	if err != nil {
		b.Fatal(err)
	}
	benchmark(b, data)
}

// BenchmarkSnapshot reads a pickle and reports events a second.
func BenchmarkSnapshot(b *testing.B) { benchmark(b, seeds(b, "slow.p4.pickle")[0]) }

func unzip(b *testing.B, path string) []byte {
	file, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	r, err := gzip.NewReader(file)
	if err != nil {
		b.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		b.Fatal(err)
	}
	return data
}

func benchmark(b *testing.B, data []byte) {
	events := 0
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := NewReader(bytes.NewReader(data), "bench")
		for ; err == nil; events++ {
			_, err = r.Next()
		}
		if err != io.EOF {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}
