package residency

import (
	"testing"

	"stalloc/internal/mem"
)

// FuzzSolve: whatever a problem is, it is refused or has a valid plan.
func FuzzSolve(f *testing.F) {
	f.Add([]byte{4, 2, 2, 1, 2, 0, 8, 0, 1, 1, 6, 0, 255, 0, 0, 1, 1, 1, 2, 1, 3})
	f.Add([]byte{200, 1, 255, 8, 40, 0, 99, 1, 40, 20, 60, 1, 90, 3, 9, 0, 255, 1, 100, 9, 0})
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, data []byte) {
		p := problemOf(data)
		plan, err := Solve(p)
		if err != nil {
			if p.Check() == nil {
				t.Fatal(err)
			}
			return
		}
		if err := validate(p, &plan); err != nil {
			t.Fatalf("%v\n%+v\n%+v", err, p, plan)
		}
	})
}

// problemOf reads a limit, the link and the least handle, then items of four bytes up to 255, then
// a load of two bytes each. Times may go back, and rates may be 0.
func problemOf(data []byte) *Problem {
	at := func(i int) int64 {
		if i < len(data) {
			return int64(data[i])
		}
		return 1
	}
	p := &Problem{Limit: mem.Bytes(at(0)), Link: Link{at(1) * 1e8, at(2) * 3e7},
		Handle: mem.Bytes(at(3))}
	i := 4
	for ; i+3 < len(data) && data[i] < 255 && len(p.Items) < 40; i += 4 {
		p.Items = append(p.Items, Item{mem.Bytes(at(i)), Nanos(at(i + 1)), Nanos(at(i + 2)),
			at(i+3)%2 == 1})
	}
	now := Nanos(-3)
	for i++; i+1 < len(data) && len(p.Load) < 40; i += 2 {
		now += Nanos(at(i)) - 1
		p.Load = append(p.Load, Load{now, mem.Bytes(at(i + 1))})
	}
	return p
}
