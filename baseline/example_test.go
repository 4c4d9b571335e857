package baseline_test

import (
	"errors"
	"fmt"

	"stalloc/baseline"
	"stalloc/internal/mem"
)

// A freed 20 MiB segment serves a 5 MiB request; 19 MiB then need another.
func Example() {
	a, err := baseline.New("native", baseline.Options{Capacity: 41 * mem.MiB, Ascending: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	first, _ := a.Malloc(20*mem.MiB, 0)
	_ = a.Free(first)
	for _, size := range []mem.Bytes{5 * mem.MiB, 19 * mem.MiB, 16 * mem.MiB} {
		b, err := a.Malloc(size, 0)
		if errors.Is(err, baseline.ErrOutOfMemory) {
			fmt.Println(err)
			continue
		}
		at, _ := a.Addr(b)
		fmt.Println(size, "at", at)
	}
	s := a.Stats()
	fmt.Println(s.Allocated, "allocated,", s.Reserved, "reserved,", a.Calls().Total(),
		"driver calls")
	// Output:
	// 5.00 MiB at RT+0
	// 19.00 MiB at RT+20971520
	// baseline: out of memory: 16.00 MiB (16777216 bytes) asked for on stream 0, 25.00 MiB allocated, 40.00 MiB reserved of 41.00 MiB
	// 25.00 MiB allocated, 40.00 MiB reserved, 4 driver calls
}
