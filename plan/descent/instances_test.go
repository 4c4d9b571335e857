package descent

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"stalloc/internal/mem"
)

// readInstance reads a problem of testdata: id,lower,upper,size.
func readInstance(t testing.TB, path string) []Buffer {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var b []Buffer
	for _, row := range rows[1:] {
		var n [4]int64
		for i := 1; i < len(n); i++ {
			if n[i], err = strconv.ParseInt(row[i], 10, 64); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
		b = append(b, Buffer{mem.Tick(n[1]), mem.Tick(n[2]), mem.Bytes(n[3])})
	}
	return b
}

func instances(t testing.TB) map[string][]Buffer {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "idealloc", "*.csv"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no instances in testdata: %v", err)
	}
	out := make(map[string][]Buffer)
	for _, path := range paths {
		out[strings.TrimSuffix(filepath.Base(path), ".csv")] = readInstance(t, path)
	}
	return out
}
